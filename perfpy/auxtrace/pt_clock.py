"""The time of a trace in ticks and nanoseconds: what TSC, TMA, MTC, CYC and CBR packets tell, and what perf estimates between them.

Packets: Intel SDM, volume 3, "Intel Processor Trace", "Timing packets". The estimates are perf 6.12's (perf-intel-pt(1)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.auxtrace.pt_code import AddressFilters

_SEVEN_BYTES: Final = 56
_TOP_BYTE: Final = 0xFF << 56
_SLIP: Final = 0x10000  # ticks that a TSC packet may lie before an MTC packet
_MTC_BITS: Final = 8
_MASK_64: Final = (1 << 64) - 1
_LARGEST_RATIO: Final = 1.25  # of calculated ticks per cycle to those of the CBR packet


class TraceClock(NamedTuple):
    """The conversion of ticks to nanoseconds: TIME_CONV, as perf applies it (struct perf_event_mmap_page in linux/perf_event.h)."""

    shift: int = 0
    mult: int = 0
    zero: int = 0
    cycles: int = 0
    mask: int = 0
    is_short: bool = False

    def nanoseconds(self, ticks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return times on the clock of the other records."""
        if self.is_short:
            base = np.uint64(self.cycles)
            ticks = base + ((ticks - base) & np.uint64(self.mask))
        shift, mult = np.uint64(self.shift & 63), np.uint64(self.mult)
        rest = ticks & np.uint64((1 << (self.shift & 63)) - 1)
        return np.uint64(self.zero) + (ticks >> shift) * mult + (rest * mult >> shift)

    def ticks(self, time: int) -> int:
        """Return the ticks at a time in nanoseconds; 0 without a conversion."""
        if not self.mult:
            return 0
        whole, rest = divmod((time - self.zero) & _MASK_64, self.mult)
        shift = self.shift & 63
        return ((whole << shift) + (rest << shift) // self.mult) & _MASK_64


class PtParameters(NamedTuple):
    """What the recording says about the tracer (AUXTRACE_INFO and the tracer's event).

    Attributes:
        returns_are_compressed: whether RET instructions may be TNT bits.
        has_branches: whether the trace has packets of branches.
        has_times: whether times are known.
        mtc_period: bits of the crystal clock below those of MTC packets.
        crystal: ticks of the TSC and of the crystal clock that take equally long.
        turbo_ratio: the highest ratio of bus frequencies without turbo.
        thousands_of_hertz: of the TSC for each unit of that ratio.
        filters: the addresses that are traced, None for all.
        has_cyc_threshold: whether the processor leaves out CYC packets, so that one counts for the packet after it only.
        tells_interrupts: whether packets tell if interrupts are enabled.
    """

    returns_are_compressed: bool = True
    has_branches: bool = True
    has_times: bool = True
    mtc_period: int = 0
    crystal: tuple[int, int] = (0, 0)
    turbo_ratio: int = 0
    thousands_of_hertz: int = 0
    filters: AddressFilters | None = None
    has_cyc_threshold: bool = False
    tells_interrupts: bool = False


class PtClock:
    """The time at the current packet, in ticks of the TSC.

    Attributes:
        ticks: the current time, 0 if it is unknown.
        tsc: the time of the last TSC packet.
        reference: the time near which the first TSC packet is, 0 after it.
        cbr: the last ratio of the core's to the bus frequency.
        cbr_payload: that packet's payload.
        cycles, cycles_since: cycles since a time, and that time; 0: unknown.
        has_tma: whether MTC packets tell the time.
        is_on: whether the processor traces.
        total_cycles: cycles while tracing, from CYC packets or else estimated from MTC packets.
        has_cyc: whether there are CYC packets.
        is_counted: whether a packet has told cycles that belong to the next event.
    """

    def __init__(self, parameters: PtParameters, *, counts_cycles: bool = True) -> None:
        """counts_cycles: whether to estimate cycles where no CYC packets tell them."""
        self._counts_cycles = counts_cycles
        self.ticks = self.tsc = self.reference = self.cbr = self.cbr_payload = 0
        self._period = parameters.mtc_period
        self._numerator, self._denominator = parameters.crystal if all(parameters.crystal) else (0, 0)
        self._turbo_ratio = parameters.turbo_ratio
        self.has_tma = self._is_new_tma = False
        self._last_mtc = self._crystal_ticks = self._crystal_delta = 0
        self.cycles = self.cycles_since = 0
        self._ticks_by_cbr = 0.0
        self._ticks_per_cycle: float | None = None
        self.is_on = self.has_cyc = self.is_counted = False
        self.total_cycles = self._counted_from = self._counted_before = 0
        self._cycles_per_tick = 0.0

    @property
    def rate(self) -> float | None:
        """Ticks per cycle, None if CYC packets do not tell the time."""
        if not self.cycles_since:
            return None
        return self._ticks_per_cycle if self._ticks_per_cycle is not None else self._ticks_by_cbr if self.cbr else None

    def forget(self) -> None:
        """Restart at a piece of trace that does not go on from the one before."""
        self.ticks = 0
        self.has_tma = False

    def lose_tma(self) -> None:
        """Stop counting MTC packets until the next TMA packet."""
        self.has_tma = False

    def set_tsc(self, payload: int, latest: int, *, after_cyc: bool) -> None:
        """Apply a TSC packet; latest: the time when the piece of trace was read, 0 if it is unknown."""
        self.has_tma = False
        if self.reference:
            time = payload | self.reference & _TOP_BYTE
            if time < self.reference and self.reference - time > 1 << 55:
                time += 1 << _SEVEN_BYTES
            elif time - self.reference > 1 << 55:
                time -= 1 << _SEVEN_BYTES
            self.tsc = self.ticks = time & _MASK_64
            self.reference = 0
        elif self.ticks:
            time = self.tsc = payload | self.ticks & _TOP_BYTE
            if time < self.ticks and self.ticks - time < _SLIP:
                time = self.ticks
            if time < self.ticks:
                if not latest or time + (1 << _SEVEN_BYTES) < latest:
                    time = self.tsc = (time + (1 << _SEVEN_BYTES)) & _MASK_64
                else:
                    time = self.ticks
            self.ticks = time
        if after_cyc:
            self._restart_cycles()

    def set_tma(self, payload: int, *, in_status: bool) -> None:
        """Apply a TMA packet; in_status: whether it follows a PSB packet."""
        if not self._denominator:
            return
        if self.is_on and not in_status:
            self.begin_cycles()
        else:
            self._estimate_cycles()
        crystal, fast = payload & 0xFFFF, payload >> 24 & 0x1FF
        rest = crystal & ((1 << self._period) - 1)
        self._last_mtc = crystal >> self._period & 0xFF
        self._crystal_ticks = self.tsc - fast - rest * self._numerator // self._denominator
        self._crystal_delta = 0
        self.has_tma = self._is_new_tma = True

    def set_mtc(self, payload: int, *, after_cyc: bool) -> bool:
        """Apply an MTC packet; return whether the ratio of ticks to cycles must be calculated from the packets that follow."""
        if not self.has_tma:
            return False
        self._last_mtc, self._crystal_delta = self._count_mtc(payload, self._last_mtc, self._crystal_delta, is_first=self._is_new_tma)
        self._is_new_tma = False
        ticks = self._ticks_at(self._crystal_delta)
        self.ticks = max(self.ticks, ticks)
        self._estimate_cycles()
        if after_cyc:
            self._restart_cycles()
        return after_cyc

    def _restart_cycles(self) -> None:
        self.cycles_since, self.cycles, self._ticks_per_cycle = self.ticks, 0, None

    def _ticks_at(self, delta: int) -> int:
        return (self._crystal_ticks + delta * self._numerator // self._denominator) & _MASK_64

    def _count_mtc(self, payload: int, last: int, delta: int, *, is_first: bool) -> tuple[int, int]:
        """Return the MTC's value, and the ticks of the crystal clock since the TMA packet."""
        if self._period > _MTC_BITS and is_first:  # TMA has not all bits of MTC
            missing = 1 << 16 - self._period
            last |= payload & ~(missing - 1)
            if last >= payload:
                last = (last - missing) & 0xFF
        passed = payload - last if payload > last else payload + 256 - last
        return payload, delta + (passed << self._period)

    def set_cbr(self, payload: int) -> None:
        """Apply a CBR packet."""
        self.cbr_payload = payload
        ratio = payload & 0xFF
        if self.cbr == ratio:
            return
        self.cbr = ratio
        self._ticks_by_cbr = self._turbo_ratio / ratio if ratio else 0.0
        self.cycles_since, self.cycles = self.ticks, 0
        self._cycles_per_tick = ratio / self._turbo_ratio if self._turbo_ratio else 0.0
        if self.is_on:
            self.begin_cycles()

    def begin_cycles(self) -> None:
        """Estimate cycles from this time on."""
        if not self.has_cyc:
            self._counted_from, self._counted_before = self.ticks, self.total_cycles

    def _estimate_cycles(self) -> None:
        """Estimate the cycles up to the current time, unless CYC packets tell them."""
        if self.has_cyc or not self._counts_cycles:
            return
        self.is_counted = True
        if self.is_on and self.ticks > self._counted_from:
            cycles = int((self.ticks - self._counted_from) * self._cycles_per_tick + self._counted_before)
            self.total_cycles = max(self.total_cycles, cycles)

    def count_cycles(self, cycles: int) -> None:
        """Count the cycles of CYC packets."""
        self.has_cyc = self.is_counted = True
        if self.is_on:
            self.total_cycles += cycles

    def set_cyc(self, payload: int) -> None:
        """Apply a CYC packet."""
        self.count_cycles(payload)
        self.cycles += payload
        if (rate := self.rate) is not None:
            self.ticks = max(self.ticks, min(int(float(self.cycles_since) + self.cycles * rate), _MASK_64))

    def estimate(self, instructions: int) -> int:
        """Return the time some instructions after the current time."""
        ticks = instructions << 1
        if self.cbr and self._turbo_ratio:
            ticks = ticks * self._turbo_ratio // self.cbr
        return self.ticks + ticks

    def calibrate(self, packets: Iterator[tuple[str, int]]) -> None:
        """Calculate the ticks of a cycle from the CYC packets up to the next MTC packet that follows one."""
        cycles, cbr, by_cbr = 0, 0, 0.0
        last, delta, is_first, before, latest = self._last_mtc, self._crystal_delta, self._is_new_tma, "", self.ticks
        for kind, payload in packets:
            if kind == "CYC":
                cycles += payload
            elif kind == "CBR":
                if cbr and cbr != payload:
                    return
                cbr, by_cbr = payload, self._turbo_ratio / payload if payload else 0.0
            elif kind == "MTC":
                last, delta = self._count_mtc(payload, last, delta, is_first=is_first)
                is_first = False
                ticks = self._ticks_at(delta)
                if ticks < latest:
                    return
                if before != "CYC":
                    latest = ticks
                else:
                    self._set_ratio(ticks, cycles, cbr or self.cbr, by_cbr if cbr else self._ticks_by_cbr)
                    return
            before = kind

    def _set_ratio(self, ticks: int, cycles: int, cbr: int, by_cbr: float) -> None:
        if not cycles:
            return
        ratio = (ticks - self.ticks) / cycles
        if not (cbr and by_cbr and ratio > by_cbr and ratio / by_cbr > _LARGEST_RATIO):
            self._ticks_per_cycle = ratio
