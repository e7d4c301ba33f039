"""The options of a report, except its columns: callchains, rows, names and times."""

from __future__ import annotations

import re

from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.analysis.aggregate.profile import LATENCY, FoldingPlan
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.sample_view import says_why_it_waited
from perfpy.analysis.sort_key import HOUR, Mode, OutputField, SortKey
from perfpy.analysis.sort_keys import DEFAULT_ORDER, STAGE_HEADER, TRACEPOINT_ORDER, field_named, key_named, names, output_field, sort_key
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.header import EventGroup
    from perfpy.perfdata.sample_source import SourceHeader


# Lay out the columns of a report from the texts of -s and -F in perf's syntax ("comm,dso", "+cpu", "{dso,sym}").


Entry: TypeAlias = "SortKey | OutputField"
Finder: TypeAlias = "Callable[[str], list[SortKey]]"

_ALL_FIELDS = "trace_fields"  # also valid, without columns, for recordings without tracepoints
_SEPARATORS = re.compile(r"[{}, ]")


class Layout:
    """The columns of a report.

    Attributes:
        fields: the columns, from left to right.
        sorts: the comparisons of rows, in order.
        levels: keys of -s, by levels of -H.
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

    def leaves_files_to_dso(self, key: SortKey) -> bool:
        """Whether -s has the key dso, but compares this one first. The key dso of -F does not count for perf."""
        keys = self.keys
        dso = next((other for level in self.levels for other in level if other.name == "dso"), None)
        return dso is not None and keys.index(key) < keys.index(dso)


class ColumnOptions(NamedTuple):
    """The options of columns.

    Attributes:
        sort, fields: the texts of -s and -F, None if not given.
        children: whether callers' overhead is shown.
        drops_children: whether -s and `-F +` cannot add it, either, because the recording has no callchains.
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
    drops_children: bool = False
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
    strict_fields = columns.fields is not None and not columns.fields.startswith("+")
    layout = _layout(columns, strict_fields, dynamic)
    if columns.drops_children and not strict_fields:
        for entries in (layout.fields, layout.sorts):
            entries[:] = [entry for entry in entries if entry.name != "overhead_children"]
    if any(key.name not in columns.hidden for key in layout.keys):  # at least one key must be visible
        layout.hidden = columns.hidden
    return layout


def _layout(columns: ColumnOptions, strict_fields: bool, dynamic: Finder) -> Layout:
    layout = Layout()
    for entry, level in _sort_entries(columns, strict_fields, dynamic):
        if _append(layout.sorts, entry) and isinstance(entry, SortKey):
            while len(layout.levels) <= level:
                layout.levels.append([])
            layout.levels[level].append(entry)
    layout.levels = [keys for keys in layout.levels if keys]
    parent = sort_key("parent")
    if columns.parent and _append(layout.sorts, parent):
        layout.levels.append([parent])
    if not strict_fields:
        metrics = [*_overheads(columns), *columns.metrics]
        layout.fields = [output_field(name) for name in metrics]
    if columns.fields is not None:
        for entry in _field_entries(columns, dynamic):
            # perf shows two names of one column twice, unlike those of -s
            if all((other.name, *_event_of(other)) != (entry.name, *_event_of(entry)) for other in layout.fields):
                layout.fields.append(entry)
    for entry in list(layout.sorts):
        _append(layout.fields, entry)
    for entry in layout.fields:
        _append(layout.sorts, entry)
    # a column with one name in -s and another one in -F has the older one, whose header perf gives to both
    older = [entry for entry in (*layout.sorts, *layout.fields) if entry.name.endswith("p_stage_cyc")]
    for entries in (layout.fields, layout.sorts):
        entries[:] = [next((one for one in older if _alike(one, entry)), entry) for entry in entries]
    return layout


def _overheads(columns: ColumnOptions) -> list[str]:
    """Return the shares of every report, the first of which sorts it."""
    names = ["latency", "overhead"] if columns.latency else ["overhead"]
    return [f"{name}_children" for name in names if columns.children] + names


def _event_of(entry: Entry) -> tuple[int | None, ...]:
    return (entry.event,) if isinstance(entry, SortKey) else ()


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
        for entry in _find(token, columns.mode, dynamic, "--fields") if token else ():
            # perf gives columns the names of the machine's architecture as it reads -s
            yield entry._replace(header=STAGE_HEADER) if entry.name == "local_p_stage_cyc" else entry


def _find(token: str, mode: Mode, dynamic: Finder, option: str) -> list[Entry]:
    entry = field_named(token) if option == "--fields" else key_named(token)
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


class CallGraph(NamedTuple):
    """Options of callchains: perf's --call-graph.

    Attributes:
        style: graph, fractal, flat, folded or none.
        percent: smaller nodes are hidden.
        limit: the most entries per tree (0: all).
        order: caller or callee.
        key: what identifies frames: function, address or srcline.
        value: percent, period or count.
    """

    style: str = "graph"
    percent: float = 0.5
    limit: int = 0
    order: str = "callee"
    key: str = "function"
    value: str = "percent"

    @property
    def relative(self) -> bool:
        """Whether shares are relative to the parent node."""
        return self.style == "fractal"

    @property
    def within_functions(self) -> bool:
        """Whether addresses within a function are distinguished, and shown."""
        return self.key in ("address", "srcline")


#: frames of a callchain by default: in perf's text, and elsewhere, where imports within imports and recursion exceed those
PERFS_FRAMES, ALL_FRAMES = 127, 2048
#: the default of -p: the parents for --sort parent
DEFAULT_PARENT = "^sys_|^do_page_fault"


class ChainOptions(NamedTuple):
    """Options for the use of callchains in a report.

    Attributes:
        call_graph: None for a report without callchains
        children: whether callers are rows, too
        max_stack: frames of a callchain that count in tables and trees
        ignore_callees: a regular expression for functions whose callees are dropped
        recursion_as_one: whether a function that calls itself is one line of a call tree
        branch_history: whether callchains begin with branch records
    """

    call_graph: CallGraph | None = None
    children: bool = False
    max_stack: int = PERFS_FRAMES
    ignore_callees: str = ""
    recursion_as_one: bool = False
    branch_history: bool = False


class RowOptions(NamedTuple):
    """Which rows a report has, and what 100 % is.

    Attributes:
        hierarchy: whether each sort key has a level of its own
        group: whether events of a group share a table; True: all events, if none are grouped
        splits_memory_loads: whether a group that mem-loads-aux leads comes apart, as in report, but not in annotate
        sort_member: the event of a group by which the table is sorted
        parent: a regular expression, for --sort parent
        exclude_other: whether to omit samples without a parent
        hide_unresolved: whether to omit rows without a symbol
        rows_filtered: whether filters hide rows as in perf, each by its first sample, instead of selecting samples
        by_address: whether Report.folded keeps the addresses within a function
        by_thread: whether Report.folded keeps the threads, and the states of waits
    """

    hierarchy: bool = False
    group: bool | None = None
    splits_memory_loads: bool = True
    sort_member: int = 0
    parent: str = DEFAULT_PARENT
    exclude_other: bool = False
    hide_unresolved: bool = False
    relative_percentages: bool = False
    rows_filtered: bool = False
    by_address: bool = False
    by_thread: bool = False


class NameOptions(NamedTuple):
    """Options for the names of rows.

    Attributes:
        tiers_as_one: whether all code that a runtime compiled for one function is that function
        unnamed_as_one: whether all code of a file without symbols is one function
        keep_exited: whether threads keep their names when they exit; otherwise later samples show their number only
        full_source_path: whether source files are shown with their folders
        as_addr2line: whether source files have the names that addr2line prints (see perfpy.debuginfo.source_lines)
        unnamed_dso_width: digits of the number of a dso without a name
        objdump: the program that disassembles functions, for their IPC
    """

    verbose: bool = False
    tiers_as_one: bool = False
    unnamed_as_one: bool = False
    keep_exited: bool = True
    full_source_path: bool = False
    as_addr2line: bool = False
    unnamed_dso_width: int = 16
    objdump: str = ""


class TimeOptions(NamedTuple):
    """The resolution of times, in ns: `time_quantum` of --sort time, `clock_quantum` of --sort tod; and whether ns are printed."""

    nanoseconds: bool = False
    time_quantum: int = 100_000_000
    clock_quantum: int = HOUR


class ReportOptions(NamedTuple):
    """The options that decide which rows a report has."""

    columns: ColumnOptions = ColumnOptions()
    sample_filter: SampleFilter = SampleFilter()
    chains: ChainOptions = ChainOptions()
    rows: RowOptions = RowOptions()
    names: NameOptions = NameOptions()
    times: TimeOptions = TimeOptions()

    def by_address(self, columns: ColumnOptions) -> ReportOptions:
        """Return options for a report without callchains that keeps the addresses within functions."""
        rows, chains = self.rows._replace(by_address=True), self.chains._replace(call_graph=None, children=False)
        return self._replace(columns=columns, rows=rows, chains=chains)


# Plan a report before any sample is read: its columns, its tables, and the folding of samples.


class ReportPlan(NamedTuple):
    """The plan of a report.

    Attributes:
        events: of the recording.
        options: reduced to what the recording supports.
        layout: the columns.
        groups: the tables of events.
        folding: the dimensions that samples are folded by.
    """

    events: Sequence[FileEvent]
    options: ReportOptions
    layout: Layout
    groups: EventGroups
    folding: FoldingPlan

    @property
    def follows_switches(self) -> bool:
        """Whether the number of running threads matters."""
        folding = self.folding
        return "parallelism" in folding.dimensions or LATENCY in folding.measures or folding.sample_filter.parallelism is not None

    @property
    def most_frames(self) -> int:
        """The limit of frames of a callchain: for unwound ones the kernel part and the user part have the limit each."""
        if self.folding.history is not None:
            return _NO_LIMIT  # it has limited branches and calls
        parts = 2 if any(event.attr.sample_type & SampleType.STACK_USER for event in self.events) else 1
        return parts * self.options.chains.max_stack

    @property
    def callers_first(self) -> bool:
        """Whether callchains are read from their outermost frame."""
        graph = self.options.chains.call_graph
        return graph is not None and graph.order == "caller"

    @property
    def needs_sources(self) -> bool:
        """Whether source lines are shown."""
        graph = self.options.chains.call_graph
        return any(self.layout.has(name) for name in _OF_SOURCE) or (graph is not None and graph.within_functions)

    @property
    def needs_parents(self) -> bool:
        """Whether rows have parents."""
        return _needs_parents(self.options, self.layout)


def plan_report(data: SourceHeader, options: ReportOptions, fields: Finder | None = None) -> ReportPlan:
    """Return the plan for a recording. Raises UsageError for unknown keys.

    fields: finds tracepoints' fields, if the recording itself cannot.
    """
    events, tracing = data.events, data.tracing
    options = _as_recorded(options, events, is_pipe=data.is_pipe)
    groups = EventGroups.of(
        events, data.features.get("group_desc", ()), options.rows.group, splits_memory_loads=options.rows.splits_memory_loads
    )

    def traced(token: str) -> list[SortKey]:
        if tracing is None:
            return []
        from perfpy.analysis.event_sort_keys import field_keys

        return field_keys(token, events, tracing.formats, raw=options.columns.raw_trace, endian=data.endian, leaders=groups.leader)

    layout = make_layout(options.columns, fields or traced)
    return ReportPlan(events, options, layout, groups, _folding_plan(options, layout, events))


def _as_recorded(options: ReportOptions, events: Sequence[FileEvent], *, is_pipe: bool) -> ReportOptions:
    """Reduce the options to what the recording supports.

    perf chooses columns before it reads a record, and a pipe's events
    are records: reports of pipes have no callers and no trace column by default.
    """
    tracepoints = not is_pipe and all(event.attr.type == PerfType.TRACEPOINT for event in events)
    kinds = SampleType.CALLCHAIN | (SampleType.BRANCH_STACK if options.chains.branch_history else 0)
    chains = any(event.attr.sample_type & kinds for event in events)
    graph = options.chains.call_graph if chains else None
    ordinary = options.columns.mode is Mode.NORMAL
    calls = any(event.attr.sample_type & SampleType.CALLCHAIN for event in events)
    children = options.chains.children and calls and not is_pipe and ordinary
    if options.columns.mode is Mode.BRANCH and graph is not None:
        graph = graph._replace(style="none", key="function")  # perf shows no callchains of branches, but finds parents in them
    drops_children = options.chains.children and not calls and not is_pipe
    columns = options.columns._replace(tracepoints=tracepoints, children=children, drops_children=drops_children)
    return options._replace(chains=options.chains._replace(call_graph=graph, children=children), columns=columns)


_NO_LIMIT = 1 << 20  # frames
#: keys that show source lines
_OF_SOURCE = ("srcline", "srcfile", "srcline_from", "srcline_to", "pyline")
#: keys that are equal everywhere in a function
_OF_FUNCTION = ("dso", "symbol", "symbol_size", "dso_size", "pyfunc")


def _folding_plan(options: ReportOptions, layout: Layout, events: Sequence[FileEvent]) -> FoldingPlan:
    """Return the dimensions that the options need."""
    has_trees = options.chains.call_graph is not None and options.chains.call_graph.style != "none"
    chains = has_trees or options.chains.children or _needs_parents(options, layout) or bool(options.chains.ignore_callees)
    sources = [key.dimension for key in layout.keys if key.dimension not in ("location", "parent")]
    if chains or _looks_at_locations(options) or any(key.of_location for key in layout.keys):
        sources.append("frame")
    if options.columns.mode is Mode.BRANCH and _looks_at_locations(options):
        sources += ["sampled", "branch_from"]
    if options.rows.by_thread:
        sources += ["pid", "tid", *(["state"] if says_why_it_waited(events) else [])]
    always_summed = {"period", "samples", "children"}
    values = [entry.value.removesuffix("_children") for entry in layout.fields if isinstance(entry, OutputField)]
    measures = [name for name in values if name not in always_summed]
    # -v shows the address of a row's first sample
    graph = options.chains.call_graph
    by_address = options.rows.by_address or options.names.verbose or (graph is not None and graph.within_functions)
    by_function = not by_address and all(key.name in _OF_FUNCTION for key in layout.keys if key.of_location or key.dimension == "frame")
    history = None
    if chains and options.chains.branch_history:
        from perfpy.analysis.callchains import BranchHistory  # few reports have it

        callers_first = graph is not None and graph.order == "caller"
        history = BranchHistory([event.attr for event in events], options.chains.max_stack, callers_first=callers_first)
    dimensions = tuple(dict.fromkeys(sources))
    return FoldingPlan(dimensions, options.sample_filter, tuple(dict.fromkeys(measures)), chains, by_function, history)


def _needs_parents(options: ReportOptions, layout: Layout) -> bool:
    """Whether rows have parents."""
    return options.rows.exclude_other or layout.has("parent")


def _looks_at_locations(options: ReportOptions) -> bool:
    return options.sample_filter.by_location or options.sample_filter.symbol_part is not None or options.rows.hide_unresolved


# Event groups: the events that share a table.


_AUXILIARY = "mem-loads-aux"


class EventGroups(NamedTuple):
    """The table of each event, by the index of its leader, and the event's ordinal in the group.

    Attributes:
        leader, member: of each event.
        titles: of the groups, by leader.
        sizes: the recorded number of members, by leader.
    """

    leader: tuple[int, ...]
    member: tuple[int, ...]
    titles: Mapping[int, str]
    sizes: Mapping[int, int]

    @classmethod
    def of(
        cls, events: Sequence[FileEvent], recorded: Sequence[EventGroup], as_groups: bool | None, *, splits_memory_loads: bool = True
    ) -> EventGroups:
        """Group events as recorded; not at all if as_groups is False; all together if it is True and none are recorded.

        splits_memory_loads: whether a group that mem-loads-aux leads comes apart. The kernel demands this leader for memory loads, and its
        samples say nothing of them.
        """
        count, titles = len(events), {}
        leader, member = list(range(count)), [0] * count
        groups = [(group.leader, group.members, group.name) for group in recorded]
        if as_groups is not None and not recorded:
            groups = [(0, count, "")]  # perf treats them as a group then, even if it is not shown
        if splits_memory_loads:
            groups = [group for group in groups if not (group[0] < count and _AUXILIARY in events[group[0]].name)]
        for first, members, name in groups if as_groups is not False else ():
            titles[first] = "anon group" if name == "{anon_group}" else name
            for position in range(1, min(members, count - first)):
                leader[first + position], member[first + position] = first, position
        sizes = {first: members for first, members, _ in groups}
        return cls(tuple(leader), tuple(member), titles, sizes)
