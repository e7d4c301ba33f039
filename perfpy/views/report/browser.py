"""`perfpy report --tui`: a report to walk through, with the keys of perf's browser.

What enters: a Report. What leaves: a textual application: the rows of a table,
their calls folded under them. What is shown is decided by perfpy.views.report.browsed, the
rows on the screen are perfpy.views.report.row_list's; this is what is around them, and the keys.
"""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from perfpy.analysis.report.quality import quality_notes
from perfpy.errors import PerfError
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import visible
from perfpy.views.report.browsed import BrowsedReport, Filter
from perfpy.views.report.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.screen import Screen

    from perfpy.analysis.report.report import Report
    from perfpy.perfdata.container.events import FileEvent

_QUESTIONS: Final = {
    "filter": "only names with this in them: type; Enter keeps, Esc forgets",
    "search": "search for",
    "limit": "only rows from this many percent on",
}
_LEAST_HEIGHT: Final = 15  # of a window in which names are shown whole, too
_KEYS: Final = (
    ("up, down, Home, End", "move"),
    ("Page up, Page down", "move by a screen (Space: down)"),
    ("Enter, +, right", "open or close the calls under a row; without calls, its code"),
    ("a", "the code of the function, with the samples at each instruction"),
    ("-", "close them"),
    ("e, c", "open all under a row, close it"),
    ("E, C", "the same for all rows"),
    ("t", "only this thread (or command); once more: all"),
    ("d", "only this file; once more: all"),
    ("k", "only the kernel; once more: all"),
    ("S", "only this processor socket; once more: all"),
    ("/", "only names with what is typed in them"),
    ("s", "sort by Self; once more: by Children"),
    ("L", "only rows from some percent on"),
    ("F", "shares of all, or of what filters leave"),
    ("0 to 9", "sort by the n-th event of a group"),
    ("Ctrl+F, F3", "search in the rows, search on"),
    ("Esc, left", "take the last filter back"),
    ("Tab, n; Shift+Tab, p", "the next event, the one before"),
    ("H", "names of the columns on and off"),
    ("V", "names of functions whole, or without long lists of arguments"),
    ("i", "what the recording says of itself"),
    ("P", "write the table to perf.hist.N"),
    ("h, ?, F1", "these keys"),
    ("q, Ctrl+C", "leave"),
)


class Box(ModalScreen[None]):
    """Some lines over the rest of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,h,i,question_mark,f1,enter", "dismiss", "Close")]
    CSS = """
    Box { align: center middle; }
    #box { width: auto; max-width: 96%; height: auto; max-height: 90%; padding: 1 2; border: round $primary; background: $panel; }
    #lines { width: auto; }
    """

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = [visible(line.expandtabs()) for line in lines]

    def compose(self) -> ComposeResult:
        """One box, which scrolls."""
        with VerticalScroll(id="box"):
            yield Static(Text("\n".join(self._lines)), id="lines")


class KeyHelp(Box):
    """Which keys there are."""

    def __init__(self) -> None:
        width = max(len(keys) for keys, _ in _KEYS)
        super().__init__(f"{keys:<{width}}  {meaning}" for keys, meaning in _KEYS)


class ReportBrowser(App[None]):
    """Rows as a tree: under each row its callers or callees."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,h,f1", "help", "Keys"),
        Binding("enter,plus,right", "toggle_row", "Calls"),
        Binding("a", "annotate", "Code"),
        Binding("slash", "ask('filter')", "Filter"),
        Binding("s", "sort_by_own", "Self"),
        Binding("t", "zoom_thread", "Thread"),
        Binding("d", "zoom_dso", "File"),
        Binding("tab", "turn(1)", "Event", priority=True),  # not the next widget
        Binding("q", "quit", "Leave"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("i", "environment", show=False),
        Binding("H", "headings", show=False),
        Binding("V", "full_names", show=False),
        Binding("P", "write", show=False),
        Binding("ctrl+f", "ask('search')", show=False, priority=True),
        Binding("f3", "search_on", show=False),
        Binding("k", "zoom_kernel", show=False),
        Binding("S", "zoom_socket", show=False),
        Binding("L", "ask('limit')", show=False),
        Binding("F", "shares", show=False),
        *(Binding(str(number), f"sort_by({number})", show=False) for number in range(10)),
        Binding("escape,left", "unzoom", show=False),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        Binding("n", "turn(1)", show=False),
        Binding("p", "turn(-1)", show=False),
        Binding("minus", "close_row", show=False),
        Binding("e", "expand", show=False),
        Binding("c", "collapse", show=False),
        Binding("E", "expand_all", show=False),
        Binding("C", "collapse_all", show=False),
    ]
    CSS = """
    #ask { display: none; height: 3; }
    #ask.shown { display: block; }
    #title, #notes { height: auto; }
    #notes { color: $warning; }
    #heading { height: 1; color: $text-muted; }
    #whole { height: 2; color: $text-muted; }
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        report: Report,
        header: Callable[[], Iterable[str]] = tuple,
        *,
        full_names: bool = False,
        code: Callable[[FileEvent, str], Screen[None]] | None = None,
    ) -> None:
        """header: the lines of the recording's header; full_names: show names of functions whole; code: makes a function's screen."""
        super().__init__()
        self.model = BrowsedReport(report, full_names=full_names)
        self._header = header
        self._code = code
        self._rows: list[int] = []
        self._asked = ""  # what the line below is for
        self._sought = ""
        self._filters_before: list[Filter] = []

    def compose(self) -> ComposeResult:
        """Title, rows, the line to type in, keys."""
        yield Static(id="title")
        notes = [f"! {visible(note)}" for note in quality_notes(self.model.report)]
        if notes:
            yield Static(Text("\n".join(notes)), id="notes")
        yield Static(id="heading")
        yield RowList(self.model, "rows")
        yield Static(id="whole")
        yield Input(id="ask")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first table."""
        self.fill()
        self.table.focus()

    def on_resize(self) -> None:
        """Set the columns anew."""
        self._show_heading()

    @property
    def table(self) -> RowList:
        """The rows on the screen."""
        return self.query_one("#rows", RowList)

    def fill(self) -> None:
        """Show the rows that the model leaves."""
        self._rows = self.model.rows()
        self.table.show(self._rows)
        self.query_one("#title", Static).update(Text(self.model.title(self._rows), "bold"))
        self._show_heading()

    def _show_heading(self) -> None:
        before = "  " * self.model.has_calls
        width = self.size.width - len(before) - self.table.styles.scrollbar_size_vertical
        self.query_one("#heading", Static).update(Text(before + self.model.heading(width)))

    def on_row_list_moved(self) -> None:
        """Show the names of the line under the cursor below the rows, as far as two lines have room for them."""
        table = self.table
        line = self.query_one("#whole", Static)
        line.display = self.size.height >= _LEAST_HEIGHT
        line.update(Text(self.model.whole(table.lines[table.cursor].data) if table.lines else ""))

    def action_toggle_row(self) -> None:
        """Open or close the line under the cursor; where there is nothing under it, show its code."""
        if self.model.has_calls:
            self.table.toggle()
        else:
            self.action_annotate()

    def action_annotate(self) -> None:
        """Show the code of the function under the cursor."""
        table = self.table
        name = self.model.function(table.lines[table.cursor].data) if table.lines else ""
        if not name or self._code is None:
            self.notify("rows are not by function, or this one has none" if self._code else "there is no code to show here")
            return
        self.notify(f"reading the code of {visible(name)}", timeout=2)
        self.run_worker(lambda: self._read_code(name), thread=True, exclusive=True)

    def _read_code(self, name: str) -> None:
        """Read it, in another thread: of a million samples that takes a second."""
        assert self._code is not None
        try:
            screen = self._code(self.model.histogram.leader.event, name)
        except PerfError as reason:
            self.call_from_thread(self.notify, visible(f"no code of {reason}"), severity="warning")
        else:
            self.call_from_thread(self.push_screen, screen)

    def action_close_row(self) -> None:
        """Close the line under the cursor."""
        self.table.close_at(self.table.cursor)

    def action_expand(self) -> None:
        """Open everything under the row."""
        self.table.open_row()

    def action_collapse(self) -> None:
        """Close the row."""
        self.table.close_row()

    def action_expand_all(self) -> None:
        """Open everything under all rows."""
        self.table.open_all(0, len(self.table.lines))

    def action_collapse_all(self) -> None:
        """Close all rows."""
        self.table.close_all()

    def action_sort_by_own(self) -> None:
        """Sort the rows by what is their own, or again by what they and their callees have."""
        self.model.sort_by_own()
        self.fill()

    def action_zoom_thread(self) -> None:
        """Keep the rows of this row's thread, or all again."""
        self._zoomed(self.model.zoom_thread, "rows are not by thread or command: --sort comm,... shows them")

    def action_zoom_dso(self) -> None:
        """Keep the rows of this row's file, or all again."""
        self._zoomed(lambda entry: self.model.zoom("dso", entry), "rows are not by file: --sort dso,... shows them")

    def action_zoom_kernel(self) -> None:
        """Keep the rows of the kernel, or all again."""
        self._zoomed(lambda _entry: self.model.zoom_kernel(), "no row is of the kernel, or rows are not by file")

    def action_zoom_socket(self) -> None:
        """Keep the rows of this row's socket, or all again."""
        self._zoomed(lambda entry: self.model.zoom("socket", entry), "rows are not by socket: --sort socket,... shows them")

    def action_shares(self) -> None:
        """Show shares of what filters leave, or of all."""
        self.model.relative = not self.model.relative
        self.fill()

    def action_full_names(self) -> None:
        """Show names of functions whole, or short again."""
        self.model.full_names = not self.model.full_names
        self.fill()

    def action_sort_by(self, member: int) -> None:
        """Sort by one event of a group."""
        if self.model.sort_by(member):
            self.fill()
        else:
            self.notify(f"there is no event {member} in this group")

    def _zoomed(self, zoom: Callable[[int], bool], lacking: str) -> None:
        entry = self.table.entry
        if entry is None:
            return
        if zoom(entry):
            self.fill()
        else:
            self.notify(lacking)

    def action_unzoom(self) -> None:
        """Take the last filter back, or leave the line that is typed in."""
        ask = self.query_one("#ask", Input)
        if ask.has_class("shown"):
            ask.remove_class("shown")
            self.table.focus()
            if self._asked == "filter":
                self.model.filters = self._filters_before
                self.fill()
        elif self.model.back():
            self.fill()

    def action_turn(self, step: int) -> None:
        """Show another event's table."""
        self.model.turn(step)
        self.fill()

    def action_ask(self, purpose: str) -> None:
        """Show the line to type a part of a name in."""
        self._asked, self._filters_before = purpose, [*self.model.filters]
        ask = self.query_one("#ask", Input)
        ask.value = ""
        ask.placeholder = _QUESTIONS[purpose]
        ask.add_class("shown")
        ask.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while a name is typed."""
        if self._asked == "filter" and event.input.has_class("shown"):
            self.model.keep_symbols(event.value)
            self.fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do with the typed line what it was asked for."""
        event.input.remove_class("shown")
        self.table.focus()
        if self._asked == "limit":
            self._limit(event.value)
        elif self._asked == "search":
            self._sought = event.value
            self._search(0)

    def _limit(self, text: str) -> None:
        try:
            self.model.least = float(text.strip().removesuffix("%") or 0)
        except ValueError:
            self.notify(f"{text!r} is no number of percent")
        self.fill()

    def action_search_on(self) -> None:
        """Go to the next row that was searched for."""
        self._search(1)

    def _search(self, ahead: int) -> None:
        """Go to the first row, from the cursor's on or (ahead 1) after it, that has what is sought."""
        entry, table = self.table.entry, self.table
        start = self._rows.index(entry) + ahead if entry is not None else 0
        found = self.model.find(self._sought, self._rows, start % max(len(self._rows), 1)) if self._sought else None
        if found is None:
            self.notify(f"no row has {self._sought!r}" if self._sought else "nothing to search for: Ctrl+F asks")
        else:
            table.move_to(next(number for number, line in enumerate(table.lines) if line.data == self._rows[found]))

    def action_help(self) -> None:
        """Say which keys there are."""
        self.push_screen(KeyHelp())

    def action_environment(self) -> None:
        """Show the recording's header."""
        self.push_screen(Box(self._header()))

    def action_headings(self) -> None:
        """Show the names of the columns, or do not."""
        heading = self.query_one("#heading", Static)
        heading.display = not heading.display

    def action_write(self) -> None:
        """Write the table to the first file perf.hist.N that is not there yet."""
        path = next(name for name in map("perf.hist.{}".format, count()) if not os.path.exists(name))
        try:
            with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(one_line_each(self.model.plain()))
        except OSError as error:
            self.notify(f"cannot write {path}: {error.strerror}", severity="error")
        else:
            self.notify(f"wrote {path}")
