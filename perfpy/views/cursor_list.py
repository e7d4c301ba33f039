"""A list of more lines than a screen holds, with a cursor, for the browser's rows and code."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from rich.text import Text
    from textual.binding import BindingType


class CursorList(ScrollView, can_focus=True):
    """Lines with a cursor: `cursor` is the number of the line that keys apply to."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor"}
    DEFAULT_CSS = """
    CursorList { height: 1fr; overflow-x: hidden; }
    CursorList .lines--cursor { background: $primary-muted; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("home", "move(-1000000000)", show=False),
        Binding("end", "move(1000000000)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
    ]
    cursor = 0

    @property
    def count(self) -> int:
        """The number of lines."""
        raise NotImplementedError

    def text(self, number: int, width: int) -> Text:
        """Return a line's text, within `width` columns."""
        raise NotImplementedError

    def top_for(self, top: int, height: int) -> int:
        """Return the first line on the screen, after the cursor left the screen; by default it scrolls as little as possible."""
        return self.cursor if self.cursor < top else self.cursor - height + 1

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if number >= self.count:
            return Strip.blank(self.size.width, self.rich_style)
        strip = Strip(self.text(number, width).render(self.app.console)).crop_extend(0, width, self.rich_style)
        return strip.apply_style(self.get_component_rich_style("lines--cursor") if number == self.cursor else self.rich_style)

    def move_to(self, number: int) -> None:
        """Move the cursor to a line, and scroll to it."""
        self.cursor = max(0, min(number, self.count - 1))
        height, top = self.scrollable_content_region.height or 1, self.scroll_offset.y
        if not top <= self.cursor < top + height:
            self.scroll_to(y=max(self.top_for(top, height), 0), animate=False)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by some lines."""
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self.move_to(self.cursor + by * max(self.scrollable_content_region.height - 1, 1))
