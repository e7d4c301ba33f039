"""perf diff, byte for byte; with columns of probabilities on request.

The layout is perf 6.12's:
a table for each event of the baseline, a column of numbers for each recording.
The columns of probabilities are perfpy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfpy.analysis.differences import LEVEL
from perfpy.analysis.sort_key import SortKey
from perfpy.views.report.text import KeyColumnText, KeyWidths, TextOptions, heading, row_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.analysis.differences import Difference, DifferenceRow

    _Cell = Callable[[DifferenceRow, int], str]


_TITLES: Final = {"delta": ("Delta", 7), "delta-abs": ("Delta Abs", 7), "ratio": ("Ratio", 14), "wdiff": ("Weighted diff", 14)}
_PERIOD_WIDTH: Final = 14
#: perf's buffer for a cell
_FORMULA_WIDTH: Final = 70
#: 0/0 as x86's C library prints it
_NOT_A_NUMBER: Final = "-nan%"
_LEAST_CHANCE: Final = 0.0001
_CHANCE_WIDTH: Final = len("100.00% *")
_LEGEND: Final = (
    f"# Chance: that sampling alone shows such a change in any row. *: less than {100 * LEVEL:.0f}%",
    "# (Fisher's exact test of the numbers of samples, corrected for the number of rows)",
    "#",
)


@dataclass(frozen=True)
class DifferenceOptions:
    """The format of the text.

    Attributes:
        paths: of the recordings.
        list_paths: even if there are only two.
        periods, formulas: add these columns.
        noise: add a column of probabilities.
        hidden: keys that are equal in all rows.
    """

    paths: Sequence[str]
    list_paths: bool = False
    periods: bool = False
    formulas: bool = False
    noise: bool = False
    separator: str | None = None
    quiet: bool = False
    hidden: tuple[str, ...] = ()


def difference_lines(differences: Iterable[Difference], options: DifferenceOptions) -> Iterator[str]:
    """Yield all lines, without line ends."""
    for number, difference in enumerate(differences):
        if not options.quiet:
            yield from ([""] if number else [])
            yield from (f"# Event '{difference.event}'", "#")
        if options.list_paths or (len(options.paths) > 2 and not options.quiet):
            yield "# Data files:"
            yield from (f"#  [{index}] {path} {'' if index else '(Baseline)'}" for index, path in enumerate(options.paths))
            yield "#"
        yield from _Table(difference, options).lines()


class _NumberColumn:
    """A column of numbers: one for each row."""

    def __init__(self, name: str, index: int, width: int, cell: _Cell) -> None:
        self._name = name
        self._index = index
        self._cell = cell
        self.width = max(width, len(name))

    def header(self) -> str:
        """Return the column's name, padded to its width."""
        return f"{self._name:>{self.width}}"

    def cell(self, change: DifferenceRow, *, aligned: bool) -> str:
        """Return a row's number; perf prints a blank for none."""
        text = self._cell(change, self._index)
        return f"{text:>{self.width}}" if aligned else text or " "


class _KeyColumn:
    """A column of texts, each from the recording that has the row."""

    def __init__(self, key: SortKey, difference: Difference, options: DifferenceOptions) -> None:
        entries: list[list[int]] = [[] for _ in difference.histograms]
        for change in difference.changes:
            index, part = change.displayed_part
            entries[index].append(part.entry)
        text = TextOptions(separator=options.separator)
        histograms = [(index, histogram) for index, histogram in enumerate(difference.histograms) if histogram is not None]
        self.width = max(KeyWidths(histogram, entries[index]).of(key) for index, histogram in histograms if entries[index] or not index)
        self._columns = {index: KeyColumnText(key, histogram, text, self.width) for index, histogram in histograms}

    def header(self) -> str:
        """Return the column's name, padded to its width."""
        return self._columns[0].header()

    def cell(self, change: DifferenceRow) -> str:
        """Return a row's text."""
        index, part = change.displayed_part
        return self._columns[index].cell(part.entry)


class _Table:
    """The table of one event."""

    def __init__(self, difference: Difference, options: DifferenceOptions) -> None:
        self._difference = difference
        self._options = options
        base = difference.histograms[0]
        assert base is not None
        noise = difference.noise if options.noise else []
        self._chances = {change.names: chances for change, chances in zip(difference.changes, noise, strict=False)}
        self._keys = [
            _KeyColumn(key, difference, options)
            for key in base.layout.fields
            if isinstance(key, SortKey) and key.name not in options.hidden
        ]
        self._numbers = [_NumberColumn(self._name_of(name, index), index, width, cell) for name, index, width, cell in self._measures()]

    def _name_of(self, name: str, index: int) -> str:
        return f"{name}/{index}" if len(self._options.paths) > 2 else name

    def _measures(self) -> Iterator[tuple[str, int, int, _Cell]]:
        """Yield name, recording, least width and text of each column of numbers."""
        options = self._options
        yield "Baseline", 0, 0, self._baseline
        if options.periods:
            yield "Base period", 0, _PERIOD_WIDTH, _base_period
        title, width = _TITLES[self._difference.compute.kind]
        for index in self._difference.others:
            yield title, index, width, self._value
            if options.noise:
                yield "Chance", index, _CHANCE_WIDTH, self._chance
            if options.formulas:
                yield "Formula", index, _FORMULA_WIDTH, self._formula
            if options.periods:
                yield "Period", index, _PERIOD_WIDTH, _period

    def lines(self) -> Iterator[str]:
        """Yield heading and rows."""
        options = self._options
        columns: list[_NumberColumn | _KeyColumn] = [*self._numbers, *self._keys]
        if not options.quiet:
            yield from _LEGEND if options.noise else ()
            yield from heading(columns, options.separator)
        widths = [column.width for column in columns[:-1]] + [0]
        aligned = options.separator is None
        for change in self._difference.changes:
            cells = [column.cell(change, aligned=aligned) for column in self._numbers] + [column.cell(change) for column in self._keys]
            yield row_line(cells, widths, options.separator)

    def _baseline(self, change: DifferenceRow, _index: int) -> str:
        if change.is_new:
            return ""
        return f"{self._difference.baseline(change):.2f}" + ("%" if self._options.separator is None else "")

    def _value(self, change: DifferenceRow, index: int) -> str:
        value, compute = self._difference.value(change, index), self._difference.compute
        if value is None:
            return ""
        if compute.of_shares:
            return _NOT_A_NUMBER if math.isnan(value) else f"{value:+.2f}%"
        if change.is_new:
            return "N/A"
        if self._options.separator is None:
            # below a wider title perf aligns these to the left, unlike all others
            return f"{value:.6f}" if compute.kind == "ratio" else f"{value:14d}".ljust(len(self._name_of(_TITLES[compute.kind][0], index)))
        if not value > 0 if compute.kind == "ratio" else value == 0:
            return ""
        return f"{value:14.6f}" if compute.kind == "ratio" else f"{value:14d}"

    def _chance(self, change: DifferenceRow, index: int) -> str:
        """Return a probability in percent, marked if significant; empty if there are too few samples."""
        chance = self._chances[change.names][index - 1]
        if chance >= 1:
            return ""
        text = f"<{100 * _LEAST_CHANCE:.2f}%" if chance < _LEAST_CHANCE else f"{100 * chance:.2f}%"
        return text + (" *" if chance < LEVEL else "  ")

    def _formula(self, change: DifferenceRow, index: int) -> str:
        part, compute, totals = change.parts[index], self._difference.compute, self._difference.totals
        if part is None:
            return ""
        new, old = part.period, change.base_period
        if compute.of_shares:
            text = f"({new} * 100 / {totals[index]}) - ({old} * 100 / {self._difference.base_total})"
        elif compute.kind == "ratio":
            text = f"{new} / {old}"
        else:
            text = f"({new} * {compute.weights[1]}) - ({old} * {compute.weights[0]})"
        return text[: _FORMULA_WIDTH - 1]


def _base_period(change: DifferenceRow, _index: int) -> str:
    return str(change.base_period)


def _period(change: DifferenceRow, index: int) -> str:
    part = change.parts[index]
    return str(part.period) if part else ""
