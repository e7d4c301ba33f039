"""The exceptions of perfpy.

    PerfError                    base of every error that perfpy raises on purpose; exit status 255
      UsageError                 an invalid command line or call; 129
        RefusedOptionsError      well-formed options that a command refuses, as perf does with -EINVAL; 234
          TraceOptionsError      options for a hardware tracer that it cannot fulfil
      EventSyntaxError           an event string that cannot be parsed: text, column
      UnknownEventError          a well-formed event that does not exist here: name, near matches
      KernelRefusedError         a failed system call: errno, event, cause, remedy
        GroupIsFullError         an event that opens alone, but not in its group
      NothingCountedError        no event counts on the requested CPUs; 1
      UnsupportedError           the machine lacks what an option needs; 234
      NotScheduledError          a pinned counter that could not be on the PMU
      BadPerfDataError           a perf.data that cannot be read (further): path, offset, reason
      WorkloadFailedError        the program to measure could not be started: command, reason
      OutputFailedError          a file that could not be written: path, reason

`str(error)` is one line: what happened, where, and what to try. The attributes of each class carry the facts, so that programs need not
parse the text.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence


class PerfError(Exception):
    """Base of every error that perfpy raises on purpose. `exit_code` is the command line's exit status, as perf's."""

    exit_code = 255


class UsageError(PerfError):
    """An option, an argument or a combination of them is invalid."""

    exit_code = 129


class RefusedOptionsError(UsageError):
    """A command refuses well-formed options. perf returns -EINVAL as its status."""

    exit_code = 234


class TraceOptionsError(RefusedOptionsError):
    """A hardware tracer cannot record what the options request."""


def _suggest(near: Sequence[str]) -> str:
    if not near:
        return ""
    return "; did you mean " + " or ".join(repr(name) for name in near) + "?"


class EventSyntaxError(PerfError):
    """An event string cannot be parsed.

    Attributes:
        text: the whole string
        column: 0-based offset of the first unexpected character
        reason: what is wrong there
        expected: what would be accepted there
        near: similar names
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


class UnknownEventError(PerfError):
    """A well-formed event does not exist in the catalog, a PMU or tracefs.

    Attributes:
        name: the event
        near: the nearest existing names
        hint: where the event would come from
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


class KernelRefusedError(PerfError):
    """The kernel refused a system call.

    Attributes:
        call: its name
        errno: its error number
        event: the event's name, or ""
        cause: the reason, as exact as the machine allows
        remedy: what to try
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


class GroupIsFullError(KernelRefusedError):
    """The kernel opens an event alone, but not in its group."""

    def __init__(self, refusal: KernelRefusedError, remedy: str) -> None:
        cause = "the PMU cannot count it at the same time as the events before it in its group"
        super().__init__(refusal.call, refusal.errno, event=refusal.event, cause=cause, remedy=remedy)


class NothingCountedError(PerfError):
    """No event counts on the requested CPUs."""

    exit_code = 1


class UnsupportedError(PerfError):
    """The machine lacks what an option needs."""

    exit_code = 234


class NotScheduledError(PerfError):
    """The kernel could not keep a pinned counter on the PMU, so there is no count."""

    def __init__(self, event: str, remedy: str = "drop ':D' or count fewer events") -> None:
        self.event = event
        super().__init__(f"pinned event '{event}' could not be scheduled on the PMU; {remedy}")


class BadPerfDataError(PerfError):
    """A file is not perf.data, or is damaged. Everything before the damage has been returned already.

    Attributes:
        path, reason: the file, and what is wrong
        offset: where in the file, or None
    """

    def __init__(self, path: str, reason: str, *, offset: int | None = None, remedy: str = "") -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        self.remedy = remedy
        where = path if offset is None else f"{path}, offset {offset:#x}"
        super().__init__(f"{where}: {reason}" + (f"; {remedy}" if remedy else ""))


class WorkloadFailedError(PerfError):
    """The program to measure could not be started."""

    def __init__(self, command: str, reason: str) -> None:
        self.command = command
        self.reason = reason
        super().__init__(f"cannot run '{command}': {reason}")


class OutputFailedError(PerfError):
    """A file could not be written: no permission, no such folder, disk full."""

    def __init__(self, path: str, reason: str, *, remedy: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"cannot write {path}: {reason}" + (f"; {remedy}" if remedy else ""))


# The noun after a number, for messages.
#
# Input: a number and a noun. Output: the noun in its form for that number.


def plural(number: int, noun: str, several: str = "") -> str:
    """Return the noun for one thing, else its plural; several: the plural where it is not the noun with an s.

    >>> from perfpy.errors import plural
    >>> plural(1, "row"), plural(0, "row"), plural(2, "entry", "entries")
    ('row', 'rows', 'entries')
    """
    return noun if number == 1 else several or f"{noun}s"
