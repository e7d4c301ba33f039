"""`perfpy report --tui`: a report to walk through, with the keys of perf's browser.

What enters: a Report. What leaves: a textual application: the rows of a table
as a tree, their calls folded under them. What is shown is decided by
perfpy.views.report.browsed; this is its screen.
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
from textual.widgets import Footer, Input, Static, Tree

from perfpy.analysis.report.quality import quality_notes
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import visible
from perfpy.views.report.browsed import MOST_ROWS, BrowsedReport, CallLine
from perfpy.views.report.share_colour import style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets.tree import TreeNode

    from perfpy.analysis.report.call_tree import CallNode
    from perfpy.analysis.report.report import Report

_NO_ARROW: Final = "  "
_SHARE_WIDTH: Final = len("100.00%")
_QUESTIONS: Final = {
    "filter": "only functions with this in their names",
    "search": "search for",
    "limit": "only rows from this many percent on",
}
#: lines that E and e open at most: a screen has some tens
_MOST_LINES: Final = 20_000
_KEYS: Final = (
    ("up, down, Home, End", "move"),
    ("Page up, Page down", "move by a screen (Space: down)"),
    ("Enter, +, right", "open or close the calls under a row"),
    ("-", "close them"),
    ("e, c", "open all under a row, close it"),
    ("E, C", "the same for all rows"),
    ("t", "only this thread (or command); once more: all"),
    ("d", "only this file; once more: all"),
    ("k", "only the kernel; once more: all"),
    ("S", "only this processor socket; once more: all"),
    ("/", "only functions with a part in their names"),
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
    ("q", "leave"),
)
#: an entry of the histogram, or a line of its calls
_Data = int | CallLine


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
        Binding("q", "quit", "Leave"),
        Binding("h,question_mark,f1", "help", "Keys"),
        Binding("i", "circumstances", show=False),
        Binding("H", "headings", show=False),
        Binding("V", "whole_names", show=False),
        Binding("P", "write", show=False),
        Binding("slash", "ask('filter')", "Functions"),
        Binding("ctrl+f", "ask('search')", "Search", priority=True),
        Binding("f3", "search_on", show=False),
        Binding("t", "zoom_thread", "Thread"),
        Binding("d", "zoom_dso", "File"),
        Binding("k", "zoom_kernel", "Kernel"),
        Binding("S", "zoom_socket", show=False),
        Binding("L", "ask('limit')", "Limit"),
        Binding("F", "shares", show=False),
        *(Binding(str(number), f"sort_by({number})", show=False) for number in range(10)),
        Binding("escape,left", "unzoom", "Back"),
        Binding("tab", "turn(1)", "Next event", priority=True),  # not the next widget
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        Binding("n", "turn(1)", show=False),
        Binding("p", "turn(-1)", show=False),
        Binding("plus,right", "toggle_row", "Open"),
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
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, report: Report, header: Callable[[], Iterable[str]] = tuple, *, whole_names: bool = False) -> None:
        """header: the lines of the recording's header; whole_names: show names of functions whole."""
        super().__init__()
        self.model = BrowsedReport(report, whole_names=whole_names)
        self._header = header
        self._rows: list[int] = []
        self._asked = ""  # what the line below is for
        self._sought = ""

    def compose(self) -> ComposeResult:
        """Title, rows, the line to type in, keys."""
        yield Static(id="title")
        notes = [f"! {visible(note)}" for note in quality_notes(self.model.report)]
        if notes:
            yield Static(Text("\n".join(notes)), id="notes")
        yield Static(id="heading")
        yield RowTree("rows", id="rows")
        yield Input(id="ask")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first table."""
        self.fill()
        self.table.focus()

    @property
    def table(self) -> RowTree:
        """The rows on the screen."""
        return self.query_one("#rows", RowTree)

    def fill(self) -> None:
        """Show the rows that the model leaves."""
        model, tree = self.model, self.table
        self._rows = model.rows()
        tree.clear()
        for entry in self._rows[:MOST_ROWS]:
            percent = model.percent(entry)
            label = Text(model.line(entry), style(percent))
            tree.root.add(label, data=entry, allow_expand=model.has_calls)
        self.query_one("#title", Static).update(Text(model.title(self._rows), "bold"))
        self.query_one("#heading", Static).update(Text(_NO_ARROW * model.has_calls + model.heading()))
        if self._rows:
            self.call_after_refresh(tree.move_cursor_to_line, 0)

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[_Data]) -> None:
        """Put the calls under a row when it is opened for the first time."""
        self._load(event.node)

    def _load(self, node: TreeNode[_Data]) -> int:
        """Add the calls under a line unless they are there; how many were added."""
        if node.children or node.data is None or not self.model.has_calls:
            return 0
        below: Sequence[CallNode] = self.model.histogram.calls(node.data) if isinstance(node.data, int) else node.data.below
        lines = self.model.calls(below)
        for line in lines:
            share = f"{line.share:.2f}%" if line.share is not None else ""
            arrow = "" if line.below else _NO_ARROW
            label = Text(f"{arrow}{share:>{_SHARE_WIDTH}}  ", "cyan").append(line.name, "default")
            node.add(label, data=line, allow_expand=bool(line.below))
        return len(lines)

    def _open(self, nodes: Iterable[TreeNode[_Data]]) -> None:
        """Open lines and everything below them, as far as it is of use."""
        work, added = list(nodes)[::-1], 0
        while work and added < _MOST_LINES:
            node = work.pop()
            added += self._load(node)
            if node.allow_expand:
                node.expand()
            work.extend(reversed(node.children))

    def _row(self) -> TreeNode[_Data] | None:
        """The row that the cursor is on, or in whose calls it is."""
        node = self.table.cursor_node
        while node is not None and not isinstance(node.data, int):
            node = node.parent
        return node

    def action_toggle_row(self) -> None:
        """Open or close the line under the cursor."""
        if (node := self.table.cursor_node) is not None and node.allow_expand:
            node.toggle()

    def action_close_row(self) -> None:
        """Close the line under the cursor."""
        if (node := self.table.cursor_node) is not None:
            node.collapse()

    def action_expand(self) -> None:
        """Open everything under the row."""
        if (row := self._row()) is not None:
            self._open([row])

    def action_collapse(self) -> None:
        """Close the row."""
        if (row := self._row()) is not None:
            row.collapse_all()
            self.table.move_cursor(row)

    def action_expand_all(self) -> None:
        """Open everything under all rows."""
        self._open(self.table.root.children)

    def action_collapse_all(self) -> None:
        """Close all rows."""
        for row in self.table.root.children:
            row.collapse_all()

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

    def action_whole_names(self) -> None:
        """Show names of functions whole, or short again."""
        self.model.whole_names = not self.model.whole_names
        self.fill()

    def action_sort_by(self, member: int) -> None:
        """Sort by one event of a group."""
        if self.model.sort_by(member):
            self.fill()
        else:
            self.notify(f"there is no event {member} in this group")

    def _zoomed(self, zoom: Callable[[int], bool], lacking: str) -> None:
        row = self._row()
        if row is None or not isinstance(row.data, int):
            return
        if zoom(row.data):
            self.fill()
        else:
            self.notify(lacking)

    def action_unzoom(self) -> None:
        """Take the last filter back, or leave the line that is typed in."""
        ask = self.query_one("#ask", Input)
        if ask.has_class("shown"):
            ask.remove_class("shown")
            self.table.focus()
        elif self.model.back():
            self.fill()

    def action_turn(self, step: int) -> None:
        """Show another event's table."""
        self.model.turn(step)
        self.fill()

    def action_ask(self, purpose: str) -> None:
        """Show the line to type a part of a name in."""
        self._asked = purpose
        ask = self.query_one("#ask", Input)
        ask.value = ""
        ask.placeholder = _QUESTIONS[purpose]
        ask.add_class("shown")
        ask.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do with the typed line what it was asked for."""
        event.input.remove_class("shown")
        self.table.focus()
        if self._asked == "filter":
            self.model.keep_symbols(event.value)
            self.fill()
        elif self._asked == "limit":
            self._limit(event.value)
        else:
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
        row = self._row()
        rows = self._rows[:MOST_ROWS]
        start = rows.index(row.data) + ahead if row is not None and isinstance(row.data, int) else 0
        found = self.model.find(self._sought, rows, start) if self._sought else None
        if found is None:
            self.notify(f"no row has {self._sought!r}" if self._sought else "nothing to search for: Ctrl+F asks")
        else:
            self.table.move_cursor(self.table.root.children[found])

    def action_help(self) -> None:
        """Say which keys there are."""
        self.push_screen(KeyHelp())

    def action_circumstances(self) -> None:
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


class RowTree(Tree[_Data]):
    """The rows; keys that a tree has for itself are left to the browser."""

    show_root = False
    guide_depth = 2
    auto_expand = False

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.toggle_row", show=False), Binding("space", "page_down", show=False)]
