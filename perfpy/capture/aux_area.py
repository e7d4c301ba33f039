"""AUX data of a recording, which hardware writes to memory, as AUXTRACE records with their data, and AUXTRACE_INFO.

An AUX area is mapped after the ring buffer of the same CPU or thread, whose control page has its head. Usually the kernel stops the
hardware at the data that have not been read, and its head counts all bytes. With snapshots the hardware overwrites the oldest data, and
the head of some tracers is only an offset in the area.
"""

from __future__ import annotations

import os
import random
import struct
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfpy.abi import perf_records
from perfpy.abi.flags import NATIVE_ENDIAN, PMCU_NAME
from perfpy.abi.perf_records import HISI_PMCU, Auxtrace, AuxtraceInfo
from perfpy.errors import KernelRefusedError
from perfpy.events.event import ARM_SPE, CS_ETM, HISI_PTT, INTEL_BTS, INTEL_PT
from perfpy.events.tracers import USER_EVENTS
from perfpy.kernel.ring import AuxArea
from perfpy.kernel.sysfs import Sysfs, read_text
from perfpy.perfdata.header import AuxtraceIndexEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.capture.counter import Counter, OpenEvent
    from perfpy.capture.tracers import TracePlan
    from perfpy.events.event import Event
    from perfpy.kernel.ring import Clock, Ring
    from perfpy.perfdata.writer import Slice

    class Destination(Protocol):
        """The destination of records: a RecordOutput, or the file of a CPU."""

        @property
        def size(self) -> int:
            """Bytes written."""

        def write(self, *slices: Slice) -> None:
            """Append records."""


_KINDS: Final = {INTEL_PT: 1, INTEL_BTS: 2, CS_ETM: 3, ARM_SPE: 4, HISI_PTT: 6, PMCU_NAME: HISI_PMCU}  # AuxtraceInfo.type
_ALIGNMENT: Final = 8
_BRANCH: Final = 24  # bytes of a branch of Intel BTS; the last bytes before the area's end are no branch
_RECORD_SIZE: Final = 48
_UNSIGNED: Final = (1 << 32) - 1
_TAIL: Final = 4096  # bytes that tell whether a snapshot's area has been filled


def write_user_events(event: Event, sysfs: Sysfs | None = None) -> None:
    """Write the event's list of counted events to a PMCU, if it has one. Raises KernelRefusedError."""
    pmu = (sysfs or Sysfs()).pmu(event.pmu) if event.terms.user_events else None
    if pmu is None:
        return
    path = f"{pmu.path}/{USER_EVENTS}"
    try:
        with open(path, "w") as file:
            file.write(" ".join(f"{number:#06x}" for number in event.terms.user_events or ()))
    except OSError as error:
        raise KernelRefusedError(f"write of {path}", error.errno or 0, event=event.name, remedy="run as root") from None


class TracedCounter(NamedTuple):
    """An open counter of a tracer's event; ring is the index of its ring buffer."""

    counter: Counter
    event: OpenEvent
    cpu: int
    tid: int
    ring: int


class AuxTrace:
    """The AUX areas of a recording.

    Args:
        traced: the tracer's counters.
        rings: the mapped ring buffers.
        cpus: the recorded CPUs.
        tell: called with a line for the user.

    Attributes:
        index: the positions of the AUXTRACE records, for the file's features.
        takes_snapshots: whether data are taken by take_snapshot() only.
    """

    def __init__(
        self, traced: Sequence[TracedCounter], rings: Sequence[Ring], cpus: Sequence[int], plan: TracePlan, tell: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self.index: list[AuxtraceIndexEntry] = []
        self.takes_snapshots = bool(plan.snapshot_size)
        self._cpus = cpus
        self._control = rings[0]
        self._tell = tell
        self._areas: dict[Ring, _Area] = {}
        for one in traced:
            ring = rings[one.ring]
            if ring in self._areas:  # of another thread on the same CPU
                self._areas[ring].counters.append(one.counter)
            else:
                area = AuxArea.map(one.counter.fd, ring, plan.pages, overwrite=plan.overwrites)
                self._areas[ring] = _Area(area, one, traced[0].tid if plan.per_cpu else one.tid, plan)

    def info_record(self) -> bytes:
        """Return the AUXTRACE_INFO record."""
        plan, clock = self.plan, self._control.clock()
        if plan.tracer in (INTEL_PT, INTEL_BTS) and not (clock.zero and clock.time_mult):
            name = "Intel Processor Trace" if plan.tracer == INTEL_PT else "Intel BTS"
            self._tell(f"Warning:\n{name}: TSC not available")
        words = tuple(_info_words(plan, clock, self._cpus))
        return perf_records.encode(AuxtraceInfo(0, _KINDS[plan.tracer], words), NATIVE_ENDIAN)

    def take(self, ring: Ring, output: Destination) -> int:
        """Write the available data of the area beside a ring buffer; return the bytes. Snapshots and AUX samples are not taken here."""
        area = self._areas.get(ring)
        if area is None or self.plan.overwrites:
            return 0
        if size := self._write(area, output, *area.pending()):
            area.consume()
        return size

    def take_snapshot(self, output: Destination) -> int:
        """Write the latest data of all areas; the events must not run. Return the bytes."""
        return sum(self._write(area, output, *area.snapshot(self.plan.snapshot_size)) for area in self._areas.values())

    def _write(self, area: _Area, output: Destination, start: int, slices: Sequence[memoryview]) -> int:
        size = sum(map(len, slices))
        if not size:
            return 0
        padding = bytes(-size % _ALIGNMENT)
        self.index.append(AuxtraceIndexEntry(output.size, _RECORD_SIZE))
        record = Auxtrace(0, size + len(padding), start, self._reference(), area.ring, area.tid & _UNSIGNED, area.cpu & _UNSIGNED)
        output.write(perf_records.encode(record, NATIVE_ENDIAN), *slices, padding)
        return size

    def _reference(self) -> int:
        """Return the number that distinguishes records: with Intel PT the cycle counter, whose upper bits its packets lack."""
        if self.plan.tracer == CS_ETM:
            return random.getrandbits(64)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        clock = self._control.clock()
        return (max(now - clock.time_zero, 0) << clock.time_shift) // clock.time_mult if clock.zero and clock.time_mult else now

    def go_on(self, ring: Ring) -> None:
        """Re-enable the event beside a ring buffer, which the kernel stops if its area is full."""
        area = self._areas.get(ring)
        if area:
            area.go_on()

    def switch(self, on: bool) -> None:
        """Enable or disable the events, for a snapshot."""
        for area in self._areas.values():
            if on:
                area.go_on()
            else:
                area.stop()

    def close(self) -> None:
        """Unmap the areas."""
        for area in self._areas.values():
            area.close()
        self._areas.clear()


class _Area:
    """One AUX area, and what has been read of it."""

    def __init__(self, area: AuxArea, traced: TracedCounter, tid: int, plan: TracePlan) -> None:
        self._area = area
        self._event = traced.event
        self.counters = [traced.counter]
        self.ring = traced.ring
        self.cpu = traced.cpu
        self.tid = tid
        self._unit = _BRANCH if plan.tracer == INTEL_BTS else 1
        self._seen = 0  # the head at the last snapshot
        self._before_head = b""  # the data before it

    def pending(self) -> tuple[int, Sequence[memoryview]]:
        """Return the position of the unread data, and their slices."""
        return self._area.position, self._whole(self._area.pending())

    def snapshot(self, most: int) -> tuple[int, Sequence[memoryview]]:
        """Return the position of the data since the last snapshot, at most that many bytes, and their slices."""
        area, head = self._area, self._area.head
        start = self._seen
        if head >= area.size:  # it counts all bytes
            start = max(start, head - area.size)
        elif self._has_wrapped(head):
            start, head = head, head + area.size
        elif head < start:
            head += area.size
        start = max(start, head - most)
        self._seen = area.head
        self._before_head = area.copy(self._seen - _TAIL, self._seen)
        return start, self._whole(area.between(start, head))

    def _has_wrapped(self, head: int) -> bool:
        """Return whether the hardware has come past the place of the last snapshot again: the data before it have changed.

        Before the first snapshot, that place is the end of the area, with zeros from the head on.
        """
        size = self._area.size
        if not self._seen:
            return any(self._area.copy(max(head, size - _TAIL), size))
        return 0 < (self._seen - head) % size < _TAIL or self._area.copy(self._seen - _TAIL, self._seen) != self._before_head

    def _whole(self, slices: Sequence[memoryview]) -> Sequence[memoryview]:
        """Return the slices without the incomplete branch at the end of the first one."""
        if self._unit == 1 or not slices:
            return slices
        first, *others = slices
        return [first[: len(first) - len(first) % self._unit], *others]

    def consume(self) -> None:
        """Return the space of pending() to the kernel."""
        self._area.consume()

    def go_on(self) -> None:
        """Enable the counters that write here, unless they have been disabled on request."""
        for counter in self.counters if self._event.is_enabled else ():
            counter.enable()

    def stop(self) -> None:
        """Disable the counters that write here."""
        for counter in self.counters:
            counter.disable()

    def close(self) -> None:
        """Unmap the area."""
        self._area.close()


# The contents of AUXTRACE_INFO. Layouts: INTEL_PT_*, INTEL_BTS_*, ARM_SPE_* in perf 6.12's util/intel-pt.h, intel-bts.h and arm-spe.h.


def _info_words(plan: TracePlan, clock: Clock, cpus: Sequence[int]) -> Iterator[int]:
    """Yield the words of the record."""
    pmu = plan.pmu
    if plan.tracer == CS_ETM:
        from perfpy.capture.tracers import etm_info_words  # few machines have one

        yield from etm_info_words(pmu, plan.config, cpus, snapshot=bool(plan.snapshot_size))
        return
    yield pmu.type or 0
    if plan.tracer == ARM_SPE:
        yield 0
    if plan.tracer not in (INTEL_PT, INTEL_BTS):
        return
    has_cycles = clock.zero and clock.time_mult
    yield from (clock.time_shift, clock.time_mult, clock.time_zero, 1) if has_cycles else (0, 0, 0, 0)
    is_snapshot = int(plan.snapshot_size > 0)
    if plan.tracer == INTEL_BTS:
        yield is_snapshot
        return
    yield from (pmu.bits("tsc"), pmu.bits("noretcomp"), plan.switches, is_snapshot, int(plan.per_cpu))
    yield from (pmu.bits("mtc"), pmu.bits("mtc_period"), *_crystal_ratio(plan), pmu.bits("cyc"), pmu.number("max_nonturbo_ratio") or 0)
    name = os.fsencode(plan.filter)
    yield len(name)
    padded = name + bytes(-(len(name) + 1) % _ALIGNMENT + 1) if name else b""
    yield from struct.unpack(f"={len(padded) // 8}Q", padded)
    yield pmu.number("caps/event_trace") or 0


def _crystal_ratio(plan: TracePlan) -> tuple[int, int]:
    """Return how often the cycle counter ticks for each tick of the crystal clock, as numerator and denominator; (0, 0) if unknown."""
    numbers = (read_text(f"{plan.pmu.path}/tsc_art_ratio") or "").replace(":", " ").split()
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdecimal, numbers)) else (0, 0)
