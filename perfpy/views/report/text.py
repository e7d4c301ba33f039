"""perf report --stdio, byte for byte.

The layout is perf 6.12's: comment lines about the events, a header whose dots show
the columns' widths, a line for each row, and its call tree below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.views.report.table_text import HistogramText
from perfpy.views.report.tips import tip

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Return the lines of one table; with -H, levels of rows."""
    if not histogram.options.rows.hierarchy:
        return HistogramText(histogram, options).lines()
    from perfpy.analysis.report.hierarchy import make_hierarchy
    from perfpy.views.report.hierarchy_text import HierarchyText

    return HierarchyText(make_hierarchy(histogram), options).lines()


def _summary(histogram: Histogram, options: TextOptions) -> Iterator[str]:
    relative = histogram.options.rows.relative_percentages
    samples = sum(event.shown_samples if relative else event.samples for event in histogram.events)
    period = sum(event.shown_period if relative else event.period for event in histogram.events)
    plural = "s" if histogram.plural else ""
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
    return f"{histogram.group_title} {{ {names} }}" if histogram.group_title else names


def short_number(number: int) -> str:
    """Return 12K for 12345, as perf counts samples."""
    for unit in " KMGT":
        if number <= 1000 or unit == "T":
            return f"{number}{unit}"
        number //= 1000
    return str(number)
