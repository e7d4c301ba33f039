"""Build sorted tables from a profile. `make_tables` has the order of the steps, each of which returns a new value."""

from __future__ import annotations

from itertools import islice

import numpy as np

from perfpy.abi.columns import distinct, grouped
from perfpy.abi.flags import SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass, replace
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.filters import frames_named
from perfpy.analysis.locations import OF_SAMPLE, ROLE_BITS, chain_locations, ranks
from perfpy.analysis.report.entries import Entries, EntryBuilder, Tables, shown_rows, with_parents, without_callees, without_recursion
from perfpy.analysis.sort_key import SortKey, TreeComparison
from perfpy.symbols.interning import TupleTable, sum_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.locations import Int64, Locations
    from perfpy.analysis.report.call_trees import CallNames, CallNode, Trees
    from perfpy.analysis.report.entries import DrawnChains, Rows
    from perfpy.analysis.report.options import EventGroups, Layout, ReportOptions, ReportPlan
    from perfpy.analysis.sort_key import KeyColumn, KeyTexts
    from perfpy.perfdata.events import FileEvent


# frames processed together: the intermediate arrays are larger than they are
_CHAIN_FRAMES_AT_ONCE: Final = 1 << 18


def make_tables(plan: ReportPlan, folded: Folded, drawn: DrawnChains | None, texts: KeyTexts) -> list[Histogram]:
    """Return the tables, in the order of their events; drawn: the chains of their trees."""
    location_table, options = texts.locations, plan.options
    rows = shown_rows(folded, drawn, location_table, options)
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
        order = sort_entries(joined, chosen, plan.layout, _depth(joined.entries, plan), groups[leader].sorted_by(options.rows.sort_member))
        tables.append(Histogram(groups[leader], joined, order, plan.layout, options, trees, texts))
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
            values, number = grouped(rows.parent if key.dimension == "parent" else folded.dimensions[key.dimension])
            sample_keys[key.name] = (key.column(texts, values.astype(np.int64)), number)
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
        present_roles = distinct(sample_roles)
        for begin in range(0, len(rows.chains.frames), _CHAIN_FRAMES_AT_ONCE):
            part = slice(begin, begin + _CHAIN_FRAMES_AT_ONCE)
            frames, roles = rows.chains.frames[part], rows.chains.roles[part]
            used[chain_locations(frames, roles)] = True
            by_sample = frames[roles == OF_SAMPLE]
            for role in present_roles:
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
    history = plan.folding.history
    has_chains = plan.events[leader].attr.sample_type & (SampleType.CALLCHAIN | (SampleType.BRANCH_STACK if history else 0))
    if graph is None or graph.style == "none" or rows.chains is None or not has_chains:
        return None
    from perfpy.analysis.report.call_trees import (
        SiblingNames,
        Trees,  # most reports are flat
    )

    weights = join.joined.entries.measures["children" if options.chains.children else "period"][chosen, 0]
    total = totals.shown_period if options.rows.relative_percentages else totals.period
    frames, location_table = rows.chains.frames, texts.locations
    calls = _call_names(texts, frames, graph.key) if graph.within_functions else None
    classes = (
        calls.ranks(location_table) if calls and graph.key == "srcline" else location_table.chain_ranks(by_address=graph.key == "address")
    )
    names = SiblingNames(*location_table.chain_name_ranks(classes)) if location_table.inlined.any() and not calls else None
    branches = history.numbers(len(location_table.ip)) if history is not None else None
    return Trees(join.builder, chosen, weights, total, graph, classes, frames, location_table, names, calls, rows.recursive, branches)


def _call_names(texts: KeyTexts, frames: NDArray[np.int32], key: str) -> CallNames:
    from perfpy.analysis.report.call_trees import CallNames  # most trees have functions only

    return CallNames.of(texts, frames, key)


# The tables of a report, one per event or event group, sorted like perf's.


class KeyValues:
    """One sort key over all entries: its column, and the number (in that column) of each entry."""

    def __init__(self, key: SortKey, column: KeyColumn, number: Int64) -> None:
        self.key = key
        self.column = column
        self.number = number

    def same(self, entries: Int64) -> Int64:
        """Return ranks of entries that are equal for those of one row."""
        return self.column.same[self.number[entries]]

    def order(self, entries: Int64) -> Int64:
        """Return ranks of entries in the order of rows."""
        return self.column.order[self.number[entries]]


class EventTotals(NamedTuple):
    """The totals of one event.

    Attributes:
        event: the event.
        samples, period: of all samples.
        shown_samples, shown_period: of the visible rows; a row's first sample decides whether it is visible.
        kept_period, kept_samples: of the samples that pass the filters.
        latency, shown_latency: like period, for shares of the wall clock.
    """

    event: FileEvent
    samples: int
    period: int
    shown_samples: int
    shown_period: int
    kept_period: int
    latency: int = 0
    shown_latency: int = 0
    kept_samples: int = 0


class ReportRow(NamedTuple):
    """One line of a histogram.

    Attributes:
        entry: its number.
        percent: its share of the table's period.
        values: a sum's name -> the value for each member of the event group.
        texts: a key's name -> text.
    """

    entry: int
    percent: float
    values: dict[str, list[int]]
    texts: dict[str, str]

    @property
    def period(self) -> int:
        """The period of the event, or of the first of the group."""
        return self.values["period"][0]

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.values["samples"][0]


class TableEvents(NamedTuple):
    """The events of one table.

    Attributes:
        totals: the totals of the event, or of each member of the group.
        title: the group's title; empty for a single event.
        is_group: whether the events were recorded as a group.
    """

    totals: list[EventTotals]
    title: str = ""
    is_group: bool = False

    def sorted_by(self, member: int) -> tuple[int, ...]:
        """Return the members by whose sums rows are sorted: not by the first one if another is chosen, by it alone if there is no such."""
        return (member, *range(1, len(self.totals))) if 0 <= member < len(self.totals) else (0,)


class JoinedEntries(NamedTuple):
    """The entries of tables.

    Attributes:
        entries: their sums.
        keys: a sort key's name -> its values.
        filtered: marks hidden entries.
        tids: the thread of each entry's first sample.
    """

    entries: Entries
    keys: dict[str, KeyValues]
    filtered: NDArray[np.bool_]
    tids: Int64


@dataclass(eq=False, repr=False)
class Histogram:
    """One table.

    Attributes:
        group: its events.
        joined: the entries of all tables of the report.
        order: the numbers of this table's entries, in the order of rows.
        names: of locations and threads.
    """

    group: TableEvents
    joined: JoinedEntries
    order: Int64
    layout: Layout
    options: ReportOptions
    trees: Trees | None
    names: KeyTexts

    def __len__(self) -> int:
        return len(self.order)

    @property
    def events(self) -> list[EventTotals]:
        """The totals of the event, or of each member of the group."""
        return self.group.totals

    @property
    def entries(self) -> Entries:
        """The entries' sums."""
        return self.joined.entries

    @property
    def keys(self) -> dict[str, KeyValues]:
        """A sort key's name -> its values."""
        return self.joined.keys

    @property
    def locations(self) -> Locations:
        """The names of locations."""
        return self.names.locations

    def with_entries(self, joined: JoinedEntries, order: Int64) -> Histogram:
        """Return a table of other entries under the same totals, without call trees."""
        return replace(self, joined=joined, order=order, trees=None)

    def with_totals(self, totals: list[EventTotals], options: ReportOptions) -> Histogram:
        """Return the same entries under other totals."""
        return replace(self, group=self.group._replace(totals=totals), options=options)

    @property
    def leader(self) -> EventTotals:
        """The event, or the first of the group."""
        return self.events[0]

    def total(self, member: int = 0, *, latency: bool = False) -> int:
        """Return 100 %: of the period, or of the wall clock."""
        totals, relative = self.events[member], self.options.rows.relative_percentages
        if latency:
            return totals.shown_latency if relative else totals.latency
        return totals.shown_period if relative else totals.period

    def visible_entries(self) -> Int64:
        """Return the entry numbers of visible rows, in order."""
        return self.order[~self.joined.filtered[self.order]]

    def by_own(self, entries: Int64) -> Int64:
        """Sort entries by their own period, without callees; the sort is stable."""
        return entries[np.argsort(-self.entries.measures["period"][entries, 0], kind="stable")]

    def sort_by(self, member: int) -> None:
        """Sort the rows by one event of the group."""
        self.order = sort_entries(self.joined, np.sort(self.order), self.layout, None, self.group.sorted_by(member))

    def value(self, metric: str, entry: int, member: int = 0) -> int:
        """Return a sum of an entry."""
        return int(self.entries.measures[metric][entry, member])

    def text(self, key: str, entry: int) -> str:
        """Return the text of a key in an entry's row."""
        return self.texts(key, np.array([entry]))[0]

    def texts(self, key: str, entries: Int64) -> list[str]:
        """Return the text of a key in each entry's row."""
        values = self.keys[key]
        numbers, column = values.number[entries], values.column
        if column.per_sample is not None:
            samples = self.entries.measures["samples"][entries, 0].tolist()
            return [
                str(int(column.per_sample[number]) * count % (1 << 64)) for number, count in zip(numbers.tolist(), samples, strict=True)
            ]
        return column.texts_of(numbers)

    def percent(self, metric: str, entry: int, member: int = 0) -> float:
        """Return a sum of an entry in percent of the total."""
        return float(self.percents(metric, np.array([entry]), member)[0])

    def percents(self, metric: str, entries: Int64, member: int = 0) -> NDArray[np.float64]:
        """Return a sum of each entry in percent of the total."""
        total = self.total(member, latency=metric.startswith(LATENCY))
        return 100.0 * self.entries.measures[metric][entries, member] / total if total else np.zeros(len(entries))

    def reach(self, entries: Int64, percent_limit: float, metric: str = "period") -> NDArray[np.bool_]:
        """Return which entries have at least this percentage of the total, compared as 32-bit floats like perf: 4.99999996 reaches 5."""
        is_shown: NDArray[np.bool_] = self.percents(metric, entries).astype(np.float32) >= np.float32(percent_limit)
        return is_shown

    def share(self, period: int, member: int = 0) -> float:
        """Return a period in percent of the total."""
        total = self.total(member)
        return 100.0 * period / total if total else 0.0

    def weight(self, entry: int) -> int:
        """Return the total of an entry's call tree: with callers, including callees."""
        return self.value("children" if "children" in self.entries.measures else "period", entry)

    def location(self, entry: int) -> int:
        """Return the location of an entry's first sample."""
        return int(self.entries.location[entry])

    def mean(self, metric: str, entry: int, member: int = 0) -> float:
        """Return a sum of an entry per sample."""
        samples = self.value("samples", entry, member)
        return self.value(metric, entry, member) / samples if samples else 0.0

    def last_comms(self) -> set[str]:
        """Return the last comms of the threads of visible rows."""
        return {self.names.tasks.last_comm(tid) for tid in distinct(self.joined.tids[self.visible_entries()]).tolist()}

    def rows(self) -> Iterator[ReportRow]:
        """Yield the visible rows."""
        return map(self.row, self.visible_entries().tolist())

    def row(self, entry: int) -> ReportRow:
        """Return an entry's row."""
        values = {name: totals[entry].tolist() for name, totals in self.entries.measures.items()}
        return ReportRow(entry, self.percent("period", entry), values, {name: self.text(name, entry) for name in self.keys})

    def top(self, count: int = 10) -> list[ReportRow]:
        """Return the first rows."""
        return list(islice(self.rows(), count))

    def calls(self, entry: int, *, alone: bool = False) -> list[CallNode]:
        """Return the top nodes of an entry's call tree; alone: only few entries will be requested."""
        if self.trees is None:
            return []
        return self.trees.calls_alone(entry) if alone else self.trees.calls(entry)


def sort_entries(joined: JoinedEntries, chosen: Int64, layout: Layout, depth: Int64 | None, members: tuple[int, ...]) -> Int64:
    """Sort entries like perf: by the layout's columns, equal rows by perf's tree of entries.

    depth: a number for each entry by which perf sorts callers before callees of
    equal weight, smaller first; None without callers.
    members: the events of the table's group by whose sums it is sorted.
    """
    entries, keys = joined.entries, joined.keys
    # the columns after the callers' weight; those before it, and the weight
    before: list[NDArray[Any]] = []
    after: list[NDArray[Any]] = []
    current = before
    by_depth = False
    for entry in layout.sorts:
        if entry.name in layout.hidden:
            continue
        if isinstance(entry, SortKey):
            current.append(keys[entry.name].order(chosen))
            continue
        totals = entries.measures.get(entry.value)
        if totals is None:
            continue
        # callers' weights exist for the first member only
        current.extend(-totals[chosen, member] for member in ((0,) if entry.value == "children" else members))
        if entry.value == "children":
            by_depth, current = depth is not None, after
    order = insertion_order(chosen, layout, keys)
    if not by_depth or depth is None:
        inserted = np.empty(len(chosen), np.int64)
        inserted[order] = np.arange(len(chosen))
        return chosen[np.lexsort([*before, *after, inserted][::-1])]
    weight, rest = ranks(*before), ranks(*after) if after else np.zeros(len(chosen), np.int64)
    return chosen[_callers_first(order, weight, depth[chosen], joined.tids[chosen], rest)]


# above this number of rows the exact order of perf's trees is too slow
_TREE_ROWS = 20_000


def insertion_order(chosen: Int64, layout: Layout, keys: dict[str, KeyValues], *, joins_commands: bool = True) -> Int64:
    """Return the order of perf's tree of entries, as positions in `chosen`: by the sort keys.

    joins_commands: whether rows of one command are joined in a tree of the same comparison, as `report` does.
    """
    numbers = [keys[key.name].number[chosen] for key in layout.keys]
    comparisons = [_tree_comparison(key, keys[key.name].column, layout) for key in layout.keys]
    same = [comparison.ranks[number] for comparison, number in zip(comparisons, numbers, strict=True)]
    if not same:
        return np.arange(len(chosen))
    if len(chosen) > _TREE_ROWS or not _is_ambiguous(chosen, layout, keys):
        return np.lexsort(same[::-1])
    columns = [
        (comparison.compare, number.tolist(), rank.tolist()) for comparison, number, rank in zip(comparisons, numbers, same, strict=True)
    ]
    # most rows differ in the keys before the first one with its own comparison: these are compared at once
    plain = next((index for index, comparison in enumerate(comparisons) if comparison.compare), len(comparisons))
    lead = ranks(*same[:plain]).tolist() if plain else [0] * len(chosen)
    columns = columns[plain:]

    def before(row: int, other: int) -> bool:
        if lead[row] != lead[other]:
            return bool(lead[row] < lead[other])
        for compare, numbers, rank in columns:
            order = compare(numbers[row], numbers[other]) if compare else rank[row] - rank[other]
            if order:
                return order < 0
        return False

    # the tree in which samples are counted; then the one in which rows of one command are joined
    order = tree_order(range(len(chosen)), before)
    return np.array(tree_order(order, before) if joins_commands and layout.has("comm") else order, np.int64)


def _tree_comparison(key: SortKey, column: KeyColumn, layout: Layout) -> TreeComparison:
    """Return the comparison by a key in perf's tree of entries."""
    if column.beside_dso is not None and layout.leaves_files_to_dso(key):
        return column.beside_dso()
    return TreeComparison(column.same, column.compare)


def _is_ambiguous(chosen: Int64, layout: Layout, keys: dict[str, KeyValues]) -> bool:
    """Whether perf's comparison of the entries is not transitive.

    This happens with functions and bare addresses of several files
    together, and with addresses further apart than half of the address space.
    """
    compares_files = False
    for key in layout.keys:
        values = keys[key.name]
        compares_files |= key.name == "dso"
        if values.column.compare is None or values.column.unnamed is None:
            continue
        unnamed = values.column.unnamed[values.number[chosen]]
        in_one_file = compares_files or layout.leaves_files_to_dso(key)
        if unnamed.any() and (not in_one_file or _wraps(values, chosen[unnamed])):
            return True
    return False


def _wraps(values: KeyValues, entries: Int64) -> bool:
    """Whether addresses lie on both sides of a circle of 2^64."""
    compare, numbers = values.column.compare, values.number[entries]
    ordered = numbers[np.argsort(values.column.same[numbers])].tolist()
    return compare is not None and len(ordered) > 1 and compare(ordered[0], ordered[-1]) > 0


def _callers_first(order: Int64, weight: Int64, depth: Int64, tids: Int64, rest: Int64) -> Int64:
    """Sort rows by weight; equal ones by depth within a thread, otherwise by the remaining columns, like perf's tree.

    order: the order in which perf inserts rows into its tree.
    """
    mixed = _have_mixed_threads(weight, tids)
    if not mixed.any() or len(order) > _TREE_ROWS:
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return np.lexsort((rank, rest, np.where(mixed, 0, depth), weight))
    weights, depths, threads, rests = weight.tolist(), depth.tolist(), tids.tolist(), rest.tolist()

    def before(row: int, other: int) -> bool:
        if weights[row] != weights[other]:
            return bool(weights[row] < weights[other])
        if threads[row] == threads[other] and depths[row] != depths[other]:
            return bool(depths[row] < depths[other])
        return bool(rests[row] < rests[other])

    return np.array(tree_order(order.tolist(), before), np.int64)


def _have_mixed_threads(weight: Int64, tids: Int64) -> NDArray[np.bool_]:
    """Return a mask of the rows with the weight of a row of another thread."""
    if not len(weight):
        return np.zeros(0, np.bool_)
    size = int(weight.max()) + 1
    low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(low, weight, tids)
    np.maximum.at(high, weight, tids)
    differ: NDArray[np.bool_] = low[weight] != high[weight]
    return differ


# Reproduce the order of perf's red-black tree of rows.
#
# perf inserts rows one by one. Its comparison of rows with
# equal callers' overhead uses the depth of chains if both rows come from one
# thread, and other columns if not; this comparison is not transitive, and a
# row's position depends on the rows it meets on its way down. So the tree is built here
# like perf's, for the tables in which that can happen.


_RED, _BLACK = 0, 1


class _Node:
    __slots__ = ("color", "left", "parent", "right", "row")

    def __init__(self, row: int, parent: _Node | None) -> None:
        self.row = row
        self.parent = parent
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.color = _RED


def tree_order(rows: Iterable[int], before: Callable[[int, int], bool]) -> list[int]:
    """Insert the rows in turn, to the left of rows that they precede, else to the right; return the tree from left to right."""
    tree = _Tree()
    for row in rows:
        tree.insert(row, before)
    return tree.in_order()


class _Tree:
    def __init__(self) -> None:
        self._root: _Node | None = None

    def insert(self, row: int, before: Callable[[int, int], bool]) -> None:
        parent, node, left = None, self._root, False
        while node is not None:
            parent = node
            left = before(row, node.row)
            node = node.left if left else node.right
        fresh = _Node(row, parent)
        if parent is None:
            self._root = fresh
        elif left:
            parent.left = fresh
        else:
            parent.right = fresh
        self._balance(fresh)

    def _balance(self, node: _Node) -> None:
        """Restore the colours after an insertion."""
        while (parent := node.parent) is not None and parent.color == _RED:
            grand = parent.parent
            assert grand is not None  # a red node is never the root
            uncle = grand.right if parent is grand.left else grand.left
            if uncle is not None and uncle.color == _RED:
                parent.color = uncle.color = _BLACK
                grand.color = _RED
                node = grand
                continue
            if (node is parent.left) != (parent is grand.left):
                self._rotate(parent, to_left=node is parent.right)
                parent = node
            parent.color, grand.color = _BLACK, _RED
            self._rotate(grand, to_left=parent is grand.right)
            break
        if self._root is not None:
            self._root.color = _BLACK

    def _rotate(self, node: _Node, *, to_left: bool) -> None:
        """Replace a node by one of its children."""
        child = node.right if to_left else node.left
        assert child is not None
        moved = child.left if to_left else child.right
        if to_left:
            node.right, child.left = moved, node
        else:
            node.left, child.right = moved, node
        if moved is not None:
            moved.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        elif node.parent.left is node:
            node.parent.left = child
        else:
            node.parent.right = child
        node.parent = child

    def in_order(self) -> list[int]:
        rows: list[int] = []
        stack: list[_Node] = []
        node = self._root
        while stack or node is not None:
            while node is not None:
                stack.append(node)
                node = node.left
            node = stack.pop()
            rows.append(node.row)
            node = node.right
        return rows
