"""The rows of a report within a window: numbers whole, a bar, keys as wide as there is room.

What enters: a Histogram, which of its entries, the window's width. What
leaves: a rich table, of a line a row. Where it is narrow, the columns that say
least go or shrink first: bars, commands, files; names lose their middle.
Columns that are the same in all rows are left out and named instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from perfpy.analysis.sortkeys.sort_key import OutputField, Unit
from perfpy.untrusted.text import visible
from perfpy.views.report.column_text import TextOptions, key_texts, metric_header, seconds
from perfpy.views.report.fitting import OF_FUNCTIONS, OF_OTHERS, fitted
from perfpy.views.report.share_colour import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.sortkeys.sort_key import SortKey

_BAR: Final = 12
_NARROW: Final = 100  # columns of a window in which bars are half as long
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LAST_KEY: Final = 30  # columns that the last key should have
_CAPS: Final = (40, 24, 20, 16, 12, 8)  # of the other keys' columns
_KERNEL: Final = ("[kernel.kallsyms]", "[kernel]")
_LEVELS: Final = ("[.] ", "[k] ")  # what the file beside it says, too


class _Number(NamedTuple):
    """A column of numbers: what it is called, and what of an entry it shows."""

    header: str
    metric: OutputField
    member: int


class _Key(NamedTuple):
    """A column of names. head: which part of them says more, where they are cut."""

    header: str
    texts: list[str]
    head: float


class ScreenTable:
    """Some rows of a histogram for a window. measure: what bars and colours show; own_first: whether what is a row's own stands first."""

    def __init__(
        self, histogram: Histogram, entries: Sequence[int], measure: str, options: TextOptions, *, own_first: bool = False
    ) -> None:
        self._histogram = histogram
        self._entries = entries
        self._measure = measure
        self._numbers = _numbers(histogram)
        if own_first:
            self._numbers.sort(key=lambda number: number.metric.value == "children")
        keys = [key for key in histogram.layout.keys if key.name not in histogram.layout.hidden and key.name != "ipc_null"]
        named = self._named(keys, options)
        plain = [key for key in named if len(set(key.texts)) > 1 or len(entries) == 1] or named[-1:]
        if named and named[-1] not in plain:
            plain.append(named[-1])
        self._keys = plain
        #: what all rows have in common, as "Command slow"
        self.common = [f"{key.header} {key.texts[0]}" for key in named if key not in plain and key.texts]

    def _named(self, keys: Sequence[SortKey], options: TextOptions) -> list[_Key]:
        rows = np.array(self._entries, np.int64)
        beside_file = any(key.name == "dso" for key in keys)
        return [
            _Key(
                key.header.strip(),
                [_as_shown(text, beside_file) for text in key_texts(key.name, self._histogram, rows, options)],
                OF_FUNCTIONS if "sym" in key.name else OF_OTHERS,
            )
            for key in keys
        ]

    def rendered(self, width: int) -> Table:
        """The table, at most so many columns wide."""
        bar, gap = (_BAR, 2) if width >= _NARROW else (_BAR // 2, 1)
        if sum(len(number.header) + gap for number in self._numbers) + bar + _LAST_KEY > width:
            bar = 0
        table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, gap, 0, 0))
        cells = [[self._number(number, entry) for number in self._numbers] for entry in self._entries]
        for index, number in enumerate(self._numbers):
            least = max([len(number.header), *(len(row[index]) for row in cells)])
            table.add_column(number.header, justify="right", no_wrap=True, min_width=least)
        if bar:
            table.add_column("", width=bar, no_wrap=True)
        taken = sum(column.min_width or 0 for column in table.columns) + bar + gap * (len(table.columns) + len(self._keys))
        rooms = _widths(self._keys, width - taken)
        for key, room in zip(self._keys, rooms, strict=True):
            table.add_column(key.header, no_wrap=True, width=room, overflow="ellipsis")
        shares = [self._histogram.percent(self._measure, entry) for entry in self._entries]
        for index, (row, share) in enumerate(zip(cells, shares, strict=True)):
            drawn = [Text(_bar(share, max(shares), bar), style=style(share))] if bar else []
            names = [Text(fitted(key.texts[index], room, key.head)) for key, room in zip(self._keys, rooms, strict=True)]
            table.add_row(*row, *drawn, *names)
        return table

    def _number(self, number: _Number, entry: int) -> Text:
        histogram, metric, member = self._histogram, number.metric, number.member
        if metric.unit is Unit.PERCENT:
            percent = histogram.percent(metric.value, entry, member)
            return Text(f"{percent:.2f}%", style=style(percent) if metric.value == self._measure else "")
        if metric.unit is Unit.AVERAGE:
            return Text(f"{histogram.mean(metric.value, entry, member):,.1f}")
        if metric.unit is Unit.SECONDS:
            return Text(seconds(histogram, metric, np.array([entry]), member)[0])
        return Text(f"{histogram.value(metric.value, entry, member):,}")


def shares_table(shares: Sequence[tuple[float, str]], width: int, *, head: float = OF_OTHERS) -> Table:
    """A table of names with their shares, the largest first; head: see fitted."""
    gap = 2 if width >= _NARROW else 1
    bar = _BAR if width >= _NARROW else _BAR // 2
    table = Table(box=None, pad_edge=False, show_header=False, show_edge=False, padding=(0, gap, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=len("100.00%"))
    table.add_column(width=bar, no_wrap=True)
    table.add_column(no_wrap=True)
    room = width - len("100.00%") - bar - 3 * gap
    most = max((share for share, _ in shares), default=0.0)
    for share, name in shares:
        table.add_row(
            Text(f"{share:.2f}%", style=style(share)), Text(_bar(share, most, bar), style=style(share)), Text(fitted(name, room, head))
        )
    return table


def file_name(text: str) -> str:
    """What a file is called on a screen."""
    return visible(text.replace(*_KERNEL).strip())


def _as_shown(text: str, beside_file: bool) -> str:
    shown = file_name(text)
    return shown[len(_LEVELS[0]) :] if beside_file and shown.startswith(_LEVELS) else shown


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


def _widths(keys: Sequence[_Key], room: int) -> list[int]:
    """How wide each key's column is; the last one has what the others leave."""
    asked = [max([cell_len(key.header), *map(cell_len, key.texts)]) for key in keys]
    if not asked:
        return []
    others = asked[:-1]
    for cap in _CAPS:
        others = [min(width, cap) for width in asked[:-1]]
        if sum(others) + min(asked[-1], _LAST_KEY) <= room:
            break
    return [*others, max(min(asked[-1], room - sum(others)), 1)]


def _bar(percent: float, hottest: float, width: int) -> str:
    """A bar in eighths of a character, as long as the share of the hottest row's."""
    eighths = round(percent / hottest * width * 8) if hottest else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
