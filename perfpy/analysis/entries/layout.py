"""Lay out the columns of a report from the texts of -s and -F in perf's syntax ("comm,dso", "+cpu", "{dso,sym}")."""

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

_ALL_FIELDS = "trace_fields"  # also valid, without columns, for recordings without tracepoints
_SEPARATORS = re.compile(r"[{}, ]")


class Layout:
    """The columns of a report.

    Attributes:
        fields: the columns, from left to right.
        sorts: the comparisons of rows, in order.
        levels: keys of each level of -H.
        hidden: names of keys that are equal in all visible rows: without column or effect on the order.
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
        """Whether the report has a key of this name."""
        return any(entry.name == name for entry in self.sorts)


class ColumnOptions(NamedTuple):
    """The options of columns.

    Attributes:
        sort, fields: the texts of -s and -F, None if not given.
        children: whether callers' overhead is shown.
        mode: samples, branches or memory accesses as rows.
        tracepoints: whether all events are tracepoints.
        raw_trace: whether tracepoint fields are shown unformatted.
        metrics: names of further metrics (-n, --show-total-period ...).
        parent: whether -p has a pattern.
        latency: whether shares of the wall clock precede those of CPU time.
        hidden: names of keys that are equal in all rows.
        of_processes: whether the key comm is the process's comm, not the thread's.
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
    of_processes: bool = False


def make_layout(columns: ColumnOptions, dynamic: Finder = lambda _token: []) -> Layout:
    """Return the layout; `dynamic` finds the fields of tracepoints. Raises UsageError for unknown names."""
    layout = Layout()
    strict_fields = columns.fields is not None and not columns.fields.startswith("+")
    for entry, level in _sort_entries(columns, strict_fields, dynamic):
        if _append(layout.sorts, entry) and isinstance(entry, SortKey):
            while len(layout.levels) <= level:
                layout.levels.append([])
            layout.levels[level].append(entry)
    layout.levels = [keys for keys in layout.levels if keys]
    if columns.parent:
        _append(layout.sorts, sort_key("parent"))
    if not strict_fields:
        metrics = [*_overheads(columns), *columns.metrics]
        layout.fields = [output_field(name) for name in metrics]
    if columns.fields is not None:
        for entry in _field_entries(columns, dynamic):
            _append(layout.fields, entry)
    for entry in list(layout.sorts):
        _append(layout.fields, entry)
    for entry in layout.fields:
        _append(layout.sorts, entry)
    if any(key.name not in columns.hidden for key in layout.keys):  # at least one key must be visible
        layout.hidden = columns.hidden
    return layout


def _overheads(columns: ColumnOptions) -> list[str]:
    """Return the shares of every report, the first of which sorts it."""
    names = ["latency", "overhead"] if columns.latency else ["overhead"]
    return [f"{name}_children" for name in names if columns.children] + names


def _append(entries: list[Entry], entry: Entry) -> bool:
    """Append an entry that is not there yet; return whether it was new."""
    is_new = not any(_alike(other, entry) for other in entries)
    if is_new:
        entries.append(entry)
    return is_new


def _alike(other: Entry, entry: Entry) -> bool:
    """Whether two names mean one column, like p_stage_cyc and retire_lat."""
    if not (isinstance(other, SortKey) and isinstance(entry, SortKey)):
        return other == entry
    if other.event is not None:
        return (other.event, other.name) == (entry.event, entry.name)
    return (other.dimension, other.column) == (entry.dimension, entry.column)


def _default_order(columns: ColumnOptions) -> str:
    if columns.tracepoints:
        return "trace_fields" if columns.raw_trace else TRACEPOINT_ORDER
    return DEFAULT_ORDER[columns.mode]


def _sort_entries(columns: ColumnOptions, strict_fields: bool, dynamic: Finder) -> Iterable[tuple[Entry, int]]:
    order = columns.sort
    if order is None:
        if strict_fields:
            return
        order = _default_order(columns)
    elif order.startswith("+"):
        if order == "+":
            raise UsageError("Invalid --sort key: `+'")
        order = f"{_default_order(columns)},{order[1:]}"
    if not strict_fields:
        for name in reversed(_overheads(columns)):
            if name not in order:
                order = f"{name},{order}"
    for token, level in _tokens(order):
        for entry in _find(token, columns.mode, dynamic, "--sort"):
            if columns.of_processes and isinstance(entry, SortKey) and entry.dimension == "comm":
                yield entry._replace(dimension="process_comm"), level
            else:
                yield entry, level


def _tokens(order: str) -> Iterable[tuple[str, int]]:
    """Yield the names in an order text, with their levels of -H: braces hold a level together."""
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


def _field_entries(columns: ColumnOptions, dynamic: Finder) -> Iterable[Entry]:
    text = (columns.fields or "").removeprefix("+")
    if not text:
        raise UsageError("Invalid --fields key: `+'")
    for token in re.split(r"[, ]+", text):
        if token:
            yield from _find(token, columns.mode, dynamic, "--fields")


def _find(token: str, mode: Mode, dynamic: Finder, option: str) -> list[Entry]:
    entry = key_named(token)
    if entry is not None:
        if isinstance(entry, SortKey) and entry.mode not in (Mode.NORMAL, mode):
            raise UsageError(f"Invalid {option} key: `{token}' {_ONLY[entry.mode]}")
        return [entry]
    keys = dynamic(token)
    if not keys and token.partition("/")[0] != _ALL_FIELDS:
        raise UsageError(f"Unknown {option} key: `{token}'{_advice(token)}")
    return list(keys)


_ONLY = {Mode.BRANCH: "needs branch records; record with -b", Mode.MEMORY: "needs --mem-mode"}


#: perf's keys that perfpy does not have
_LACKING = {
    **dict.fromkeys(("type", "typeoff", "typecln"), "perfpy does not read data types"),
}


def _advice(token: str) -> str:
    if token in _LACKING:
        return f"; {_LACKING[token]}"
    from difflib import get_close_matches  # for people who misspelt

    near = get_close_matches(token.lower(), names(), 3, 0.5)
    return f"; similar keys: {', '.join(near)}" if near else f"; keys: {', '.join(names())}, and fields of the recording's tracepoints"
