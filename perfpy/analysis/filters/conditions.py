"""Convert the arguments of Recording.where() to a SampleFilter.

Arguments are numbers, texts, or several of them; times in seconds from the
first sample, or a text as `--time` takes it. Errors (TypeError, ValueError, UsageError) name the valid values.
"""

from __future__ import annotations

import re
from operator import index
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.filters.time_ranges import TimeRanges, ranges_of
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from perfpy.analysis.filters.time_ranges import RecordedTimes
    from perfpy.perfdata.container.events import FileEvent

    Moment = float | str | None

_SETS: Final = ("pids", "tids", "cpus", "comms", "dsos", "symbols", "events")
_MOMENT: Final = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(ns|us|ms|s|m|%)\s*")
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
        match = _MOMENT.fullmatch(moment)
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
