"""perf report --stdio, byte for byte.

What enters: a Report. What leaves: lines of text. The layout is perf 6.12's:
comment lines on the events, a header whose dots show the columns' widths, a
line for each row, and its call tree below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.report.profile import LATENCY
from perfpy.analysis.sortkeys.keycolumns import byte_width
from perfpy.analysis.sortkeys.names import Cell, Metric, SortKey, Unit
from perfpy.views.report.callchain_text import ChainWriter, Stem
from perfpy.views.report.share_colour import coloured
from perfpy.views.report.tips import tip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.report.calltree import Int64
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

HEADER_HINT = "# To display the perf.data header info, please use --header/--header-only options.\n#"
GAP = "  "
_ROWS_AT_ONCE = 4096


class TextOptions(NamedTuple):
    """How the text is set.

    separator: perf's -t, None for aligned columns; widths: -w; quiet: only
    rows; percent_limit: rows below it are left out; times: the text of --time;
    colour: whether shares are coloured (in columns: of aligned text only, as
    perf does).
    """

    separator: str | None = None
    widths: tuple[int, ...] = ()
    quiet: bool = False
    percent_limit: float = 0.0
    times: str = ""
    skip_empty: bool = True
    memory_order: str = ""
    colour: bool = False


def report_lines(report: Report, options: TextOptions) -> Iterator[str]:
    """All lines of the report, without line ends."""
    if not options.quiet:
        yield from ("#", f"# Total Lost Samples: {report.lost}", "#")
    for histogram in report.histograms:
        if options.skip_empty and not histogram.leader.samples:
            continue
        if not options.quiet:
            yield from _summary(histogram, options)
        yield from table_lines(histogram, options)
        yield from ("", "")
    if not options.quiet:
        yield from ("#", f"# ({tip()})", "#")


def table_lines(histogram: Histogram, options: TextOptions) -> Iterator[str]:
    """One table: rows, or with -H levels of rows."""
    if not histogram.options.hierarchy:
        return HistogramText(histogram, options).lines()
    from perfpy.analysis.report.hierarchy import make_hierarchy  # the view of it builds on this module
    from perfpy.views.report.hierarchy_text import HierarchyText

    return HierarchyText(make_hierarchy(histogram), options).lines()


def _summary(histogram: Histogram, options: TextOptions) -> Iterator[str]:
    relative = histogram.options.relative_percentages
    samples = sum(event.shown_samples if relative else event.samples for event in histogram.events)
    period = sum(event.shown_period if relative else event.period for event in histogram.events)
    plural = "s" if histogram.plural else ""
    times = f" (time slices: {options.times})" if options.times else ""
    title = event_title(histogram, skip_empty=options.skip_empty)
    yield f"# Samples: {_short_number(samples)} of event{plural} '{title}'{times}"
    if options.memory_order:
        yield f"# Total weight : {period}"
        yield f"# Sort order   : {options.memory_order}"
    else:
        yield f"# Event count (approx.): {period}"
    yield "#"


def event_title(histogram: Histogram, *, skip_empty: bool) -> str:
    """The event's name, or those of its group (that have samples)."""
    if len(histogram.events) == 1:
        return histogram.leader.event.name
    names = ", ".join(event.event.name for event in histogram.events if event.samples or not skip_empty)
    return f"{histogram.group_title} {{ {names} }}" if histogram.group_title else names


def _short_number(number: int) -> str:
    """12K for 12345, as perf counts samples."""
    for unit in " KMGT":
        if number <= 1000 or unit == "T":
            return f"{number}{unit}"
        number //= 1000
    return str(number)


class Column(Protocol):
    """What a heading is made of."""

    width: int

    def header(self) -> str:
        """The column's name, set to its width."""


def heading(columns: Sequence[Column], separator: str | None) -> Iterator[str]:
    """The lines above a table: names, and dots that show the widths."""
    yield "# " + (separator or GAP).join(column.header() for column in columns)
    if separator is None:
        yield "# " + GAP.join("." * column.width for column in columns)
        yield "#"


def row_line(cells: Sequence[str], widths: Sequence[int], separator: str | None) -> str:
    """A row of a table, its cells filled to the columns' widths."""
    filled = map(_padded, cells, widths)
    return separator.join(filled) if separator else GAP + GAP.join(filled)


def _padded(cell: str, width: int) -> str:
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - byte_width(cell))


def chain_writer(histogram: Histogram, options: TextOptions) -> ChainWriter | None:
    """What draws the call trees; None where there are none."""
    trees, graph = histogram.trees, histogram.options.call_graph
    if trees is None or graph is None:
        return None
    wanted = histogram.options.wanted
    named_already = wanted.fields is None and (wanted.sort or "").startswith("sym")
    return ChainWriter(graph, trees.frame_name, separator=options.separator or ";", skip_first=named_already, colour=options.colour)


class HistogramText:
    """One table as text."""

    def __init__(self, histogram: Histogram, options: TextOptions) -> None:
        self._histogram = histogram
        self._options = options
        event = histogram.leader.event.index
        fields = [entry for entry in histogram.layout.fields if isinstance(entry, Metric) or entry.event in (None, event)]
        shown = [entry for entry in fields if entry.name not in histogram.layout.hidden]
        self._last = histogram.layout.fields[-1]
        wide = KeyWidths(histogram, histogram.shown().tolist())
        self.columns = [
            MetricColumnText(entry, histogram, options, self._user_width(entry))
            if isinstance(entry, Metric)
            else KeyColumnText(entry, histogram, options, self._user_width(entry) or wide.of(entry))
            for entry in shown
        ]

    def _user_width(self, entry: SortKey | Metric) -> int:
        at = self._histogram.layout.fields.index(entry)
        return self._options.widths[at] if at < len(self._options.widths) else 0

    def lines(self) -> Iterator[str]:
        """Header, rows and call trees."""
        if not self._options.quiet:
            yield from heading(self.columns, self._options.separator)
        writer = chain_writer(self._histogram, self._options)
        histogram, trees = self._histogram, self._histogram.trees
        measure = "children" if "children" in histogram.entries.sums else "period"
        shown = histogram.shown()
        shown = shown[histogram.percents(measure, shown) >= self._options.percent_limit]
        for first in range(0, len(shown), _ROWS_AT_ONCE):
            entries = shown[first : first + _ROWS_AT_ONCE]
            if writer is None or trees is None:
                yield from self._rows(entries)
                continue
            for entry, row in zip(entries.tolist(), self._rows(entries), strict=True):
                yield row
                stem = Stem(histogram.weight(entry), histogram.leader.period, *trees.under(entry))
                yield from writer.lines(histogram.calls(entry), stem)

    def _rows(self, entries: Int64) -> Iterator[str]:
        widths = [0 if column.entry is self._last else column.width for column in self.columns]
        for cells in zip(*(column.cells(entries) for column in self.columns), strict=True):
            yield row_line(cells, widths, self._options.separator)


def metric_header(metric: Metric, histogram: Histogram) -> str:
    """The name of a column of numbers; beside shares with callers, what is a row's own is called so."""
    wanted = histogram.options.wanted
    if not wanted.children or (wanted.fields is not None and not wanted.fields.startswith("+")):
        return metric.header
    return {"overhead": "Self", LATENCY: "Self Latency"}.get(metric.name, metric.header)


class MetricColumnText:
    """A column of numbers, one for each member of the event group."""

    def __init__(self, metric: Metric, histogram: Histogram, options: TextOptions, user_width: int) -> None:
        self.entry = metric
        self._histogram = histogram
        self._name = metric_header(metric, histogram)
        self._members = [
            number for number, event in enumerate(histogram.events) if event.samples or not options.skip_empty or len(histogram.events) == 1
        ]
        own = user_width or max(metric.width, len(self._name) if metric.value == LATENCY else 0)
        grouped = histogram.options.group is not False
        self.width = max(own, len(self._members) * metric.width if grouped else 0, len(self._name))
        self._own = own
        self._colour = options.colour and not options.separator
        self._number_width = 1 if options.separator else own - (2 if metric.unit is Unit.PERCENT else 1)

    def header(self) -> str:
        """The column's name, set to its width."""
        return f"{self._name:>{self.width}}"

    def cell(self, entry: int) -> str:
        """The numbers of an entry."""
        return self.cells(np.array([entry]))[0]

    def cells(self, entries: Int64) -> list[str]:
        """The numbers of each of some entries."""
        if self.entry.value not in self._histogram.entries.sums:
            return [f" {'N/A':>{self._own - 1}}"] * len(entries)  # whatever the group's size
        members = [self._numbers(entries, member) for member in self._members]
        return members[0] if len(members) == 1 else list(map("".join, zip(*members, strict=True)))

    def _numbers(self, entries: Int64, member: int) -> list[str]:
        metric, histogram, width = self.entry, self._histogram, self._number_width
        if metric.unit is Unit.PERCENT:
            percents = histogram.percents(metric.value, entries, member).tolist()
            texts = [f" {percent:{width}.2f}%" for percent in percents]
            return list(map(coloured, percents, texts)) if self._colour else texts
        if metric.unit is Unit.NUMBER:
            return [f" {value:{width}d}" for value in histogram.entries.sums[metric.value][entries, member].tolist()]
        return [f" {histogram.mean(metric.value, entry, member):{width}.1f}" for entry in entries.tolist()]


class KeyColumnText:
    """A column of texts."""

    def __init__(self, key: SortKey, histogram: Histogram, options: TextOptions, width: int) -> None:
        self.entry = key
        self._histogram = histogram
        self._separator = options.separator
        self.width = width

    def header(self) -> str:
        """The column's name, set to its width."""
        if self.entry.cell is Cell.RIGHT_CUT:
            return _set(self.entry.header, Cell.RIGHT_CUT, self.width)
        return _filled(self.entry.header, self.width)

    def cell(self, entry: int) -> str:
        """The text of an entry, set as the column is."""
        return self.cells(np.array([entry]))[0]

    def cells(self, entries: Int64) -> list[str]:
        """The text of each of some entries, set as the column is."""
        texts = self._histogram.texts(self.entry.name, entries)
        if self._separator:
            texts = [text.replace(self._separator[0], ".") for text in texts]
        cells = [_set(text, self.entry.cell, self.width) for text in texts]
        values = self._histogram.keys[self.entry.name]
        if values.column.unnamed is not None:  # addresses stay whole
            for at in np.flatnonzero(values.column.unnamed[values.number[entries]]).tolist():
                cells[at] = texts[at]
        return cells


def _set(text: str, cell: Cell, width: int) -> str:
    if cell is Cell.LOOSE:
        return text
    if cell is Cell.CUT:
        return text[:width]
    if cell is Cell.RIGHT_CUT:
        return text[:width].rjust(width)
    if cell is Cell.RIGHT:
        return text.rjust(width)
    if cell is Cell.THREAD:
        number, comm = text[:8], text[8:]
        return number + _filled(comm, max(7, width) - 8)
    return _filled(text, width)


def _filled(text: str, width: int) -> str:
    """Cut and filled to a width in bytes."""
    if text.isascii():
        return text[: max(width, 0)].ljust(width)
    kept = text.encode(errors="surrogateescape")[: max(width, 0)].decode(errors="surrogateescape")
    return kept + " " * (width - byte_width(kept))


class KeyWidths:
    """The widths that some entries of a table ask for."""

    def __init__(self, histogram: Histogram, entries: Sequence[int]) -> None:
        self._histogram = histogram
        self._entries = entries

    def of(self, key: SortKey) -> int:
        """As wide as the header, the least width, and the widest text."""
        return max(len(key.header), key.least, self._asked(key))

    def _asked(self, key: SortKey) -> int:
        histogram = self._histogram
        if key.by_comm is not None:
            longest = max(map(byte_width, histogram.last_comms()), default=0)
            return longest + key.by_comm if longest else 0
        if key.late and histogram.leader.samples == 1:
            return 0
        values = histogram.keys[key.name]
        return max(map(values.column.wide, distinct(values.number[self._entries]).tolist()), default=0)
