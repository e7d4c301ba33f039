"""The tables of a report, one per event or event group, sorted like perf's."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.startup import NamedTuple, dataclass, replace
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.call_trees.tree_order import tree_order
from perfpy.analysis.samples.locations import ranks
from perfpy.analysis.sortkeys.sort_key import SortKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.call_trees.call_tree import CallNode
    from perfpy.analysis.call_trees.trees import Trees
    from perfpy.analysis.entries.entries import Entries
    from perfpy.analysis.entries.layout import Layout
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.samples.locations import Int64, Locations
    from perfpy.analysis.sortkeys.key_columns import KeyColumn
    from perfpy.analysis.sortkeys.key_texts import KeyTexts
    from perfpy.perfdata.container.events import FileEvent


class KeyValues:
    """One sort key over all entries: its column, and the number (in that column) of each entry."""

    def __init__(self, key: SortKey, column: KeyColumn, number: Int64) -> None:
        self.key = key
        self.column = column
        self.number = number

    @property
    def same(self) -> Int64:
        """Ranks that are equal for entries of one row."""
        return self.column.same[self.number]

    @property
    def order(self) -> Int64:
        """Ranks in the order of rows."""
        return self.column.order[self.number]


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
        self.order = sort_entries(self.joined, np.sort(self.order), self.layout, None, member)

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
            return [str(int(column.per_sample[number]) * count) for number, count in zip(numbers.tolist(), samples, strict=True)]
        return column.texts_of(numbers)

    def percent(self, metric: str, entry: int, member: int = 0) -> float:
        """Return a sum of an entry in percent of the total."""
        return float(self.percents(metric, np.array([entry]), member)[0])

    def percents(self, metric: str, entries: Int64, member: int = 0) -> NDArray[np.float64]:
        """Return a sum of each entry in percent of the total."""
        total = self.total(member, latency=metric.startswith(LATENCY))
        return 100.0 * self.entries.measures[metric][entries, member] / total if total else np.zeros(len(entries))

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


def sort_entries(joined: JoinedEntries, chosen: Int64, layout: Layout, depth: Int64 | None, sort_member: int) -> Int64:
    """Sort entries like perf: by the layout's columns, equal rows by perf's tree of entries.

    depth: a number for each entry by which perf sorts callers before callees of
    equal weight, smaller first; None without callers.
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
            current.append(keys[entry.name].order[chosen])
            continue
        totals = entries.measures.get(entry.value)
        if totals is None:
            continue
        # when sorting by another member, the first one does not count; an invalid member disables the others; callers' weights
        # exist for the first one only
        alone = entry.value == "children" or not 0 <= sort_member < totals.shape[1]
        members = (0,) if alone else (sort_member, *range(1, totals.shape[1]))
        current.extend(-totals[chosen, member] for member in members)
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


def insertion_order(chosen: Int64, layout: Layout, keys: dict[str, KeyValues]) -> Int64:
    """Return the order of perf's tree of entries, as positions in `chosen`: by the sort keys."""
    same = [keys[key.name].same[chosen] for key in layout.keys]
    if not same:
        return np.arange(len(chosen))
    if len(chosen) > _TREE_ROWS or not _is_ambiguous(chosen, layout, keys):
        return np.lexsort(same[::-1])
    values = [keys[key.name] for key in layout.keys]
    columns = [(key.column.compare, key.number[chosen].tolist(), rank.tolist()) for key, rank in zip(values, same, strict=True)]
    # most rows differ in the keys before the first one with its own comparison: these are compared at once
    plain = next((index for index, key in enumerate(values) if key.column.compare), len(values))
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
    return np.array(tree_order(order, before) if layout.has("comm") else order, np.int64)


def _is_ambiguous(chosen: Int64, layout: Layout, keys: dict[str, KeyValues]) -> bool:
    """Whether perf's comparison of the entries is not transitive.

    This happens with functions and bare addresses of several files
    together, and with addresses further apart than half of the address space.
    """
    names = [key.name for key in layout.keys]
    for index, name in enumerate(names):
        column = keys[name].column
        if column.compare is None or column.unnamed is None:
            continue
        unnamed = column.unnamed[keys[name].number[chosen]]
        if unnamed.any() and ("dso" not in names[:index] or _wraps(keys[name], chosen[unnamed])):
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
