"""Build sorted tables from a profile. `make_tables` has the order of the steps, each of which returns a new value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import SampleType
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.aggregate.tuple_table import TupleTable
from perfpy.analysis.entries.entries import Entries, EntryBuilder, Tables
from perfpy.analysis.entries.rows import shown_rows, with_parents, without_callees, without_recursion
from perfpy.analysis.filters.sample_filter import frames_named
from perfpy.analysis.report.histogram import EventTotals, Histogram, JoinedEntries, KeyValues, TableEvents, sort_entries
from perfpy.analysis.samples.locations import OF_SAMPLE, ROLE_BITS, chain_locations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import FoldedSamples
    from perfpy.analysis.call_trees.call_names import CallNames
    from perfpy.analysis.call_trees.trees import Trees
    from perfpy.analysis.entries.event_groups import EventGroups
    from perfpy.analysis.entries.plan import ReportPlan
    from perfpy.analysis.entries.rows import DrawnChains, Rows
    from perfpy.analysis.samples.locations import Int64, Locations
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


def make_tables(plan: ReportPlan, profile: FoldedSamples, drawn: DrawnChains | None, texts: KeyTexts) -> list[Histogram]:
    """Return the tables, in the order of their events; drawn: the chains of their trees."""
    location_table, options = texts.locations, plan.options
    rows = shown_rows(profile.folded, drawn, location_table, options)
    if plan.needs_parents:
        rows = with_parents(rows, location_table, options)
    rows = without_recursion(without_callees(rows, location_table, options), location_table, options)
    texts = texts._replace(parents=rows.parents)
    join = _join(rows, plan, texts)
    joined = join.joined
    groups = _event_groups(_totals(rows, joined, plan), plan.groups)
    tables = []
    for leader, chosen in _by_leader(joined.entries, plan.groups):
        trees = _trees(leader, chosen, rows, join, groups[leader], plan, texts)
        tables.append(Histogram(groups[leader], joined, _order(joined, chosen, plan), plan.layout, options, trees, texts))
    return tables


class _Join(NamedTuple):
    """The entries of all tables, and the builder that finds their call trees."""

    builder: EntryBuilder
    joined: JoinedEntries


def _join(rows: Rows, plan: ReportPlan, texts: KeyTexts) -> _Join:
    """Join the rows that share all keys."""
    folded, options, location_table = rows.folded, plan.options, texts.locations
    roles = rows.sample_roles(location_table)
    used, number_of = _used_locations(rows, roles, location_table, callers=options.chains.children)
    location_keys = {key.name: key.column(texts, used) for key in plan.layout.keys if key.of_location}
    sample_keys = {}
    for key in plan.layout.keys:
        if not key.of_location:
            values, number = np.unique(rows.parent if key.dimension == "parent" else folded.dimensions[key.dimension], return_inverse=True)
            sample_keys[key.name] = (key.column(texts, values), number.ravel())
    sample_classes = [column.same[number] for column, number in sample_keys.values()]
    # perf decides by a row's first sample whether the row is visible
    if (not options.rows.rows_filtered or options.sample_filter.parallelism is not None) and folded.filtered.any():
        sample_classes.append(folded.filtered.astype(np.int64))
    location_class = _class_of([column.same for column in location_keys.values()], len(used))[number_of]
    tables = _tables(plan.groups)
    builder = EntryBuilder(
        folded, tables, rows.location, sample_classes, location_class, rows.chains, roles, callers=options.chains.children
    )
    entries = builder.build()
    keys: dict[str, KeyValues] = {}
    for key in plan.layout.keys:
        if key.of_location:
            keys[key.name] = KeyValues(key, location_keys[key.name], number_of[entries.location].astype(np.int64))
        else:
            column, number = sample_keys[key.name]
            keys[key.name] = KeyValues(key, column, number[entries.row])
    joined = JoinedEntries(entries, keys, _hidden_entries(rows, entries, plan, location_table), folded.tid[entries.row])
    return _Join(builder, joined)


def _used_locations(
    rows: Rows, sample_roles: NDArray[np.uint8], location_table: Locations, *, callers: bool
) -> tuple[Int64, NDArray[np.int32]]:
    """Return the locations of rows and callers, and the number of each location among them; they are few of all sampled locations."""
    used = np.zeros(max(len(location_table.ip), 1) << ROLE_BITS, np.bool_)
    if rows.chains is not None and callers:
        frames, roles = rows.chains.frames, rows.chains.roles
        used[chain_locations(frames, roles)] = True
        by_sample = frames[roles == OF_SAMPLE]
        for role in distinct(sample_roles):
            used[chain_locations(by_sample, role)] = True
    used[rows.location] = True
    number = np.cumsum(used, dtype=np.int32)
    number -= np.int32(1)
    return np.flatnonzero(used), number


def _class_of(ranks: list[Int64], size: int) -> NDArray[np.int32]:
    """Return one class id per location from the ranks of several keys; one class without keys or locations."""
    if not ranks or not size:
        return np.zeros(max(size, 1), np.int32)
    return TupleTable([True] * len(ranks)).ids_and_new(ranks)[0]


def _tables(groups: EventGroups) -> Tables:
    leader, member = np.array(groups.leader, np.int64), np.array(groups.member, np.int64)
    return Tables(leader, member, int(member.max()) + 1 if len(member) else 1)


def _hidden_entries(rows: Rows, entries: Entries, plan: ReportPlan, location_table: Locations) -> NDArray[np.bool_]:
    """Return a mask of hidden entries: made by a filtered sample, or, of the first event, whose name lacks the symbol part."""
    filtered = rows.folded.filtered[entries.row]
    part = plan.options.sample_filter.symbol_part
    if part is None:
        return filtered
    lacking: NDArray[np.bool_] = ~frames_named(location_table, lambda name: part in name)[entries.location >> ROLE_BITS]
    # in a group, rows that only other members have are not hidden
    lacking &= (entries.table == 0) & (entries.measures["children" if "children" in entries.measures else "samples"][:, 0] > 0)
    return filtered | lacking


def _totals(rows: Rows, joined: JoinedEntries, plan: ReportPlan) -> list[EventTotals]:
    """Return the totals of all events: of samples, and of visible rows."""
    folded, entries, count = rows.folded, joined.entries, len(plan.events)
    samples, period = sum_by(folded.event, folded.count, count), sum_by(folded.event, folded.period, count)
    is_unfiltered = ~folded.filtered
    kept_samples, kept_period = (
        sum_by(folded.event[is_unfiltered], column[is_unfiltered], count) for column in (folded.count, folded.period)
    )
    latency = folded.measures.get(LATENCY, np.zeros(len(folded), np.int64))
    latencies = sum_by(folded.event, latency, count)
    # perf counts a sample as visible if its row's first one is
    shown_counts = _by_table(entries, "samples", is_unfiltered[entries.row], plan.groups)
    periods, of_clock = (_by_table(entries, name, ~joined.filtered, plan.groups) for name in ("period", LATENCY))
    totals = []
    for event, leader, member in zip(plan.events, plan.groups.leader, plan.groups.member, strict=True):
        counted, all_period, visible_period, clock = (int(column[event.index]) for column in (samples, period, kept_period, latencies))
        left_of_it = int(kept_samples[event.index])
        shown_here, period_here, clock_here = (int(column[leader, member]) for column in (shown_counts, periods, of_clock))
        totals.append(EventTotals(event, counted, all_period, shown_here, period_here, visible_period, clock, clock_here, left_of_it))
    return totals


def _by_table(entries: Entries, name: str, rows: NDArray[np.bool_], groups: EventGroups) -> NDArray[Any]:
    """Return the sums of some rows, by table and member; zeros if there is no sum of that name."""
    values = entries.measures.get(name)
    members = max(groups.member, default=0) + 1
    # a table has its leader's number; rows of other members stay empty
    table_totals = np.zeros((len(groups.leader), members), np.int64 if values is None else values.dtype)
    if values is not None:
        np.add.at(table_totals, entries.table[rows], values[rows])
    return table_totals


def _by_leader(entries: Entries, groups: EventGroups) -> list[tuple[int, Int64]]:
    """Return the leader of each table, and its entries."""
    order = np.argsort(entries.table, kind="stable")
    leaders = sorted(set(groups.leader))
    begins, ends = (np.searchsorted(entries.table[order], leaders, side=side).tolist() for side in ("left", "right"))
    return [(leader, order[begin:end]) for leader, begin, end in zip(leaders, begins, ends, strict=True)]


def _event_groups(totals: list[EventTotals], groups: EventGroups) -> dict[int, TableEvents]:
    """Return the events of each table, by their leader."""
    members: dict[int, list[EventTotals]] = {}
    for leader, total in zip(groups.leader, totals, strict=True):
        members.setdefault(leader, []).append(total)
    return {
        leader: TableEvents(of_group, groups.titles.get(leader, ""), groups.sizes.get(leader, len(of_group)) > 1)
        for leader, of_group in members.items()
    }


def _order(joined: JoinedEntries, chosen: Int64, plan: ReportPlan) -> Int64:
    """Return the chosen entries in the order of rows."""
    return sort_entries(joined, chosen, plan.layout, _depth(joined.entries, plan), plan.options.rows.sort_member)


def _depth(entries: Entries, plan: ReportPlan) -> Int64 | None:
    """Return the numbers that sort callers before callees of equal weight, smaller first; None if they are not distinguished."""
    graph = plan.options.chains.call_graph
    if graph is not None and graph.style == "none":
        return None  # perf compares chains only if it shows them
    if entries.depth is not None and graph is not None and graph.order == "caller":
        return -entries.depth
    return entries.depth


def _trees(leader: int, chosen: Int64, rows: Rows, join: _Join, group: TableEvents, plan: ReportPlan, texts: KeyTexts) -> Trees | None:
    """Return the call trees of the chosen entries; None without trees, or if the leader has no callchains.

    A damaged recording among several can have events with callchains, and samples without.
    """
    totals = group.totals[0]
    options, graph = plan.options, plan.options.chains.call_graph
    has_chains = plan.events[leader].attr.sample_type & SampleType.CALLCHAIN
    if graph is None or graph.style == "none" or rows.chains is None or not has_chains:
        return None
    from perfpy.analysis.call_trees.call_tree import SiblingNames
    from perfpy.analysis.call_trees.trees import Trees  # most reports are flat

    weights = join.joined.entries.measures["children" if options.chains.children else "period"][chosen, 0]
    total = totals.shown_period if options.rows.relative_percentages else totals.period
    frames, location_table = rows.chains.frames, texts.locations
    calls = _call_names(texts, frames, graph.key) if graph.within_functions else None
    classes = (
        calls.ranks(location_table) if calls and graph.key == "srcline" else location_table.chain_ranks(by_address=graph.key == "address")
    )
    names = SiblingNames(*location_table.chain_name_ranks(classes)) if location_table.inlined.any() and not calls else None
    return Trees(join.builder, chosen, weights, total, graph, classes, frames, location_table, names, calls, rows.recursive)


def _call_names(texts: KeyTexts, frames: NDArray[np.int32], key: str) -> CallNames:
    from perfpy.analysis.call_trees.call_names import CallNames  # most trees have functions only

    return CallNames.of(texts, frames, key)
