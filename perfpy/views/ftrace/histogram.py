"""The durations of one function as a histogram: perf ftrace latency's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.ftrace.graph_line import duration_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUCKETS: Final = 22
_BAR: Final = 46
_UNITS: Final = {False: ("us", "ms", "s"), True: ("ns", "us", "ms")}


class DurationHistogram:
    """Counts of durations, by powers of two.

    nanoseconds: begin with 1 ns instead of 1 us.
    """

    def __init__(self, *, nanoseconds: bool = False) -> None:
        self._nanoseconds = nanoseconds
        self._counts = [0] * _BUCKETS

    def add(self, line: str) -> None:
        """Count the call that a line of the tracer finishes."""
        call = duration_of(line)
        if call is not None:
            units = int(call.microseconds * (1000 if self._nanoseconds else 1))
            self._counts[min(units.bit_length(), _BUCKETS - 1)] += 1

    def lines(self) -> Iterator[str]:
        """Yield the histogram."""
        total = sum(self._counts)
        if not total:
            yield "No data found"
            return
        yield f"#   DURATION     | {'COUNT':>10} | {'GRAPH':{_BAR}} |"
        for number, count in enumerate(self._counts):
            bar = "#" * (count * _BAR // total)
            yield f"{self._range(number)} | {count:>10} | {bar:{_BAR}} |"

    def _range(self, number: int) -> str:
        small, middle, large = _UNITS[self._nanoseconds]
        if number == _BUCKETS - 1:
            return f"  {1:>4} - {'...':<4} {large:>2}"
        if number <= 10:
            start, stop, unit = (1 << number) // 2, 1 << number, small
        else:
            start, stop, unit = 1 << number - 11, 1 << number - 10, middle
        return f"  {start:>4} - {stop:<4} {unit:>2}"
