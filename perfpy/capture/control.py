"""--control: commands that another program writes to a fifo or an inherited descriptor.

The option is `fd:N[,M]` or `fifo:PATH[,PATH]`; the second part receives "ack" after each command. The protocol is that of
perf-stat(1) and perf-record(1). Where the manual is silent it follows perf: a line ends at a newline or NUL, and a command is
recognized by its beginning, so that `pingx` is a ping. Unknown words and `ack` get no answer.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from typing import TYPE_CHECKING

from perfpy.errors import OutputFailedError, UsageError
from perfpy.untrusted.destinations import open_named

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Final, Protocol

    class Controlled(Protocol):
        """The target of commands."""

        def switch(self, on: bool, name: str) -> bool:
            """Enable or disable all events (""), or the event of a name; return False if there is none."""

        def describe(self, option: str) -> str:
            """Return the events as evlist prints them with this option ("" or one of OPTIONS)."""

        def tell(self, text: str) -> None:
            """Print a line for the user."""


_ACK: Final = b"ack\n\0"
_COMMANDS: Final = ("enable", "disable", "ack", "snapshot", "evlist", "stop", "ping")
_LONGEST: Final = 1000  # bytes of a line; perf's limit
#: Options of evlist.
OPTIONS: Final = ("-v", "-g", "-F")


class Command:
    """One line of input.

    Attributes:
        verb: the command; "" if unknown.
        argument: an event's name, or an option; None if there is none.
        wrong: whether the text after the verb is not separated by a blank.
    """

    __slots__ = ("argument", "verb", "wrong")

    def __init__(self, line: str) -> None:
        self.verb = next((verb for verb in _COMMANDS if line.startswith(verb)), "")
        tail = line[len(self.verb) :]
        self.argument = tail[1:] if tail.startswith(" ") else None
        self.wrong = bool(tail) and self.argument is None

    def obey(self, controlled: Controlled) -> None:
        """Carry out commands that switch or list events. `stop` and `snapshot` are left to the recorder."""
        if self.verb in ("enable", "disable", "evlist") and self.wrong:
            controlled.tell("failed: wrong command")
        elif self.verb in ("enable", "disable"):
            self._switch(controlled)
        elif self.verb == "evlist":
            is_known = self.argument is None or self.argument in OPTIONS
            controlled.tell(controlled.describe(self.argument or "") if is_known else "failed: wrong command")

    def _switch(self, controlled: Controlled) -> None:
        state = "enabled" if self.verb == "enable" else "disabled"
        if self.argument is None:
            controlled.switch(self.verb == "enable", "")
            controlled.tell(f"Events {state}")
        elif controlled.switch(self.verb == "enable", self.argument):
            controlled.tell(f"Event {self.argument} {state}")
        else:
            controlled.tell(f"failed: can't find '{self.argument}' event")


class Control:
    """The two descriptors; a context manager, which closes the fifos that it opened.

    Raises UsageError for a text of neither form, OutputFailedError if a fifo cannot be opened.
    """

    def __init__(self, text: str) -> None:
        kind, _, descriptors = text.partition(":")
        inward, comma, outward = descriptors.partition(",")
        if kind not in ("fd", "fifo") or not inward:
            raise UsageError(f"--control {text}: expected fd:N[,M] or fifo:PATH[,PATH]")
        self._owned: list[int] = []
        self._pending = b""
        self._was_answered = True
        if kind == "fd":
            self.fd, self._ack_fd = _number(text, inward), _number(text, outward) if comma else -1
        else:
            self.fd = self._open_fifo(inward)
            self._ack_fd = self._open_fifo(outward) if comma else -1

    def _open_fifo(self, path: str) -> int:
        try:
            # Opened for writing, too; otherwise the first writer's exit would end the file.
            fd = open_named(path, os.O_RDWR | os.O_NONBLOCK, foreign_fifos=True)  # often of the user who calls sudo
            self._owned.append(fd)
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # answers would be written into a file
                raise OSError(errno.EINVAL, "not a fifo")
        except OSError as error:
            self.close()
            failure = OutputFailedError(path, error.strerror or str(error), remedy="create the fifo first with mkfifo")
            failure.exit_code = UsageError.exit_code  # as perf's
            raise failure from None
        return fd

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 if it is not open."""
        return self.fd

    def commands(self) -> list[Command]:
        """Return the commands received since the last call."""
        try:
            data = os.read(self.fd, 4096)
        except OSError:  # spurious wakeup, or unreadable; poll() reports the next input
            return []
        *lines, self._pending = (self._pending + data.replace(b"\0", b"\n")).split(b"\n")
        if len(self._pending) >= _LONGEST:
            lines.append(self._pending)
            self._pending = b""
        return [Command(line.decode(errors="replace")) for line in lines if line]

    def acknowledge(self, command: Command) -> None:
        """Acknowledge a command. A full pipe does not block the measurement."""
        if self._ack_fd < 0 or command.verb in ("", "ack"):
            return
        try:
            if not _takes(self._ack_fd):
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            os.write(self._ack_fd, _ACK)
            self._was_answered = True
        except OSError as error:
            if self._was_answered:  # a writer that never reads the answers would fill standard error
                print(f"cannot write an answer for --control: {error.strerror}", file=sys.stderr)
            self._was_answered = False

    def close(self) -> None:
        """Close the fifos."""
        for fd in self._owned:
            os.close(fd)
        self._owned.clear()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _takes(fd: int) -> bool:
    """Whether a write would not block."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(0))


def _number(text: str, item: str) -> int:
    """Return a descriptor; -1 with a warning if it is not open, which does not keep perf from measuring either."""
    if not item.isdecimal():
        raise UsageError(f"--control {text}: '{item}' is not a file descriptor")
    try:
        fd = int(item)
        os.fstat(fd)
    except (OSError, OverflowError, ValueError):  # the number may have thousands of digits
        print(f"warning: --control {text}: descriptor {item} is not open and has no effect", file=sys.stderr)
        return -1
    return fd
