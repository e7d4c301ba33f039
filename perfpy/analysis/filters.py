"""perf's filter options, as masks over samples and frames.

A script prints the samples that pass all conditions (`kept`). In a report some
conditions remove samples (`kept_rows`: CPUs, time, switches), and the others
mark them (`mark`, `mark_frames`), so that they still count in totals.
"""

from __future__ import annotations

import itertools
import re
from operator import index

import numpy as np

from perfpy.abi.columns import are_among
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.flags import Machines
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.dso import Dso

    Moment = float | str | None


_NO_CPU = -1
_LARGEST = np.iinfo(np.int64).max


def check_cpus(cpus: Collection[int] | None, source: RecordedMachine) -> None:
    """Reject a CPU that the recorded machine did not have."""
    count = source.features.get("nrcpus")
    if cpus and count and max(cpus) >= count.available:
        raise PerfError(f"-C {max(cpus)}: the recorded machine of {source.path} has the CPUs 0 to {count.available - 1}")


class RecordedMachine(Protocol):
    """A recording with the header's features."""

    @property
    def path(self) -> str:
        """The name of the file."""

    @property
    def features(self) -> Mapping[str, Any]:
        """The features by name."""


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
        machines: whose samples to include, the host's, virtual machines', or both.
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
    machines: Machines | None = None

    @property
    def includes_host(self) -> bool:
        """Whether every sample of the host is included."""
        return self._replace(machines=None) == SampleFilter() and (self.machines is None or self.machines.host)

    @property
    def is_open(self) -> bool:
        """Whether every sample passes, apart from the switch."""
        if self.events is not None or self.within is not None:
            return False
        return self.times is None and self.cpus is None and not self.mark_fields and not self.by_location

    @property
    def marks(self) -> bool:
        """Whether conditions exist that perf applies to rows."""
        return self._marks_samples or self.by_location or self.symbol_part is not None

    @property
    def _marks_samples(self) -> bool:
        return self.by_task or self.parallelism is not None or self.machines is not None

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
        """The fingerprints that mark() depends on (perfpy.analysis.dimensions)."""
        conditions = {"comm": self.comms, "pid": self.pids, "tid": self.tids, "parallelism": self.parallelism, "cpumode": self.machines}
        return [name for name, values in conditions.items() if values is not None]

    @property
    def mark_fields(self) -> set[str]:
        """The sample columns that mark() needs."""
        needed = {"pid", "tid", "cpumode"} if self.by_task else {"cpumode"} if self.machines is not None else set()
        return needed | ({"parallelism"} if self.parallelism is not None else set())

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
        """Return a mask of the samples that conditions on machines, tasks or parallelism exclude; None for none."""
        if not self._marks_samples:
            return None
        marked = np.zeros(len(samples), np.bool_)
        if self.machines is not None:
            marked |= _among(samples.columns["cpumode"], self.machines.hidden_modes)
        if self.comms is not None:
            comms_to_match = frozenset(self.comms)
            comms = samples.timeline.comm_ids(samples.task_numbers[1], samples.key)
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
    mask: NDArray[np.bool_] = are_among(values, np.array(sorted(number for number in members if abs(number) <= _LARGEST), np.int64))
    return mask


def frames_named(frames: Frames, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Return a mask of the frames with a symbol whose name passes the test."""
    passing = np.array([test(frames.symbols.name(number)) for number in range(len(frames.symbols))] + [False], np.bool_)
    return passing[frames.symbol]


# Convert the arguments of Recording.where() to a SampleFilter.
#
# Arguments are numbers, texts, or several of them; times in seconds from the
# first sample, or a text as `--time` takes it. Errors (TypeError, ValueError, UsageError) name the valid values.


_SETS: Final = ("pids", "tids", "cpus", "comms", "dsos", "symbols", "events")
_MOMENT: Final = r"\s*(\d+(?:\.\d*)?)\s*(ns|us|ms|s|m|%)\s*"
_NANOSECONDS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}


def conditions(
    events: Sequence[FileEvent],
    times: Callable[[], RecordedTimes],
    *,
    event: str | Iterable[str] | None = None,
    time: str | tuple[Moment, Moment] | None = None,
    **sets: Any,
) -> SampleFilter:
    """Return the filter.

    Args:
        events, times: of the recording.
        event, time: as of Recording.where().
        sets: pid, tid, cpu (numbers), comm, dso, symbol (texts), None for any.
    """
    named_sets: dict[str, Any] = {f"{name}s": numbers(name, sets[name]) for name in ("pid", "tid", "cpu")}
    named_sets |= {f"{name}s": texts(name, sets[name]) for name in ("comm", "dso", "symbol")}
    names = texts("event", event)
    return SampleFilter(
        **named_sets,
        events=None if names is None else [number for name in sorted(names) for number in events_named(name, events)],
        times=None if time is None else _time_ranges(time, times()),
    )


def numbers(name: str, value: Any) -> frozenset[int] | None:
    """Return a set of one number or several; None stays None. Raises TypeError."""
    if value is None:
        return None
    values = [value] if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") else [*value]
    if wrong := [one for one in values if not hasattr(one, "__index__")]:
        raise TypeError(f"{name} takes a number or several numbers; not {wrong[0]!r}")
    return frozenset(map(index, values))


def texts(name: str, value: Any) -> frozenset[str] | None:
    """Return a set of one text or several; None stays None. Raises TypeError."""
    if value is None:
        return None
    values = [value] if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") else [*value]
    if wrong := [one for one in values if not isinstance(one, str)]:
        raise TypeError(f"{name} takes a text or several texts; not {wrong[0]!r}")
    return frozenset(values)


def events_named(name: str, events: Sequence[FileEvent]) -> list[int]:
    """Return the indexes of events with this name, with modifiers or without."""
    indexes = [event.index for event in events if name in (event.name, event.name.rpartition(":")[0])]
    if not indexes:
        raise UsageError(f"no event {name!r} in the recording; its events: {', '.join(event.name for event in events)}")
    return indexes


def _time_ranges(time: Any, recorded: RecordedTimes) -> TimeRanges:
    if isinstance(time, str):
        return ranges_of(time, recorded)
    if not isinstance(time, (tuple, list)) or len(time) != 2:
        raise TypeError(f"time takes a start and an end, such as ('1.5s', 2) or (None, '50%'), or a text as --time takes it; not {time!r}")
    if not recorded.last:
        raise PerfError(f"{recorded.path}: the samples have no time; drop time, or record with --timestamp")
    start, end = (None if moment is None else _nanoseconds(moment, recorded) for moment in time)
    start, end = start or recorded.first, end or recorded.last
    if start > end:
        raise ValueError(f"time {time!r} ends before it begins")
    return TimeRanges(((start, end),))


def _nanoseconds(moment: float | str, recorded: RecordedTimes) -> int:
    """Return the time on the recording's clock."""
    if isinstance(moment, str):
        match = re.fullmatch(_MOMENT, moment)
        if match is None:
            raise ValueError(f"a time is seconds from the first sample, or a text such as '1.5s', '200ms' or '10%'; not {moment!r}")
        number, unit = float(match[1]), match[2]
        after = number / 100 * (recorded.last - recorded.first) if unit == "%" else number * _NANOSECONDS[unit]
    else:
        after = float(moment) * _NANOSECONDS["s"]
    if not 0 <= after < 1 << 63:
        raise ValueError(f"a time is counted from the first sample on; not {moment!r}")
    return recorded.first + round(after)


def both(one: SampleFilter, other: SampleFilter) -> SampleFilter:
    """Combine two filters made by conditions(): samples must pass both."""
    changed: dict[str, Any] = {name: _common(getattr(one, name), getattr(other, name)) for name in _SETS}
    return one._replace(**changed, times=_common_times(one.times, other.times))


def _common(one: Collection[Any] | None, other: Collection[Any] | None) -> Collection[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return set(one) & set(other)


def _common_times(one: TimeRanges | None, other: TimeRanges | None) -> TimeRanges | None:
    if one is None or other is None:
        return other if one is None else one
    pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in one.bounded_pairs for b in other.bounded_pairs]
    inside = tuple(pair for pair in sorted(pairs) if pair[0] <= pair[1])
    if not inside:
        raise ValueError("the two times do not overlap")
    return TimeRanges(inside)


# Ranges of time: `--time`.
#
# The language is perf-script(1)'s: `start,stop` in
# seconds, either may be missing; several, separated by blanks; `A%/N` for the Nth
# slice of A per cent; `A%-B%`; several of these, separated by commas; `A%`, alone,
# for the first A per cent.


_SECOND: Final = 1_000_000_000
_END_OF_TIME: Final = (1 << 63) - 1
_TIMES: Final = "use START,STOP in seconds (either may be empty) or shares such as 10%-20% or 10%/2"
_STAMP: Final = r"\s*(\d+)(?:\.(\d*))?\s*\Z"
_SLICE: Final = r"\s*(\d+(?:\.\d+)?)%/(\d+)\s*\Z"
_SHARE: Final = r"[^,/-]*%\Z"
_SPAN: Final = r"\s*(\d+(?:\.\d+)?)%-(\d+(?:\.\d+)?)%\s*\Z"


class RecordedTimes(NamedTuple):
    """The times of the first and the last sample of a recording, in ns; 0 if unknown."""

    path: str
    first: int
    last: int


class TimeRanges(NamedTuple):
    """(start, end) pairs in ns; 0 is an open end of a single pair. Samples without time always pass."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def bounded_pairs(self) -> list[tuple[int, int]]:
        """The pairs as signed numbers: an open end, and times of a damaged recording beyond it, are the latest time."""
        return [(min(start, _END_OF_TIME), min(end or _END_OF_TIME, _END_OF_TIME)) for start, end in self.ranges]

    def length_within(self, first: int, last: int) -> int:
        """Return how many nanoseconds between two times are inside of the ranges."""
        length, begin = 0, first
        for start, end in sorted(self.bounded_pairs):  # ranges of shares may overlap
            length += max(min(end, last) - max(start, begin), 0)
            begin = max(begin, end)
        return length

    def mask(self, times: NDArray[Any]) -> NDArray[Any]:
        """Return a mask of the times inside of the ranges."""
        # loaded here because the language is parsed before any file is read
        import numpy as np

        if len(self.ranges) == 1:
            start, end = self.ranges[0]
            is_inside = (times >= np.uint64(start)) & ((times <= np.uint64(end)) if end else True)
            single: NDArray[Any] = is_inside | (times == 0)
            return single
        inside = np.zeros(len(times), bool)
        for number, (start, end) in enumerate(self.ranges):
            last = number == len(self.ranges) - 1
            inside |= (times >= np.uint64(start)) & ((times <= np.uint64(end)) if last else (times < np.uint64(end)))
        return inside


def parse_time_ranges(text: str, first: int, last: int, *, relative: bool = False) -> TimeRanges:
    """Parse the option. Raises UsageError.

    Args:
        text: of the option.
        first, last: times of the first and the last sample (ns).
        relative: times in the text count from the first sample (--reltime).
    """
    try:
        if re.match(_SHARE, text):
            pairs = [_percent(f"{text}/1", first, last)]
        elif "%" in text:
            pairs = [_percent(part, first, last) for part in text.split(",")]
        else:
            pairs = [_pair(part) for part in text.split()]
    except ValueError:
        raise UsageError(f"Invalid time string '{text}'; {_TIMES}") from None
    if not pairs or any(end and start > end for start, end in pairs):
        raise UsageError(f"Invalid time string '{text}'; {_TIMES}")
    is_ordered = all(start and end for start, end in pairs) and all(a[1] < b[0] for a, b in itertools.pairwise(pairs))
    if len(pairs) > 1 and not is_ordered and "%" not in text:  # shares may overlap, in any order
        raise UsageError(f"Invalid time string '{text}': several ranges need a start and an end each, in order")
    if relative and "%" not in text:
        pairs = [(start + first, end + first if end else last) for start, end in pairs]
    return TimeRanges(tuple(pairs))


def ranges_of(text: str, times: RecordedTimes, *, relative: bool = False) -> TimeRanges:
    """Parse the option for a recording: shares are of the time from its first sample to its last.

    Raises PerfError if these are unknown.
    """
    if ("%" in text or relative) and not times.last:
        raise PerfError(f"{times.path}: the samples have no time; drop --time, or record with --timestamp")
    return parse_time_ranges(text, times.first, times.last, relative=relative)


def _pair(text: str) -> tuple[int, int]:
    start, comma, end = text.partition(",")
    if not comma:
        raise ValueError(text)
    return _stamp(start), _stamp(end)


def _stamp(text: str) -> int:
    """Return seconds with a fraction as ns; 0 for an empty text."""
    if not text:
        return 0
    match = re.match(_STAMP, text)
    if match is None:
        raise ValueError(text)
    return min(int(match[1]) * _SECOND + int((match[2] or "").ljust(9, "0")[:9]), _END_OF_TIME)


def _percent(text: str, first: int, last: int) -> tuple[int, int]:
    part, extent = re.match(_SLICE, text), re.match(_SPAN, text)
    if part:
        share = float(part[1]) / 100
        begin, end = share * (int(part[2]) - 1), share * int(part[2])
    elif extent:
        begin, end = float(extent[1]) / 100, float(extent[2]) / 100
    else:
        raise ValueError(text)
    if not 0 <= begin <= 1 or not 0 <= end <= 1 + 1e-9 or begin > end:
        raise ValueError(text)
    total = last - first
    start_time, end_time = first + _round(begin * total), first + _round(end * total)
    # Except for the last one, slices do not share their ends.
    return start_time, end_time - 1 if end_time > start_time and end_time != last else end_time


def _round(value: float) -> int:
    return int(value + 0.5)


# Ranges of addresses: `-S 0xADDRESS` and `--addr-range`.


_HIGHEST: Final = (1 << 64) - 1


class AddressRanges(NamedTuple):
    """Ranges as (first, last) pairs."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, words: Iterable[str], length: int) -> AddressRanges | None:
        """Return the ranges of `length` bytes (at least one) from each hexadecimal number on; None if no word is one.

        >>> AddressRanges.of(["main", "0x10"], 16)
        AddressRanges(ranges=((16, 31),))
        """
        starts = [start for start in map(_address, words) if start is not None]
        return cls(tuple((start, min(start + max(length - 1, 0), _HIGHEST)) for start in starts)) if starts else None

    def mask(self, addresses: NDArray[Any]) -> NDArray[Any]:
        """Return a mask of the addresses inside of the ranges."""
        import numpy as np

        inside = np.zeros(len(addresses), bool)
        for first, last in self.ranges:
            if first <= last:
                inside |= (addresses >= np.uint64(first)) & (addresses <= np.uint64(last))
        return inside


def _address(word: str) -> int | None:
    if not word.startswith("0x"):
        return None
    try:
        address = int(word, 16)
    except ValueError:
        return None
    return address if address <= _HIGHEST else None


# `--switch-on` and `--switch-off`: samples count after one event, and up to another.


class EventSwitch:
    """A switch that follows the samples of a recording from the first to the last."""

    def __init__(self, on: int | None, off: int | None, *, show: bool) -> None:
        """Set the switch; on, off: indexes of events; show: whether the switching samples count themselves."""
        self._on, self._off, self._show = on, off, show
        self.restart()

    @classmethod
    def between(cls, on: str, off: str, events: Sequence[FileEvent], *, show: bool) -> EventSwitch | None:
        """Return the switch for two names of events ("" for none); None if both are empty.

        Raises UsageError if the recording has no such event.
        """
        return cls(_index(on, events), _index(off, events), show=show) if on or off else None

    def restart(self) -> None:
        """Start over with the recording's first samples."""
        self._is_off = self._on is not None

    def mask(self, events: NDArray[np.int32], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return a mask of the next samples that count.

        Args:
            events: the event index of each sample.
            among: the samples to consider (None: all); others neither switch nor count.
        """
        considered = np.ones(len(events), np.bool_) if among is None else among
        mask = np.empty(len(events), np.bool_)
        row_end = 0
        switching = [number for number in (self._on, self._off) if number is not None]
        for row in np.flatnonzero(np.isin(events, switching) & considered).tolist():
            if events[row] != (self._on if self._is_off else self._off):
                continue
            mask[row_end:row] = not self._is_off
            mask[row] = self._show
            self._is_off = not self._is_off
            row_end = row + 1
        mask[row_end:] = not self._is_off
        return mask & considered


def _index(name: str, events: Sequence[FileEvent]) -> int | None:
    if not name:
        return None
    for event in events:
        if event.name == name:
            return event.index
    raise UsageError(f"no event {name!r} in the recording; its events: {', '.join(event.name for event in events)}")
