"""Control from outside: commands that another program writes to a fifo or an inherited descriptor.

What enters: `fd:N[,M]` or `fifo:PATH[,PATH]` (the second one is for answers),
and lines such as "enable". What leaves: `Command`s; "ack" goes back when one
is done. The protocol is that of perf-stat(1) and perf-record(1), --control.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import OutputFailed, UsageError

if TYPE_CHECKING:
    from types import TracebackType

_ACK: Final = b"ack\n\0"
_COMMANDS: Final = ("enable", "disable", "evlist", "snapshot", "stop", "ping", "ack")


class Command(NamedTuple):
    """One line: its verb, and what follows it (an event's name, options)."""

    verb: str
    argument: str = ""


class Control:
    """The two descriptors. A context manager; closes what it opened itself.

    Raises UsageError for a text that is neither form, OutputFailed when a
    fifo cannot be opened.
    """

    def __init__(self, text: str) -> None:
        kind, _, rest = text.partition(":")
        inward, comma, outward = rest.partition(",")
        if kind not in ("fd", "fifo") or not inward:
            raise UsageError(f"--control {text}: give fd:N[,M] or fifo:PATH[,PATH]")
        self._owned: list[int] = []
        self._pending = b""
        if kind == "fd":
            self.fd, self._ack_fd = _number(text, inward), _number(text, outward) if comma else -1
        else:
            self.fd = self._open_fifo(inward)
            self._ack_fd = self._open_fifo(outward) if comma else -1

    def _open_fifo(self, path: str) -> int:
        try:
            # for writing too, or the first writer's end would be the end of the file
            fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.close()
            raise OutputFailed(path, os.strerror(error.errno or 0), remedy="make the fifo first, with mkfifo") from None
        self._owned.append(fd)
        return fd

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self.fd

    def commands(self) -> list[Command]:
        """The lines that have come since; unknown ones have the verb as it was written."""
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        if not data and self.fd in self._owned:
            return []
        *lines, self._pending = (self._pending + data.replace(b"\0", b"")).split(b"\n")
        found = []
        for line in lines:
            verb, _, argument = line.decode(errors="replace").strip().partition(" ")
            if verb:
                found.append(Command(verb, argument.strip()))
        return found

    def acknowledge(self, command: Command) -> None:
        """Tell the other side that a command is done."""
        if self._ack_fd >= 0 and command.verb in _COMMANDS:
            try:
                os.write(self._ack_fd, _ACK)
            except OSError as error:
                raise OutputFailed("the --control answers", os.strerror(error.errno or 0)) from None

    def close(self) -> None:
        """Close the fifos."""
        for fd in self._owned:
            os.close(fd)
        self._owned.clear()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _number(text: str, item: str) -> int:
    if not item.isdecimal():
        raise UsageError(f"--control {text}: '{item}' is not a file descriptor")
    try:
        os.fstat(int(item))
    except OSError:
        raise UsageError(f"--control {text}: descriptor {item} is not open") from None
    return int(item)
