"""A report of a recording: samples in, histograms out.

What enters: a recording, its tasks and symbolizer, and ReportOptions.
What leaves: `Report`. This is the one place that knows the order of the steps:
fold the samples, name the places, make the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfpy.abi.flags import PerfType, RecordType, SampleType
from perfpy.abi.records import Cgroup, Lost, LostSamples
from perfpy.analysis.aggregate.profile import LATENCY, Recipe
from perfpy.analysis.aggregate.scan import Folding
from perfpy.analysis.report.groups import EventGroups
from perfpy.analysis.report.layout import make_layout
from perfpy.analysis.report.tables import TableMaker
from perfpy.analysis.report.values import histogram_values
from perfpy.analysis.samples.cgroup_namespaces import CgroupNamespaces
from perfpy.analysis.samples.locations import Locations
from perfpy.analysis.samples.parallelism import Parallelism
from perfpy.analysis.sortkeys.key_columns import KeyContext
from perfpy.analysis.sortkeys.names import Mode, OutputField
from perfpy.analysis.sortkeys.trace_fields import field_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.aggregate.scan import MoreColumns, Progress
    from perfpy.analysis.report.histogram import Histogram, ReportRow
    from perfpy.analysis.report.layout import Layout
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sortkeys.key_columns import MemoryWords, Payloads
    from perfpy.analysis.sortkeys.names import SortKey
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.providers.missing import MissingSymbols
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline


@dataclass(eq=False)
class Report:
    """The histograms of a recording, in the order of its events.

    lost: samples that the kernel says it dropped; dropped: records of any kind
    for which there was no room; missing: files whose symbols
    were not found, with the samples in them (empty where no places are shown).
    """

    histograms: list[Histogram]
    options: ReportOptions
    layout: Layout
    lost: int
    dropped: int
    missing: list[MissingSymbols]

    @property
    def samples(self) -> int:
        """How many samples all events have."""
        return sum(event.samples for histogram in self.histograms for event in histogram.events)

    def top(self, count: int = 10) -> list[ReportRow]:
        """The first rows of the first table that has samples."""
        return next((histogram.top(count) for histogram in self.histograms if histogram.leader.samples), [])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, of the shape that `perfpy report --json` writes (perfpy.views.report.json)."""
        tables = [histogram_values(histogram) for histogram in self.histograms]
        return {"format": "perfpy-report", "version": 1, "lost": self.lost, "events": tables}


def make_report(
    data: PerfData,
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    options: ReportOptions,
    payloads: Payloads | None = None,
    memory: MemoryWords | None = None,
    progress: Progress | None = None,
) -> Report:
    """The report of a recording; payloads, memory: what words tracepoints' data and data_src; progress: told how far it is.

    Whether there are callchains at all is the recording's to say: asked for
    callers, a recording without callchains gives a report without them.
    Raises UsageError for keys that nobody knows.
    """
    events = data.events
    options = _as_recorded(options, events, is_pipe=data.is_pipe)
    tracing = data.tracing

    def traced(token: str) -> list[SortKey]:
        return [] if tracing is None else field_keys(token, events, tracing.formats, raw=options.wanted.raw_trace, endian=data.endian)

    layout = make_layout(options.wanted, traced)
    groups = EventGroups.of(len(events), data.features.get("group_desc", ()), options.group)
    recipe = _recipe(options, layout)
    namespaces = CgroupNamespaces(data.side_band([RecordType.NAMESPACES])) if layout.has("cgroup_id") else None
    more: list[MoreColumns] = [Parallelism.of(data)] if _follows_switches(recipe) else []
    more += [namespaces] if namespaces is not None else []
    mode, grain = options.wanted.mode, options.time_quantum
    folding = Folding(data, timeline, symbolizer, recipe, mode=mode, more=more, grain=grain, progress=progress)
    profile = folding.profile()
    losses = [side.record for side in data.side_band([RecordType.LOST, RecordType.LOST_SAMPLES])]
    lost = sum(record.lost for record in losses if isinstance(record, LostSamples))
    dropped = sum(record.lost for record in losses if isinstance(record, Lost))
    listed = [entry.filename for entry in data.features.get("build_id", ())]
    locations = Locations(symbolizer, long_names=options.verbose, listed=listed)
    context = KeyContext(
        locations,
        timeline.comms,
        timeline.last_comm,
        verbose=options.verbose,
        nanoseconds=options.nanoseconds,
        quantum=options.time_quantum,
        unnamed_dso_width=options.unnamed_dso_width,
        memory=memory,
        payloads=payloads,
        raw=profile.raw.payloads,
        raw_trace=options.wanted.raw_trace,
        socket_of=_socket_finder(data),
        cgroup_name=_cgroup_names(data).get if layout.has("cgroup") else lambda _number: None,
        cgroup_namespaces=namespaces.namespaces if namespaces is not None else (),
    )
    histograms = TableMaker(events, options, layout, groups, profile, context).histograms()
    return Report(histograms, options, layout, lost, dropped, symbolizer.missing(profile.samples_of_frames()))


#: what is the same everywhere in a function
_OF_FUNCTION = ("dso", "symbol", "symbol_size", "dso_size")


def _recipe(options: ReportOptions, layout: Layout) -> Recipe:
    """What samples are folded by to answer the options."""
    drawn = options.call_graph is not None and options.call_graph.style != "none"
    parents = options.exclude_other or layout.has("parent")
    chains = drawn or options.children or parents or bool(options.ignore_callees)
    sources = [key.dimension for key in layout.keys if key.dimension not in ("location", "parent")]
    if chains or _looks_at_locations(options) or any(key.of_location for key in layout.keys):
        sources.append("frame")
    known = {"period", "samples", "children"}
    asked = [entry.value.removesuffix("_children") for entry in layout.fields if isinstance(entry, OutputField)]
    measures = [name for name in asked if name not in known]
    # -v shows the address of a row's first sample
    by_address = options.verbose or (options.call_graph is not None and options.call_graph.key == "address")
    by_function = not by_address and all(key.name in _OF_FUNCTION for key in layout.keys if key.of_location)
    return Recipe(tuple(dict.fromkeys(sources)), options.selection, tuple(dict.fromkeys(measures)), chains, by_function)


def _looks_at_locations(options: ReportOptions) -> bool:
    return options.selection.by_location or options.selection.symbol_part is not None or options.hide_unresolved


def _follows_switches(recipe: Recipe) -> bool:
    """Whether it matters how many threads ran."""
    return "parallelism" in recipe.dimensions or LATENCY in recipe.measures or recipe.selection.parallelism is not None


def _socket_finder(data: PerfData) -> Callable[[int], int]:
    """CPU -> its socket; -1 where the recording does not say."""
    topology = data.features.get("cpu_topology")
    cpus = topology.cpus if topology is not None else ()
    return lambda cpu: cpus[cpu].socket if 0 <= cpu < len(cpus) else -1


def _cgroup_names(data: PerfData) -> dict[int, str]:
    return {side.record.id: side.record.path for side in data.side_band([RecordType.CGROUP]) if isinstance(side.record, Cgroup)}


def _as_recorded(options: ReportOptions, events: Sequence[FileEvent], *, is_pipe: bool) -> ReportOptions:
    """The options as far as the recording can meet them.

    perf decides on columns before it has read a record, and a pipe's events
    are records: reports of pipes have no callers and no trace column by default.
    """
    tracepoints = not is_pipe and all(event.attr.type == PerfType.TRACEPOINT for event in events)
    chains = any(event.attr.sample_type & SampleType.CALLCHAIN for event in events)
    graph = options.call_graph if chains else None
    ordinary = options.wanted.mode is Mode.NORMAL
    children = options.children and chains and not is_pipe and ordinary
    if options.wanted.mode is Mode.BRANCH:
        graph = None  # perf gives branches no callchains
    wanted = options.wanted._replace(tracepoints=tracepoints, children=children)
    return options._replace(call_graph=graph, children=children, wanted=wanted)
