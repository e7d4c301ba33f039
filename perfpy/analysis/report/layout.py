"""The columns of a report: from the texts of -s and -F to what is shown and what rows are sorted by.

What enters: option texts in perf's syntax ("comm,dso", "+cpu", "{dso,sym}").
What leaves: a `Layout`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.sortkeys.names import DEFAULT_ORDER, TRACEPOINT_ORDER, key_named, names, output_field, sort_key
from perfpy.analysis.sortkeys.sort_key import Mode, OutputField, SortKey
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Entry: TypeAlias = "SortKey | OutputField"
Finder: TypeAlias = "Callable[[str], list[SortKey]]"

_ALL_FIELDS = "trace_fields"  # of recordings without tracepoints, too, which have none
_SEPARATORS = re.compile(r"[{}, ]")


class Layout:
    """fields: the columns, from left to right; sorts: what rows are compared by, in order; levels: keys of each level of -H.

    hidden: names of keys that are the same in all rows shown: they have no column and do not sort.
    """

    def __init__(self) -> None:
        self.fields: list[Entry] = []
        self.sorts: list[Entry] = []
        self.levels: list[list[SortKey]] = []
        self.hidden: tuple[str, ...] = ()

    @property
    def keys(self) -> list[SortKey]:
        """The keys that make rows distinct."""
        return [entry for entry in self.sorts if isinstance(entry, SortKey)]

    def has(self, name: str) -> bool:
        """Whether a key of this name is among them."""
        return any(entry.name == name for entry in self.sorts)


class Wanted(NamedTuple):
    """What the options say of columns.

    sort, fields: the texts of -s and -F, None if not given; children: whether
    callers' overhead is shown; mode; tracepoints: whether all events are
    tracepoints; metrics: names of further metrics (-n, --show-total-period ...).
    parent: whether -p named a pattern. latency: whether shares of the wall
    clock come before those of CPU time. hidden: names of keys that are the
    same in all rows.
    """

    sort: str | None = None
    fields: str | None = None
    children: bool = False
    mode: Mode = Mode.NORMAL
    tracepoints: bool = False
    raw_trace: bool = False
    metrics: tuple[str, ...] = ()
    parent: bool = False
    latency: bool = False
    hidden: tuple[str, ...] = ()


def make_layout(wanted: Wanted, dynamic: Finder = lambda _token: []) -> Layout:
    """Lay out the columns; `dynamic` finds the fields of tracepoints. Raises UsageError for names that nobody knows."""
    layout = Layout()
    strict_fields = wanted.fields is not None and not wanted.fields.startswith("+")
    for entry, level in _sort_entries(wanted, strict_fields, dynamic):
        _append(layout.sorts, entry)
        if isinstance(entry, SortKey):
            while len(layout.levels) <= level:
                layout.levels.append([])
            layout.levels[level].append(entry)
    layout.levels = [keys for keys in layout.levels if keys]
    if wanted.parent:
        _append(layout.sorts, sort_key("parent"))
    if not strict_fields:
        shown = [*_overheads(wanted), *wanted.metrics]
        layout.fields = [output_field(name) for name in shown]
    if wanted.fields is not None:
        for entry in _field_entries(wanted, dynamic):
            _append(layout.fields, entry)
    for entry in list(layout.sorts):
        _append(layout.fields, entry)
    for entry in layout.fields:
        _append(layout.sorts, entry)
    if any(key.name not in wanted.hidden for key in layout.keys):  # some key must be seen
        layout.hidden = wanted.hidden
    return layout


def _overheads(wanted: Wanted) -> list[str]:
    """The shares that every report shows, the first of which sorts it."""
    names = ["latency", "overhead"] if wanted.latency else ["overhead"]
    return [f"{name}_children" for name in names if wanted.children] + names


def _append(entries: list[Entry], entry: Entry) -> None:
    if not any(_alike(known, entry) for known in entries):
        entries.append(entry)


def _alike(known: Entry, entry: Entry) -> bool:
    """Whether two names mean one column, as p_stage_cyc and retire_lat do."""
    if not (isinstance(known, SortKey) and isinstance(entry, SortKey)):
        return known == entry
    if known.event is not None:
        return (known.event, known.name) == (entry.event, entry.name)
    return (known.dimension, known.column) == (entry.dimension, entry.column)


def _default_order(wanted: Wanted) -> str:
    if wanted.tracepoints:
        return "trace_fields" if wanted.raw_trace else TRACEPOINT_ORDER
    return DEFAULT_ORDER[wanted.mode]


def _sort_entries(wanted: Wanted, strict_fields: bool, dynamic: Finder) -> Iterable[tuple[Entry, int]]:
    order = wanted.sort
    if order is None:
        if strict_fields:
            return
        order = _default_order(wanted)
    elif order.startswith("+"):
        if order == "+":
            raise UsageError("Invalid --sort key: `+'")
        order = f"{_default_order(wanted)},{order[1:]}"
    if not strict_fields:
        for name in reversed(_overheads(wanted)):
            if name not in order:
                order = f"{name},{order}"
    for token, level in _tokens(order):
        for entry in _find(token, wanted.mode, dynamic, "--sort"):
            yield entry, level


def _tokens(order: str) -> Iterable[tuple[str, int]]:
    """The names in an order text, with the level of -H that each belongs to: braces hold a level together."""
    level, grouped, rest = 0, False, order
    while rest:
        cut = _SEPARATORS.search(rest)
        token = rest[: cut.start()] if cut else rest
        if token:
            yield token, level
        if not cut:
            return
        if not grouped:
            level += 1
        grouped = cut[0] == "{" or (grouped and cut[0] != "}")
        rest = rest[cut.end() :]


def _field_entries(wanted: Wanted, dynamic: Finder) -> Iterable[Entry]:
    text = (wanted.fields or "").removeprefix("+")
    if not text:
        raise UsageError("Invalid --fields key: `+'")
    for token in re.split(r"[, ]+", text):
        if token:
            yield from _find(token, wanted.mode, dynamic, "--fields")


def _find(token: str, mode: Mode, dynamic: Finder, option: str) -> list[Entry]:
    known = key_named(token)
    if known is not None:
        if isinstance(known, SortKey) and known.mode not in (Mode.NORMAL, mode):
            raise UsageError(f"Invalid {option} key: `{token}' {_ONLY[known.mode]}")
        return [known]
    found = dynamic(token)
    if not found and token.partition("/")[0] != _ALL_FIELDS:
        raise UsageError(f"Unknown {option} key: `{token}'{_advice(token)}")
    return list(found)


_ONLY = {Mode.BRANCH: "is of branch records: recordings made with -b have them", Mode.MEMORY: "is of memory accesses: use --mem-mode"}


#: perf's keys that perfpy does not have
_LACKING = {
    **dict.fromkeys(("type", "typeoff", "typecln"), "it needs the types of data, which perfpy does not read"),
}


def _advice(token: str) -> str:
    if token in _LACKING:
        return f"; {_LACKING[token]}"
    from difflib import get_close_matches  # for people who misspelt

    near = get_close_matches(token.lower(), names(), 3, 0.5)
    return f"; near it: {', '.join(near)}" if near else f"; known: {', '.join(names())}, and fields of the recording's tracepoints"
