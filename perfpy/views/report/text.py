"""perf report --stdio, byte for byte.

The layout is perf 6.12's: comment lines about the events, a header whose dots show
the columns' widths, a line for each row, and its call tree below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.views.report.column_text import KeyColumnText, MetricColumnText, TextOptions
from perfpy.views.report.table_text import GAP, HistogramText, chain_writer
from perfpy.views.report.tips import tip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.hierarchy import Hierarchy
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.views.report.column_text import TextOptions

HEADER_HINT = "# To display the perf.data header info, please use --header/--header-only options.\n#"


def report_lines(report: Report, options: TextOptions) -> Iterator[str]:
    """Yield all lines of the report, without line ends."""
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
    """Return the lines of one table; with -H, levels of rows, if these have keys."""
    if histogram.options.rows.hierarchy:
        from perfpy.analysis.report.hierarchy import levels_of, make_hierarchy

        if levels := levels_of(histogram):
            return HierarchyText(make_hierarchy(histogram, levels), options).lines()
    return HistogramText(histogram, options).lines()


def _summary(histogram: Histogram, options: TextOptions) -> Iterator[str]:
    relative = histogram.options.rows.relative_percentages
    samples = sum(event.shown_samples if relative else event.samples for event in histogram.events)
    period = sum(event.shown_period if relative else event.period for event in histogram.events)
    plural = "s" if histogram.group.is_group else ""
    times = f" (time slices: {options.times})" if options.times else ""
    title = event_title(histogram, skip_empty=options.skip_empty)
    yield f"# Samples: {short_number(samples)} of event{plural} '{title}'{times}"
    if options.memory_order:
        yield f"# Total weight : {period}"
        yield f"# Sort order   : {options.memory_order}"
    else:
        yield f"# Event count (approx.): {period}"
    if options.socket >= 0:
        yield f"# Processor Socket: {options.socket}"
    yield "#"


def event_title(histogram: Histogram, *, skip_empty: bool) -> str:
    """Return the event's name, or the names of its group (optionally only of those with samples)."""
    if len(histogram.events) == 1:
        return histogram.leader.event.name
    names = ", ".join(event.event.name for event in histogram.events if event.samples or not skip_empty)
    return f"{histogram.group.title} {{ {names} }}" if histogram.group.title else names


def short_number(number: int) -> str:
    """Return 12K for 12345, as perf counts samples."""
    for unit in " KMGT":
        if number <= 1000 or unit == "T":
            return f"{number}{unit}"
        number //= 1000
    return str(number)


_INDENT = 3
_MOST_DOTS = 207  # limit of the keys' common column


class HierarchyText:
    """One table as text."""

    def __init__(self, hierarchy: Hierarchy, options: TextOptions) -> None:
        self._hierarchy = hierarchy
        self._options = options
        self._table = HistogramText(hierarchy.nodes, options._replace(widths=()))  # perf has no -w here
        self._numbers = [column for column in self._table.columns if isinstance(column, MetricColumnText)]
        cells = {column.entry.name: column for column in self._table.columns if isinstance(column, KeyColumnText)}
        self._levels = [[cells[key.name] for key in level] for level in hierarchy.levels]

    def lines(self) -> Iterator[str]:
        """Yield header, rows and call trees."""
        if not self._options.quiet:
            yield from self._header()
        nodes, depth, leaf = self._hierarchy.nodes, self._hierarchy.depth, self._hierarchy.leaf
        writer = chain_writer(self._hierarchy.source, self._options)
        order = nodes.visible_entries().tolist()
        for index, node in enumerate(order):
            if nodes.percent("period", node) < self._options.percent_limit:
                continue
            yield self._row(node, int(depth[node]))
            if leaf[node] >= 0:
                if writer is not None:
                    yield from writer.lines_of(self._hierarchy.source, int(leaf[node]))
            elif nodes.percent("period", order[index + 1]) < self._options.percent_limit:
                yield self._nothing(int(depth[node]))

    def _header(self) -> Iterator[str]:
        separator = self._options.separator
        space = 0 if separator else (len(self._levels) - 1) * _INDENT
        names = " / ".join("+".join(column.header().strip() for column in level) for level in self._levels)
        yield "# " + " " * space + "".join(column.header() + (separator or GAP) for column in self._numbers) + names
        widths = [depth * _INDENT + sum(column.width + 1 for column in level) - 1 for depth, level in enumerate(self._levels)]
        dots = (separator or "..").join("." * column.width for column in self._numbers)
        yield "# " + "." * space + dots + (separator or GAP) + "." * min(max(len(names), *widths), _MOST_DOTS)
        yield "#"

    def _row(self, node: int, depth: int) -> str:
        separator = self._options.separator
        cells = [column.cell(node) for column in self._numbers]
        if separator:  # perf pads numbers to their columns even here
            numbers = separator.join(cell.ljust(column.width) for cell, column in zip(cells, self._numbers, strict=True))
        else:
            numbers = "".join(GAP + cell for cell in cells)
        space = "" if separator else " " * ((len(self._levels) - 1) * _INDENT)
        texts = "".join((separator or GAP) + column.cell(node).lstrip() for column in self._levels[depth])
        return " " * (depth * _INDENT) + numbers + space + texts

    def _nothing(self, depth: int) -> str:
        """Return the line for rows whose children are all below the limit."""
        indent = 0 if self._options.separator else (len(self._levels) + depth) * _INDENT
        width = sum(column.width for column in self._numbers) + len(GAP) * (len(self._numbers) - 1) + 4
        return " " * (indent + width) + f"no entry >= {self._options.percent_limit:.2f}%"
