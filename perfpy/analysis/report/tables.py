"""From a profile to sorted tables.

What enters: folded rows, their chains and locations, what the report asks for.
What leaves: a Histogram for each event or event group. Here is the order of
the steps: hide and mark what is filtered, look at the chains, join rows to
entries, sort each table.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.flags import SampleType
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.filters.sample_filter import frames_named
from perfpy.analysis.report.entries import Chains, Entries, EntryBuilder, Tables
from perfpy.analysis.report.histogram import EventTotals, Histogram, KeyValues, Trees, sort_entries
from perfpy.analysis.samples.locations import OF_CHAIN, OF_SAMPLE, ROLE_BITS, Int64, chain_locations, sample_locations
from perfpy.analysis.samples.sample_view import TupleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, Profile
    from perfpy.analysis.report.groups import EventGroups
    from perfpy.analysis.report.layout import Layout
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.sortkeys.key_columns import KeyContext
    from perfpy.perfdata.container.events import FileEvent


class _Shared(NamedTuple):
    """What the tables of all events have in common."""

    builder: EntryBuilder
    entries: Entries
    keys: dict[str, KeyValues]
    totals: list[EventTotals]
    filtered: NDArray[np.bool_]
    tids: Int64


class TableMaker:
    """One pass from a profile to sorted tables."""

    def __init__(
        self,
        events: Sequence[FileEvent],
        options: ReportOptions,
        layout: Layout,
        groups: EventGroups,
        profile: Profile,
        context: KeyContext,
    ) -> None:
        self._events = events
        self._options = options
        self._layout = layout
        self._groups = groups
        self._profile = profile
        self._context = context
        self._known = context.locations
        folded = profile.folded
        frame = folded.dimensions.get("frame")
        self._has_locations = frame is not None
        locations = sample_locations(frame) if frame is not None else np.full(len(folded), OF_SAMPLE, np.int64)
        if self._options.hide_unresolved:
            kept = np.flatnonzero(self._known.symbol[locations >> ROLE_BITS] >= 0)
            folded, locations = folded.take(kept), locations[kept]
        if self._options.selection.by_location:
            folded = replace(folded, filtered=folded.filtered | self._options.selection.mark_frames(self._known)[locations >> ROLE_BITS])
        self._chains = self._oriented() if profile.chains is not None else None
        self._folded, self._locations = folded, locations
        self._parent_of_row = self._parents() if self._needs_parents() else np.full(len(folded), -1, np.int64)
        if self._options.exclude_other:
            folded = replace(folded, filtered=folded.filtered | (self._parent_of_row < 0))
        if self._options.ignore_callees and self._chains and len(self._chains.frames):
            locations = self._cut_callees(folded, locations)
        self._folded = folded
        self._locations = locations

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
            index, offsets = slices_index(offsets[:-1], np.minimum(lengths, self._options.max_stack))
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
        if not self._has_locations:
            return np.full(len(self._folded), OF_CHAIN, np.uint8)
        roles: NDArray[np.uint8] = self._known.level_roles()[self._locations >> ROLE_BITS]
        return roles

    def _matching(self, pattern: str) -> NDArray[np.bool_]:
        """Which frames have a symbol that matches a regular expression."""
        search = re.compile(pattern).search
        return frames_named(self._known, lambda name: search(name) is not None)

    def _cut_callees(self, folded: Folded, locations: Int64) -> Int64:
        """Forget what ignored functions call: the last of them in reading order becomes the location of the sample."""
        assert self._chains is not None
        frames, offsets = self._chains.frames, self._chains.offsets
        chain_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        hits = np.flatnonzero(self._matching(self._options.ignore_callees)[frames])
        last = np.full(len(offsets) - 1, -1, np.int64)
        last[chain_of[hits]] = hits
        cut = last >= 0
        starts = np.where(cut, last, offsets[:-1])
        index, shorter = slices_index(starts, offsets[1:] - starts)
        self._chains = Chains(frames[index], shorter, self._chains.roles[index])
        return np.where(cut[folded.chain], sample_locations(frames[last[folded.chain]]), locations)

    def _parents(self) -> Int64:
        """The parent of each row: the first function of its chain that matches, as a number into context.parents; -1: none."""
        if self._chains is None:
            return np.full(len(self._folded), -1, np.int64)
        frames, offsets = self._chains.frames, self._chains.offsets
        hits = np.flatnonzero(self._matching(self._options.parent)[frames])
        first = np.full(len(offsets) - 1, -1, np.int64)
        first[np.searchsorted(offsets, hits[::-1], side="right") - 1] = self._known.symbol[frames[hits[::-1]]]
        found = first[self._folded.chain]
        symbols, number = np.unique(found[found >= 0], return_inverse=True)
        self._context.parents[:] = [self._known.symbols.name(symbol) for symbol in symbols.tolist()]
        found[found >= 0] = number.ravel()
        return found

    def _tables(self) -> Tables:
        leader, member = np.array(self._groups.leader, np.int64), np.array(self._groups.member, np.int64)
        return Tables(leader, member, int(member.max()) + 1 if len(member) else 1)

    def histograms(self) -> list[Histogram]:
        """The tables, in the order of their events."""
        tables = self._tables()
        location_keys, sample_keys = {}, {}
        used, number_of = self._used_locations()
        for key in self._layout.keys:
            if key.of_location:
                location_keys[key.name] = key.column(self._context, used)
            else:
                values = self._parent_of_row if key.dimension == "parent" else self._folded.dimensions[key.dimension]
                distinct, number = np.unique(values, return_inverse=True)
                sample_keys[key.name] = (key.column(self._context, distinct), number.ravel())
        sample_classes = [column.same[number] for column, number in sample_keys.values()]
        if self._options.selection.parallelism is not None:
            # perf leaves it to a row's first sample whether the row is shown, which hides rows of other samples
            sample_classes.append(self._folded.filtered.astype(np.int64))
        builder = EntryBuilder(
            self._folded,
            tables,
            self._locations,
            sample_classes,
            _class_of([column.same for column in location_keys.values()], len(used))[number_of],
            self._chains,
            self._sample_roles(),
            callers=self._options.children,
        )
        entries = builder.build()
        keys: dict[str, KeyValues] = {}
        for key in self._layout.keys:
            if key.of_location:
                keys[key.name] = KeyValues(key, location_keys[key.name], number_of[entries.location].astype(np.int64))
            else:
                column, number = sample_keys[key.name]
                keys[key.name] = KeyValues(key, column, number[entries.row])
        filtered = self._filtered(entries)
        totals = self._totals(entries, filtered)
        shared = _Shared(builder, entries, keys, totals, filtered, self._folded.tid[entries.row])
        members: dict[int, list[int]] = {}
        for event, leader in enumerate(self._groups.leader):
            members.setdefault(leader, []).append(event)
        order = np.argsort(entries.table, kind="stable")
        leaders = sorted(members)
        borders = np.searchsorted(entries.table[order], leaders, side="left").tolist()
        ends = np.searchsorted(entries.table[order], leaders, side="right").tolist()
        return [
            self._histogram(leader, members[leader], order[begin:end], shared)
            for leader, begin, end in zip(leaders, borders, ends, strict=True)
        ]

    def _used_locations(self) -> tuple[Int64, NDArray[np.int32]]:
        """The locations that rows and callers have, and the number of each location among them; few of all that samples were at."""
        used = np.zeros(max(len(self._known.ip), 1) << ROLE_BITS, np.bool_)
        if self._chains is not None and self._options.children:
            frames, roles = self._chains.frames, self._chains.roles
            used[chain_locations(frames, roles)] = True
            by_sample = frames[roles == OF_SAMPLE]
            for role in distinct(self._sample_roles()):
                used[chain_locations(by_sample, role)] = True
        used[self._locations] = True
        number = np.cumsum(used, dtype=np.int32)
        number -= np.int32(1)
        return np.flatnonzero(used), number

    def _totals(self, entries: Entries, filtered: NDArray[np.bool_]) -> list[EventTotals]:
        """The totals of all events: of samples, and of the rows that filters leave."""
        folded, count = self._folded, len(self._events)
        samples, period = sum_by(folded.event, folded.count, count), sum_by(folded.event, folded.period, count)
        left = ~folded.filtered
        kept_period = sum_by(folded.event[left], folded.period[left], count)
        latency = folded.measures.get(LATENCY, np.zeros(len(folded), np.int64))
        latencies = sum_by(folded.event, latency, count)
        # perf counts a sample as shown if its row's first one is
        shown_counts = self._by_table(entries, "samples", ~folded.filtered[entries.row])
        shown, of_clock = (self._by_table(entries, name, ~filtered) for name in ("period", LATENCY))
        totals = []
        for event, leader, member in zip(self._events, self._groups.leader, self._groups.member, strict=True):
            counted, all_period, kept, clock = (int(column[event.index]) for column in (samples, period, kept_period, latencies))
            shown_here, period_here, clock_here = (int(column[leader, member]) for column in (shown_counts, shown, of_clock))
            totals.append(EventTotals(event, counted, all_period, shown_here, period_here, kept, clock, clock_here))
        return totals

    def _by_table(self, entries: Entries, name: str, rows: NDArray[np.bool_]) -> NDArray[Any]:
        """The sums of some rows, by the table that they are in and the member; zeros where nothing of that name is summed."""
        values = entries.measures.get(name)
        members = max(self._groups.member, default=0) + 1
        # a table has its leader's number; those of members that lead none stay empty
        found = np.zeros((len(self._events), members), np.int64 if values is None else values.dtype)
        if values is not None:
            np.add.at(found, entries.table[rows], values[rows])
        return found

    def _filtered(self, entries: Entries) -> NDArray[np.bool_]:
        """Which entries are not shown: made by a sample that is filtered, or, of the first event, without the name's part."""
        filtered = self._folded.filtered[entries.row]
        part = self._options.selection.symbol_part
        if part is None:
            return filtered
        lacking: NDArray[np.bool_] = ~frames_named(self._known, lambda name: part in name)[entries.location >> ROLE_BITS]
        # of a group, rows that only other members have are not filtered
        lacking &= (entries.table == 0) & (entries.measures["children" if "children" in entries.measures else "samples"][:, 0] > 0)
        return filtered | lacking

    def _histogram(self, leader: int, members: list[int], chosen: Int64, shared: _Shared) -> Histogram:
        """The table of a leader's group. members: its events; chosen: its entries."""
        builder, entries, keys, totals, filtered, tids = shared
        options = self._options
        graph, depth = options.call_graph, entries.depth
        if graph is not None and graph.style == "none":
            depth = None  # perf compares chains only where it shows them
        elif depth is not None and graph is not None and graph.order == "caller":
            depth = -depth
        member = min(options.sort_member, len(members) - 1)
        order = sort_entries(entries, chosen, self._layout, keys, depth, tids, member)
        events = [totals[number] for number in members]
        total = events[0].shown_period if options.relative_percentages else events[0].period
        trees = None
        if graph is not None and graph.style != "none" and self._events[leader].attr.sample_type & SampleType.CALLCHAIN:
            weights = entries.measures["children" if options.children else "period"][chosen, 0]
            assert self._chains is not None
            classes = self._known.chain_ranks(by_address=graph.key == "address")[self._chains.frames]
            trees = Trees(builder, chosen, weights, total, graph, classes, self._chains.frames, self._known)
        title, plural = self._groups.titles.get(leader, ""), self._groups.sizes.get(leader, len(events)) > 1
        return Histogram(events, self._layout, entries, keys, order, filtered, tids, options, trees, self._context, title, plural)


def _class_of(ranks: list[Int64], size: int) -> NDArray[np.int32]:
    """One class id per location from the ranks of several keys; one class where there are no keys, nor locations."""
    if not ranks or not size:
        return np.zeros(max(size, 1), np.int32)
    return TupleTable([True] * len(ranks)).ids_and_new(ranks)[0]


def _without(frames: NDArray[np.int32], offsets: Int64, dropped: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Int64]:
    before = np.concatenate([[0], np.cumsum(~dropped)]).astype(np.int64)
    return frames[~dropped], before[offsets]


def _reversed(frames: NDArray[np.int32], offsets: Int64) -> NDArray[np.int32]:
    """Every chain turned round."""
    lengths = np.diff(offsets)
    mirror = np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - np.arange(len(frames))
    return frames[mirror]
