"""The screen of `perfpy top`: what its keys do, and its lines for a size. It knows no terminal.

A line is a list of segments, each a text and the number of its colour or style (ECMA-48, SGR), "" for plain text.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from perfpy.tools.top.model import CELLS, TopModel
from perfpy.untrusted.text import visible
from perfpy.views.annotate.screen import CodePage
from perfpy.views.pieces import share_style
from perfpy.views.readable import event_name
from perfpy.views.report.screen import CATEGORY_STYLES
from perfpy.views.report.screen_table import SHORT_HEADERS, short_header
from perfpy.views.report.text import TextOptions, chain_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.text import Text

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.tools.top.model import TopRow
    from perfpy.tools.top.options import Rates, Subject

    Segment = tuple[str, str]
    Line = list[Segment]


PLAIN, DIM, BOLD, REVERSED, RED, GREEN, MAGENTA = "", "2", "1", "7", "31", "32", "35"
_KEYS: Final = (
    ("up down PgUp PgDn", "choose a row; it keeps its place"),
    ("Home Esc", "release the row, and sort all rows again"),
    ("Enter", "calls of the row (with -g), or this process alone"),
    ("a", "code of the function with the heat of its instructions"),
    ("/", "show only rows that contain a text (empty: all)"),
    ("o", "sort by Self or by Children"),
    ("s", "rows: functions, commands, processes, threads ..."),
    ("p t", "rows: processes, threads"),
    ("c", "call trees from callers or from callees"),
    ("Space", "freeze the screen, or continue"),
    ("z", "show only the last interval, or also the last minute"),
    ("K U", "hide or show kernel functions, user functions"),
    ("Tab", "next event"),
    ("w", "write the last minute as perf.data"),
    ("? h", "these keys"),
    ("q Ctrl+C", "quit"),
)
_STATUS: Final = "? keys  / filter  s rows  Enter calls  a code  Space freeze  w write  q quit"
_CAPS_OF_KEYS: Final = (24, 16, 12, 8)  # columns of the keys before the last
_LEAST_LAST: Final = 20  # columns of the last key, as far as the others can shrink
_GAPS: Final = 5  # columns around the last minute
_SHARE: Final = 8
_HEAD_LINES: Final = 3
_LEVEL: Final = re.compile(r"^\[.\] ")
_LEGEND: Final = "▲ rose in the last 10 s"
_MARK: Final = ("▲", "the share of this row rose in the last 10 s")
_LEAST_PATH: Final = 8  # columns of the end of a path
_NARROWEST: Final = 40  # columns, below which there is no sentence
_NARROW: Final = 60  # columns, below which there are no sparklines


class Request(NamedTuple):
    """A key's request to the program.

    Attributes:
        name: quit, write, rows, callers, zero, kernel, user, code or zoom.
        text: the row's for zoom, sort keys for rows, a function for code.
        dso: of the function, "" for any.
    """

    name: str
    text: str = ""
    dso: str = ""


class TopScreen:
    """The state of the screen.

    Attributes:
        model: the rows.
        message: a line for the user, shown until the next key.
        is_frozen: whether updates wait.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        most_rows: int = 0,
        by_own: bool = False,
        name_processes: Callable[[Iterable[int]], Mapping[int, str]] | None = None,
    ) -> None:
        self.model = TopModel(by_own=by_own, name_processes=name_processes)
        self.message = ""
        self.is_frozen = False
        self._subject = subject
        self._most = most_rows
        self._rates: Rates | None = None
        self._displayed: list[TopRow] = []
        self._selected: tuple[str, ...] | None = None
        self._cursor = 0
        self._top = 0
        self._height = 10  # lines for rows
        self._opened: set[tuple[str, ...]] = set()
        self._prompt: str | None = None
        self._shows_help = False
        self.zoomed = ""  # the process that is shown alone
        self._code: CodeView | None = None

    def clear(self) -> None:
        """Forget the rows: they have other keys from now on."""
        self.model.clear()
        self._displayed, self._selected, self._opened = [], None, set()
        self._cursor = self._top = 0

    def update(self, rates: Rates, report: Report) -> None:
        """Take the next interval; a frozen screen stays as it is."""
        if self.is_frozen:
            return
        self._rates = rates
        self.model.update(report, rates)
        self._arrange()

    def refresh(self, report: Report) -> None:
        """Show the same interval by another report."""
        self.model.refresh(report)
        self._arrange()

    def show_code(self, function: AnnotatedFunction) -> None:
        """Show the code of a function in place of the rows."""
        self._code = CodeView(function)

    def _arrange(self) -> None:
        """Sort the rows; the selected one keeps its place."""
        rows = self.model.rows(self._most or 200)
        if self._selected is not None:
            chosen = next((row for row in rows if row.key == self._selected), None)
            if chosen is None:
                chosen = next((row for row in self._displayed if row.key == self._selected), None)
                chosen = chosen and chosen.without_samples()
            if chosen is not None:
                rows = [row for row in rows if row.key != self._selected]
                self._cursor = min(self._cursor, len(rows))
                rows.insert(self._cursor, chosen)
        self._displayed = rows
        self._cursor = max(min(self._cursor, len(rows) - 1), 0)

    # keys

    def press(self, key: str) -> Request | None:
        """Apply a key: a character, or a name such as "up"; return what it asks of the program."""
        if self._prompt is not None:
            return self._type(key)
        if self._code is not None:
            return self._press_in_code(self._code, key)
        self.message = ""
        if self._shows_help:
            self._shows_help = False
            return Request("quit") if key == "ctrl+c" else None
        actions: dict[str, Callable[[], Request | None]] = {
            **dict.fromkeys(("home", "escape"), self._let_go),
            **dict.fromkeys(("enter", "right", "left"), partial(self._open, key)),
            **dict.fromkeys(_MOVES, partial(self._move, key)),
            "a": self._request_code,
            "o": self._turn_order,
        }
        if key in actions:
            return actions[key]()
        if key in ("?", "h", "f1"):
            self._shows_help = True
        elif key == "/":
            self._prompt = self.model.filter
        elif key == " ":
            self.is_frozen = not self.is_frozen
        elif key == "tab":
            self.model.event += 1
            self.model.clear_minute()
            self._arrange()
        return _REQUESTS.get(key)

    def _press_in_code(self, code: CodeView, key: str) -> Request | None:
        if key == "ctrl+c":
            return Request("quit")
        if key == "a":
            return Request("code", *code.function)
        if not code.press(key):
            self._code = None
        return None

    def _request_code(self) -> Request | None:
        """Request the code of the selected row's function, or of the first row's."""
        table, key = self.model.table, self._selected or (self._displayed[0].key if self._displayed else None)
        if table is None or key is None:
            self.message = "no rows yet"
            return None
        names = list(table.keys)
        if "symbol" not in names:
            self.message = "these rows are no functions; choose functions with s"
            return None
        name = _LEVEL.sub("", key[names.index("symbol")].strip())
        self.message = f"reading the code of {name}"
        return Request("code", name, key[names.index("dso")].strip() if "dso" in names else "")

    def _turn_order(self) -> None:
        table = self.model.table
        if table is None or "children" not in table.entries.measures:
            self.message = "no callchains; start with -g"
            return
        self.model.by_own = not self.model.by_own
        self.message = "sorted by Self" if self.model.by_own else "sorted by Children"
        self._let_go()

    def _move(self, key: str) -> None:
        if not self._displayed:
            return
        moves = {"up": -1, "down": 1, "pageup": -self._height, "pagedown": self._height, "end": len(self._displayed)}
        if self._selected is not None:
            self._cursor = max(0, min(self._cursor + moves[key], len(self._displayed) - 1))
        elif key == "end":
            self._cursor = len(self._displayed) - 1
        self._selected = self._displayed[self._cursor].key

    def _let_go(self) -> Request | None:
        if self._selected is None and self.zoomed:
            return Request("zoom")
        self._selected, self._cursor, self._top = None, 0, 0
        if not self.is_frozen:
            self._arrange()
        return None

    def _open(self, key: str) -> Request | None:
        """Open or close the calls of the selected row; without calls ask for its process."""
        if self._selected is None or not self._displayed:
            self.message = "choose a row first (up, down)"
            return None
        table = self.model.table
        if table is not None and table.trees is not None:
            if key == "left" or (key == "enter" and self._selected in self._opened):
                self._opened.discard(self._selected)
            else:
                self._opened.add(self._selected)
            return None
        if table is not None and (process := self._process_of(table)):
            return Request("zoom", process)
        self.message = "no callchains; start with -g, or choose processes with s"
        return None

    def _process_of(self, table: Histogram) -> str:
        """Return the process id in the selected row, "" if its columns have none."""
        names = list(table.keys)
        for name in ("tgid", "pid"):
            if name in names and self._selected is not None:
                return f"{name} {self._selected[names.index(name)].partition(':')[0].strip()}"
        return ""

    def _type(self, key: str) -> Request | None:
        """Edit the filter."""
        assert self._prompt is not None
        if key == "enter":
            self._prompt = None
        elif key in ("escape", "ctrl+c"):
            self._prompt, self.model.filter = None, ""
        elif key == "backspace":
            self._prompt = self.model.filter = self._prompt[:-1]
        elif len(key) == 1 and key.isprintable():
            self._prompt = self.model.filter = self._prompt + key
        self._selected, self._cursor, self._top = None, 0, 0
        self._arrange()
        return None

    # lines

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen, at most `height`, each at most `width` columns wide."""
        if self._shows_help:
            body = [[(f"  {keys:<18} {purpose}", PLAIN)] for keys, purpose in (*_KEYS, _MARK)]
            return [_truncate(line, width) for line in [[("perfpy top: keys", BOLD)], [], *body, [], [("any key returns", DIM)]][:height]]
        if self._code is not None:
            return [_truncate(line, width) for line in self._code.lines(width, height)[:height]]
        self._height = max(height - _HEAD_LINES - 1, 1)
        body = self._visible_part(list(self._table_lines(width)))
        lines = [*self._head(width), *body]
        lines = lines[: max(height - 1, 0)]
        lines += [[] for _ in range(height - 1 - len(lines))]
        return [_truncate(line, width) for line in [*lines, self._status()]][:height]

    def _head(self, width: int) -> list[Line]:
        rates, subject = self._rates, self._subject
        marks = "".join(f"  [{name}]" for name, is_on in (("frozen", self.is_frozen), (self.zoomed, bool(self.zoomed))) if is_on)
        if rates is None:
            return [[("perfpy top: waiting for the first samples", DIM)], [], []]
        total_lost = rates.total_lost + rates.total_dropped
        lost = f"  lost {total_lost}" if total_lost else ""
        first = f"{rates.samples / rates.seconds:.0f} samples/s  kernel {rates.share(rates.kernel):.0f} %{lost}  {_subject_text(subject)}"
        second = [(rates.warning, RED)] if rates.warning else self._verdict(width)
        return [[(first, BOLD), (marks, MAGENTA)], second, self._heading(width)]

    def _verdict(self, width: int) -> Line:
        """Return the sentence on the row that stands out, as far as there is room, and the meaning of the mark if a row has it."""
        text = self.model.verdict(width) if width >= _NARROWEST else ""
        legend = _LEGEND if any(row.has_risen for row in self._displayed[self._top : self._top + self._height]) else ""
        if not legend or cell_len(text) + 2 + len(legend) > width:
            return [(text, GREEN)]
        return [(text, GREEN), ("  " if text else "", PLAIN), (legend, MAGENTA)]

    def _heading(self, width: int) -> Line:
        table = self.model.table
        if table is None:
            return [("no samples", DIM)]
        names = [key.header.strip() for key in table.layout.keys]
        has_children = "children" in table.entries.measures
        of_rows = "Self" if has_children or "symbol" in table.keys or "pyfunc" in table.keys else "Overhead"
        shares = (f"{'Children':>{_SHARE}}" if has_children else "") + f"{of_rows:>{_SHARE}}  "
        cells = [f"{short_header(name, size):<{size}}" for name, size in zip(names, self._widths(width), strict=True)]
        minute = f"{'last minute':<{CELLS}}" if width >= _NARROW else ""
        return [(f"{shares}{minute}   " + "  ".join(cells), DIM)]

    def _widths(self, width: int) -> list[int]:
        """Return the widths of the keys in a window of this width; the last one, the function, keeps some room beside the others."""
        table = self.model.table
        if table is None:
            return []
        names = [key.header.strip() for key in table.layout.keys]
        rows = [row.texts for row in self._displayed[self._top : self._top + self._height]]
        widths = [max([len(SHORT_HEADERS.get(name, name)), *(cell_len(row[column]) for row in rows)]) for column, name in enumerate(names)]
        others = widths[:-1]
        room = width - _SHARE * (1 + ("children" in table.entries.measures)) - (CELLS if width >= _NARROW else 0) - _GAPS - 2 * len(others)
        for cap in _CAPS_OF_KEYS:
            others = [min(size, cap) for size in widths[:-1]]
            if sum(others) + min(widths[-1], _LEAST_LAST) <= room:
                break
        return others + widths[-1:]

    def _table_lines(self, width: int) -> Iterator[tuple[int, Line]]:
        """Yield the lines of rows and their calls, each with the number of its row."""
        table = self.model.table
        widths = self._widths(width)
        for number, row in enumerate(self._displayed):
            yield number, self._row(row, widths, width, is_selected=self._selected is not None and number == self._cursor)
            if table is not None and row.key in self._opened and row.entry >= 0:
                yield from ((number, [(f"{' ' * 4}{text}", PLAIN)]) for text in _call_lines(table, row.entry))

    def _visible_part(self, lines: Sequence[tuple[int, Line]]) -> list[Line]:
        """Return the part of the lines with the cursor in it."""
        line_of_cursor = next((index for index, (number, _) in enumerate(lines) if number == self._cursor), 0)
        if self._selected is None:
            self._top = 0
        elif line_of_cursor < self._top:
            self._top = line_of_cursor
        elif line_of_cursor >= self._top + self._height:
            self._top = line_of_cursor - self._height + 1
        return [line for _, line in lines[self._top : self._top + self._height]]

    @staticmethod
    def _row(row: TopRow, widths: list[int], width: int, *, is_selected: bool) -> Line:
        main = row.percent if row.children is None else row.children
        colour = _NUMBERS[share_style(main)]
        shares = f"{row.percent:>{_SHARE - 1}.2f}%" if row.children is None else f"{row.children:>7.2f}%{row.percent:>7.2f}%"
        line = [
            (shares, colour),
            ("  ", PLAIN),
            (row.sparkline if width >= _NARROW else "", DIM),
            (" ▲ " if row.has_risen else "   ", MAGENTA),
        ]
        room = width - sum(cell_len(text) for text, _ in line) - sum(widths[:-1]) - 2 * (len(widths) - 1)
        sizes = [*widths[:-1], min(widths[-1], max(room, 0))] if widths else []
        names = [set_cell_size(_ended(text, size), size) for text, size in zip(row.texts, sizes, strict=True)]
        line += [("  ".join([*names[:-1], ""]), PLAIN), (names[-1] if names else "", _NUMBERS[CATEGORY_STYLES.get(row.category, "")])]
        if is_selected:
            whole = "".join(text for text, _ in line)
            return [(set_cell_size(whole, max(width, cell_len(whole))), REVERSED)]
        return line

    def _status(self) -> Line:
        if self._prompt is not None:
            return [(f"filter: {self._prompt}", BOLD), (" (Enter keeps it, Esc removes it)", DIM)]
        if self.message:
            return [(self.message, MAGENTA)]
        filter_text = f"filter: {self.model.filter}  " if self.model.filter else ""
        return [(filter_text, MAGENTA), (_STATUS, DIM)]


_MOVES: Final = ("up", "down", "pageup", "pagedown", "end")
_REQUESTS: Final = {
    "q": Request("quit"),
    "ctrl+c": Request("quit"),
    "w": Request("write"),
    "s": Request("rows"),
    "p": Request("rows", "tgid"),
    "t": Request("rows", "pid"),
    "c": Request("callers"),
    "z": Request("zero"),
    "K": Request("kernel"),
    "U": Request("user"),
}


def _call_lines(table: Histogram, entry: int) -> Iterator[str]:
    from perfpy.views.report.callchain_text import Stem

    writer = chain_writer(table, TextOptions())
    if writer is None or table.trees is None:
        return
    stem = Stem(table.weight(entry), table.leader.period, *table.trees.under(entry))
    for line in writer.lines(table.calls(entry), stem):
        if line.strip():
            yield visible(line.rstrip().removeprefix(" " * 8))


def _subject_text(subject: Subject) -> str:
    pace = f"{subject.pace} Hz " if subject.is_frequency and subject.is_alone else ""
    target = next(
        (f"{name} {value}" for name, value in (("pid", subject.pid), ("tid", subject.tid), ("user", subject.user)) if value),
        f"CPU {subject.cpus}" if subject.cpus else f"{subject.cpu_count} CPUs",
    )
    return f"{pace}{event_name(subject.event)}  {target}"


def _ended(text: str, size: int) -> str:
    """Return a text, shortened to some columns: a function with its path keeps the end of the path."""
    if cell_len(text) <= size:
        return text
    name, _, path = text.partition(" /")
    room = size - cell_len(name) - 2
    if path and room >= _LEAST_PATH:
        path = path[-room:]
        while cell_len(path) > room:
            path = path[1:]
        return f"{name} …{path}"
    return set_cell_size(text, max(size - 1, 0)) + "…"


def _truncate(line: Line, width: int) -> Line:
    """Truncate a line to a number of columns."""
    short: Line = []
    for text, style in line:
        if width <= 0:
            break
        cells = cell_len(text)
        short.append((text if cells <= width else set_cell_size(text, width), style))
        width -= cells
    return [segment for segment in short if segment[0]]


#: styles of CodePage -> numbers of ECMA-48, SGR
_NUMBERS: Final = {"bold white on red": "1;37;41", "bold red": "1;31", "magenta": "35", "": "", "dim": "2", "bold": "1", "green": "32"}
_CODE_STATUS: Final = "Enter jump  n next hot line  H hottest  s source  a newer samples  q Esc back"
_OTHER_LINES: Final = 2  # of the screen: title and status
_TITLE, _HELP, _CHOSEN = "1", "2", "7"
_BACK: Final = ("q", "escape", "left")


class CodeView:
    """A function's code with a cursor."""

    def __init__(self, function: AnnotatedFunction) -> None:
        self._function = function
        self._has_source = True
        self._page = CodePage(function)
        self._cursor = self._page.hottest
        self._top: int | None = None
        self._height = 10
        self._message = ""

    @property
    def function(self) -> tuple[str, str]:
        """The name of the function and its file."""
        return self._function.name, self._function.dso.short_name

    def press(self, key: str) -> bool:
        """Apply a key; return whether the view stays."""
        self._message = ""
        moves = {"up": -1, "down": 1, "pageup": -self._height, "pagedown": self._height}
        if key in _BACK:
            return False
        if key in moves:
            self._move(self._cursor + moves[key])
        elif key in ("home", "end"):
            self._move(0 if key == "home" else len(self._page.lines))
        elif key in ("enter", "right"):
            self._jump()
        elif key in ("n", "p"):
            self._go_to_heat(1 if key == "n" else -1)
        elif key == "H":
            self._go_to(self._page.hottest)
        elif key == "s":
            self._turn_source()
        return True

    def _move(self, line: int) -> None:
        self._cursor = max(0, min(line, len(self._page.lines) - 1))

    def _go_to(self, line: int) -> None:
        """Move to a line that may be far away: it is in the middle of the screen then."""
        self._cursor, self._top = line, None

    def _jump(self) -> None:
        jump = next((jump for jump in self._page.jumps_at(self._cursor) if jump.source == self._cursor), None)
        if jump is None:
            self._message = "no jump within the function at this line"
        else:
            self._go_to(jump.target)

    def _go_to_heat(self, step: int) -> None:
        order = self._page.by_heat
        if order:
            self._go_to(order[(order.index(self._cursor) + step if self._cursor in order else 0) % len(order)])

    def _turn_source(self) -> None:
        offset = next((line.offset for line in self._page.lines[self._cursor :] if line.is_code), 0)
        self._has_source = not self._has_source
        self._page = CodePage(self._function, source=self._has_source)
        self._go_to(self._page.line_at(offset))

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen."""
        self._height = max(height - _OTHER_LINES, 1)
        page, top = self._page, self._first_line()
        jumps = page.jumps_at(self._cursor)
        numbers = range(top, min(top + self._height, len(page.lines)))
        body = [self._line(page.text(number, width, jumps), width, is_chosen=number == self._cursor) for number in numbers]
        body += [[] for _ in range(self._height - len(body))]
        return [[(visible(page.title), _TITLE)], *body, [(self._message or _CODE_STATUS, _HELP)]]

    def _first_line(self) -> int:
        """Return the first visible line: the cursor scrolls by single lines, or is in the middle."""
        top = self._cursor - self._height // 2 if self._top is None else self._top
        top = min(max(top, self._cursor - self._height + 1), self._cursor)
        self._top = max(min(top, len(self._page.lines) - self._height), 0)
        return self._top

    @staticmethod
    def _line(text: Text, width: int, *, is_chosen: bool) -> Line:
        if is_chosen:
            return [(text.plain.ljust(width), _CHOSEN)]
        line, done = [], 0
        for span in text.spans:
            line += [(text.plain[done : span.start], ""), (text.plain[span.start : span.end], _NUMBERS.get(str(span.style), ""))]
            done = span.end
        return [segment for segment in [*line, (text.plain[done:], "")] if segment[0]]
