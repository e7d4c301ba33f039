"""Plan a report before any sample is read: its columns, its tables, and the folding of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.aggregate.profile import LATENCY, FoldingPlan
from perfpy.analysis.entries.event_groups import EventGroups
from perfpy.analysis.entries.layout import Layout, make_layout
from perfpy.analysis.samples.wait_events import says_why_it_waited
from perfpy.analysis.sortkeys.sort_key import Mode, OutputField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.entries.layout import Finder
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.sortkeys.sort_key import SortKey
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SourceHeader


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

    def traced(token: str) -> list[SortKey]:
        if tracing is None:
            return []
        from perfpy.analysis.sortkeys.trace_fields import field_keys

        return field_keys(token, events, tracing.formats, raw=options.columns.raw_trace, endian=data.endian)

    layout = make_layout(options.columns, fields or traced)
    groups = EventGroups.of(len(events), data.features.get("group_desc", ()), options.rows.group)
    return ReportPlan(events, options, layout, groups, _folding_plan(options, layout, events))


def _as_recorded(options: ReportOptions, events: Sequence[FileEvent], *, is_pipe: bool) -> ReportOptions:
    """Reduce the options to what the recording supports.

    perf chooses columns before it reads a record, and a pipe's events
    are records: reports of pipes have no callers and no trace column by default.
    """
    tracepoints = not is_pipe and all(event.attr.type == PerfType.TRACEPOINT for event in events)
    chains = any(event.attr.sample_type & SampleType.CALLCHAIN for event in events)
    graph = options.chains.call_graph if chains else None
    ordinary = options.columns.mode is Mode.NORMAL
    children = options.chains.children and chains and not is_pipe and ordinary
    if options.columns.mode is Mode.BRANCH:
        graph = None  # perf shows no callchains of branches
    columns = options.columns._replace(tracepoints=tracepoints, children=children)
    return options._replace(chains=options.chains._replace(call_graph=graph, children=children), columns=columns)


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
    if options.rows.by_thread:
        sources += ["pid", "tid", *(["state"] if says_why_it_waited(events) else [])]
    always_summed = {"period", "samples", "children"}
    values = [entry.value.removesuffix("_children") for entry in layout.fields if isinstance(entry, OutputField)]
    measures = [name for name in values if name not in always_summed]
    # -v shows the address of a row's first sample
    graph = options.chains.call_graph
    by_address = options.rows.by_address or options.names.verbose or (graph is not None and graph.within_functions)
    by_function = not by_address and all(key.name in _OF_FUNCTION for key in layout.keys if key.of_location)
    return FoldingPlan(tuple(dict.fromkeys(sources)), options.sample_filter, tuple(dict.fromkeys(measures)), chains, by_function)


def _needs_parents(options: ReportOptions, layout: Layout) -> bool:
    """Whether rows have parents."""
    return options.rows.exclude_other or layout.has("parent")


def _looks_at_locations(options: ReportOptions) -> bool:
    return options.sample_filter.by_location or options.sample_filter.symbol_part is not None or options.rows.hide_unresolved
