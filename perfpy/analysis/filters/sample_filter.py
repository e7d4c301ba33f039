"""perf's filter options, as masks over samples and frames.

A script prints the samples that pass all conditions (`kept`). In a report some
conditions remove samples (`kept_rows`: CPUs, time, switches), and the others
mark them (`mark`, `mark_frames`), so that they still count in totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.address_ranges import AddressRanges
    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.symbols.dso import Dso

_NO_CPU = -1
_LARGEST = np.iinfo(np.int64).max


class NamedSymbols(Protocol):
    """Symbol numbers -> names."""

    def __len__(self) -> int: ...

    def name(self, number: int) -> str:
        """Return a symbol's name."""


class Frames(Protocol):
    """Frames with the numbers of their dsos and symbols; -1 for none. Locations implement it."""

    @property
    def address(self) -> NDArray[np.uint64]:
        """The address of each frame in its file."""

    @property
    def dso(self) -> NDArray[np.int32]:
        """The dso of each frame."""

    @property
    def symbol(self) -> NDArray[np.int32]:
        """The symbol of each frame."""

    @property
    def dsos(self) -> Sequence[Dso]:
        """All dsos."""

    @property
    def symbols(self) -> NamedSymbols:
        """All symbols."""


class SampleFilter(NamedTuple):
    """The conditions on samples; None for no condition.

    Attributes:
        comms, pids, tids, dsos, symbols, parallelism: values to include.
        symbol_part: substring of the function names in the rows of a report.
        cpus: to include.
        times: to include.
        switch: excludes samples while it is off.
        addresses: locations to include, whatever their symbol.
        unknown_cpu: include samples without CPU (perf script does, perf report does not).
        events: indexes to include.
        within: another filter, whose excluded samples count as not recorded.
    """

    comms: Collection[str] | None = None
    pids: Collection[int] | None = None
    tids: Collection[int] | None = None
    dsos: Collection[str] | None = None
    symbols: Collection[str] | None = None
    symbol_part: str | None = None
    cpus: Collection[int] | None = None
    times: TimeRanges | None = None
    switch: EventSwitch | None = None
    parallelism: Collection[int] | None = None
    addresses: AddressRanges | None = None
    unknown_cpu: bool = False
    events: Collection[int] | None = None
    within: SampleFilter | None = None

    @property
    def is_open(self) -> bool:
        """Whether every sample passes, apart from the switch."""
        if self.events is not None or self.within is not None:
            return False
        return self.times is None and self.cpus is None and not self.mark_fields and not self.by_location

    @property
    def marks(self) -> bool:
        """Whether conditions exist that perf applies to rows."""
        return self.by_task or self.by_location or self.parallelism is not None or self.symbol_part is not None

    @property
    def by_location(self) -> bool:
        """Whether conditions need symbols."""
        return self.dsos is not None or self.symbols is not None or self.addresses is not None

    @property
    def by_task(self) -> bool:
        """Whether conditions need tasks."""
        return self.comms is not None or self.pids is not None or self.tids is not None

    @property
    def mark_fingerprints(self) -> list[str]:
        """The fingerprints that mark() depends on (perfpy.analysis.samples.fingerprints)."""
        conditions = {"comm": self.comms, "pid": self.pids, "tid": self.tids, "parallelism": self.parallelism}
        return [name for name, values in conditions.items() if values is not None]

    @property
    def mark_fields(self) -> set[str]:
        """The sample columns that mark() needs."""
        return ({"pid", "tid"} if self.by_task else set()) | ({"parallelism"} if self.parallelism is not None else set())

    def fields(self) -> set[str]:
        """Return the sample columns that mark() and passing_rows() need."""
        needed = self.mark_fields
        if self.cpus is not None:
            needed.add("cpu")
        if self.times is not None:
            needed.add("time")
        return needed if self.within is None else needed | self.within.all_fields()

    def all_fields(self) -> set[str]:
        """Return the sample columns that passing_mask() needs."""
        return self.fields() | ({"pid", "ip", "cpumode"} if self.by_location else set())

    def begin(self) -> None:
        """Start over with the first samples."""
        if self.switch is not None:
            self.switch.restart()

    def passing_rows(self, samples: SampleView) -> slice | NDArray[np.int64]:
        """Return the samples of a report: of known events, on the selected CPUs and within the selected times."""
        mask = samples.event >= 0 if self.events is None else _among(samples.event, self.events)
        if self.times is not None:
            mask = mask & self._in_time(samples)
        if self.switch is not None:
            mask = self.switch.mask(samples.event, mask)
        if self.cpus is not None:  # last: samples on other CPUs switch, too
            mask = mask & self._on_cpus(samples)
        if self.within is not None:
            mask = mask & self.within.passing_mask(samples)
        return slice(None) if mask.all() else np.flatnonzero(mask)

    def passing_mask(self, samples: SampleView) -> NDArray[np.bool_]:
        """Return a mask of the samples that pass all conditions except the switch."""
        mask = self.by_time_and_cpu(samples)
        marked = self.mark(samples)
        if marked is not None:
            mask &= ~marked
        if self.by_location:
            mask &= self._at_locations(samples)
        if self.within is not None:
            mask &= self.within.passing_mask(samples)
        return mask

    def by_time_and_cpu(self, samples: SampleView) -> NDArray[np.bool_]:
        """Return a mask of the samples that pass the conditions on times, CPUs and events; perf resolves symbols of these."""
        mask = np.ones(len(samples), np.bool_) if self.events is None else _among(samples.event, self.events)
        if self.times is not None:
            mask &= self._in_time(samples)
        if self.cpus is not None:
            mask &= self._on_cpus(samples)
        return mask

    def _in_time(self, samples: SampleView) -> NDArray[np.bool_]:
        assert self.times is not None
        return self.times.mask(samples.column("time").astype(np.uint64))

    def _on_cpus(self, samples: SampleView) -> NDArray[np.bool_]:
        assert self.cpus is not None
        return _among(samples.column("cpu"), [*self.cpus, _NO_CPU] if self.unknown_cpu else self.cpus)

    def mark(self, samples: SampleView) -> NDArray[np.bool_] | None:
        """Return a mask of the samples that conditions on tasks or parallelism exclude; None for none."""
        if not self.by_task and self.parallelism is None:
            return None
        marked = np.zeros(len(samples), np.bool_)
        if self.comms is not None:
            comms_to_match = frozenset(self.comms)
            comms = samples.timeline.comm_ids(samples.column("tid"), samples.key)
            marked |= ~_among(comms, [number for number, comm in enumerate(samples.timeline.comms) if comm in comms_to_match])
        for name, values in (("pid", self.pids), ("tid", self.tids), ("parallelism", self.parallelism)):
            if values is not None:
                marked |= ~_among(samples.column(name), values)
        return marked

    def _at_locations(self, samples: SampleView) -> NDArray[np.bool_]:
        numbers = samples.frames_at("ip")
        symbolizer = samples.symbolizer
        table = symbolizer.resolve()
        # Only frames of these samples: a recording has many more.
        # Addresses are those of the process, as in script: addresses in a file would match other files, too.
        columns = (samples.column("ip"), table.dso[numbers], table.symbol[numbers])
        return ~self.mark_frames(_Frames(*columns, symbolizer.dsos, symbolizer.symbols))

    def mark_frames(self, frames: Frames) -> NDArray[np.bool_]:
        """Return a mask of the frames that conditions on dso, symbol or address exclude."""
        marked = np.zeros(len(frames.dso), np.bool_)
        if self.dsos is not None:
            names = frozenset(self.dsos)
            allowed = [number for number, dso in enumerate(frames.dsos) if not names.isdisjoint((dso.short_name, dso.long_name, dso.name))]
            marked |= ~_among(frames.dso, allowed)
        if self.symbols is not None or self.addresses is not None:
            marked |= ~(frames_named(frames, frozenset(self.symbols or ()).__contains__) | self._at_addresses(frames))
        return marked

    def _at_addresses(self, frames: Frames) -> NDArray[np.bool_]:
        return np.zeros(len(frames.dso), np.bool_) if self.addresses is None else self.addresses.mask(frames.address)


class _Frames(NamedTuple):
    """The frame of each sample."""

    address: NDArray[np.uint64]
    dso: NDArray[np.int32]
    symbol: NDArray[np.int32]
    dsos: Sequence[Dso]
    symbols: NamedSymbols


def _among(values: NDArray[Any], members: Collection[int]) -> NDArray[np.bool_]:
    # for an empty list, or larger numbers, numpy would choose another type
    mask: NDArray[np.bool_] = np.isin(values, np.array([number for number in members if abs(number) <= _LARGEST], np.int64))
    return mask


def frames_named(frames: Frames, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Return a mask of the frames with a symbol whose name passes the test."""
    passing = np.array([test(frames.symbols.name(number)) for number in range(len(frames.symbols))] + [False], np.bool_)
    return passing[frames.symbol]
