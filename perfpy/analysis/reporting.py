"""A report of a recording: batches in, histograms out.

What enters: a recording's batches, its tasks and symbolizer, and ReportOptions.
What leaves: `Report`. This is the one place that knows the order of the steps:
fold the samples, name the places, look at the chains, join rows to entries,
sort each table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from perfpy.abi.columns import spans_index
from perfpy.abi.flags import PerfType, RecordType, SampleType
from perfpy.abi.records import Cgroup, LostSamples
from perfpy.analysis.branches import branch_samples
from perfpy.analysis.entries import Chains, Entries, EntryBuilder, Tables
from perfpy.analysis.histogram import EventTotals, Histogram, KeyValues, Row, Trees, sort_entries
from perfpy.analysis.keycolumns import Facts
from perfpy.analysis.layout import make_layout
from perfpy.analysis.places import OF_CHAIN, OF_SAMPLE, ROLE_BITS, Int64, Places, sample_places
from perfpy.analysis.profile import Folded, Profile
from perfpy.analysis.report_values import histogram_values
from perfpy.analysis.sortkeys import Mode, SortKey
from perfpy.analysis.sources import SampleView, TupleTable
from perfpy.analysis.sums import sum_by
from perfpy.analysis.tracefields import field_keys
from perfpy.perfdata.group_reads import carries_readings, delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.keycolumns import MemoryWords, Payloads
    from perfpy.analysis.layout import Layout
    from perfpy.analysis.options import ReportOptions
    from perfpy.perfdata.batches import Batch
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.feature_values import EventGroup
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.address_space import TaskTimeline
    from perfpy.symbols.missing import MissingSymbols
    from perfpy.symbols.symbolizer import Symbolizer


@dataclass(frozen=True)
class EventGroups:
    """Which events share a table: for each event the index of its leader, and its place in the group.

    titles: of the groups, by leader; sizes: how many events were recorded as one group, by leader.
    """

    leader: tuple[int, ...]
    member: tuple[int, ...]
    titles: Mapping[int, str]
    sizes: Mapping[int, int]

    @classmethod
    def of(cls, count: int, recorded: Sequence[EventGroup], wanted: bool | None) -> EventGroups:
        """`count` events, grouped as recorded; not at all if wanted is False; all together if it is True and none is."""
        leader, member, titles = list(range(count)), [0] * count, {}
        sizes = {group.leader: group.members for group in recorded}
        shared = [] if wanted is False else [(group.leader, group.members, group.name) for group in recorded]
        if wanted and not recorded:
            shared = [(0, count, "")]
        for first, members, name in shared:
            titles[first] = "anon group" if name == "{anon_group}" else name
            for place in range(1, min(members, count - first)):
                leader[first + place], member[first + place] = first, place
        return cls(tuple(leader), tuple(member), titles, sizes)


@dataclass
class Report:
    """The histograms of a recording, in the order of its events.

    lost: samples that the kernel says it dropped; missing: files whose symbols
    were not found, with the samples in them (empty where no places are shown).
    """

    histograms: list[Histogram]
    options: ReportOptions
    layout: Layout
    lost: int
    missing: list[MissingSymbols]

    @property
    def samples(self) -> int:
        """How many samples all events have."""
        return sum(event.samples for histogram in self.histograms for event in histogram.events)

    def top(self, count: int = 10) -> list[Row]:
        """The first rows of the first table that has samples."""
        return next((histogram.top(count) for histogram in self.histograms if histogram.leader.samples), [])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, of the shape that `perfpy report --json` writes (perfpy.views.report_json)."""
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
    little = data.endian == "<"

    def traced(token: str) -> list[SortKey]:
        return [] if tracing is None else field_keys(token, events, tracing.formats, raw=options.wanted.raw_trace, little=little)

    layout = make_layout(options.wanted, traced)
    groups = EventGroups.of(len(events), data.features.get("group_desc", ()), options.group)
    reporter = Reporter(events, timeline, symbolizer, options, layout, groups)
    reporter.add(delivered_samples(data, reporter.fields(), progress))
    lost = sum(side.record.lost for side in data.side_band() if isinstance(side.record, LostSamples))
    listed = [entry.filename for entry in data.features.get("build_id", ())]
    places = Places(symbolizer, long_names=options.verbose, listed=listed)
    facts = Facts(
        places,
        timeline.comms,
        timeline.last_comm,
        verbose=options.verbose,
        nanoseconds=options.nanoseconds,
        quantum=options.time_quantum,
        unnamed_dso_width=options.unnamed_dso_width,
        memory=memory,
        payloads=payloads,
        raw=reporter.profile.raw.payloads,
        socket_of=_socket_finder(data),
        cgroup_name=_cgroup_names(data).get if layout.has("cgroup") else lambda _number: None,
    )
    histograms = reporter.histograms(facts)
    return Report(histograms, options, layout, lost, symbolizer.missing(reporter.profile.samples_of_frames()))


def _socket_finder(data: PerfData) -> Callable[[int], int]:
    """CPU -> its socket; -1 where the recording does not say."""
    topology = data.features.get("cpu_topology")
    cpus = topology.cpus if topology is not None else ()
    return lambda cpu: cpus[cpu].socket if 0 <= cpu < len(cpus) else -1


def _cgroup_names(data: PerfData) -> dict[int, str]:
    return {side.record.id: side.record.path for side in data.side_band([RecordType.CGROUP]) if isinstance(side.record, Cgroup)}


#: told which share of the file has been read (0 to 1)
Progress: TypeAlias = "Callable[[float], None]"


def delivered_samples(data: PerfData, fields: set[str], progress: Progress | None = None) -> Iterable[Batch]:
    """The samples that count: where samples carry counter readings, one for each reading."""
    if any(carries_readings(event) for event in data.events):
        fields = fields | {"read", "period"}
    batches: Iterable[Batch] = data.batches(sorted(fields))
    return delivered(batches if progress is None else _watched(batches, data.size, progress), data.events)


def _watched(batches: Iterable[Batch], size: int, progress: Progress) -> Iterable[Batch]:
    for batch in batches:
        if len(batch):
            progress(min(int(batch.offset[-1]) / max(size, 1), 1.0))
        yield batch


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
    wanted = replace(options.wanted, tracepoints=tracepoints, children=children)
    return replace(options, call_graph=graph, children=children, wanted=wanted)


class Reporter:
    """Makes the report of one recording: feed it the batches, then ask for the report."""

    def __init__(
        self,
        events: Sequence[FileEvent],
        timeline: TaskTimeline,
        symbolizer: Symbolizer,
        options: ReportOptions,
        layout: Layout,
        groups: EventGroups,
    ) -> None:
        self.events = events
        self.timeline = timeline
        self.symbolizer = symbolizer
        self.options = options
        self.layout = layout
        self.groups = groups
        self._attrs = [event.attr for event in events]
        self._with_chains = options.call_graph is not None or options.children or layout.has("parent") or bool(options.ignore_callees)
        self.profile = Profile(self._sources(), self._sums(), chains=self._with_chains)

    def _sources(self) -> list[str]:
        named = [key.source for key in self.layout.keys if key.source not in ("place", "parent")]
        needs_place = self._with_chains or self.options.selection.by_place or self.options.hide_unresolved
        if needs_place or any(key.of_place for key in self.layout.keys):
            named.append("frame")
        return list(dict.fromkeys(named))

    def _sums(self) -> list[str]:
        known = {"period", "samples", "children"}
        return [entry.value for entry in self.layout.fields if not hasattr(entry, "source") and entry.value not in known]

    def fields(self) -> set[str]:
        """The sample columns that batches must have."""
        modes = {Mode.BRANCH: {"branch_stack", "pid"}, Mode.MEMORY: {"weight"}}
        return self.profile.fields() | self.options.selection.fields() | modes.get(self.options.wanted.mode, set())

    def add(self, batches: Iterable[Batch]) -> None:
        """Fold batches."""
        selection = self.options.selection
        selection.begin()
        for batch in batches:
            samples = SampleView(batch.columns, batch.event, batch.key, self._attrs, self.timeline, self.symbolizer)
            samples = samples.take(selection.kept_rows(samples))
            if self.options.wanted.mode is Mode.BRANCH:
                samples = branch_samples(samples)
            elif self.options.wanted.mode is Mode.MEMORY:
                samples = samples.weighted()
            self.profile.add(samples, selection.mark(samples))

    def histograms(self, facts: Facts) -> list[Histogram]:
        """Make the tables of everything added so far."""
        return _Tables(self, facts).histograms()


class _Tables:
    """One pass from folded rows to sorted tables."""

    def __init__(self, reporter: Reporter, facts: Facts) -> None:
        self._events = reporter.events
        self._options = reporter.options
        self._layout = reporter.layout
        self._groups = reporter.groups
        self._profile = reporter.profile
        self._facts = facts
        self._known = facts.places
        folded = reporter.profile.folded()
        frame = folded.sources.get("frame")
        self._has_places = frame is not None
        places = sample_places(frame) if frame is not None else np.full(len(folded), OF_SAMPLE, np.int64)
        if self._options.hide_unresolved:
            kept = np.flatnonzero(self._known.symbol[places >> ROLE_BITS] >= 0)
            folded, places = folded.take(kept), places[kept]
        if self._options.selection.by_place:
            folded = replace(folded, filtered=folded.filtered | self._options.selection.mark_frames(self._known)[places >> ROLE_BITS])
        self._chains = self._oriented() if reporter.profile.chains is not None else None
        self._folded, self._places = folded, places
        self._parent_of_row = self._parents() if self._needs_parents() else np.full(len(folded), -1, np.int64)
        if self._options.exclude_other:
            folded = replace(folded, filtered=folded.filtered | (self._parent_of_row < 0))
        if self._options.ignore_callees and self._chains and len(self._chains.frames):
            places = self._cut_callees(folded, places)
        self._folded = folded
        self._places = places

    def _needs_parents(self) -> bool:
        return self._options.exclude_other or self._layout.has("parent")

    def _oriented(self) -> Chains:
        """The distinct chains in the order in which trees are read, cut to the greatest depth."""
        assert self._profile.chains is not None
        frames, offsets = self._profile.chains.chains()
        graph = self._options.call_graph
        if self._options.hide_unresolved:
            frames, offsets = _without(frames, offsets, self._known.symbol[frames] < 0)
        if graph is not None and graph.order == "caller":
            frames = _reversed(frames, offsets)
        lengths = np.diff(offsets)
        if len(lengths) and int(lengths.max()) > self._options.max_stack:
            index, offsets = spans_index(offsets[:-1], np.minimum(lengths, self._options.max_stack))
            frames = frames[index]
        return Chains(frames, offsets, self._roles(frames, offsets))

    def _roles(self, frames: NDArray[np.int32], offsets: Int64) -> NDArray[np.uint8]:
        """The role of every entry of a chain; OF_SAMPLE for unmapped entries that no mapped one stands before."""
        roles = np.full(len(frames), OF_CHAIN, np.uint8)
        mapped = self._known.dso[frames] >= 0
        if mapped.all():
            return roles
        last = np.maximum.accumulate(np.where(mapped, np.arange(len(frames)), -1))
        inherits = last >= np.repeat(offsets[:-1], np.diff(offsets))
        given = np.where(inherits, self._known.level_roles()[frames[last]], OF_SAMPLE)
        roles[~mapped] = given[~mapped]
        return roles

    def _sample_roles(self) -> NDArray[np.uint8]:
        """The role that each row's sample gives to unmapped entries of its chain."""
        if not self._has_places:
            return np.full(len(self._folded), OF_CHAIN, np.uint8)
        roles: NDArray[np.uint8] = self._known.level_roles()[self._places >> ROLE_BITS]
        return roles

    def _matching(self, pattern: str) -> NDArray[np.bool_]:
        """Which frames have a symbol that matches a regular expression."""
        search = re.compile(pattern).search
        names = self._known.symbols
        matching = np.array([bool(search(names.name(number))) for number in range(len(names))] + [False], np.bool_)
        return matching[self._known.symbol]

    def _cut_callees(self, folded: Folded, places: Int64) -> Int64:
        """Forget what ignored functions call: the last of them in reading order becomes the place of the sample."""
        assert self._chains is not None
        frames, offsets = self._chains.frames, self._chains.offsets
        chain_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        hits = np.flatnonzero(self._matching(self._options.ignore_callees)[frames])
        last = np.full(len(offsets) - 1, -1, np.int64)
        last[chain_of[hits]] = hits
        cut = last >= 0
        starts = np.where(cut, last, offsets[:-1])
        index, shorter = spans_index(starts, offsets[1:] - starts)
        self._chains = Chains(frames[index], shorter, self._chains.roles[index])
        return np.where(cut[folded.chain], sample_places(frames[last[folded.chain]]), places)

    def _parents(self) -> Int64:
        """The parent of each row: the first function of its chain that matches, as a number into facts.parents; -1: none."""
        if self._chains is None:
            return np.full(len(self._folded), -1, np.int64)
        frames, offsets = self._chains.frames, self._chains.offsets
        hits = np.flatnonzero(self._matching(self._options.parent)[frames])
        first = np.full(len(offsets) - 1, -1, np.int64)
        first[np.searchsorted(offsets, hits[::-1], side="right") - 1] = self._known.symbol[frames[hits[::-1]]]
        found = first[self._folded.chain]
        symbols, number = np.unique(found[found >= 0], return_inverse=True)
        self._facts.parents[:] = [self._known.symbols.name(symbol) for symbol in symbols.tolist()]
        found[found >= 0] = number.ravel()
        return found

    def _tables(self) -> Tables:
        leader, member = np.array(self._groups.leader, np.int64), np.array(self._groups.member, np.int64)
        return Tables(leader, member, int(member.max()) + 1 if len(member) else 1)

    def histograms(self) -> list[Histogram]:
        tables = self._tables()
        place_keys, sample_keys = {}, {}
        for key in self._layout.keys:
            if key.of_place:
                place_keys[key.name] = key.column(self._facts, self._known.every_place())
            else:
                values = self._parent_of_row if key.source == "parent" else self._folded.sources[key.source]
                distinct, number = np.unique(values, return_inverse=True)
                sample_keys[key.name] = (key.column(self._facts, distinct), number.ravel())
        builder = EntryBuilder(
            self._folded,
            tables,
            self._places,
            [column.same[number] for column, number in sample_keys.values()],
            _class_of([column.same for column in place_keys.values()], len(self._known.every_place())),
            self._chains,
            self._sample_roles(),
            callers=self._options.children,
        )
        entries = builder.build()
        keys: dict[str, KeyValues] = {}
        for key in self._layout.keys:
            if key.of_place:
                keys[key.name] = KeyValues(key, place_keys[key.name], entries.place)
            else:
                column, number = sample_keys[key.name]
                keys[key.name] = KeyValues(key, column, number[entries.row])
        filtered = self._filtered(entries)
        totals = self._totals(entries, filtered)
        return [
            self._histogram(leader, builder, entries, keys, totals, filtered)
            for leader in sorted(set(self._groups.leader))
        ]

    def _totals(self, entries: Entries, filtered: NDArray[np.bool_]) -> list[EventTotals]:
        """The totals of all events: of samples, and of the rows that filters leave."""
        folded, count = self._folded, len(self._events)
        samples, period = sum_by(folded.event, folded.count, count), sum_by(folded.event, folded.period, count)
        left = ~folded.filtered
        shown_samples = sum_by(folded.event[left], folded.count[left], count)
        kept_period = sum_by(folded.event[left], folded.period[left], count)
        totals = []
        for event, leader, member in zip(self._events, self._groups.leader, self._groups.member, strict=True):
            shown = entries.sums["period"][(entries.table == leader) & ~filtered, member].sum()
            at = event.index
            totals.append(EventTotals(event, int(samples[at]), int(period[at]), int(shown_samples[at]), int(shown), int(kept_period[at])))
        return totals

    def _filtered(self, entries: Entries) -> NDArray[np.bool_]:
        """Which entries are not shown: made by a sample that is filtered, or, of the first event, without the name's part."""
        filtered = self._folded.filtered[entries.row]
        part = self._options.selection.symbol_part
        if part is None:
            return filtered
        names = self._known.symbols
        has_part = np.array([part in names.name(number) for number in range(len(names))] + [False], np.bool_)
        lacking: NDArray[np.bool_] = ~has_part[self._known.symbol[entries.place >> ROLE_BITS]]
        # of a group, rows that only other members have are not filtered
        lacking &= (entries.table == 0) & (entries.sums["children" if "children" in entries.sums else "samples"][:, 0] > 0)
        return filtered | lacking

    def _histogram(
        self,
        leader: int,
        builder: EntryBuilder,
        entries: Entries,
        keys: dict[str, KeyValues],
        totals: list[EventTotals],
        filtered: NDArray[np.bool_],
    ) -> Histogram:
        options = self._options
        chosen = np.flatnonzero(entries.table == leader)
        tids = self._folded.tid[entries.row]
        depth = entries.depth
        if depth is not None and options.call_graph is not None and options.call_graph.order == "caller":
            depth = -depth
        members = [number for number, owner in enumerate(self._groups.leader) if owner == leader]
        member = min(options.sort_member, len(members) - 1)
        order = sort_entries(entries, chosen, self._layout, keys, depth, tids, member)
        events = [totals[number] for number in members]
        total = events[0].shown_period if options.relative_percentages else events[0].period
        trees = None
        graph = options.call_graph
        if graph is not None and graph.style != "none" and self._events[leader].attr.sample_type & SampleType.CALLCHAIN:
            weights = entries.sums["children" if options.children else "period"][chosen, 0]
            assert self._chains is not None
            classes = self._known.chain_ranks(by_address=graph.key == "address")[self._chains.frames]
            trees = Trees(builder, chosen, weights, total, graph, classes, self._chains.frames, self._known)
        title, plural = self._groups.titles.get(leader, ""), self._groups.sizes.get(leader, len(events)) > 1
        return Histogram(events, self._layout, entries, keys, order, filtered, tids, options, trees, self._facts, title, plural)


def _class_of(ranks: list[Int64], size: int) -> Int64:
    """One class id per place from the ranks of several keys; one class where there are no keys, nor places."""
    if not ranks:
        return np.zeros(max(size, 1), np.int64)
    return TupleTable([True] * len(ranks)).ids_and_new(ranks)[0].astype(np.int64) if size else np.zeros(0, np.int64)


def _without(frames: NDArray[np.int32], offsets: Int64, dropped: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Int64]:
    before = np.concatenate([[0], np.cumsum(~dropped)]).astype(np.int64)
    return frames[~dropped], before[offsets]


def _reversed(frames: NDArray[np.int32], offsets: Int64) -> NDArray[np.int32]:
    """Every chain turned round."""
    lengths = np.diff(offsets)
    mirror = np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - np.arange(len(frames))
    return frames[mirror]
