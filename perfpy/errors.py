"""The whole exception tree of perfpy.

    PerfError                    anything perfpy itself has to say; exit status 255
      UsageError                 the command line or a call makes no sense; 129
      EventSyntaxError           an event string cannot be parsed: text, column
      UnknownEvent               a well-formed event that nobody here knows: name, near matches
      KernelRefused              a system call failed: errno, event, cause, remedy
      NotScheduled               a pinned counter that could not be on the PMU
      BadPerfData                a perf.data that cannot be read (further): path, offset, reason
      WorkloadFailed             the program to measure could not be started: command, reason
      OutputFailed               a file could not be written: path, reason

What enters: what is known where the error is found. What leaves: one
line of text (`str(error)`): what, where, and what to try. Each class carries
what it tells as attributes, so that programs need not parse the text.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence


class PerfError(Exception):
    """Base of every error that perfpy raises on purpose.

    `exit_code` is what the command line exits with (perf's own codes).
    """

    exit_code = 255


class UsageError(PerfError):
    """The request makes no sense: an option, an argument, or a combination of them."""

    exit_code = 129


def _suggest(near: Sequence[str]) -> str:
    if not near:
        return ""
    return "; did you mean " + " or ".join(repr(name) for name in near) + "?"


class EventSyntaxError(PerfError):
    """An event string that cannot be parsed.

    text: the whole string as given; column: 0-based offset of the first
    character that does not fit; reason: what is wrong there; expected: what
    would have been accepted there; near: names that look alike.
    """

    exit_code = 129

    def __init__(self, text: str, column: int, reason: str, *, expected: str = "", near: Sequence[str] = ()) -> None:
        self.text = text
        self.column = column
        self.reason = reason
        self.expected = expected
        self.near = tuple(near)
        line = f"event syntax error: '{text}', column {column + 1}: {reason}"
        if expected:
            line += f", expected {expected}"
        super().__init__(line + _suggest(near))


class UnknownEvent(PerfError):
    """A well-formed event that neither the catalog, a PMU nor tracefs knows.

    name: the event; near: the nearest known names; hint: where it would come from.
    """

    exit_code = 129

    def __init__(self, name: str, *, near: Sequence[str] = (), hint: str = "") -> None:
        self.name = name
        self.near = tuple(near)
        self.hint = hint
        line = f"unknown event '{name}'"
        if hint:
            line += f": {hint}"
        super().__init__(line + _suggest(near))


class KernelRefused(PerfError):
    """A system call that the kernel refused.

    call: its name; errno; event: the event's name or ""; cause: why, told
    apart as far as the machine lets us; remedy: what to try.
    """

    def __init__(self, call: str, errno: int, *, event: str = "", cause: str = "", remedy: str = "") -> None:
        self.call = call
        self.errno = errno
        self.event = event
        self.cause = cause or os.strerror(errno)
        self.remedy = remedy
        line = f"{call} failed"
        if event:
            line = f"cannot open event '{event}'"
        line += f": {self.cause}"
        if remedy:
            line += f"; {remedy}"
        super().__init__(line)


class NotScheduled(PerfError):
    """A pinned counter that the kernel could not keep on the PMU, so that it has no count."""

    def __init__(self, event: str, remedy: str = "drop ':D' or count fewer events") -> None:
        self.event = event
        super().__init__(f"pinned event '{event}' could not be scheduled on the PMU; {remedy}")


class BadPerfData(PerfError):
    """A file that is not perf.data, or is damaged.

    path; offset: where in the file, or None; reason. What could still be
    read before the damage was handed out before this was raised.
    """

    def __init__(self, path: str, reason: str, *, offset: int | None = None, remedy: str = "") -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        self.remedy = remedy
        where = path if offset is None else f"{path}, offset {offset:#x}"
        super().__init__(f"{where}: {reason}" + (f"; {remedy}" if remedy else ""))


class WorkloadFailed(PerfError):
    """The program to measure could not be started."""

    def __init__(self, command: str, reason: str) -> None:
        self.command = command
        self.reason = reason
        super().__init__(f"cannot run '{command}': {reason}")


class OutputFailed(PerfError):
    """A file could not be written (no permission, no such folder, disk full)."""

    def __init__(self, path: str, reason: str, *, remedy: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"cannot write {path}: {reason}" + (f"; {remedy}" if remedy else ""))
