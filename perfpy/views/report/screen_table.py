"""The rows of a report within a window: unshortened numbers, a bar, and keys as wide as possible.

In narrow windows, bars, commands and files go or shrink first; names are shortened in the middle.
States of threads are never shortened: the bar goes first, then the share that does not sort the rows.
Columns that are equal in all rows are named above instead.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from perfpy.abi.perfpy_encodings import BUILT_IN, BUILT_IN_BY_CALL
from perfpy.analysis.sort_key import Mode, OutputField, Unit
from perfpy.untrusted.text import visible
from perfpy.views.pieces import share_style
from perfpy.views.readable import short_path
from perfpy.views.report.text import TextOptions, key_texts, metric_header, seconds
from perfpy.views.verdict.sentence import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfpy.analysis.report.call_trees import CallNode, Int64, Trees
    from perfpy.analysis.report.tables import Histogram


# Shorten names in the middle: their beginnings and ends distinguish them.
#
# Widths are in columns of terminals; wide characters take two.


CUT: Final = "…"
_OMITTED: Final = re.compile(r"<…>|\(…\)| \[clone [^\]]*\]")
#: share of the beginning in what is kept: C++ names differ at the end, in the function; others at the beginning
OF_FUNCTIONS: Final = 0.4
OF_OTHERS: Final = 0.7


def fit_text(text: str, width: int, head: float = OF_FUNCTIONS) -> str:
    """Shorten text to a number of columns; head: the share of the beginning in what is kept.

    >>> fit_text("std::__shared_count<…>::__shared_count(…)", 24)
    'std::__sh…hared_count(…)'
    >>> fit_text("main", 4), fit_text("libstdc++.so.6", 1), fit_text("main", 0)
    ('main', '…', '')
    """
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return CUT[:width]
    first = int((width - 1) * head)
    return f"{_start(text, first)}{CUT}{_start(text[::-1], width - 1 - first)[::-1]}"


def fit_function(name: str, width: int) -> str:
    """Shorten the name of a function: arguments that are omitted anyway, and clones, give way first.

    >>> fit_function("v8::internal::StringTable::LookupKey<…>(…)", 38)
    'v8::internal::StringTable::LookupKey'
    >>> fit_function("copy<…>(…) [clone .isra.0]", 20), fit_function("main(…)", 7)
    ('copy', 'main(…)')
    """
    return name if cell_len(name) <= width else fit_text(_OMITTED.sub("", name), width)


def _start(text: str, width: int) -> str:
    """Return the first characters that fit."""
    start = text[:width]
    return start if cell_len(start) <= width else set_cell_size(text, width).rstrip(" ")


def fitted_path(names: Sequence[str], arrow: str, width: int) -> str:
    """Join names; without enough room, some in the middle are only counted, and the last is kept longest.

    >>> fitted_path(["_start", "__libc_start_main", "main"], " → ", 40)
    '_start → __libc_start_main → main'
    >>> fitted_path(["_start", "__libc_start_main", "__libc_start_call_main", "main"], " → ", 30)
    '_start → (2 more) → main'
    """
    whole = arrow.join(names)
    if cell_len(whole) <= width or len(names) == 1:
        return fit_text(whole, width)
    for left_out in range(1, len(names) - 1):
        text = arrow.join([*names[: -1 - left_out], f"({left_out} more)", names[-1]])
        if cell_len(text) <= width:
            return text
    last = fit_text(names[-1], max(width // 2, width - cell_len(f"(99 more){arrow}")))
    return (
        f"({len(names) - 1} more){arrow}{last}"
        if cell_len(f"({len(names) - 1} more){arrow}{last}") <= width
        else fit_text(names[-1], width)
    )


_CALLERS: Final = "Called from"
_OWN_CALLERS: Final = ("Called from own code", "Own caller")  # functions of libraries between them are left out; without room
_CALLERS_SHARE: Final = 4  # callers take at most a quarter of the window
_BAR: Final = 12
_ROW_BAR: Final = 8  # beside several columns
_HIDDEN_DIGITS: Final = 3  # of seconds: milliseconds are enough for people
_NARROW: Final = 100  # columns of a window where bars are half as long
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LAST_KEY: Final = 34  # preferred columns of the last key
_BESIDE_CALLERS: Final = 30  # least columns of the last key beside callers
_LEAST_LAST_KEY: Final = 24  # columns of the last key that further numbers leave
_LEGIBLE: Final = 12  # least columns of the other keys, beside states
_CAPS: Final = (40, 24, 20, 16, 12, 8)  # limits of the other keys' columns
_SYMBOL: Final = "symbol"
_WHOLE: Final = ("state",)  # keys whose names are never shortened
#: names of columns that are often wider than what is below them
SHORT_HEADERS: Final = {
    "Shared Object": "Object",
    "Local Weight": "Weight",
    "Memory access": "Access",
    "Data Symbol": "Data",
    "TLB access": "TLB",
    "Local Retire Latency": "Retire",
}
_SHARES: Final = ("period", "children")
_OWN_SHARE: Final = "Overhead"  # perf's name
#: the share that the headline names: of a function itself, and of the library and kernel code that it calls
_CHARGED: Final = OutputField("charged", "With libraries", "charged", Unit.PERCENT, len("With libraries"))
#: names of columns of numbers where there is no room for functions
_NARROW_HEADERS: Final = {_CHARGED.header: "+ libs"}
_KERNEL: Final = ("[kernel.kallsyms]", "[kernel]")
_INLINED: Final = " (inlined)"
_LEVELS: Final = ("[.] ", "[k] ")  # implied by the file in the same row


class _Number(NamedTuple):
    """A column of numbers: header, metric, and member of the group."""

    header: str
    metric: OutputField
    member: int


class _Key(NamedTuple):
    """A column of names.

    width: of the widest name; head: the share of the beginning in shortened names; is_whole: never shorten names.
    """

    name: str
    header: str
    width: int
    head: float

    @property
    def is_whole(self) -> bool:
        return self.name in _WHOLE


class Fit(NamedTuple):
    """The width of each column in a window, and of the gaps.

    bar: 0 for none; shown: the indexes of the numbers that fit; numbers: their widths.
    """

    gap: int
    bar: int
    positions: list[int]
    numbers: list[int]
    keys: list[int]

    @property
    def width(self) -> int:
        """The width of all columns with their gaps."""
        widths = [*self.numbers, *([self.bar] if self.bar else []), *self.keys]
        return sum(widths) + self.gap * max(len(widths) - 1, 0)


class RowLine(NamedTuple):
    """The hottest line of a row's function.

    Attributes:
        path, line: where it is.
        percent: of the event's samples, those at this line.
        lines: from how many lines a C function is called; 0 for other functions.
    """

    path: str
    line: int
    percent: float
    lines: int


class ScreenColumns:
    """The columns of a histogram in windows, for some of its entries.

    Args:
        histogram: the table.
        entries: the entries that determine widths.
        measure: the measure of bars and colours.
        options: options of the texts.
        own_first: whether own shares come first.
        every_key: keep columns that are equal in all entries.
        without_callees: leave out shares with callees.
        charged: entry -> the percentage that is charged to its function. It determines bars if the measure is the own share.
        lines: entry -> the hottest line of its function, which its name gets as a suffix.
        calls: entry -> the function of a library that its function mostly calls, for the same suffix.
        outer: entry -> the function into which its function is inlined, where that is named.
    """

    def __init__(
        self,
        histogram: Histogram,
        entries: Sequence[int],
        measure: str,
        options: TextOptions,
        *,
        own_first: bool = False,
        every_key: bool = False,
        without_callees: bool = False,
        charged: Mapping[int, float] | None = None,
        lines: Mapping[int, RowLine] | None = None,
        calls: Mapping[int, str] | None = None,
        outer: Mapping[int, str] | None = None,
    ) -> None:
        self._histogram = histogram
        self._options = options
        self._lines, self._calls, self._outer = lines or {}, calls or {}, outer or {}
        self._charged = charged if charged and any(entry in charged for entry in entries) else {}
        self._measure = measure
        self._numbers = _numbers(histogram)
        if without_callees:
            self._numbers = [number for number in self._numbers if number.metric.value != "children"]
        if own_first:
            self._numbers.sort(key=lambda number: number.metric.value == "children")
        if self._charged:
            after = sum(number.metric.value != "children" for number in self._numbers) if own_first else len(self._numbers)
            self._numbers.insert(after, _Number(_CHARGED.header, _CHARGED, 0))
        keys = [key for key in histogram.layout.keys if key.name not in histogram.layout.hidden and key.name != "ipc_null"]
        self._beside_file = any(key.name == "dso" for key in keys)
        self.keys: list[_Key] = []
        #: columns that are equal in all entries, as "Command slow"
        self.common: list[str] = []
        rows = np.array(entries, np.int64)
        for key in keys:
            header, texts = key.header.strip(), self._texts(key.name, rows)
            if getattr(key, "dimension", "") == "process_comm":
                header = "Process"  # its threads may have other names
            if not every_key and key is not keys[-1] and len(rows) > 1 and len(set(texts)) == 1:
                self.common.append(f"{header} {texts[0]}")
                continue
            width = max([cell_len(SHORT_HEADERS.get(header, header)), *map(cell_len, texts)])
            self.keys.append(_Key(key.name, header, width, OF_FUNCTIONS if "sym" in key.name else OF_OTHERS))
        widths = [max((len(self._number(one, entry)) for entry in entries), default=0) for one in self._numbers]
        self._number_widths = [max(len(one.header), size) for one, size in zip(self._numbers, widths, strict=True)]
        short = [len(_NARROW_HEADERS.get(one.header, one.header)) for one in self._numbers]
        self._narrow_widths = [max(sizes) for sizes in zip(short, widths, strict=True)]

    def _texts(self, key: str, rows: Int64) -> list[str]:
        texts = [name_beside_file(text, self._beside_file) for text in key_texts(key, self._histogram, rows, self._options)]
        if key == _SYMBOL and self._outer:
            outer = [self._outer.get(entry, "") for entry in rows.tolist()]
            texts = [
                f"{text.removesuffix(_INLINED)} (inlined in {name})" if name else text for text, name in zip(texts, outer, strict=True)
            ]
        if key == _SYMBOL and self._lines:
            of_rows = zip(texts, rows.tolist(), strict=True)
            return [_with_line(text, self._lines.get(entry), self.share(entry), self._calls.get(entry, "")) for text, entry in of_rows]
        return texts

    @property
    def names(self) -> list[str]:
        """The shown sort keys."""
        return [key.name for key in self.keys]

    def heading(self, fit: Fit) -> str:
        """Return the names of the columns, on one line."""
        numbers = [f"{header:>{room}}" for header, room in zip(self.headers(fit), fit.numbers, strict=True)]
        keys = [short_header(key.header, room).ljust(room) for key, room in zip(self.keys, fit.keys, strict=True)]
        return (" " * fit.gap).join([*numbers, *([" " * fit.bar] if fit.bar else []), *keys]).rstrip()

    def line(self, entry: int, fit: Fit, most: float) -> Text:
        """Return a row as one line; most: the percentage of a full bar."""
        gap = " " * fit.gap
        numbers = [
            Text(" " * (room - len(cell)) + cell.plain, cell.style)
            for cell, room in zip(self.number_cells(entry, fit), fit.numbers, strict=True)
        ]
        share = self.share(entry)
        bar = [Text(_bar(min(share, most), most, fit.bar).ljust(fit.bar))] if fit.bar else []
        names = self.key_cells(np.array([entry]), fit)[0]
        keys = [Text(name + " " * (room - cell_len(name))) for name, room in zip(names, fit.keys, strict=True)]
        return Text(gap).join([*numbers, *bar, *keys])

    def headers(self, fit: Fit) -> list[str]:
        """Return the names of the columns of numbers."""
        headers = [self._numbers[index].header for index in fit.positions]
        return [
            header if len(header) <= room else _NARROW_HEADERS.get(header, header)
            for header, room in zip(headers, fit.numbers, strict=True)
        ]

    def number_cells(self, entry: int, fit: Fit) -> list[Text]:
        """Return the numbers of a row."""
        return [self._number(self._numbers[index], entry) for index in fit.positions]

    def key_cells(self, rows: Int64, fit: Fit) -> list[list[str]]:
        """Return the names of some rows, shortened to the columns."""
        columns = [
            [
                fit_function(text, room) if key.head == OF_FUNCTIONS else fit_text(text, room, key.head)
                for text in self._texts(key.name, rows)
            ]
            for key, room in zip(self.keys, fit.keys, strict=True)
        ]
        return [list(cells) for cells in zip(*columns, strict=True)] if columns else [[] for _ in rows]

    def share(self, entry: int) -> float:
        """Return the share shown as the row's bar."""
        own = self._histogram.percent(self._measure, entry)
        return max(own, self._charged.get(entry, 0.0)) if self._measure == "period" else own

    def fit_beside(self, width: int, reserved: int) -> Fit | None:
        """Return the widths beside further columns; shares that do not sort the rows, and seconds, may give way. None without room."""
        bar, gap = _bar_and_gap(width)
        numbers = ([*range(len(self._numbers))], self._needed_numbers(), self._needed_numbers(seconds=False))
        last_key = min(self.keys[-1].width, _BESIDE_CALLERS) if self.keys else 0
        fits = [self._fit(width - reserved, gap, bar, positions, last_key) for positions in numbers]
        with_room = [fit for fit in fits if self._has_room(fit, _BESIDE_CALLERS)]
        return next((fit for fit in with_room if fit.bar), with_room[0] if with_room else None)

    def fit(self, width: int) -> Fit:
        """Return the widths of columns in a window of this width."""
        bar, gap = _bar_and_gap(width)
        every = [*range(len(self._numbers))]
        fit = self._fit(width, gap, bar, every)
        has_whole = any(key.is_whole for key in self.keys)
        narrower = [self._fit(width, gap, 0, every), self._fit(width, gap, 0, self._needed_numbers())] if has_whole else []
        for other in narrower:
            if self._has_room(fit):
                break
            fit = other
        is_legible = self._has_room(fit, _LEAST_LAST_KEY)
        return fit if is_legible else self._fit(width, gap, 0, self._needed_numbers(seconds=False), is_narrow=True)

    def _fit(self, width: int, gap: int, bar: int, positions: list[int], last_key: int = _LAST_KEY, *, is_narrow: bool = False) -> Fit:
        numbers = [(self._narrow_widths if is_narrow else self._number_widths)[index] for index in positions]
        if sum(numbers) + gap * len(numbers) + bar + last_key > width:
            bar = 0
        fixed_width = sum(numbers) + bar + gap * (len(numbers) + bool(bar) + len(self.keys))
        return Fit(gap, bar, positions, numbers, _widths(self.keys, width - fixed_width, last_key))

    def _needed_numbers(self, *, seconds: bool = True) -> list[int]:
        """Return the indexes of the numbers without the share that does not sort the rows."""
        return [
            index
            for index, one in enumerate(self._numbers)
            if (one.metric.value not in _SHARES or one.metric.value == self._measure) and (seconds or one.metric.unit is not Unit.SECONDS)
        ]

    def _has_room(self, fit: Fit, last_key: int = _LAST_KEY) -> bool:
        """Whether all names are legible: those of the last key nearly in full, some letters of the others."""
        least = [_LEGIBLE] * (len(self.keys) - 1) + [last_key]
        return all(room >= min(key.width, few) for key, room, few in zip(self.keys, fit.keys, least, strict=True))

    def _number(self, number: _Number, entry: int) -> Text:
        histogram, metric, member = self._histogram, number.metric, number.member
        if metric is _CHARGED:
            charged = self._charged.get(entry, 0.0)
            return Text(f"{charged:.2f}%", style=share_style(charged)) if charged else Text()
        if metric.unit is Unit.PERCENT:
            percent = histogram.percent(metric.value, entry, member)
            return Text(f"{percent:.2f}%", style=share_style(percent) if metric.value == self._measure else "")
        if metric.unit is Unit.AVERAGE:
            return Text(f"{histogram.mean(metric.value, entry, member):,.1f}")
        if metric.unit is Unit.SECONDS:
            text = seconds(histogram, metric, np.array([entry]), member)[0]
            return Text(text[:-_HIDDEN_DIGITS] if "." in text else text)
        return Text(f"{histogram.value(metric.value, entry, member):,}")


class RowNotes(NamedTuple):
    """Remarks on rows, by entry.

    Attributes:
        styles: of the function's name.
        callers: the function's hottest caller.
        own_callers: whether callers are functions of own code only.
    """

    styles: Mapping[int, str]
    callers: Mapping[int, str]
    own_callers: bool = False


NO_NOTES: Final = RowNotes({}, {})


def rows_table(columns: ScreenColumns, entries: Sequence[int], width: int, notes: RowNotes = NO_NOTES) -> Table:
    """Return a table of some rows, of at most this width; in wide windows with the callers of their functions."""
    callers = {entry: notes.callers.get(entry, "") for entry in entries}
    headers = _OWN_CALLERS if notes.own_callers else (_CALLERS,)
    widest = max([len(headers[0]), *map(cell_len, callers.values())]) if any(callers.values()) else 0
    reserved = min(widest, width // _CALLERS_SHARE)
    fit = (columns.fit_beside(width, reserved + _bar_and_gap(width)[1]) if reserved else None) or columns.fit(width)
    free = width - fit.width - fit.gap
    of_callers = min(widest, free) if widest and free >= len(_CALLERS) else 0
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, fit.gap, 0, 0))
    for header, room in zip(columns.headers(fit), fit.numbers, strict=True):
        table.add_column(header, justify="right", no_wrap=True, min_width=room)
    if fit.bar:
        table.add_column("", width=fit.bar, no_wrap=True)
    for key, room in zip(columns.keys, fit.keys, strict=True):
        table.add_column(short_header(key.header, room), no_wrap=True, width=room, overflow="ellipsis")
    if of_callers:
        header = next((one for one in headers if len(one) <= of_callers), headers[-1])
        table.add_column(header, no_wrap=True, width=of_callers, overflow="ellipsis")
    shares = [columns.share(entry) for entry in entries]
    names = columns.key_cells(np.array(entries, np.int64), fit)
    for entry, share, cells in zip(entries, shares, names, strict=True):
        category_style = notes.styles.get(entry, "")
        drawn = [Text(_bar(share, max(shares), fit.bar), category_style)] if fit.bar else []
        last = Text(cells[-1], category_style) if cells else Text()
        caller = [Text(fit_function(callers[entry], of_callers), "dim")] if of_callers else []
        table.add_row(*columns.number_cells(entry, fit), *drawn, *map(Text, cells[:-1]), *([last] if cells else []), *caller)
    return table


def shares_table(shares: Sequence[tuple[float, str]], width: int, *, head: float = OF_OTHERS) -> Table:
    """Return a table of names with their shares, sorted; head: see fit_text()."""
    gap = 2 if width >= _NARROW else 1
    bar = _BAR if width >= _NARROW else _BAR // 2
    table = Table(box=None, pad_edge=False, show_header=False, show_edge=False, padding=(0, gap, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=len("100.00%"))
    table.add_column(width=bar, no_wrap=True)
    table.add_column(no_wrap=True)
    room = width - len("100.00%") - bar - 3 * gap
    most = max((share for share, _ in shares), default=0.0)
    for share, name in shares:
        table.add_row(Text(f"{share:.2f}%", style=share_style(share)), Text(_bar(share, most, bar)), Text(fit_text(name, room, head)))
    return table


def file_name(text: str) -> str:
    """Return the display name of a file."""
    return visible(text.replace(*_KERNEL).strip())


def name_beside_file(text: str, beside_file: bool) -> str:
    """Return the display name of a file or function, without the level that the file in the same row implies."""
    name = file_name(text)
    return name[len(_LEVELS[0]) :] if beside_file and name.startswith(_LEVELS) else name


#: what stands for the file of a C function that Python called -> the mark beside the line of the call
_C_FUNCTIONS: Final = {short_path(BUILT_IN): "C", short_path(BUILT_IN_BY_CALL): "C?"}


_NEARLY_ALL: Final = 0.9  # of a row's share: then it is the line's


def _with_line(text: str, line: RowLine | None, share: float, call: str = "") -> str:
    """Return the name of a function with its hottest line, and what it mostly calls.

    share: of the row. If the line has less, its own share follows it; C functions have the number of lines that call them, too.

    >>> _with_line("audit", RowLine("/src/prog.cpp", 41, 93.0, 0), 94.0), _with_line("main", None, 94.0)
    ('audit (prog.cpp:41)', 'main')
    >>> _with_line("parse (app.py)", RowLine("/srv/app.py", 14, 60.2, 0), 94.0)
    'parse (app.py:14, 60 %)'
    >>> _with_line("render (app.js:3)", RowLine("/srv/app.js", 5, 9.0, 0), 9.0)
    'render (app.js:5)'
    >>> _with_line("sorted (built-in)", RowLine("/srv/app.py", 14, 9.0, 3), 20.0)
    'sorted (C, app.py:14, 9 %, 3 lines)'
    >>> _with_line("total (app.py)", RowLine("/srv/app.py", 14, 9.0, 0), 9.0, "DataFrame.apply()")
    'total (app.py:14, DataFrame.apply())'
    """
    if line is None:
        return text
    is_whole = line.percent >= _NEARLY_ALL * share
    parts = [f"{visible(short_path(line.path))}:{line.line}", "" if is_whole else percent(line.percent / 100)]
    parts += [f"{line.lines} lines" if line.lines > 1 and not is_whole else "", call]
    location = ", ".join(filter(None, parts))
    name, separator, file = text.removesuffix(")").rpartition(" (")
    if separator and file in _C_FUNCTIONS:
        return f"{name} ({_C_FUNCTIONS[file]}, {location})"
    return f"{name} ({location})" if separator and location.startswith(f"{file.partition(':')[0]}:") else f"{text} ({location})"


def _numbers(histogram: Histogram) -> list[_Number]:
    """Return the columns of numbers; for event groups, one for each member with samples."""
    members = [member for member, event in enumerate(histogram.events) if event.samples]
    metrics = [entry for entry in histogram.layout.fields if isinstance(entry, OutputField) and entry.value in histogram.entries.measures]
    numbers = []
    for metric in metrics:
        for member in members:
            name = share_header(metric, histogram)
            if len(members) > 1:
                event = visible(histogram.events[member].event.name)
                name = event if len(metrics) == 1 else f"{name} {event}"
            numbers.append(_Number(name, metric, member))
    return numbers


def _widths(keys: Sequence[_Key], room: int, last_key: int) -> list[int]:
    """Return the width of each key's column; the last one takes the rest, of which the others leave it `last_key`."""
    key_widths = [key.width for key in keys]
    if not key_widths:
        return []
    others = key_widths[:-1]
    for cap in _CAPS:
        others = [key.width if key.is_whole else min(key.width, cap) for key in keys[:-1]]
        if sum(others) + min(key_widths[-1], last_key) <= room:
            break
    return [*others, max(min(key_widths[-1], room - sum(others)), 1)]


def share_header(metric: OutputField, histogram: Histogram) -> str:
    """Return the name of a column of numbers on screens: the own share of functions is Self, with callchains or not."""
    name = metric_header(metric, histogram)
    is_of_functions = _SYMBOL in histogram.keys and histogram.options.columns.mode is Mode.NORMAL
    return "Self" if name == _OWN_SHARE and is_of_functions else name


def short_header(header: str, width: int) -> str:
    """Return the name of a column, shortened to the width."""
    text = header.strip()
    return text if cell_len(text) <= width else fit_text(SHORT_HEADERS.get(text, text), width, 1)


def _bar_and_gap(width: int) -> tuple[int, int]:
    """Return the columns of a bar, and between columns."""
    return (_ROW_BAR, 2) if width >= _NARROW else (_BAR // 2, 1)


def _bar(percent: float, hottest: float, width: int) -> str:
    """Return a bar in eighths of a character, relative to the hottest row's share."""
    eighths = round(percent / hottest * width * 8) if hottest else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


# A call tree in few columns for a terminal: shares in front, thin lines for the depth.


#: appended to the name of a recursive function
RECURSIVE: Final = " (recursive)"
_NO_SHARE: Final = " " * len("100.00%")


def call_lines(histogram: Histogram, entry: int, name: Callable[[str], str] = str) -> list[str]:
    """Return a line for each function; functions with a single callee have no share of their own.

    Args:
        histogram: the table.
        entry: the entry whose tree is drawn.
        name: converts a function's name to its display name.
    """
    trees = histogram.trees
    assert trees is not None  # the report has call trees
    lines: list[str] = []
    # nodes to write, with their prefix and the prefix of the nodes below
    work: list[tuple[CallNode, str, str]] = _siblings(histogram.calls(entry, alone=True), "")
    while work:
        node, before, below = work.pop()
        share = f"{histogram.share(node.period):6.2f}%"
        for number, text in enumerate(fold_repetitions(call_names(trees, node.frames, name))):
            lines.append(f"{_NO_SHARE if number else share}  {below if number else before}{visible(text)}")
        work += _siblings(node.children, below)
    return lines


def call_names(trees: Trees, frames: list[int], name: Callable[[str], str]) -> list[str]:
    """Return the names of frames of a call tree."""
    return [name(trees.frame_name(frame)) + RECURSIVE * trees.is_recursive(frame) for frame in frames]


def fold_repetitions(names: list[str]) -> Iterator[str]:
    """Yield each name, once for consecutive repetitions, with their number."""
    for name, group in groupby(names):
        times = len(list(group))
        yield f"{name}  ({times} times)" if times > 1 else name


def _siblings(nodes: list[CallNode], stem: str) -> list[tuple[CallNode, str, str]]:
    """Return nodes of one parent, last first; a single node is not indented."""
    if len(nodes) == 1:
        return [(nodes[0], stem, stem)]
    last = len(nodes) - 1
    drawn = [(node, stem + ("└ " if index == last else "├ "), stem + ("  " if index == last else "│ ")) for index, node in enumerate(nodes)]
    return drawn[::-1]
