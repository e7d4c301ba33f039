"""A function's code over the report browser: heat, source lines, the jumps at the line under the cursor.

What enters: an AnnotatedFunction. What leaves: a textual screen; Esc or q goes back to the report. What lines show is
perfpy.views.annotate.code_page's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer, Static

from perfpy.untrusted.text import visible
from perfpy.views.annotate.code_page import CodePage
from perfpy.views.cursor_list import CursorList

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from perfpy.analysis.annotation.annotated import AnnotatedFunction


class CodeList(CursorList):
    """The lines of a page."""

    def __init__(self, page: CodePage) -> None:
        super().__init__(id="code")
        self.page = page
        self.cursor = page.hottest

    def show(self, page: CodePage, cursor: int) -> None:
        """Another page of the same function."""
        self.page = page
        self.virtual_size = Size(0, len(page.lines))
        self.move_to(cursor)

    def on_mount(self) -> None:
        """Begin at the hottest instruction."""
        self.virtual_size = Size(0, len(self.page.lines))
        self.call_after_refresh(self.move_to, self.cursor)

    @property
    def count(self) -> int:
        """How many lines the page has."""
        return len(self.page.lines)

    def text(self, number: int, width: int) -> Text:
        """A line of the page, with the jumps of the cursor's."""
        return self.page.text(number, width, self.page.jumps_at(self.cursor))

    def top_for(self, top: int, height: int) -> int:
        """A jump brings its target to the middle; a step beyond the screen moves that by a line."""
        if self.cursor in (top - 1, top + height):
            return top - 1 if self.cursor < top else top + 1
        return self.cursor - height // 2


class CodeScreen(Screen[None]):
    """One function."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,left", "dismiss", "Back"),
        Binding("enter,right", "follow", "Jump"),
        Binding("n", "hotter(1)", "Next hot line"),
        Binding("p", "hotter(-1)", show=False),
        Binding("H", "hottest", "Hottest"),
        Binding("s", "source", "Source"),
    ]
    CSS = """
    #function { height: 1; }
    """

    def __init__(self, function: AnnotatedFunction) -> None:
        super().__init__()
        self._function = function
        self._source = True

    def compose(self) -> ComposeResult:
        """Title, code, keys."""
        page = CodePage(self._function)
        yield Static(Text(visible(page.title), "bold"), id="function")
        yield CodeList(page)
        yield Footer()

    @property
    def code(self) -> CodeList:
        """The lines on the screen."""
        return self.query_one("#code", CodeList)

    def action_follow(self) -> None:
        """Go where the jump under the cursor leads."""
        jump = next((jump for jump in self.code.page.jumps_at(self.code.cursor) if jump.source == self.code.cursor), None)
        if jump is None:
            self.notify("no jump within the function")
        else:
            self.code.move_to(jump.target)

    def action_hottest(self) -> None:
        """Go to the hottest instruction."""
        self.code.move_to(self.code.page.hottest)

    def action_hotter(self, step: int) -> None:
        """Go to the next instruction in order of heat, or (step -1) to the one before."""
        order, cursor = self.code.page.by_heat, self.code.cursor
        position = order.index(cursor) + step if cursor in order else 0
        if order:
            self.code.move_to(order[position % len(order)])

    def action_source(self) -> None:
        """Show the lines of source code, or only instructions."""
        code = self.code
        self._source = not self._source
        page = CodePage(self._function, source=self._source)
        offset = next((line.offset for line in code.page.lines[code.cursor :] if line.is_code), 0)
        code.show(page, page.line_at(offset))
