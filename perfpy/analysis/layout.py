"""The columns of a report: from the texts of -s and -F to what is shown and what rows are sorted by.

What enters: option texts in perf's syntax ("comm,dso", "+cpu", "{dso,sym}").
What leaves: a `Layout`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from perfpy.analysis.sortkeys import DEFAULT_ORDER, TRACEPOINT_ORDER, Metric, Mode, SortKey, key_named, metric, sort_key
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Entry: TypeAlias = "SortKey | Metric"
Finder: TypeAlias = "Callable[[str], list[SortKey]]"

_ALL_FIELDS = "trace_fields"  # of recordings without tracepoints, too, which have none
_SEPARATORS = re.compile(r"[{}, ]")


@dataclass
class Layout:
    """fields: the columns, from left to right; sorts: what rows are compared by, in order; levels: keys of each level of -H."""

    fields: list[Entry] = field(default_factory=list)
    sorts: list[Entry] = field(default_factory=list)
    levels: list[list[SortKey]] = field(default_factory=list)

    @property
    def keys(self) -> list[SortKey]:
        """The keys that make rows distinct."""
        return [entry for entry in self.sorts if isinstance(entry, SortKey)]

    def has(self, name: str) -> bool:
        """Whether a key of this name is among them."""
        return any(entry.name == name for entry in self.sorts)


@dataclass(frozen=True)
class Wanted:
    """What the options say of columns.

    sort, fields: the texts of -s and -F, None if not given; children: whether
    callers' overhead is shown; mode; tracepoints: whether all events are
    tracepoints; metrics: names of further metrics (-n, --show-total-period ...).
    parent: whether -p named a pattern.
    """

    sort: str | None = None
    fields: str | None = None
    children: bool = False
    mode: Mode = Mode.NORMAL
    tracepoints: bool = False
    raw_trace: bool = False
    metrics: tuple[str, ...] = ()
    parent: bool = False


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
        shown = (["overhead_children"] if wanted.children else []) + ["overhead", *wanted.metrics]
        layout.fields = [metric(name) for name in shown]
    if wanted.fields is not None:
        for entry in _field_entries(wanted, dynamic):
            _append(layout.fields, entry)
    for entry in list(layout.sorts):
        _append(layout.fields, entry)
    for entry in layout.fields:
        _append(layout.sorts, entry)
    return layout


def _append(entries: list[Entry], entry: Entry) -> None:
    if entry not in entries:
        entries.append(entry)


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
        if "overhead" not in order:
            order = "overhead," + order
        if wanted.children and "overhead_children" not in order:
            order = "overhead_children," + order
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
            raise UsageError(f"Invalid {option} key: `{token}'")
        return [known]
    found = dynamic(token)
    if not found and token.partition("/")[0] != _ALL_FIELDS:
        raise UsageError(f"Unknown {option} key: `{token}'")
    return list(found)
