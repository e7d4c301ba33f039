"""perf report --stdio, byte for byte.

What enters: a Report. What leaves: lines of text. The layout is perf 6.12's:
comment lines on the events, a header whose dots show the columns' widths, a
line for each row, and its call tree below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perfpy.analysis.keycolumns import byte_width
from perfpy.analysis.sortkeys import Cell, Metric, SortKey, Unit
from perfpy.views.callchain_text import ChainWriter, Stem
from perfpy.views.share_colour import coloured
from perfpy.views.tips import tip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.histogram import Histogram
    from perfpy.analysis.reporting import Report

HEADER_HINT = "# To display the perf.data header info, please use --header/--header-only options.\n#"
GAP = "  "


@dataclass(frozen=True)
class TextOptions:
    """How the text is set.

    separator: perf's -t, None for aligned columns; widths: -w; quiet: only
    rows; percent_limit: rows below it are left out; times: the text of --time;
    hidden: keys that are the same in all rows (perf's elided columns); colour:
    whether shares are coloured (in columns: of aligned text only, as perf does).
    """

    separator: str | None = None
    widths: tuple[int, ...] = ()
    quiet: bool = False
    percent_limit: float = 0.0
    times: str = ""
    hidden: tuple[str, ...] = ()
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
    from perfpy.analysis.hierarchy import make_hierarchy  # the view of it builds on this module
    from perfpy.views.hierarchy_text import HierarchyText

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
    filled = [cell + " " * (width - byte_width(cell)) for cell, width in zip(cells, widths, strict=True)]
    return separator.join(filled) if separator else GAP + GAP.join(filled)


class HistogramText:
    """One table as text."""

    def __init__(self, histogram: Histogram, options: TextOptions) -> None:
        self._histogram = histogram
        self._options = options
        event = histogram.leader.event.index
        fields = [entry for entry in histogram.layout.fields if isinstance(entry, Metric) or entry.event in (None, event)]
        shown = [entry for entry in fields if entry.name not in options.hidden]
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
        writer = self.chain_writer()
        histogram = self._histogram
        measure = "children" if "children" in histogram.entries.sums else "period"
        for entry in histogram.shown().tolist():
            if histogram.percent(measure, entry) < self._options.percent_limit:
                continue
            yield self._row(entry)
            if writer is not None and histogram.trees is not None:
                stem = Stem(histogram.weight(entry), histogram.leader.period, *histogram.trees.under(entry))
                yield from writer.lines(histogram.calls(entry), stem)

    def chain_writer(self) -> ChainWriter | None:
        """What draws the call trees; None where there are none."""
        trees, graph = self._histogram.trees, self._histogram.options.call_graph
        if trees is None or graph is None:
            return None
        wanted = self._histogram.options.wanted
        named_already = wanted.fields is None and (wanted.sort or "").startswith("sym")
        separator = self._options.separator or ";"
        return ChainWriter(graph, trees.frame_name, separator=separator, skip_first=named_already, colour=self._options.colour)

    def _row(self, entry: int) -> str:
        widths = [0 if column.entry is self._last else column.width for column in self.columns]
        return row_line([column.cell(entry) for column in self.columns], widths, self._options.separator)


class MetricColumnText:
    """A column of numbers, one for each member of the event group."""

    def __init__(self, metric: Metric, histogram: Histogram, options: TextOptions, user_width: int) -> None:
        self.entry = metric
        self._histogram = histogram
        self._name = "Self" if metric.name == "overhead" and histogram.layout.has("overhead_children") else metric.header
        self._members = [
            number for number, event in enumerate(histogram.events) if event.samples or not options.skip_empty or len(histogram.events) == 1
        ]
        own = user_width or metric.width
        grouped = histogram.options.group is not False
        self.width = max(own, len(self._members) * metric.width if grouped else 0, len(self._name))
        self._colour = options.colour and not options.separator
        self._number_width = 1 if options.separator else own - (1 if metric.unit is Unit.NUMBER else 2)

    def header(self) -> str:
        """The column's name, set to its width."""
        return f"{self._name:>{self.width}}"

    def cell(self, entry: int) -> str:
        """The numbers of an entry."""
        return "".join(self._number(entry, member) for member in self._members)

    def _number(self, entry: int, member: int) -> str:
        metric, histogram, width = self.entry, self._histogram, self._number_width
        if metric.value not in histogram.entries.sums:
            return f" {'N/A':>{self.width - 1}}"
        if metric.unit is Unit.PERCENT:
            percent = histogram.percent(metric.value, entry, member)
            text = f" {percent:{width}.2f}%"
            return coloured(percent, text) if self._colour else text
        if metric.unit is Unit.NUMBER:
            return f" {histogram.value(metric.value, entry, member):{width}d}"
        return f" {histogram.mean(metric.value, entry, member):{width}.1f}"


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
        text = self._histogram.text(self.entry.name, entry)
        if self._separator:
            text = text.replace(self._separator[0], ".")
        return _set(text, self.entry.cell, self.width)


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
        return max(map(values.column.wide, values.number[self._entries].tolist()), default=0)
