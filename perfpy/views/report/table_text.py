"""One table of a report as perf 6.12's text: heading, rows, and call trees below them."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Protocol

import numpy as np

from perfpy.analysis.sortkeys.key_columns import byte_width
from perfpy.analysis.sortkeys.sort_key import OutputField
from perfpy.views.report.column_text import KeyColumnText, KeyWidths, MetricColumnText, TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.call_trees.call_tree import Int64
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.sortkeys.sort_key import SortKey
    from perfpy.views.report.callchain_text import ChainWriter

GAP = "  "
_ROWS_AT_ONCE = 4096


class Column(Protocol):
    """A column of a heading."""

    width: int

    def header(self) -> str:
        """Return the column's name, padded to its width."""


def heading(columns: Sequence[Column], separator: str | None) -> Iterator[str]:
    """Yield the lines above a table: names, and dots that show the widths."""
    yield "# " + (separator or GAP).join(column.header() for column in columns)
    if separator is None:
        yield "# " + GAP.join("." * column.width for column in columns)
        yield "#"


def row_line(cells: Sequence[str], widths: Sequence[int], separator: str | None) -> str:
    """Return a row of a table, its cells padded to the columns' widths."""
    filled = map(_pad, cells, widths)
    return separator.join(filled) if separator else GAP + GAP.join(filled)


def _pad(cell: str, width: int) -> str:
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - byte_width(cell))


def chain_writer(histogram: Histogram, options: TextOptions) -> ChainWriter | None:
    """Return the writer of call trees; None without call trees."""
    trees, graph = histogram.trees, histogram.options.chains.call_graph
    if trees is None or graph is None:
        return None
    from perfpy.views.report.callchain_text import ChainWriter  # most reports are flat

    columns = histogram.options.columns
    named_already = columns.fields is None and (columns.sort or "").startswith("sym")
    return ChainWriter(graph, trees.frame_name, separator=options.separator or ";", skip_first=named_already, colour=options.colour)


class HistogramText:
    """One table as text."""

    def __init__(self, histogram: Histogram, options: TextOptions) -> None:
        self._histogram = histogram
        self._options = options
        event = histogram.leader.event.index
        fields = [entry for entry in histogram.layout.fields if isinstance(entry, OutputField) or entry.event in (None, event)]
        entries = [entry for entry in fields if entry.name not in histogram.layout.hidden]
        self._last = histogram.layout.fields[-1]
        visible = histogram.visible_entries()
        wide = KeyWidths(histogram, visible[: options.most_rows] if options.most_rows else visible, options)
        self.columns = [
            MetricColumnText(entry, histogram, options, self._user_width(entry))
            if isinstance(entry, OutputField)
            else KeyColumnText(entry, histogram, options, self._user_width(entry) or wide.of(entry))
            for entry in entries
        ]

    def _user_width(self, entry: SortKey | OutputField) -> int:
        index = self._histogram.layout.fields.index(entry)
        return self._options.widths[index] if index < len(self._options.widths) else 0

    def lines(self) -> Iterator[str]:
        """Yield header, rows and call trees."""
        if not self._options.quiet:
            yield from heading(self.columns, self._options.separator)
        writer = chain_writer(self._histogram, self._options)
        histogram, trees = self._histogram, self._histogram.trees
        measure = "children" if "children" in histogram.entries.measures else "period"
        visible = histogram.visible_entries()
        visible = visible[histogram.percents(measure, visible) >= self._options.percent_limit]
        if self._options.most_rows:
            visible = visible[: self._options.most_rows]
        for first in range(0, len(visible), _ROWS_AT_ONCE):
            entries = visible[first : first + _ROWS_AT_ONCE]
            rows = self._rows(entries)
            if writer is None or trees is None:
                yield from rows
                continue
            printed = 0
            for index in np.flatnonzero(trees.have_calls(entries)).tolist():  # most rows of long tables have none
                yield from rows[printed : index + 1]
                printed, entry = index + 1, int(entries[index])
                yield from writer.lines_of(histogram, entry)
            yield from rows[printed:]

    def _rows(self, entries: Int64) -> list[str]:
        filled = [
            _pad_column(
                column.cells(entries), 0 if column.entry is self._last else column.width, numbers=isinstance(column, MetricColumnText)
            )
            for column in self.columns
        ]
        separator = self._options.separator
        if separator:
            return list(map(separator.join, zip(*filled, strict=True)))
        rows = list(map(GAP.join, zip(repeat(""), *filled, strict=False)))
        most = self._options.most_columns
        return [row[:most] for row in rows] if most else rows


def _pad_column(cells: list[str], width: int, *, numbers: bool) -> list[str]:
    """Pad the cells of a column unless they are wide enough; escape sequences of colours count like in perf."""
    if min(map(len, cells), default=width) >= width:
        return cells
    return [cell.ljust(width) for cell in cells] if numbers else [_pad(cell, width) for cell in cells]
