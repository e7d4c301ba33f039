"""Make a report of a recording: plan, fold the samples, resolve the locations, build the tables."""

from __future__ import annotations

import math
import os
from functools import cache, cached_property

import numpy as np

from perfpy.abi.attr import is_sampled_each_time, option_for_fewer
from perfpy.abi.columns import ConvertibleTable
from perfpy.abi.flags import MISC_USER, BranchSample, PerfType, RecordType, SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol, dataclass, overload
from perfpy.abi.records import Cgroup, Lost, LostSamples
from perfpy.analysis.aggregate.profile import LATENCY, FoldingPlan
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.locations import ROLE_BITS, Locations
from perfpy.analysis.report.entries import drawn_chains, with_inlined_leaves
from perfpy.analysis.report.options import plan_report
from perfpy.analysis.report.tables import make_tables
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, TimeOfDay, is_off_cpu, is_time, is_walked
from perfpy.analysis.sort_key import KeyStyle, KeyTexts, MachineTexts, RecordingText, TaskComms, TraceData
from perfpy.errors import plural
from perfpy.perfdata.header import Feature, key_of
from perfpy.symbols.symbolizer import USER_LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.aggregate.scan import MoreColumns, Progress
    from perfpy.analysis.dimensions import CgroupNamespaces
    from perfpy.analysis.locations import SourceTexts
    from perfpy.analysis.report.call_trees import CallNode
    from perfpy.analysis.report.entries import DrawnChains
    from perfpy.analysis.report.options import Layout, ReportOptions, ReportPlan
    from perfpy.analysis.report.tables import Histogram, ReportRow
    from perfpy.analysis.sort_key import Ipc, MemoryWords, Payloads
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.quality_notes import ChainEnds, MissingSymbols, TruncatedStacks
    from perfpy.symbols.symbolizer import Symbolizer


_SHARES: Final = {"period": "overhead", "children": "overhead_children", LATENCY: LATENCY, f"{LATENCY}_children": f"{LATENCY}_children"}
_MEASURES: Final = ("period", "children", "samples")


def _of_thread(text: str) -> int:
    """Parse PID:COMM."""
    return int(text.partition(":")[0])


#: keys with numeric texts; texts that are no number ("unknown") become None
_NUMBERS: Final[dict[str, Callable[[str], float]]] = {
    "pid": _of_thread,
    "tgid": _of_thread,
    "time": float,
    **dict.fromkeys(("cpu", "socket", "parallelism", "local_weight", "weight", "local_ins_lat", "ins_lat", "dso_size", "symbol_size"), int),
}


def report_columns(histograms: Sequence[Histogram]) -> dict[str, list[Any]]:
    """Return the columns; None for columns that a table lacks."""
    tables = [table for table in histograms if len(table.visible_entries())]
    parts = [(table, _columns(table)) for table in tables]
    names = dict.fromkeys(name for _, part in parts for name in part)
    columns: dict[str, list[Any]] = {"event": [_title(table) for table, part in parts for _ in part["period"]]} if len(parts) > 1 else {}
    columns |= {name: [value for _, part in parts for value in part.get(name, [None] * len(part["period"]))] for name in names}
    return columns


def _title(table: Histogram) -> str:
    return table.group.title or table.leader.event.name


def _columns(table: Histogram) -> dict[str, list[Any]]:
    entries = table.visible_entries()
    measures = table.entries.measures
    columns: dict[str, list[Any]] = {field: table.percents(name, entries).tolist() for name, field in _SHARES.items() if name in measures}
    columns |= {name: measures[name][entries, 0].tolist() for name in _MEASURES if name in measures}
    for key in table.keys:
        texts = [text.strip() for text in table.texts(key, entries)]
        columns[key] = [_number(_NUMBERS[key], text) for text in texts] if key in _NUMBERS else texts
    return columns


def _number(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except ValueError:
        return None


class Losses(NamedTuple):
    """What the kernel dropped, as it counts it.

    Attributes:
        samples: of all events.
        records: of any kind; samples that are counted since Linux 6.1 are among them.
        switches: the part of `samples` that was lost by the event of waits, whose records are context switches.
    """

    samples: int
    records: int
    switches: int


NO_LOSSES: Final = Losses(0, 0, 0)


@dataclass(eq=False, repr=False)
class Report(ConvertibleTable):
    """The histograms of a recording, in the order of its events.

    It is a sequence of the rows (ReportRow) of the first event with samples; report["cycles"] is another event's Histogram.

    Attributes:
        losses: what the kernel dropped.
        truncated: callchains that end because copies of stacks were too short.
        folded: the folded samples.
        find_missing, note_chains: compute `missing` and `notes` on demand.
        chains: frames and offsets of the distinct callchains, in the order in which trees are read.
        find_lines: returns the path and the line of frames, None if unknown; second argument: which frames are callers, whose
            addresses are those after the call.
        find_begins: returns the path and the line where functions (symbols) begin, if known.
        find_code: returns the function ("" if unknown), and the path and the line of addresses in processes at delivery keys.
        fold_times: folds samples again, with their times at a resolution in ns; returns None if that takes long.
        fold_addresses: folds samples again, with the addresses of each callchain; None for reports that are made from other reports.
        display: formats the report in Python's prompt and notebooks.
        is_walked: see perfpy.analysis.sample_view.is_walked.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     report = recording.report(by="comm")
    >>> len(report), report[0].texts["comm"], report.samples
    (1, 'busy', 10)
    """

    histograms: list[Histogram]
    options: ReportOptions
    layout: Layout
    truncated: list[TruncatedStacks]
    folded: Folded
    find_missing: Callable[[], list[MissingSymbols]]
    note_chains: Callable[[], str]
    display: Display | None = None
    chains: DrawnChains | None = None
    find_lines: Callable[[NDArray[np.int64], NDArray[np.bool_]], list[tuple[str, int] | None]] | None = None
    find_begins: Callable[[Sequence[int]], dict[int, tuple[str, int]]] | None = None
    find_code: Callable[[Sequence[int], Sequence[int], Sequence[int]], list[tuple[str, tuple[str, int] | None]]] | None = None
    fold_addresses: Callable[[], ReportSamples] | None = None
    fold_times: Callable[[int], ReportSamples | None] | None = None
    losses: Losses = NO_LOSSES
    is_walked: bool = False

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows.visible_entries())

    def __iter__(self) -> Iterator[ReportRow]:
        return iter(()) if self._rows is None else self._rows.rows()

    @overload
    def __getitem__(self, index: int) -> ReportRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ReportRow]: ...
    @overload
    def __getitem__(self, index: str) -> Histogram: ...
    def __getitem__(self, index: int | slice | str) -> ReportRow | list[ReportRow] | Histogram:
        """Return a row, some rows, or the table of an event. Raises IndexError, KeyError."""
        if isinstance(index, str):
            return self._table(index)
        rows = self._rows
        if isinstance(index, slice):
            return [rows.row(entry) for entry in rows.visible_entries()[index].tolist()] if rows is not None else []
        if rows is None:
            raise IndexError("the report has no rows")
        return rows.row(int(rows.visible_entries()[index]))

    def _table(self, name: str) -> Histogram:
        for histogram in self.histograms:
            if name in (histogram.group.title, *(total.event.name for total in histogram.events)):
                return histogram
        names = ", ".join(total.event.name for histogram in self.histograms for total in histogram.events)
        raise KeyError(f"no event {name!r} in this report; its events: {names}")

    @cached_property
    def _rows(self) -> Histogram | None:
        return next((histogram for histogram in self.histograms if histogram.leader.samples), None)

    def __repr__(self) -> str:
        return self.display.report_text(self) if self.display else super().__repr__()

    def _repr_html_(self) -> str | None:
        """Return the HTML for notebooks."""
        return self.display.report_html(self) if self.display else None

    @cached_property
    def missing(self) -> list[MissingSymbols]:
        """The files without symbols, with their samples; empty without locations."""
        return self.find_missing()

    @cached_property
    def notes(self) -> list[str]:
        """Notes on the report, one line each."""
        note = self.note_chains()
        return [note] if note else []

    @property
    def lost(self) -> int:
        """The number of samples that the kernel dropped."""
        return self.losses.samples

    @property
    def samples(self) -> int:
        """The number of samples of all events."""
        return sum(event.samples for histogram in self.histograms for event in histogram.events)

    def top(self, count: int = 10) -> list[ReportRow]:
        """Return the first rows of the first table with samples."""
        return [] if self._rows is None else self._rows.top(count)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, in the form of `perfpy report --json` (perfpy.views.report.json)."""
        tables = [histogram_values(histogram) for histogram in self.histograms]
        return {"format": "perfpy-report", "version": 1, "lost": self.lost, "events": tables}

    def to_columns(self) -> dict[str, list[Any]]:
        """Return every row of every table, as columns: name -> values, numbers as numbers (perfpy.analysis.report.report)."""
        return report_columns(self.histograms)


class Display(Protocol):
    """The formatter of reports in Python's prompt and notebooks."""

    def report_text(self, report: Report, /) -> str:
        """Return the text for the prompt."""

    def report_html(self, report: Report, /) -> str:
        """Return the HTML for notebooks."""


def make_report(
    data: SampleSource,
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    options: ReportOptions,
    payloads: Payloads | None = None,
    memory: MemoryWords | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Report:
    """Return the report of a recording.

    Without callchains in the recording, a report with callers has none. Raises UsageError for unknown keys.

    Args:
        payloads, memory: the texts of tracepoints' data and of data_src.
        progress: called with the share of the file that has been read.
        jobs: number of processes (0: one per CPU).
    """
    plan = plan_report(data, options)
    planned = PlannedReport(plan, *planned_scan(plan, data, timeline, symbolizer, progress, jobs), payloads, memory)
    return planned.report(planned.scan.profile())


class PlannedReport(NamedTuple):
    """A report before its samples are folded.

    Attributes:
        scan: folds the samples.
        machine, payloads, memory: further texts.
    """

    plan: ReportPlan
    scan: SampleScan
    machine: MachineTexts
    payloads: Payloads | None = None
    memory: MemoryWords | None = None

    def report(self, profile: FoldedSamples) -> Report:
        """Return the report of the folded samples."""
        data, timeline, symbolizer = self.scan.data, self.scan.timeline, self.scan.symbolizer
        trace = TraceData(profile.raw.payloads, self.payloads)
        words = SampleWords(TaskComms(timeline.comms, timeline.last_comm), trace, self.memory, self.machine, self._ipc())
        report = report_of(self.plan, profile, symbolizer, words, [entry.filename for entry in data.features.get("build_id", ())])
        report.losses, report.is_walked = losses(data), is_walked(data)
        report.truncated, report.note_chains = self.scan.truncated_stacks, lambda: _chain_note(data, profile, symbolizer)
        report.fold_addresses = cache(self._fold_addresses)
        report.fold_times = lambda grain: fold_times(self.plan, self.scan, grain)
        return report

    def _ipc(self) -> Callable[[int], Ipc] | None:
        """Return a function's instructions per cycle, if a column shows them."""
        if not self.plan.layout.has("ipc_lbr"):
            return None
        from perfpy.analysis.report.branch_blocks import COLUMNS, function_ipc  # few recordings have branches

        data, options, chosen = self.scan.data, self.plan.options, self.plan.options.sample_filter
        batches = data.batches(COLUMNS | chosen.all_fields())
        return function_ipc(batches, data.events, self.scan.timeline, self.scan.symbolizer, chosen, options.names.objdump)

    def _fold_addresses(self) -> ReportSamples:

        return fold_addresses(self.plan, self.scan)


def planned_scan(
    plan: ReportPlan, data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer, progress: Progress | None = None, jobs: int = 1
) -> tuple[SampleScan, MachineTexts]:
    """Return the scan of a recording for a report, and the names of its CPUs and cgroups."""
    options, layout = plan.options, plan.layout
    namespaces = _cgroup_namespaces(data) if layout.has("cgroup_id") else None
    clock = TimeOfDay.of(data, options.times.clock_quantum) if "wall" in plan.folding.dimensions else None
    more = [*_followed_switches(data, plan), *(adding for adding in (namespaces, clock) if adding is not None)]
    grain, max_stack = options.times.time_quantum, options.chains.max_stack
    scan = SampleScan(
        data, timeline, symbolizer, plan.folding, options.columns.mode, more, grain, progress, max_stack, plan.callers_first, jobs
    )
    scan.by_python = layout.has("pyfunc") or layout.has("pyline")
    return scan, _machine_names(data, layout, namespaces)


class SampleWords(NamedTuple):
    """The texts of a profile's numbers, except locations."""

    tasks: TaskComms
    trace: TraceData
    memory: MemoryWords | None
    machine: MachineTexts
    ipc: Callable[[int], Ipc] | None = None


def report_of(plan: ReportPlan, profile: FoldedSamples, symbolizer: Symbolizer, words: SampleWords, listed: Sequence[str] = ()) -> Report:
    """Return the report of folded samples. listed: files of the recording's build-id table."""
    options = plan.options
    drawn, whole = drawn_chains(profile, symbolizer, options, plan.most_frames, plan.folding.history)  # adds frames, so it comes first
    graph = options.chains.call_graph
    folded = with_inlined_leaves(profile.folded, drawn, symbolizer, callers_first=graph is not None and graph.order == "caller")
    locations = Locations(symbolizer, long_names=options.names.verbose, listed=listed, as_one=options.names.tiers_as_one)
    sources = _source_texts(symbolizer, options) if plan.needs_sources else None
    texts = KeyTexts(locations, sources, words.tasks, words.trace, words.memory, words.machine, key_style(options), ipc=words.ipc)
    histograms = make_tables(plan, folded, drawn, texts)

    def missing() -> list[MissingSymbols]:
        return symbolizer.missing(profile.samples_of_frames())

    def lines(frames: NDArray[np.int64], are_callers: NDArray[np.bool_]) -> list[tuple[str, int] | None]:
        return _source_texts(symbolizer, options).code(frames, are_callers)

    def begins(functions: Sequence[int]) -> dict[int, tuple[str, int]]:
        return _source_texts(symbolizer, options).begins(functions)

    def code(pids: Sequence[int], addresses: Sequence[int], keys: Sequence[int]) -> list[tuple[str, tuple[str, int] | None]]:
        return _code_at(symbolizer.companion(), options, pids, addresses, keys)

    report = Report(histograms, options, plan.layout, [], folded, missing, str)
    report.find_code = code
    report.chains, report.find_lines, report.find_begins = whole, lines, begins
    return report


def _code_at(
    symbolizer: Symbolizer, options: ReportOptions, pids: Sequence[int], addresses: Sequence[int], keys: Sequence[int]
) -> list[tuple[str, tuple[str, int] | None]]:
    """Return the function and the line of addresses that no sample has."""
    modes = np.full(len(pids), MISC_USER, np.uint8)
    frames = symbolizer.frame_ids(np.array(pids, np.int32), np.array(addresses, np.uint64), np.array(keys, np.uint64), modes)
    symbols = symbolizer.resolve().symbol[frames].tolist()
    names = [symbolizer.symbols.name(symbol) if symbol >= 0 else "" for symbol in symbols]
    return [*zip(names, _source_texts(symbolizer, options).code(frames.astype(np.int64)), strict=True)]


def _source_texts(symbolizer: Symbolizer, options: ReportOptions) -> SourceTexts:
    from perfpy.analysis.locations import SourceTexts  # most reports show no source lines

    return SourceTexts(symbolizer, full_paths=options.names.full_source_path, as_addr2line=options.names.as_addr2line)


def _chain_note(data: SampleSource, profile: FoldedSamples, symbolizer: Symbolizer) -> str:
    """Return the note on callchains, if the report has them."""
    if profile.chains is None:
        return ""

    return chain_note(data, profile, symbolizer)


def _followed_switches(data: SampleSource, plan: ReportPlan) -> list[MoreColumns]:
    if not plan.follows_switches:
        return []
    from perfpy.analysis.dimensions import Parallelism

    return [Parallelism.of(data)]


def _cgroup_namespaces(data: SampleSource) -> CgroupNamespaces:
    from perfpy.analysis.dimensions import CgroupNamespaces

    return CgroupNamespaces(data.side_band([RecordType.NAMESPACES]))


def losses(data: SampleSource) -> Losses:
    """Return the losses of a recording."""
    losses = [side.record for side in data.side_band([RecordType.LOST, RecordType.LOST_SAMPLES])]
    counted = [record for record in losses if isinstance(record, LostSamples)]
    of_waits = {ident for event in data.events if is_off_cpu(event) for ident in event.ids}
    switches = sum(one.lost for one in counted if one.sample_id and (one.sample_id.identifier or one.sample_id.id) in of_waits)
    return Losses(sum(one.lost for one in counted), sum(record.lost for record in losses if isinstance(record, Lost)), switches)


def _machine_names(data: SampleSource, layout: Layout, namespaces: CgroupNamespaces | None) -> MachineTexts:
    """Return the names of CPUs and cgroups that the columns need."""
    cgroup_name = cgroup_names(data).get if layout.has("cgroup") or layout.has("container") else lambda _number: None
    numbered = namespaces.namespaces if namespaces is not None else ()
    return MachineTexts(_socket_finder(data), cgroup_name, numbered, [recording_text(data)])


def recording_text(data: SampleSource) -> RecordingText:
    """Return the names of a recording; the host is "?" if unknown."""
    first, last = data.sample_times
    seconds = max(last - first, 0) / 1e9
    return RecordingText(data.path, data.features.get("hostname") or "?", seconds)


def key_style(options: ReportOptions) -> KeyStyle:
    """Return the style of texts."""
    times, names = options.times, options.names
    return KeyStyle(
        *(names.verbose, times.nanoseconds, times.time_quantum, names.unnamed_dso_width),
        *(options.columns.raw_trace, times.clock_quantum, names.unnamed_as_one),
    )


def cpus_of_socket(data: SampleSource, socket: int) -> frozenset[int]:
    """Return the CPUs of a socket in the recorded topology."""
    topology = data.features.get("cpu_topology")
    return frozenset(number for number, cpu in enumerate(topology.cpus if topology is not None else ()) if cpu.socket == socket)


def _socket_finder(data: SampleSource) -> Callable[[int], int]:
    """Return a function from CPU to socket; -1 if unknown."""
    topology = data.features.get("cpu_topology")
    cpus = topology.cpus if topology is not None else ()
    return lambda cpu: cpus[cpu].socket if 0 <= cpu < len(cpus) else -1


def cgroup_names(data: SampleSource) -> dict[int, str]:
    """Return the paths of cgroups by their ids."""
    return {side.record.id: side.record.path for side in data.side_band([RecordType.CGROUP]) if isinstance(side.record, Cgroup)}


# The samples of a report with the addresses of their callchains, which reports of functions merge.
#
# A verdict looks up the source lines of the few functions that it names. So samples are folded again, of long recordings an excerpt.


_MOST: Final = 100_000  # samples that are folded again
_MOST_TIMED: Final = 40_000  # with their times
_MOST_STACKS: Final = 20_000  # if their stacks have to be unwound


class ReportSamples(NamedTuple):
    """Folded samples.

    Attributes:
        folded: their rows.
        chains: frames and offsets of the distinct callchains, None without.
        locations: of the frames; functions have the same numbers as in the report.
        are_callers_first: whether callchains begin with the outermost frame.
        is_unwound: whether user callchains come from copies of stacks, with addresses within calls.
        is_walked: whether the kernel walked them by frame pointers.
    """

    folded: Folded
    chains: DrawnChains | None
    locations: Locations
    are_callers_first: bool
    is_unwound: bool = False
    is_walked: bool = False


def fold_addresses(plan: ReportPlan, scan: SampleScan) -> ReportSamples:
    """Fold the samples of a report's scan again, by address."""
    old = scan.folding
    waits = ("state", "waker") if scan.data.has(SampleType.WEIGHT_STRUCT) else ()
    again = _scan_again(scan, FoldingPlan(("frame", "pid", "tid", *waits), old.sample_filter, chains=old.chains), scan.grain)
    return _samples_of(plan, again, _MOST if again.unwinding is None else _MOST_STACKS)


def fold_times(plan: ReportPlan, scan: SampleScan, grain: int) -> ReportSamples | None:
    """Fold the samples of a report's scan again, with times at a resolution in ns; None if their stacks have to be unwound again."""
    if scan.unwinding is not None or not scan.data.has(SampleType.TIME):
        return None
    waits = ("state",) if scan.data.has(SampleType.WEIGHT_STRUCT) else ()
    folding = FoldingPlan(("frame", "pid", "tid", "time", *waits), scan.folding.sample_filter, chains=scan.folding.chains, by_function=True)
    return _samples_of(plan, _scan_again(scan, folding, grain), _MOST_TIMED)


def _scan_again(scan: SampleScan, folding: FoldingPlan, grain: int) -> SampleScan:
    """Return a scan of the same samples with other dimensions."""
    again = SampleScan(
        scan.data, scan.timeline, scan.symbolizer, folding, scan.mode, scan.more, grain, None, scan.max_stack, scan.callers_first
    )
    again.by_python = scan.by_python
    return again


def _samples_of(plan: ReportPlan, scan: SampleScan, most: int) -> ReportSamples:
    """Fold about this many samples of a scan at most."""
    options, profile = plan.options, scan.excerpt(most)
    _, chains = drawn_chains(profile, scan.symbolizer, options, plan.most_frames)  # adds frames, so it comes first
    graph = options.chains.call_graph
    are_callers_first = graph is not None and graph.order == "caller"
    folded = with_inlined_leaves(profile.folded, chains, scan.symbolizer, callers_first=are_callers_first)
    locations = Locations(scan.symbolizer, as_one=options.names.tiers_as_one)
    return ReportSamples(folded, chains, locations, are_callers_first, scan.unwinding is not None, is_walked(scan.data))


# A report as plain values: dicts, lists, strings and numbers. perfpy.views.report.json describes their form.


def histogram_values(histogram: Histogram) -> dict[str, Any]:
    """Return one table: its head and all rows."""
    rows = [row_values(histogram, row) for row in histogram.rows()]
    return head_values(histogram) | {"rows": rows}


def head_values(histogram: Histogram) -> dict[str, Any]:
    """Return a table's events and sort keys."""
    events = [
        {"name": total.event.name, "samples": total.samples, "period": total.period, **seconds_value(total.event, total.period)}
        for total in histogram.events
    ]
    return {"events": events, "sort": [key.name for key in histogram.layout.keys]}


def seconds_value(event: FileEvent, period: int) -> dict[str, float]:
    """Return a period in seconds, for an event that measures time."""
    return {"seconds": period / NANOSECONDS_A_SECOND} if is_time(event) else {}


def row_values(histogram: Histogram, row: ReportRow) -> dict[str, Any]:
    """Return one row."""
    entry = row.entry
    values: dict[str, Any] = {
        "overhead": histogram.percent("period", entry),
        "period": row.values["period"][0],
        "samples": row.values["samples"][0],
        **seconds_value(histogram.events[0].event, row.values["period"][0]),
    }
    if "children" in row.values:
        values |= {"overhead_children": histogram.percent("children", entry), "children": row.values["children"][0]}
    values |= {name: histogram.percent(name, entry) for name in (LATENCY, f"{LATENCY}_children") if name in row.values}
    if len(histogram.events) > 1:
        values["members"] = [
            {"period": row.values["period"][m], "samples": row.values["samples"][m], "overhead": histogram.percent("period", entry, m)}
            for m in range(len(histogram.events))
        ]
    values["keys"] = row.texts
    if histogram.trees is not None:
        values["calls"] = _nodes(histogram, histogram.calls(entry))
    return values


def _nodes(histogram: Histogram, nodes: list[CallNode]) -> list[dict[str, Any]]:
    """Return call nodes without recursion: trees are as deep as stacks."""
    top: list[dict[str, Any]] = []
    work = [(nodes, top)]
    while work:
        siblings, values = work.pop()
        for node in siblings:
            below: list[dict[str, Any]] = []
            values.append(_node(histogram, node, below))
            work.append((node.children, below))
    return top


def _node(histogram: Histogram, node: CallNode, below: list[dict[str, Any]]) -> dict[str, Any]:
    assert histogram.trees is not None
    names = [histogram.trees.frame_name(frame) for frame in node.frames]
    share = histogram.share(node.period)
    return {"functions": names, "period": node.period, "samples": node.count, "overhead": share, "calls": below}


# Notes on the accuracy of a profile.


_FEW: Final = 400  # with fewer samples a share of 50 % is accurate to 5 points only
_MUCH: Final = 5.0  # percent of the period that deserve a note
_FEWER: Final = {"-F": "a lower frequency (-F)", "-c": "a higher count (-c)", "--filter": "a filter (--filter)", "": ""}


def margin(percent: float, samples: int) -> float:
    """Return half the width of a share's 95 % confidence interval, in points, from counting statistics alone."""
    share = percent / 100
    return 196 * math.sqrt(max(share * (1 - share), 0.0) / samples) if samples else 100.0


def share_of_lost_samples(report: Report) -> float:
    """Return the share of lost samples of all events but that of waits; on kernels before 6.1 that of lost records of any kind."""
    samples, records, switches = report.losses
    lost = samples - switches if samples else records
    return lost / (lost + report.samples - _samples_of_waits(report)) if lost else 0.0


def share_of_lost_switches(report: Report) -> float:
    """Return the largest possible share of lost context switches: one or several make a sample of a wait."""
    lost = report.losses.switches
    return lost / (lost + 2 * _samples_of_waits(report)) if lost else 0.0


def _samples_of_waits(report: Report) -> int:
    return sum(event.samples for histogram in report.histograms for event in histogram.events if is_off_cpu(event.event))


def remedy_for_losses(report: Report) -> str:
    """Return what to do if samples were lost."""
    fewer = _FEWER[option_for_fewer([histogram.leader.event.attr for histogram in report.histograms])]
    return f"record with a larger buffer (-m) or {fewer}" if fewer else "record with a larger buffer (-m)"


def quality_notes(report: Report, *, few: bool = True, tables: Sequence[Histogram] | None = None, unnamed: bool = True) -> Iterator[str]:
    """Yield the notes.

    Args:
        report: the report.
        few: whether to yield those on events with few samples.
        tables: yield those on these tables only, None for all.
        unnamed: whether to yield those on code without symbols.
    """
    attrs = [histogram.leader.event.attr for histogram in report.histograms]
    remedy = remedy_for_losses(report)
    samples, records, switches = report.losses
    if lost := samples - switches:
        share = 100 * share_of_lost_samples(report)
        yield f"{lost:,} {plural(lost, 'sample was', 'samples were')} lost ({share:.1f} %); {remedy}"
    if switches:
        yield f"{switches:,} context {plural(switches, 'switch was', 'switches were')} lost: times of waits are uncertain; {remedy}"
    if records and not samples:
        yield f"{records:,} {plural(records, 'record was', 'records were')} lost, the buffer was full; {remedy}"
    if not any(attr.sample_type & SampleType.CALLCHAIN or attr.type == PerfType.TRACEPOINT for attr in attrs):
        yield "no callchains recorded; record with -g to see callers"
    sampled = [histogram for histogram in report.histograms if histogram.leader.samples]
    has_one_event = sum(not is_off_cpu(histogram.leader.event) for histogram in sampled) == 1
    for histogram in sampled:
        if tables is not None and histogram not in tables and not lacks_stacks(histogram):
            continue
        if lacks_stacks(histogram):
            yield f"{histogram.leader.event.name}: no stacks; record as root, or with sysctl kernel.perf_event_paranoid=1"
        else:
            yield from _notes_of(histogram, few=few, unnamed=unnamed, is_named=not has_one_event)


def lacks_stacks(histogram: Histogram) -> bool:
    """Whether the rows are waits without stacks: the kernel hides its code from ordinary users, and so where threads wait."""
    if not is_off_cpu(histogram.leader.event) or not any(key.of_location for key in histogram.layout.keys):
        return False
    frames = histogram.entries.location[histogram.order] >> ROLE_BITS
    return bool(len(frames) and not histogram.locations.ip[frames].any())


def _notes_of(histogram: Histogram, *, few: bool, unnamed: bool, is_named: bool) -> Iterator[str]:
    """Yield the notes of one event. is_named: whether they begin with its name."""
    event, samples = histogram.leader.event, histogram.leader.samples
    name = event.name
    if few and samples < _FEW and not (is_sampled_each_time(event.attr) or event.has_waits):
        points = margin(50, samples)
        more = "raise -F" if event.attr.freq else "lower -c"
        only = f"only {samples} {plural(samples, 'sample')}"
        yield f"{f'{name}: ' if is_named else ''}{only}; shares are accurate to ±{points:.0f} points; record longer or {more}"
    without_symbols = _unnamed_percent(histogram) if unnamed else 0.0
    if without_symbols >= _MUCH:
        yield f"{name}: {without_symbols:.0f} % is in code without symbols"


def _unnamed_percent(histogram: Histogram) -> float:
    """Return the share of samples in code without symbols; 0 in reports without locations."""
    if not any(key.of_location for key in histogram.layout.keys):
        return 0.0
    frames = histogram.entries.location[histogram.order] >> ROLE_BITS
    unnamed = histogram.order[histogram.locations.symbol[frames] < 0]
    return histogram.share(int(histogram.entries.measures["period"][unnamed, 0].sum()))


def filtered_rows_notes(report: Report) -> Iterator[str]:
    """Yield a note for each event if plain text filters rows by their first sample: the numbers of samples differ."""
    for histogram in report.histograms:
        for event in histogram.events:
            if event.kept_samples != event.shown_samples:
                words = plural(event.kept_samples, "sample passes", "samples pass")
                yield (
                    f"{event.event.name}: {event.kept_samples:,} {words} the filters, the rows have {event.shown_samples:,}: "
                    f"plain text filters rows by their first sample, as perf does; --json filters samples"
                )


# How the callchains of a report end, for the note if most of them are useless.


_ABI_32, _ABI_64 = 1, 2  # PERF_SAMPLE_REGS_ABI_*


def chain_ends(profile: FoldedSamples, symbolizer: Symbolizer, *, of_stacks: bool) -> ChainEnds:
    """Return how the user part of all callchains ends. of_stacks: it comes from copied stacks."""
    from perfpy.symbols.quality_notes import ChainEnds

    if profile.chains is None:
        return ChainEnds(0, {})
    frames, offsets = profile.chains.chains()
    weights = np.bincount(profile.folded.chain, weights=profile.folded.count, minlength=len(offsets) - 1).astype(np.int64)
    table = symbolizer.frames
    entries = np.flatnonzero(table.level[frames] == USER_LEVEL)
    chain = np.searchsorted(offsets, entries, side="right") - 1
    first = np.flatnonzero(np.diff(chain, prepend=-1))  # of each chain the innermost user frame
    chain, entry = chain[first], entries[first]
    following = np.minimum(entry + 1, max(len(frames) - 1, 0))
    goes_on = (following < offsets[1:][chain]) & (following > entry) & (table.dso[frames[following]] >= 0)
    ended = np.bincount(table.dso[frames[entry]][~goes_on] + 1, weights=weights[chain[~goes_on]], minlength=len(symbolizer.dsos) + 1)
    alone = _without_chain(profile, symbolizer, chain) if of_stacks else np.zeros(len(ended), np.int64)
    early = (ended + alone).astype(np.int64)
    names = {symbolizer.dsos[number - 1].name if number else "": int(early[number]) for number in np.flatnonzero(early).tolist()}
    return ChainEnds(int(weights[chain].sum() + alone.sum()), names)


def _without_chain(profile: FoldedSamples, symbolizer: Symbolizer, chains_with_frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the samples of user space without a user frame in their callchains, by dso + 1; known: the chains with user frames."""
    folded, table = profile.folded, symbolizer.frames
    frame = folded.dimensions.get("frame")
    count = len(symbolizer.dsos) + 1
    if frame is None:
        return np.zeros(count, np.int64)
    rows = np.flatnonzero((table.level[frame] == USER_LEVEL) & ~np.isin(folded.chain, chains_with_frames))
    return np.bincount(table.dso[frame[rows]] + 1, weights=folded.count[rows], minlength=count).astype(np.int64)


def chain_note(data: SampleSource, profile: FoldedSamples, symbolizer: Symbolizer) -> str:
    """Return the note on callchains; empty if they are useful, or not part of the report."""
    if any(event.attr.branch_sample_type & BranchSample.CALL_STACK for event in data.events):
        return ""
    of_stacks = data.has(SampleType.STACK_USER)
    ends = chain_ends(profile, symbolizer, of_stacks=of_stacks)
    if not ends.matter:
        return ""
    if not of_stacks:
        return ends.of_frame_pointers()
    from perfpy.unwind.rules import architecture  # few recordings have stacks

    numbers = {dso.name: number for number, dso in enumerate(symbolizer.dsos)}
    missing = [name for name in ends.files if symbolizer.files(numbers[name]).runtime is None]
    machine = data.features.get(key_of(Feature.ARCH)) or os.uname().machine
    can_unwind = any(architecture(machine, abi) for abi in (_ABI_32, _ABI_64))
    return ends.of_stacks(missing, machine, can_unwind=can_unwind)
