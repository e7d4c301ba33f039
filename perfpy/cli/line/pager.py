"""The pager: text on a terminal that is longer than the screen does not scroll its beginning away.

What enters: a command's text, on its way to a terminal. What leaves: the same on the terminal where it fits, else through a
pager, as perf does it: the one of PERF_PAGER or PAGER, else less (`cat`, or nothing, is none), run by the shell; the setting
`pager.COMMAND = false` and `perfpy --no-pager` do without. Nothing is started for text that fits. Names in the text have passed
the door to the terminal (perfpy.untrusted.terminal) before they come here, so less may obey the colours in it (-R).

What is said on standard error after text that waits here follows it, into the pager, too: over a pager's screen nobody could read it.
"""

from __future__ import annotations

import io
import os
import sys

from perfpy.untrusted.terminal import Terminal, without_colours

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen
    from typing import Any, Final

#: what perf gives less where LESS is not set, but for leaving at once where the text fits: then less is not started
_LESS: Final = "RSX"
_NONE: Final = ("", "cat")
_NO: Final = frozenset(("false", "no", "off", "0"))
_YES: Final = frozenset(("true", "yes", "on", "1"))
_COLUMNS, _LINES = 80, 24  # where a terminal does not know its size
_USUAL: Final = ("pager", "less", "more")


class _OnTerminal(io.RawIOBase):
    """A stream that ends on the terminal."""

    _descriptor: int

    def writable(self) -> bool:
        """It is."""
        return True

    def isatty(self) -> bool:
        """A person reads what is written here."""
        return True

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._descriptor


class PagedScreen(_OnTerminal):
    """A terminal's bytes, held back until they fill more than the screen. name: the command whose text it is, for its setting."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        size = os.get_terminal_size(descriptor)
        self._columns, self._lines = size.columns or _COLUMNS, size.lines or _LINES
        self._held: list[bytes] = []
        self._rows = self._column = 0
        self._holds = True
        self._pager: Popen[bytes] | None = None

    @property
    def takes_notes(self) -> bool:
        """Whether what is said now must come after text that is here, or in a pager."""
        return bool(self._held) or self._pager is not None

    @property
    def has_pager(self) -> bool:
        """Whether the screen is a pager's."""
        return self._pager is not None

    def write(self, data: Any, /) -> int:
        """Keep bytes, or show them. Raises BrokenPipeError when the person has left the pager."""
        data = bytes(data)
        if not self._holds:
            self._show(data)
        elif data:
            self._held.append(data)
            self._count(data)
            if self._rows >= self._lines:  # the prompt takes a line, too
                self._holds = False
                self._start()
                self._release()
        return len(data)

    def _count(self, data: bytes) -> None:
        """How many rows of the screen the text takes."""
        text = without_colours(data.decode(errors="replace"))
        first, *more = text.split("\n")
        length = self._column + len(first)
        for line in more:
            self._rows += max(-(-length // self._columns), 1)
            length = len(line)
        self._column = length

    def _start(self) -> None:
        command = _command(self._name)
        if not command:
            return
        import signal
        import subprocess  # most text fits

        # Ctrl-C is the pager's; what writes to it stops, and waits until it is left
        pressed: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
        environment = {"LESS": _LESS, **os.environ}
        self._pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # as PAGER is meant
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt

    def _release(self) -> None:
        held, self._held = b"".join(self._held), []
        self._show(held)

    def _show(self, data: bytes) -> None:
        pipe = self._pager and self._pager.stdin
        descriptor = pipe.fileno() if pipe and not pipe.closed else self._descriptor
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def finish(self) -> None:
        """Show what is still held, or wait until the person leaves the pager."""
        self._holds = False
        if self._pager is None or self._pager.stdin is None:
            self._release()
            return
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._pager.stdin.close()
        self._pager.wait()


class Notes(_OnTerminal):
    """Standard error beside a PagedScreen, on the same terminal."""

    def __init__(self, screen: PagedScreen, descriptor: int) -> None:
        self._screen = screen
        self._descriptor = descriptor

    def write(self, data: Any, /) -> int:
        """Show bytes: after the text that is held; a line that writes over itself, at once, or under a pager not at all.

        What comes after the person has left the pager is not for the terminal either: nobody sees what it speaks of.
        """
        if bytes(data[:1]) == b"\r":
            return len(data) if self._screen.has_pager else os.write(self._descriptor, data)
        if not self._screen.takes_notes:
            return os.write(self._descriptor, data)
        try:
            return self._screen.write(data)
        except BrokenPipeError:
            return len(data)


def _command(name: str) -> str:
    """What to run for a command's text; "" for nothing."""
    from perfpy.cli.line.perfconfig import load

    asked = load().get(f"pager.{name}", "yes")
    if asked.lower() in _NO:
        return ""
    wanted = [] if asked.lower() in _YES else [asked]
    wanted += [os.environ[variable] for variable in ("PERF_PAGER", "PAGER") if variable in os.environ]
    return next(_runnable([*wanted, *_USUAL]), "")


def _runnable(commands: list[str]) -> Iterator[str]:
    """Those whose program is there; "" for one that says that none is wanted."""
    from shutil import which

    for command in commands:
        word = command.split()[0] if command.split() else ""
        if command.strip() in _NONE:
            yield ""
        elif "=" in word or which(word):  # a variable for it, which the shell sets
            yield command


_screens: list[PagedScreen] = []
_never: list[bool] = []


def never() -> None:
    """Let no text go through a pager."""
    _never.append(True)


def page(name: str) -> None:
    """From now on, let text of this command that is too long for the screen go through a pager; nothing where there is no screen."""
    from perfpy.cli.line.terminal import is_screen

    out, error = sys.stdout, sys.stderr
    if _screens or _never or not isinstance(out, Terminal) or not is_screen(out):
        return
    screen = PagedScreen(out.fileno(), name)
    _screens.append(screen)
    out.flush()
    sys.stdout = out.over(screen)
    if isinstance(error, Terminal):
        error.flush()
        sys.stderr = error.over(Notes(screen, error.fileno()))


def finish() -> None:
    """Show what is held, wait for the pager."""
    while _screens:
        _screens.pop().finish()
