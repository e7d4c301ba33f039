"""Totals, means and longest durations of functions: perf ftrace profile's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.ftrace.graph_line import duration_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ORDER: Final[dict[str, Callable[[tuple[str, list[float]]], tuple[float | str, ...]]]] = {
    "total": lambda row: (-row[1][0], row[0]),
    "avg": lambda row: (-row[1][0] / row[1][1], row[0]),
    "max": lambda row: (-row[1][2], row[0]),
    "count": lambda row: (-row[1][1], row[0]),
    "name": lambda row: (row[0],),
}


class FunctionProfile:
    """Sums over the calls of each function."""

    def __init__(self) -> None:
        self._functions: dict[str, list[float]] = {}  # total, count, longest

    def add(self, line: str) -> None:
        """Count the call that a line of the tracer finishes."""
        call = duration_of(line)
        if call is None or not call.name:
            return
        totals = self._functions.setdefault(call.name, [0.0, 0.0, 0.0])
        totals[0] += call.microseconds
        totals[1] += 1
        totals[2] = max(totals[2], call.microseconds)

    def lines(self, key: str) -> Iterator[str]:
        """Yield the table, sorted by total, avg, max, count or name."""
        yield f"# {'Total (us)':>10} {'Avg (us)':>10} {'Max (us)':>10} {'Count':>10}   Function"
        for name, (total, count, longest) in sorted(self._functions.items(), key=_ORDER[key]):
            yield f"{total:12.3f} {total / count:10.3f} {longest:10.3f} {int(count):10d}   {name}"
