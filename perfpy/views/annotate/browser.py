"""A function's code as a textual screen over the report browser: heat, source lines, jumps at the cursor. Esc or q returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer, Static

from perfpy.untrusted.text import visible
from perfpy.views.annotate.screen import CodePage
from perfpy.views.cursor_list import CursorList

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from perfpy.analysis.annotation import AnnotatedFunction


class CodeList(CursorList):
    """The lines of a page."""

    def __init__(self, page: CodePage) -> None:
        super().__init__(id="code")
        self.page = page
        self.cursor = page.hottest

    def show(self, page: CodePage, cursor: int) -> None:
        """Show another page of the same function."""
        self.page = page
        self.virtual_size = Size(0, len(page.lines))
        self.move_to(cursor)

    def on_mount(self) -> None:
        """Begin at the hottest instruction."""
        self.virtual_size = Size(0, len(self.page.lines))
        self.call_after_refresh(self.move_to, self.cursor)

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.page.lines)

    def text(self, number: int, width: int) -> Text:
        """Return a line of the page, with the jumps at the cursor."""
        return self.page.text(number, width, self.page.jumps_at(self.cursor))

    def top_for(self, top: int, height: int) -> int:
        """Return the first line on the screen: a jump centres its target; a step beyond the screen scrolls by a line."""
        if self.cursor in (top - 1, top + height):
            return top - 1 if self.cursor < top else top + 1
        return self.cursor - height // 2


class CodeScreen(Screen[None]):
    """The screen of one function."""

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
        """Yield title, code and keys."""
        page = CodePage(self._function)
        yield Static(Text(visible(page.title), "bold"), id="function")
        yield CodeList(page)
        yield Footer()

    @property
    def code(self) -> CodeList:
        """The lines on the screen."""
        return self.query_one("#code", CodeList)

    def action_follow(self) -> None:
        """Follow the jump under the cursor."""
        jump = next((jump for jump in self.code.page.jumps_at(self.code.cursor) if jump.source == self.code.cursor), None)
        if jump is None:
            self.notify("no jump within the function at this line")
        else:
            self.code.move_to(jump.target)

    def action_hottest(self) -> None:
        """Go to the hottest instruction."""
        self.code.move_to(self.code.page.hottest)

    def action_hotter(self, step: int) -> None:
        """Go to the next instruction in order of heat, or (step -1) to the previous one."""
        order, cursor = self.code.page.by_heat, self.code.cursor
        position = order.index(cursor) + step if cursor in order else 0
        if order:
            self.code.move_to(order[position % len(order)])

    def action_source(self) -> None:
        """Show or hide source lines."""
        code = self.code
        self._source = not self._source
        page = CodePage(self._function, source=self._source)
        offset = next((line.offset for line in code.page.lines[code.cursor :] if line.is_code), 0)
        code.show(page, page.line_at(offset))
