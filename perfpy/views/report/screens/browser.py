"""`perfpy report --tui`: an interactive report with the keys of perf's browser.

A textual application shows the rows of a table, with their calls folded
below. perfpy.views.report.screens.browsed is the model, perfpy.views.report.screens.row_list shows the rows;
this module has the rest of the screen, and the keys.
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
from perfpy.untrusted.destinations import create_new
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import visible
from perfpy.views.report.screens.browsed import BrowsedReport, Filter
from perfpy.views.report.screens.row_list import RowList
from perfpy.views.report.screens.screen import begins_with_wait
from perfpy.views.verdict.sentence import FEW_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.screen import Screen

    from perfpy.analysis.report.report import Report
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.views.verdict.sentence import Sentence

_QUESTIONS: Final = {
    "filter": "filter by name; Enter keeps the filter, Esc removes it",
    "search": "search for",
    "limit": "least percentage of rows",
}
_LEAST_HEIGHT: Final = 15  # lines of a window that also shows full names
_KEYS: Final = (
    ("up, down, Home, End", "move"),
    ("Page up, Page down", "move by a screen (Space: down)"),
    ("Enter, +, right", "open or close the calls below a row; without calls, its code"),
    ("a", "the code of the function, with the samples at each instruction"),
    ("-", "close the calls"),
    ("e, c", "open everything below a row, close it"),
    ("E, C", "the same for all rows"),
    ("t", "only this thread (or command); again: all"),
    ("d", "only this file; again: all"),
    ("k", "only the kernel; again: all"),
    ("S", "only this processor socket; again: all"),
    ("/", "filter by name"),
    ("s", "sort by Self; again: by Children"),
    ("L", "least percentage of rows"),
    ("F", "shares of all rows, or of the filtered rows"),
    ("0 to 9", "sort by the n-th event of a group"),
    ("Ctrl+F, F3", "search the rows, next match"),
    ("Esc, left", "remove the last filter"),
    ("Tab, n; Shift+Tab, p", "next event, previous event"),
    ("H", "show or hide column names"),
    ("V", "full function names, or without long argument lists"),
    ("i", "header of the recording"),
    ("P", "write the table to perf.hist.N"),
    ("h, ?, F1", "these keys"),
    ("q, Ctrl+C", "quit"),
)


class Box(ModalScreen[None]):
    """Some lines above the rest of the screen."""

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
        """Yield one box, which scrolls."""
        with VerticalScroll(id="box"):
            yield Static(Text("\n".join(self._lines)), id="lines")


class KeyHelp(Box):
    """The list of keys."""

    def __init__(self) -> None:
        width = max(len(keys) for keys, _ in _KEYS)
        super().__init__(f"{keys:<{width}}  {meaning}" for keys, meaning in _KEYS)


class ReportBrowser(App[None]):
    """A tree of rows: the callers or callees of each row are below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,h,f1", "help", "Keys"),
        Binding("enter,plus,right", "toggle_row", "Calls"),
        Binding("a", "annotate", "Code"),
        Binding("slash", "ask('filter')", "Filter"),
        Binding("s", "sort_by_own", "Self"),
        Binding("t", "zoom_thread", "Thread"),
        Binding("d", "zoom_dso", "File"),
        Binding("tab", "turn(1)", "Event", priority=True),  # the widget must not take the key
        Binding("q", "quit", "Quit"),
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
    #verdict, #title, #notes { height: auto; }
    #verdict { text-style: bold; }
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
        verdict: Sequence[Sentence] = (),
        own_first: bool = False,
    ) -> None:
        """Set up the application.

        Args:
            report: the report to show.
            header: returns the lines of the recording's header.
            full_names: show full names of functions.
            code: makes the screen of a function.
            verdict: the sentences above the rows.
            own_first: sort rows by own share at the start.
        """
        super().__init__()
        self._verdict = verdict
        self.model = BrowsedReport(report, full_names=full_names, own_first=own_first, waits_first=begins_with_wait(verdict))
        self._header = header
        self._code = code
        self._rows: list[int] = []
        self._input_purpose = ""  # the purpose of the input line
        self._search_text = ""
        self._filters_before: list[Filter] = []

    def compose(self) -> ComposeResult:
        """Yield title, rows, input line and keys."""
        if self._verdict:
            yield Static(Text("\n".join(sentence.text for sentence in self._verdict)), id="verdict")
        yield Static(id="title")
        few = not any(sentence.rule == FEW_SAMPLES for sentence in self._verdict)
        notes = [f"! {visible(note)}" for note in quality_notes(self.model.report, few=few)]
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
        """Fit the columns to the window."""
        self._show_heading()

    @property
    def table(self) -> RowList:
        """The list of rows."""
        return self.query_one("#rows", RowList)

    def fill(self) -> None:
        """Show the rows of the model."""
        self._rows = self.model.rows()
        self.table.show(self._rows)
        self.query_one("#title", Static).update(Text(self.model.title(self._rows), "bold"))
        self._show_heading()

    def _show_heading(self) -> None:
        before = "  " * self.model.has_calls
        width = self.size.width - len(before) - self.table.styles.scrollbar_size_vertical
        self.query_one("#heading", Static).update(Text(before + self.model.heading(width)))

    def on_row_list_moved(self) -> None:
        """Show the full names of the current line below the rows, on at most two lines."""
        table = self.table
        line = self.query_one("#whole", Static)
        line.display = self.size.height >= _LEAST_HEIGHT
        line.update(Text(self.model.whole(table.lines[table.cursor].data) if table.lines else ""))

    def action_toggle_row(self) -> None:
        """Open or close the current line; if it has no calls, show its code."""
        if self.model.has_calls:
            self.table.toggle()
        else:
            self.action_annotate()

    def action_annotate(self) -> None:
        """Show the code of the current function."""
        table = self.table
        name = self.model.function(table.lines[table.cursor].data) if table.lines else ""
        if not name or self._code is None:
            self.notify("no function in this row" if self._code else "no code available")
            return
        self.notify(f"reading the code of {visible(name)}", timeout=2)
        self.run_worker(lambda: self._read_code(name), thread=True, exclusive=True)

    def _read_code(self, name: str) -> None:
        """Read the code in another thread, which takes a second for a million samples."""
        assert self._code is not None
        try:
            screen = self._code(self.model.histogram.leader.event, name)
        except PerfError as reason:
            self.call_from_thread(self.notify, visible(f"no code of {reason}"), severity="warning")
        else:
            self.call_from_thread(self.push_screen, screen)

    def action_close_row(self) -> None:
        """Close the current line."""
        self.table.close_at(self.table.cursor)

    def action_expand(self) -> None:
        """Open everything below the row."""
        self.table.open_row()

    def action_collapse(self) -> None:
        """Close the row."""
        self.table.close_row()

    def action_expand_all(self) -> None:
        """Open everything below all rows."""
        self.table.open_all(0, len(self.table.lines))

    def action_collapse_all(self) -> None:
        """Close all rows."""
        self.table.close_all()

    def action_sort_by_own(self) -> None:
        """Toggle sorting by own share or by share with callees."""
        self.model.sort_by_own()
        self.fill()

    def action_zoom_thread(self) -> None:
        """Toggle the filter for this row's thread."""
        self._show_zoom(self.model.zoom_thread, "no column of threads or commands; add one with --sort comm,...")

    def action_zoom_dso(self) -> None:
        """Toggle the filter for this row's file."""
        self._show_zoom(lambda entry: self.model.zoom("dso", entry), "no column of files; add one with --sort dso,...")

    def action_zoom_kernel(self) -> None:
        """Toggle the filter for the kernel."""
        self._show_zoom(lambda _entry: self.model.zoom_kernel(), "no rows of the kernel, or no column of files")

    def action_zoom_socket(self) -> None:
        """Toggle the filter for this row's socket."""
        self._show_zoom(lambda entry: self.model.zoom("socket", entry), "no column of sockets; add one with --sort socket,...")

    def action_shares(self) -> None:
        """Toggle shares relative to the filtered rows."""
        self.model.relative = not self.model.relative
        self.fill()

    def action_full_names(self) -> None:
        """Toggle full names of functions."""
        self.model.full_names = not self.model.full_names
        self.fill()

    def action_sort_by(self, member: int) -> None:
        """Sort by one event of a group."""
        if self.model.sort_by(member):
            self.fill()
        else:
            self.notify(f"no event {member} in this group")

    def _show_zoom(self, zoom: Callable[[int], bool], problem: str) -> None:
        entry = self.table.entry
        if entry is None:
            return
        if zoom(entry):
            self.fill()
        else:
            self.notify(problem)

    def action_unzoom(self) -> None:
        """Remove the last filter, or leave the input line."""
        ask = self.query_one("#ask", Input)
        if ask.has_class("shown"):
            ask.remove_class("shown")
            self.table.focus()
            if self._input_purpose == "filter":
                self.model.filters = self._filters_before
                self.fill()
        elif self.model.back():
            self.fill()

    def action_turn(self, step: int) -> None:
        """Show the table of another event."""
        self.model.turn(step)
        self.fill()

    def action_ask(self, purpose: str) -> None:
        """Show the input line."""
        self._input_purpose, self._filters_before = purpose, [*self.model.filters]
        ask = self.query_one("#ask", Input)
        ask.value = ""
        ask.placeholder = _QUESTIONS[purpose]
        ask.add_class("shown")
        ask.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while a name is typed."""
        if self._input_purpose == "filter" and event.input.has_class("shown"):
            self.model.keep_symbols(event.value)
            self.fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the typed line."""
        event.input.remove_class("shown")
        self.table.focus()
        if self._input_purpose == "limit":
            self._limit(event.value)
        elif self._input_purpose == "search":
            self._search_text = event.value
            self._search(0)

    def _limit(self, text: str) -> None:
        try:
            self.model.least = float(text.strip().removesuffix("%") or 0)
        except ValueError:
            self.notify(f"{text!r} is not a percentage")
        self.fill()

    def action_search_on(self) -> None:
        """Go to the next row that matches the search."""
        self._search(1)

    def _search(self, ahead: int) -> None:
        """Go to the first matching row from the cursor, or after it with ahead=1."""
        entry, table = self.table.entry, self.table
        start = self._rows.index(entry) + ahead if entry is not None else 0
        position = self.model.find(self._search_text, self._rows, start % max(len(self._rows), 1)) if self._search_text else None
        if position is None:
            self.notify(f"no match for {self._search_text!r}" if self._search_text else "nothing to search for; type Ctrl+F")
        else:
            table.move_to(next(number for number, line in enumerate(table.lines) if line.data == self._rows[position]))

    def action_help(self) -> None:
        """Show the list of keys."""
        self.push_screen(KeyHelp())

    def action_environment(self) -> None:
        """Show the recording's header."""
        self.push_screen(Box(self._header()))

    def action_headings(self) -> None:
        """Toggle the names of the columns."""
        heading = self.query_one("#heading", Static)
        heading.display = not heading.display

    def action_write(self) -> None:
        """Write the table to the first file perf.hist.N that does not exist."""
        path = next(name for name in map("perf.hist.{}".format, count()) if not os.path.lexists(name))
        try:
            with open(create_new(path), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(one_line_each(self.model.plain()))
        except OSError as error:
            self.notify(f"cannot write {path}: {error.strerror}", severity="error")
        else:
            self.notify(f"wrote {path}")
