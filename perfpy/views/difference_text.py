"""`perfpy diff` as text: perf diff's columns, with a mark at changes that noise does not explain.

What enters: Difference values. What leaves: lines. A `*` stands behind what
sampling does not explain; everything else is where perf diff has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfpy.analysis.keycolumns import byte_width
from perfpy.analysis.sortkeys import Cell, sort_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.difference import Change, Difference

_GAP = "  "
_BASELINE_WIDTH = 8
_PERIOD_WIDTH = 14


@dataclass(frozen=True)
class DifferenceOptions:
    """compute: delta, delta-abs, ratio or wdiff; weights: of wdiff; periods: show them; paths: of the recordings."""

    compute: str = "delta-abs"
    weights: tuple[int, int] = (1, 1)
    periods: bool = False
    separator: str | None = None
    quiet: bool = False
    paths: Sequence[str] = ()


_TITLES = {"delta": ("Delta", 7), "delta-abs": ("Delta Abs", 9), "ratio": ("Ratio", 14), "wdiff": ("Weighted diff", 14)}


def difference_lines(found: Sequence[Difference], options: DifferenceOptions) -> Iterator[str]:
    """All lines."""
    for number, difference in enumerate(found):
        if number:
            yield ""
        yield from _Table(difference, options).lines()


class _Table:
    def __init__(self, difference: Difference, options: DifferenceOptions) -> None:
        self._difference = difference
        self._options = options
        self._deviations = difference.deviations
        self._others = range(1, len(options.paths))
        self._keys = [sort_key(name) for name in difference.keys]
        self._widths = [
            max([byte_width(key.header), *(byte_width(change.texts[at]) for change in difference.changes)])
            for at, key in enumerate(self._keys)
        ]

    def lines(self) -> Iterator[str]:
        options = self._options
        if not options.quiet:
            yield f"# Event '{self._difference.event}'"
            yield "#"
            if len(options.paths) > 2:
                yield "# Data files:"
                yield from (f"#  [{n}] {path} {'(Baseline)' if not n else ''}" for n, path in enumerate(options.paths))
                yield "#"
            yield "# *: more than the noise of sampling explains (95 % confidence over all rows)"
            columns = [*self._numbers(), *((key.header, width) for key, width in zip(self._keys, self._widths, strict=True))]
            metrics = len(self._numbers())
            yield "# " + _GAP.join(f"{name:>{width}}" if n < metrics else f"{name:<{width}}" for n, (name, width) in enumerate(columns))
            if options.separator is None:
                yield "# " + _GAP.join("." * width for _, width in columns)
                yield "#"
        for change in self._difference.changes:
            yield self._row(change)

    def _numbers(self) -> list[tuple[str, int]]:
        """Names and widths of the columns of numbers."""
        title, width = _TITLES[self._options.compute]
        several = len(self._options.paths) > 2
        base = "Baseline/0" if several else "Baseline"
        columns = [(base, max(_BASELINE_WIDTH, len(base)))]
        if self._options.periods:
            columns.append(("Base period", _PERIOD_WIDTH))
        for other in self._others:
            name = f"{title}/{other}" if several else title
            columns.append((name, max(width, len(name))))
            if self._options.periods:
                columns.append(("Period", _PERIOD_WIDTH))
        return columns

    def _row(self, change: Change) -> str:
        before = change.shares[0]
        numbers = [(f"{before.percent:.2f}%" if before else "", "")]
        if self._options.periods:
            numbers.append((str(before.period) if before else "", ""))
        for other in self._others:
            numbers.append((self._change(change, other), "*" if change.is_sure(other, self._deviations) else ""))
            if self._options.periods:
                after = change.shares[other]
                numbers.append((str(after.period) if after else "", ""))
        separator = self._options.separator
        cells = [f"{text:>{width}}{mark}" for (text, mark), (_, width) in zip(numbers, self._numbers(), strict=True)]
        last = len(self._keys) - 1
        for at, (key, text) in enumerate(zip(self._keys, change.texts, strict=True)):
            padded = at < last or key.cell is not Cell.CUT
            cells.append(text + " " * (self._widths[at] - byte_width(text)) if padded else text)
        if separator:
            return separator.join(cell.strip() for cell in cells)
        line = cells[0]
        for cell in cells[1:]:
            line += (" " if line.endswith("*") else _GAP) + cell
        return _GAP + line

    def _change(self, change: Change, other: int) -> str:
        if self._options.compute.startswith("delta"):
            delta = change.delta(other)
            return "" if delta is None else f"{delta:+.2f}%"
        if self._options.compute == "ratio":
            ratio = change.ratio(other)
            return "" if ratio is None else f"{ratio:.6f}"
        weighted = change.weighted(other, self._options.weights)
        return "" if weighted is None else f"{weighted:.0f}"
