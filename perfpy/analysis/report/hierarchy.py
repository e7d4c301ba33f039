"""perf report -H: a level for each sort key.

The sums are added up for every prefix of the sort keys; each node is below the one of its
shorter prefix, siblings in perf's order. The fields of other tracepoints are no levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.report.entries import Entries
from perfpy.analysis.report.tables import Histogram, JoinedEntries, KeyValues, insertion_order, sort_entries
from perfpy.symbols.interning import TupleTable, sum_by

if TYPE_CHECKING:
    from perfpy.analysis.locations import Int64
    from perfpy.analysis.sort_key import SortKey


@dataclass(frozen=True)
class Hierarchy:
    """The nodes of all levels.

    Attributes:
        nodes: a histogram whose entries are the nodes, in display order, children after their parent.
        depth: of each node, from 0.
        leaf: for nodes of the last level, the entry of `source` (else -1).
        source: the original histogram.
        levels: the keys of each level.
    """

    nodes: Histogram
    depth: Int64
    leaf: Int64
    source: Histogram
    levels: list[list[SortKey]]


def levels_of(histogram: Histogram) -> list[list[SortKey]]:
    """Return the levels of a table: the layout's without fields of other events. None: its rows have no keys."""
    event = histogram.leader.event.index
    levels = ([key for key in level if key.event in (None, event)] for level in histogram.layout.levels)
    return [level for level in levels if level]


def has_no_level(histogram: Histogram) -> bool:
    """Return whether all keys are fields of other events, so that perf shows no rows. Those of a group may have fields of other members."""
    return bool(histogram.layout.levels) and not histogram.group.is_group and not levels_of(histogram)


def make_hierarchy(histogram: Histogram, levels: list[list[SortKey]]) -> Hierarchy:
    """Group a histogram's rows by levels; without levels, there are no nodes."""
    if not levels:
        none = np.zeros(0, np.int64)
        return Hierarchy(histogram.with_entries(histogram.joined, none), none, none, histogram, levels)
    entries, keys, layout = histogram.entries, histogram.keys, histogram.layout
    visible = histogram.visible_entries()
    inserted = visible[insertion_order(visible, layout, keys)]  # perf builds each level from its tree of entries
    parts: list[Int64] = []
    parent_of, depths, first_entry, leaf = [], [], [], []
    parent = np.full(len(inserted), -1, np.int64)
    count = 0
    for depth, level in enumerate(levels):
        columns = [parent + 1, *(keys[key.name].same(inserted) for key in level)]
        ids, first = TupleTable([True] * len(columns)).ids_and_new(columns)
        node = ids.astype(np.int64) + count
        parts.append(node)
        parent_of.append(parent[first])
        depths.append(np.full(len(first), depth))
        first_entry.append(inserted[first])
        last = depth == len(levels) - 1
        leaf.append(inserted[first] if last else np.full(len(first), -1))
        parent, count = node, count + len(first)
    example = np.concatenate(first_entry)
    nodes = Entries(
        entries.table[example],
        entries.row[example],
        entries.location[example],
        {name: _sum_nodes(parts, values[inserted], count) for name, values in entries.measures.items()},
        None,
    )
    numbers = {name: KeyValues(values.key, values.column, values.number[example]) for name, values in keys.items()}
    joined = JoinedEntries(nodes, numbers, np.zeros(len(nodes), np.bool_), histogram.joined.tids[example])
    ordered = sort_entries(joined, np.arange(count), layout, None, histogram.group.sorted_by(histogram.options.rows.sort_member))
    order = _below_parents(ordered, np.concatenate(parent_of))
    return Hierarchy(histogram.with_entries(joined, order), np.concatenate(depths), np.concatenate(leaf), histogram, levels)


def _sum_nodes(parts: list[Int64], values: Int64, nodes: int) -> Int64:
    """Return the sums of each node: every entry counts once on each level."""
    columns = [sum(sum_by(node, values[:, member], nodes) for node in parts) for member in range(values.shape[1])]
    return np.stack(columns, axis=1)


def _below_parents(ordered: Int64, parent: Int64) -> Int64:
    """Return sorted nodes with each node after its parent and the subtrees of its earlier siblings."""
    children: dict[int, list[int]] = {}
    for node in ordered.tolist():
        children.setdefault(int(parent[node]), []).append(node)
    ordered_nodes: list[int] = []
    stack = children.get(-1, [])[::-1]
    while stack:
        node = stack.pop()
        ordered_nodes.append(node)
        stack.extend(reversed(children.get(node, [])))
    return np.array(ordered_nodes, np.int64)
