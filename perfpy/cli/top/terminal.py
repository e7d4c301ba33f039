"""The terminal of `perfpy top`: keys in, lines out. Lines that have not changed are not written, so nothing flickers."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from typing import TYPE_CHECKING, Any, Final

from perfpy.cli.output.terminal import wants_colour
from perfpy.untrusted.terminal import control
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from perfpy.views.top.screen import Line

_ESCAPE_WAIT: Final = 0.03  # seconds in which the rest of a key's sequence arrives
_UNKNOWN_SIZE: Final = (80, 24)
_REVERSED: Final = "7"
_SEQUENCES: Final = {
    "[A": "up",
    "OA": "up",
    "[B": "down",
    "OB": "down",
    "[C": "right",
    "OC": "right",
    "[D": "left",
    "OD": "left",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "OP": "f1",
}
_NAMES: Final = {"\n": "enter", "\r": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x03": "ctrl+c", "\x04": "q"}
_SUSPEND: Final = "\x1a"


class KeyTerminal:
    """A terminal in which keys arrive at once; a context manager that restores it.

    Attributes:
        is_open: whether the terminal still exists.
    """

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._old: list[Any] | None = None
        self._lines: list[str] = []
        self._coloured = wants_colour()
        self.is_open = True

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _begin(self) -> None:
        self._old = termios.tcgetattr(self._fd)
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        control(sys.stdout, "\x1b[?1049h\x1b[?25l\x1b[2J")
        sys.stdout.flush()
        self._lines = []

    def _end(self) -> None:
        try:
            control(sys.stdout, "\x1b[0m\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()
            if self._old is not None:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._old)
        except (OSError, termios.error):  # the terminal is gone
            self.is_open = False

    def fileno(self) -> int:
        """Return the descriptor that is readable when a key was pressed."""
        return self._fd

    def size(self) -> tuple[int, int]:
        """Return the columns and rows."""
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return _UNKNOWN_SIZE
        return (size.columns, size.lines) if size.columns and size.lines else _UNKNOWN_SIZE

    def read_keys(self) -> Iterator[str]:
        """Yield the names of the keys pressed since the last call."""
        while self.is_open and select.select([self._fd], [], [], 0)[0]:
            try:
                text = os.read(self._fd, 1024).decode(errors="replace")
            except OSError:
                text = ""
            if not text:
                self.is_open = False
                return
            if text.endswith(_ESC) and select.select([self._fd], [], [], _ESCAPE_WAIT)[0]:
                text += os.read(self._fd, 1024).decode(errors="replace")
            for name in split_keys(text):
                if name == _SUSPEND:
                    self._suspend()
                else:
                    yield name

    def _suspend(self) -> None:
        """Stop this process until the shell continues it."""
        self._end()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._begin()

    def redraw(self) -> None:
        """Write all lines with the next draw(): the size has changed."""
        self._lines = []
        control(sys.stdout, "\x1b[2J")

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines."""
        pieces = []
        texts = [self._paint(line) for line in lines]
        for number, text in enumerate(texts):
            if number >= len(self._lines) or self._lines[number] != text:
                pieces.append(f"{_ESC}[{number + 1};1H{text}{_ESC}[K")
        pieces += [f"{_ESC}[{number + 1};1H{_ESC}[K" for number in range(len(texts), len(self._lines))]
        if not pieces:
            return
        self._lines = texts
        try:
            control(sys.stdout, "".join(pieces))
            sys.stdout.flush()
        except OSError:
            self.is_open = False

    def _paint(self, line: Line) -> str:
        return "".join(
            f"{_ESC}[{style}m{visible(text)}{_ESC}[0m" if style and self._paints(style) else visible(text) for text, style in line
        )

    def _paints(self, style: str) -> bool:
        return self._coloured or style == _REVERSED


_ESC: Final = chr(27)


def split_keys(text: str) -> Iterator[str]:
    """Yield the names of the keys whose bytes arrived together.

    >>> list(split_keys("a" + chr(27) + "[A" + chr(27)))
    ['a', 'up', 'escape']
    """
    while text:
        if text[0] == _ESC:
            key = next((sequence for sequence in _SEQUENCES if text.startswith(sequence, 1)), "")
            if key:
                yield _SEQUENCES[key]
                text = text[1 + len(key) :]
            elif text[1:2] in ("[", "O"):  # an unknown key: skip its sequence
                end = next((index for index, letter in enumerate(text[2:], 2) if letter.isalpha() or letter == "~"), len(text) - 1)
                text = text[end + 1 :]
            else:
                yield "escape"
                text = text[1:]
            continue
        yield _NAMES.get(text[0], text[0])
        text = text[1:]
