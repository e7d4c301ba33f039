"""The code of a function on the screen of `perfpy top`: heat, source lines, jumps at the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import visible
from perfpy.views.annotate.code_page import CodePage

if TYPE_CHECKING:
    from rich.text import Text

    from perfpy.analysis.annotation.annotated import AnnotatedFunction

    Segment = tuple[str, str]
    Line = list[Segment]

#: styles of CodePage -> numbers of ECMA-48, SGR
_NUMBERS: Final = {"bold white on red": "1;37;41", "bold red": "1;31", "magenta": "35", "": "", "dim": "2"}
_STATUS: Final = "Enter jump  n next hot line  H hottest  s source  a newer samples  q Esc back"
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
        return [[(visible(page.title), _TITLE)], *body, [(self._message or _STATUS, _HELP)]]

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
