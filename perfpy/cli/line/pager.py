"""Show text that is longer than the terminal's screen through a pager, as perf does.

The pager is PERF_PAGER or PAGER, else less, run by the shell; `cat` and an empty value mean none. The setting
`pager.COMMAND = false` and `perfpy --no-pager` switch it off. No pager starts for text that fits. Names in the text have been
escaped before (perfpy.untrusted.terminal), so less may interpret its colours (-R).

Messages on stderr that follow text held here go to the pager, too, because they would be invisible over its screen.
"""

from __future__ import annotations

import io
import os
import sys

from perfpy.cli.line.perfconfig import load_config
from perfpy.untrusted.terminal import Terminal, without_colours

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen
    from typing import Any, Final

#: perf's options of less if LESS is not set, without F (quit if the text fits): less does not start for short text.
_LESS: Final = "RSX"
_NONE: Final = ("", "cat")
_NO: Final = frozenset(("false", "no", "off", "0"))
_YES: Final = frozenset(("true", "yes", "on", "1"))
_COLUMNS, _LINES = 80, 24  # if a terminal does not report its size
_USUAL: Final = ("pager", "less", "more")


class _OnTerminal(io.RawIOBase):
    """A stream to the terminal."""

    _descriptor: int

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._descriptor


class PagedScreen(_OnTerminal):
    """A terminal's bytes, held until they fill more than the screen. name is the command, for its setting.

    Attributes:
        held: the bytes that are held.
        pager: the process that owns the screen, None without one.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        size = os.get_terminal_size(descriptor)
        self._columns, self._lines = size.columns or _COLUMNS, size.lines or _LINES
        self.held: list[bytes] = []
        self._rows = self._column = 0
        self._holds = True
        self.pager: Popen[bytes] | None = None

    def write(self, data: Any, /) -> int:
        """Hold bytes, or show them. Raises BrokenPipeError if the person has left the pager."""
        data = bytes(data)
        if not self._holds:
            self._show(data)
        elif data:
            self.held.append(data)
            self._count(data)
            if self._rows >= self._lines:  # the prompt takes one row
                self._holds = False
                self._start()
                self._release()
        return len(data)

    def _count(self, data: bytes) -> None:
        """Add the screen rows of the text."""
        text = without_colours(data.decode(errors="replace"))
        first, *others = text.split("\n")
        length = self._column + len(first)
        for line in others:
            self._rows += max(-(-length // self._columns), 1)
            length = len(line)
        self._column = length

    def _start(self) -> None:
        command = _command(self._name)
        if not command:
            return
        import signal
        import subprocess  # most text fits

        # Ctrl-C belongs to the pager. A command that writes to the pager blocks until the person leaves it.
        pressed: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
        environment = {"LESS": _LESS, **os.environ}
        self.pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # PAGER is a shell command.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt

    def _release(self) -> None:
        text, self.held = b"".join(self.held), []
        self._show(text)

    def _show(self, data: bytes) -> None:
        pipe = self.pager and self.pager.stdin
        descriptor = pipe.fileno() if pipe and not pipe.closed else self._descriptor
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]

    def finish(self) -> None:
        """Show the text still held, or wait until the person leaves the pager."""
        self._holds = False
        if self.pager is None or self.pager.stdin is None:
            self._release()
            return
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.pager.stdin.close()
        self.pager.wait()


class Notes(_OnTerminal):
    """Standard error beside a PagedScreen, on the same terminal."""

    def __init__(self, screen: PagedScreen, descriptor: int) -> None:
        self._screen = screen
        self._descriptor = descriptor

    def write(self, data: Any, /) -> int:
        """Show bytes after the text that is held. A progress line is shown at once, or under a pager not at all.

        Messages after the person has left the pager are dropped, because the text that they refer to is gone.
        """
        if bytes(data[:1]) == b"\r":
            return len(data) if self._screen.pager else os.write(self._descriptor, data)
        if not (self._screen.held or self._screen.pager):
            return os.write(self._descriptor, data)
        try:
            return self._screen.write(data)
        except BrokenPipeError:
            return len(data)


def _command(name: str) -> str:
    """Return the pager's command line; "" for none."""
    setting = load_config().get(f"pager.{name}", "yes")
    if setting.lower() in _NO:
        return ""
    commands = [] if setting.lower() in _YES else [setting]
    commands += [os.environ[variable] for variable in ("PERF_PAGER", "PAGER") if variable in os.environ]
    return next(_runnable([*commands, *_USUAL]), "")


def _runnable(commands: list[str]) -> Iterator[str]:
    """Yield the commands whose program exists; "" for one that requests no pager."""
    from shutil import which

    for command in commands:
        word = command.split()[0] if command.split() else ""
        if command.strip() in _NONE:
            yield ""
        elif "=" in word or which(word):  # an environment variable, which the shell sets
            yield command


_screens: list[PagedScreen] = []
_never: list[bool] = []


def never() -> None:
    """Switch the pager off."""
    _never.append(True)


def page(name: str) -> None:
    """Page this command's text from now on if it exceeds the screen. No-op if stdout is no terminal."""
    from perfpy.cli.output.terminal import is_screen

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
    """Show the text still held, and wait for the pager."""
    while _screens:
        _screens.pop().finish()
