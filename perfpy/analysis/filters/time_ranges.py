"""Ranges of time: `--time`.

The language is perf-script(1)'s: `start,stop` in
seconds, either may be missing; several, separated by blanks; `A%/N` for the Nth
slice of A per cent; `A%-B%`; several of these, separated by commas; `A%`, alone,
for the first A per cent.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        """The pairs, with open ends replaced by the latest time."""
        return [(start, end or _END_OF_TIME) for start, end in self.ranges]

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
            if relative:
                pairs = [(start + first, end + first if end else last) for start, end in pairs]
    except ValueError:
        raise UsageError(f"Invalid time string '{text}'; {_TIMES}") from None
    if not pairs or any(end and start > end for start, end in pairs):
        raise UsageError(f"Invalid time string '{text}'; {_TIMES}")
    if len(pairs) > 1 and (any(not start or not end for start, end in pairs) or any(a[1] > b[0] for a, b in itertools.pairwise(pairs))):
        raise UsageError(f"Invalid time string '{text}': several ranges need a start and an end each, in order")
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
