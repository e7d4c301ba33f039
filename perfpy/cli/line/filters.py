"""Options that select tasks, CPUs and samples, and the types of their values: lists, patterns, times, as in perf-report(1)."""

from __future__ import annotations

from perfpy.cli.line.kinds import Value
from perfpy.cli.line.options import CommandOptions, option
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, TypeVar

    _T = TypeVar("_T")

_FILE: Final = "file://"  # prefix of a path in lists of names
_LARGEST_LIST: Final = 64 << 20  # bytes of names
_WIDEST: Final = 10_000  # columns of a terminal
_UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def split_names(text: str) -> tuple[str, ...]:
    """Convert a list of names."""
    return tuple(filter(None, text.split(",")))


def parse_names(text: str) -> tuple[str, ...] | None:
    """Convert a list of names, None if there is none; file://PATH means the lines of a file."""
    names: list[str] = []
    for name in split_names(text):
        names += _lines(name.removeprefix(_FILE)) if name.startswith(_FILE) else [name]
    return tuple(names) or None


def _lines(path: str) -> list[str]:
    from perfpy.untrusted.files import read_named  # rarely needed

    try:
        return read_named(path, limit=_LARGEST_LIST).decode("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise ValueError(f"a file with one name per line ({path}: {error.strerror})") from None


def parse_numbers(text: str) -> tuple[int, ...] | None:
    """Convert a list of numbers, None if there is none."""
    try:
        return tuple(map(int, split_names(text))) or None
    except ValueError:
        raise ValueError("a list of numbers, for example 10,20") from None


def parse_ranges(text: str) -> tuple[int, ...] | None:
    """Convert a list of numbers such as 0-2,5; None if there is none."""
    from perfpy.abi.cpu_list import parse_cpu_list  # rarely needed

    try:
        return parse_cpu_list(text) if text else None
    except ValueError as error:
        raise ValueError(f"a list such as 0-2,5 ({error})") from None


def parse_pattern(text: str) -> str:
    """Check a regular expression."""
    import re  # rarely needed

    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def parse_widths(text: str) -> tuple[int, ...]:
    """Convert a list of column widths."""
    return tuple(min(width, _WIDEST) for width in parse_numbers(text) or ())


def parse_quantum(text: str) -> int:
    """Convert a time with its unit to nanoseconds."""
    digits = text.rstrip("smun")
    if not digits.isdecimal() or text[len(digits) :] not in _UNITS:
        raise ValueError("a number with s, ms, us or ns, for example 100ms")
    return int(digits) * _UNITS[text[len(digits) :]]


def convert(option: str, text: str, parse: Callable[[str], _T]) -> _T:
    """Convert the text of an option after the command line was parsed. Raises UsageError."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"option {option} expects {error}, not '{text}'") from None


class TaskOptions(CommandOptions):
    """The tasks and CPUs to measure, for `perfpy.capture.targets`."""

    pid: str = option("-p,--pid", Value(default=""), "only these processes (comma-separated)", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "only these threads (comma-separated)", metavar="<tid>")
    user: str = option("-u,--uid", Value(default=""), "only the threads of this user", metavar="<user>")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs, such as 0-2,5", metavar="<cpu>")


class SampleFilterOptions(CommandOptions):
    """The tasks and CPUs whose samples are included, for `perfpy.analysis.filters.sample_filter`."""

    comms: tuple[str, ...] | None = option("-c,--comms", Value(parse_names), "only these commands", metavar="<comm[,comm...]>")
    pids: tuple[int, ...] | None = option("--pid", Value(parse_numbers), "only these processes", metavar="<pid[,pid...]>")
    tids: tuple[int, ...] | None = option("--tid", Value(parse_numbers), "only these threads", metavar="<tid[,tid...]>")
    cpus: tuple[int, ...] | None = option("-C,--cpu", Value(parse_ranges), "only these CPUs", metavar="<cpu>")
