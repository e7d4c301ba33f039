"""-e: system calls by name or pattern, groups of them, and other events."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from perfpy.abi.system_calls.groups import calls_of_group
from perfpy.abi.system_calls.numbers import numbers_by_name
from perfpy.cli.line.options import fail
from perfpy.cli.line.shared import names_probe

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATTERN = frozenset("*?[")
_TRACEPOINT = "syscalls:sys_enter_"


class Selection(NamedTuple):
    """The calls and events to print.

    Attributes:
        calls: names of calls; None for all.
        is_excluded: print all calls but these.
        events: texts of other events.
    """

    calls: frozenset[str] | None
    is_excluded: bool
    events: tuple[str, ...]

    @property
    def has_calls(self) -> bool:
        """Whether any call may be printed."""
        return self.calls is None or self.is_excluded or bool(self.calls)

    def numbers(self, machine: str) -> frozenset[int] | None:
        """Return the numbers of the calls to print; None for all."""
        if self.calls is None:
            return None
        known = numbers_by_name(machine)
        chosen = {known[name] for name in self.calls if name in known}
        return frozenset(known.values()) - chosen if self.is_excluded else frozenset(chosen)


def parse_selection(texts: Iterable[str], machine: str) -> Selection:
    """Parse the texts of -e.

    Words are names of calls, patterns of names, names of groups, or other events. Raises UsageError for one list to print and one to
    exclude.
    """
    calls: set[str] = set()
    events: list[str] = []
    exclusions = set()
    for text in texts:
        is_excluded = text.startswith("!")
        own, others = _split(text.removeprefix("!"), machine)
        if own:
            exclusions.add(is_excluded)
        if is_excluded and others:
            fail(f"-e '!{','.join(others)}': no such system call; ! excludes system calls only")
        calls |= own
        events += others
    if len(exclusions) > 1:
        fail("-e: a list of calls to print and a list to exclude; give one of them")
    if not exclusions and not events:
        return Selection(None, False, ())
    return Selection(frozenset(calls), exclusions == {True}, tuple(events))


def _split(text: str, machine: str) -> tuple[set[str], list[str]]:
    """Return the calls that a list names, and its other words."""
    known = numbers_by_name(machine)
    calls: set[str] = set()
    others: list[str] = []
    for word in split_list(text):
        name = word.removeprefix(_TRACEPOINT)
        if names_probe(word):
            others.append(word)
        elif name in known:
            calls.add(name)
        elif group := calls_of_group(name):
            calls |= group
        elif _PATTERN & set(name) and ":" not in name and (matching := set(fnmatch.filter(known, name))):
            calls |= matching
        else:
            others.append(word)
    return calls, others


def split_list(text: str) -> list[str]:
    """Split a list at commas that are neither between slashes nor between brackets.

    In a probe, slashes are those of the program's path, and a pattern of source lines (;PATTERN) ends with the list.
    """
    words, depth, start, in_terms, is_probe = [], 0, 0, False, names_probe(text)
    for index, letter in enumerate(text):
        if letter == "/" and not is_probe:
            in_terms = not in_terms
        elif letter == ";" and is_probe:
            break
        depth += (letter in "{(") - (letter in "})")
        if letter == "," and not in_terms and depth <= 0:
            words.append(text[start:index])
            start = index + 1
            is_probe, depth = names_probe(text[start:]), 0
    return [word for word in (*words, text[start:]) if word]
