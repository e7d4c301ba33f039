"""A report for the person at the terminal: what was recorded and how far to trust it, then the table.

What enters: a Report and its recording. What leaves: text through a rich
console, within the window's width: bars and colours, the hottest rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from perfpy.analysis.quality import quality_notes
from perfpy.analysis.sortkeys import Metric
from perfpy.views.callchain_text import ChainWriter, Stem
from perfpy.views.report_text import TextOptions, event_title

if TYPE_CHECKING:
    from rich.console import Console

    from perfpy.analysis.histogram import Histogram
    from perfpy.analysis.reporting import Report
    from perfpy.recording import Recording

_ROWS: Final = 40
_BAR: Final = 12
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HOT: Final = ((5.0, "bold red"), (0.5, "green"))


def show_report(report: Report, recording: Recording, console: Console, options: TextOptions) -> None:
    """Print the header and the tables."""
    _show_header(report, recording, console)
    for histogram in report.histograms:
        if histogram.leader.samples:
            _show_table(histogram, console, options)


def _show_header(report: Report, recording: Recording, console: Console) -> None:
    header = recording.header
    command = header.get("cmdline")
    words = " ".join(command) if isinstance(command, (tuple, list)) else str(command or "")
    console.print(Text.assemble((recording.path, "bold"), "  ", (words, "dim")), soft_wrap=False, overflow="ellipsis", no_wrap=True)
    facts = [f"{report.samples:,} samples"]
    span = header.get("sample_time")
    if span is not None and span.last > span.first:
        facts.append(f"{(span.last - span.first) / 1e9:.3g} s")
    facts += [str(header[name]) for name in ("hostname", "os_release", "arch") if header.get(name)]
    console.print("  ".join(facts), style="dim")
    for note in quality_notes(report):
        console.print(f"! {note}", style="yellow")


def _show_table(histogram: Histogram, console: Console, options: TextOptions) -> None:
    console.print()
    console.print(Text.assemble((event_title(histogram, skip_empty=True), "bold"), f"  {histogram.leader.samples:,} samples"))
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    measure = "children" if "children" in histogram.entries.sums else "period"
    metrics = [entry for entry in histogram.layout.fields if isinstance(entry, Metric) and entry.value in histogram.entries.sums]
    keys = [key for key in histogram.layout.keys if key.name not in options.hidden and key.name != "ipc_null"]
    for metric in metrics:
        table.add_column("Self" if metric.name == "overhead" and len(metrics) > 1 else metric.header, justify="right", no_wrap=True)
    table.add_column("", width=_BAR, no_wrap=True)
    for key in keys:
        table.add_column(key.header.strip(), no_wrap=True, overflow="ellipsis", ratio=1 if key is keys[-1] else None)
    shown = histogram.shown().tolist()
    kept = [entry for entry in shown if histogram.percent(measure, entry) >= options.percent_limit]
    hottest = max((histogram.percent(measure, entry) for entry in kept), default=0.0)
    for entry in kept[:_ROWS]:
        percent = histogram.percent(measure, entry)
        numbers = [_number(histogram, metric, entry) for metric in metrics]
        texts = [Text(histogram.text(key.name, entry)) for key in keys]
        table.add_row(*numbers, Text(_bar(percent, hottest), style=_style(percent)), *texts)
    console.print(table)
    if len(kept) > _ROWS:
        rest = len(kept) - _ROWS
        console.print(f"... {rest:,} more rows; --stdio shows all, --percent-limit fewer", style="dim")
    _show_calls(histogram, kept[:1], console)


def _show_calls(histogram: Histogram, entries: list[int], console: Console) -> None:
    """The call tree of the first row."""
    graph = histogram.options.call_graph
    if histogram.trees is None or graph is None:
        return
    writer = ChainWriter(graph, histogram.trees.frame_name)
    for entry in entries:
        stem = Stem(histogram.weight(entry), histogram.leader.period, *histogram.trees.under(entry))
        lines = [line.removeprefix(" " * 10) for line in writer.lines(histogram.calls(entry), stem)]
        if lines:
            console.print()
            console.print("calls of the first row:", style="dim")
            console.print("\n".join(lines[:_ROWS]), style="dim", overflow="ellipsis", no_wrap=True)


def _number(histogram: Histogram, metric: Metric, entry: int) -> Text:
    if metric.unit.value == "percent":
        percent = histogram.percent(metric.value, entry)
        return Text(f"{percent:.2f}%", style=_style(percent))
    return Text(f"{histogram.value(metric.value, entry):,}")


def _style(percent: float) -> str:
    return next((style for least, style in _HOT if percent >= least), "")


def _bar(percent: float, hottest: float) -> str:
    """A bar in eighths of a character, as long as the share of the hottest row's."""
    eighths = round(percent / hottest * _BAR * 8) if hottest else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
