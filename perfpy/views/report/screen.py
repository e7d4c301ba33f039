"""A report for the person at the terminal: what was recorded and how far to trust it, then the table.

What enters: a Report and its recording. What leaves: text through a rich
console, within the window's width: bars and colours, the hottest rows. Long
lists in names of functions are left out unless asked for, and names are cut
where the window is too narrow for them; numbers never are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from perfpy.analysis.report.quality import quality_notes
from perfpy.analysis.sortkeys.sort_key import OutputField, Unit
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.call_lines import call_lines
from perfpy.views.report.column_text import TextOptions, key_texts, metric_header, seconds
from perfpy.views.report.share_colour import style
from perfpy.views.report.text import event_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.views.recorded import Recorded

_ROWS: Final = 40
_CALL_ROWS: Final = 20
_BAR: Final = 12
_NARROW: Final = 100  # columns of a window in which bars are half as long
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LAST_KEY: Final = 30  # columns that the last key should have
_CAPS: Final = (40, 24, 20, 16, 12, 8)  # of the other keys' columns
_KERNEL: Final = ("[kernel.kallsyms]", "[kernel]")


class _Number(NamedTuple):
    """A column of numbers: what it is called, and what of an entry it shows."""

    header: str
    metric: OutputField
    member: int


def show_report(report: Report, recording: Recorded, console: Console, options: TextOptions) -> None:
    """Print the header and the tables."""
    _show_header(report, recording, console)
    for histogram in report.histograms:
        if histogram.leader.samples:
            _show_table(histogram, console, options)


def _show_header(report: Report, recording: Recorded, console: Console) -> None:
    path, command = visible(recording.path), visible(recording.title) if recording.title != recording.path else ""
    console.print(Text.assemble((path, "bold"), "  ", (command, "dim")), soft_wrap=False, overflow="ellipsis", no_wrap=True)
    console.print(Text("  ".join([f"{report.samples:,} samples", *map(visible, recording.circumstances)])), style="dim")
    for note in quality_notes(report):
        console.print(Text(f"! {visible(note)}"), style="yellow")


def _show_table(histogram: Histogram, console: Console, options: TextOptions) -> None:
    console.print()
    samples = sum(event.samples for event in histogram.events)
    console.print(Text.assemble((visible(event_title(histogram, skip_empty=True)), "bold"), f"  {samples:,} samples"))
    measure = "children" if "children" in histogram.entries.measures else "period"
    kept = [entry for entry in histogram.shown().tolist() if histogram.percent(measure, entry) >= options.percent_limit]
    hottest = max((histogram.percent(measure, entry) for entry in kept), default=0.0)
    console.print(_table(histogram, kept[:_ROWS], measure, hottest, console.width, options))
    if len(kept) > _ROWS:
        rest = len(kept) - _ROWS
        console.print(f"... {rest:,} more rows; --stdio shows all, --percent-limit fewer", style="dim")
    _show_calls(histogram, kept[:1], console, options)


def _table(histogram: Histogram, entries: Sequence[int], measure: str, hottest: float, width: int, options: TextOptions) -> Table:
    numbers = _numbers(histogram)
    keys = [key for key in histogram.layout.keys if key.name not in histogram.layout.hidden and key.name != "ipc_null"]
    bar, gap = (_BAR, 2) if width >= _NARROW else (_BAR // 2, 1)
    if sum(len(number.header) + gap for number in numbers) + bar + _LAST_KEY > width:
        bar = 0
    cells = [[_number(histogram, number, entry) for number in numbers] for entry in entries]
    columns = [key_texts(key.name, histogram, np.array(entries, np.int64), options) for key in keys]
    texts = [[visible(column[row].replace(*_KERNEL).strip()) for column in columns] for row in range(len(entries))]
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, gap, 0, 0))
    for index, number in enumerate(numbers):
        least = max([len(number.header), *(len(row[index]) for row in cells)])
        table.add_column(number.header, justify="right", no_wrap=True, min_width=least)
    if bar:
        table.add_column("", width=bar, no_wrap=True)
    taken = sum(column.min_width or 0 for column in table.columns) + bar + gap * (len(numbers) + len(keys))
    headers = [key.header.strip() for key in keys]
    for header, room in zip(headers, _widths(headers, texts, width - taken), strict=True):
        table.add_column(header, no_wrap=True, overflow="ellipsis", width=room)
    for entry, row, names in zip(entries, cells, texts, strict=True):
        percent = histogram.percent(measure, entry)
        drawn = [Text(_bar(percent, hottest, bar), style=style(percent))] if bar else []
        table.add_row(*row, *drawn, *map(Text, names))
    return table


def _numbers(histogram: Histogram) -> list[_Number]:
    """The columns of numbers; of an event group, one for each member that has samples."""
    members = [member for member, event in enumerate(histogram.events) if event.samples]
    metrics = [entry for entry in histogram.layout.fields if isinstance(entry, OutputField) and entry.value in histogram.entries.measures]
    found = []
    for metric in metrics:
        for member in members:
            name = metric_header(metric, histogram)
            if len(members) > 1:
                event = visible(histogram.events[member].event.name)
                name = event if len(metrics) == 1 else f"{name} {event}"
            found.append(_Number(name, metric, member))
    return found


def _widths(headers: Sequence[str], texts: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each key's column is; the last one has what the others leave."""
    asked = [max([len(header), *(len(row[index]) for row in texts)]) for index, header in enumerate(headers)]
    if not asked:
        return []
    others = asked[:-1]
    for cap in _CAPS:
        others = [min(width, cap) for width in asked[:-1]]
        if sum(others) + min(asked[-1], _LAST_KEY) <= room:
            break
    return [*others, max(min(asked[-1], room - sum(others)), 1)]


def _show_calls(histogram: Histogram, entries: Sequence[int], console: Console, options: TextOptions) -> None:
    """The call tree of the first row."""
    if histogram.trees is None:
        return
    for entry in entries:
        lines = call_lines(histogram, entry, at_a_glance if options.short_names else str)
        if lines:
            console.print()
            console.print("calls of the first row:", style="dim")
            for line in lines[:_CALL_ROWS]:
                console.print(Text(line), overflow="ellipsis", no_wrap=True)
            if len(lines) > _CALL_ROWS:
                console.print(f"... {len(lines) - _CALL_ROWS:,} more lines; --stdio shows all", style="dim")


def _number(histogram: Histogram, number: _Number, entry: int) -> Text:
    metric, member = number.metric, number.member
    if metric.unit is Unit.PERCENT:
        percent = histogram.percent(metric.value, entry, member)
        return Text(f"{percent:.2f}%", style=style(percent))
    if metric.unit is Unit.AVERAGE:
        return Text(f"{histogram.mean(metric.value, entry, member):,.1f}")
    if metric.unit is Unit.SECONDS:
        return Text(seconds(histogram, metric, np.array([entry]), member)[0])
    return Text(f"{histogram.value(metric.value, entry, member):,}")


def _bar(percent: float, hottest: float, width: int) -> str:
    """A bar in eighths of a character, as long as the share of the hottest row's."""
    eighths = round(percent / hottest * width * 8) if hottest else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
