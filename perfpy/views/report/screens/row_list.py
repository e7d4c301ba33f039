"""The rows of a browsed report on a textual screen, with the open calls below them.

Lines are made when they become visible, so a
report of a hundred thousand rows opens as fast as one of ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.geometry import Size
from textual.message import Message

from perfpy.views.cursor_list import CursorList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Click

    from perfpy.views.report.screens.browsed import BrowsedReport, CallLine

#: limit of lines when opening everything
_MOST_LINES: Final = 20_000
#: rows opened together at most without making the trees of all rows
_FEW: Final = 4
_INDENT: Final = 2
_OPEN, _CLOSED, _LEAF = "▼ ", "▶ ", "  "


class Line:
    """A row, or a line of calls below one; data: the entry, or the line of calls."""

    __slots__ = ("data", "depth", "is_open")

    def __init__(self, data: int | CallLine, depth: int) -> None:
        self.data = data
        self.depth = depth
        self.is_open = False


class RowList(CursorList):
    """Rows and open calls; `lines` has all of them."""

    class Moved(Message):
        """The cursor is on another line."""

    def __init__(self, model: BrowsedReport, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self.lines: list[Line] = []

    def show(self, rows: Sequence[int]) -> None:
        """Show these rows, all closed."""
        self.lines = [Line(entry, 0) for entry in rows]
        self._update()
        self.move_to(0)

    def _update(self) -> None:
        self.virtual_size = Size(0, len(self.lines))
        self.refresh()

    # -- visible lines --------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of lines, including those of open rows."""
        return len(self.lines)

    def text(self, number: int, width: int) -> Text:
        """Return a line as text, for a window of this width."""
        line, model = self.lines[number], self._model
        mark = (_OPEN if line.is_open else _CLOSED) if self._leads_on(line) else _LEAF
        if isinstance(line.data, int):
            mark = mark if model.has_calls else ""
            return Text(mark).append_text(model.line(line.data, width - len(mark)))
        start = " " * (_INDENT * line.depth) + mark
        return Text(start).append_text(model.call_line(line.data, width - len(start)))

    def _leads_on(self, line: Line) -> bool:
        return self._model.has_calls if isinstance(line.data, int) else bool(line.data.below)

    # -- the cursor -----------------------------------------------------------

    def move_to(self, number: int) -> None:
        """Put the cursor on a line, and post a message."""
        super().move_to(number)
        self.post_message(self.Moved())

    def on_click(self, event: Click) -> None:
        """Put the cursor on a line; a second click opens or closes it."""
        number = event.y + self.scroll_offset.y
        if number < len(self.lines):
            if number == self.cursor:
                self.toggle()
            self.move_to(number)

    @property
    def row(self) -> int | None:
        """The line number of the cursor's row, which is above its calls."""
        number = self.cursor
        while 0 < number < len(self.lines) and self.lines[number].depth:
            number -= 1
        return number if self.lines else None

    @property
    def entry(self) -> int | None:
        """The entry of the cursor's row."""
        row = self.row
        data = self.lines[row].data if row is not None else None
        return data if isinstance(data, int) else None

    # -- opening and closing --------------------------------------------------

    def toggle(self) -> None:
        """Open or close the current line."""
        if not self.lines or not self._leads_on(self.lines[self.cursor]):
            return
        if self.lines[self.cursor].is_open:
            self.close_at(self.cursor)
        else:
            self.lines[self.cursor + 1 : self.cursor + 1] = self._below(self.lines[self.cursor])
            self._update()

    def _below(self, line: Line, *, alone: bool = True) -> list[Line]:
        """Open a line, and return the lines below it."""
        line.is_open = True
        nodes = self._model.calls_under(line.data, alone=alone) if isinstance(line.data, int) else line.data.below
        return [Line(call, line.depth + 1) for call in self._model.calls(nodes)]

    def _end(self, number: int) -> int:
        """Return the number of the first line after those below a line."""
        end = number + 1
        while end < len(self.lines) and self.lines[end].depth > self.lines[number].depth:
            end += 1
        return end

    def close_at(self, number: int) -> None:
        """Close a line."""
        if number < len(self.lines):
            del self.lines[number + 1 : self._end(number)]
            self.lines[number].is_open = False
            self._update()

    def open_all(self, first: int, last: int) -> None:
        """Open these lines and everything below them, up to a limit."""
        lines: list[Line] = []
        rest = self.lines[last:]
        work, added = self.lines[first:last][::-1], 0
        alone = sum(not line.depth for line in work) <= _FEW
        while work:
            line = work.pop()
            lines.append(line)
            if not line.is_open and added < _MOST_LINES and self._leads_on(line):
                below = self._below(line, alone=alone)
                added += len(below)
                work.extend(reversed(below))
        self.lines = [*self.lines[:first], *lines, *rest]
        self._update()

    def open_row(self) -> None:
        """Open everything below the current row."""
        if (row := self.row) is not None:
            self.open_all(row, self._end(row))

    def close_row(self) -> None:
        """Close the current row, and move the cursor to it."""
        if (row := self.row) is not None:
            self.close_at(row)
            self.move_to(row)

    def close_all(self) -> None:
        """Close all rows."""
        entry = self.entry
        self.lines = [line for line in self.lines if not line.depth]
        for line in self.lines:
            line.is_open = False
        self._update()
        self.move_to(next((number for number, line in enumerate(self.lines) if line.data == entry), 0))
