"""What a report of one recording will be: its columns, its tables, what samples are told apart by.

What enters: a recording and ReportOptions. What leaves: a `ReportPlan`, made
before a sample is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.aggregate.profile import LATENCY, Recipe
from perfpy.analysis.report.event_groups import EventGroups
from perfpy.analysis.report.layout import Layout, make_layout
from perfpy.analysis.sortkeys.sort_key import Mode, OutputField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.report.layout import Finder
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sortkeys.sort_key import SortKey
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SourceHeader


class ReportPlan(NamedTuple):
    """What a report of one recording will be.

    options: as far as the recording can meet them; recipe: what samples are told apart by.
    """

    events: Sequence[FileEvent]
    options: ReportOptions
    layout: Layout
    groups: EventGroups
    recipe: Recipe

    @property
    def follows_switches(self) -> bool:
        """Whether it matters how many threads ran."""
        recipe = self.recipe
        return "parallelism" in recipe.dimensions or LATENCY in recipe.measures or recipe.sample_filter.parallelism is not None

    @property
    def most_frames(self) -> int:
        """The largest number of frames of a callchain: of unwound ones the kernel's part and the user's have the limit each."""
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
        """Whether the rows' parents are looked for."""
        return _needs_parents(self.options, self.layout)


def plan_report(data: SourceHeader, options: ReportOptions, fields: Finder | None = None) -> ReportPlan:
    """What the options mean for a recording; raises UsageError for keys that nobody knows.

    fields: finds tracepoints' fields, where the recording itself cannot.
    """
    events, tracing = data.events, data.tracing
    options = _as_recorded(options, events, is_pipe=data.is_pipe)

    def traced(token: str) -> list[SortKey]:
        if tracing is None:
            return []
        from perfpy.analysis.sortkeys.trace_fields import field_keys

        return field_keys(token, events, tracing.formats, raw=options.wanted.raw_trace, endian=data.endian)

    layout = make_layout(options.wanted, fields or traced)
    groups = EventGroups.of(len(events), data.features.get("group_desc", ()), options.rows.group)
    return ReportPlan(events, options, layout, groups, _recipe(options, layout))


def _as_recorded(options: ReportOptions, events: Sequence[FileEvent], *, is_pipe: bool) -> ReportOptions:
    """The options as far as the recording can meet them.

    perf decides on columns before it has read a record, and a pipe's events
    are records: reports of pipes have no callers and no trace column by default.
    """
    tracepoints = not is_pipe and all(event.attr.type == PerfType.TRACEPOINT for event in events)
    chains = any(event.attr.sample_type & SampleType.CALLCHAIN for event in events)
    graph = options.chains.call_graph if chains else None
    ordinary = options.wanted.mode is Mode.NORMAL
    children = options.chains.children and chains and not is_pipe and ordinary
    if options.wanted.mode is Mode.BRANCH:
        graph = None  # perf gives branches no callchains
    wanted = options.wanted._replace(tracepoints=tracepoints, children=children)
    return options._replace(chains=options.chains._replace(call_graph=graph, children=children), wanted=wanted)


#: keys that show source lines
_OF_SOURCE = ("srcline", "srcfile", "srcline_from", "srcline_to", "pyline")
#: what is the same everywhere in a function
_OF_FUNCTION = ("dso", "symbol", "symbol_size", "dso_size", "pyfunc")


def _recipe(options: ReportOptions, layout: Layout) -> Recipe:
    """What samples are folded by to answer the options."""
    drawn = options.chains.call_graph is not None and options.chains.call_graph.style != "none"
    chains = drawn or options.chains.children or _needs_parents(options, layout) or bool(options.chains.ignore_callees)
    sources = [key.dimension for key in layout.keys if key.dimension not in ("location", "parent")]
    if chains or _looks_at_locations(options) or any(key.of_location for key in layout.keys):
        sources.append("frame")
    known = {"period", "samples", "children"}
    asked = [entry.value.removesuffix("_children") for entry in layout.fields if isinstance(entry, OutputField)]
    measures = [name for name in asked if name not in known]
    # -v shows the address of a row's first sample
    graph = options.chains.call_graph
    by_address = options.rows.by_address or options.names.verbose or (graph is not None and graph.within_functions)
    by_function = not by_address and all(key.name in _OF_FUNCTION for key in layout.keys if key.of_location)
    return Recipe(tuple(dict.fromkeys(sources)), options.sample_filter, tuple(dict.fromkeys(measures)), chains, by_function)


def _needs_parents(options: ReportOptions, layout: Layout) -> bool:
    """Whether the rows' parents are looked for."""
    return options.rows.exclude_other or layout.has("parent")


def _looks_at_locations(options: ReportOptions) -> bool:
    return options.sample_filter.by_location or options.sample_filter.symbol_part is not None or options.rows.hide_unresolved
