"""The accesses of chosen cache lines by offset and code, process or thread: perf c2c's "Pareto" tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.memory.access_kinds import KindCounts, has_kind
from perfpy.analysis.memory.cache_lines import displayed, group_rows, physical_memory, sets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.memory.accesses import Accesses, MemoryNodes
    from perfpy.analysis.memory.cache_lines import CacheLines
    from perfpy.symbols.symbolizer import Symbolizer

#: the fields that --coalesce can group by
FIELDS: Final = ("pid", "tid", "iaddr", "dso")


class AccessRows(NamedTuple):
    """The rows of chosen lines, by line and offset.

    Attributes:
        line: int64[rows], the line's place in the choice.
        offset: int64[rows], in the line.
        first: int64[rows], the row's first access.
        group: int64[accesses], the row of each access.
        accesses: of the lines.
        counts: of each row.
        memory_nodes, physical: see CacheLines.
        cpus: of each row, ascending.
        order: the rows as they are shown.
        is_shown: bool[rows], whether the row has accesses that --display counts, or stores.
    """

    line: NDArray[np.int64]
    offset: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.int64]
    accesses: Accesses
    counts: KindCounts
    memory_nodes: list[tuple[int, ...]]
    physical: NDArray[np.int64]
    cpus: list[tuple[int, ...]]
    order: NDArray[np.int64]
    is_shown: NDArray[np.bool_]

    def mean_weights(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the mean latencies of remote and local HITM, remote and local peer, and other loads, in cycles; 0 without any."""
        kinds = self.accesses.kinds
        rest = np.ones(len(kinds), bool)
        means = []
        for name in ("remote_hitm", "local_hitm", "remote_peer", "local_peer", "load"):
            mask = rest & has_kind(kinds, name)
            rest &= ~mask
            rows = self.group[mask]
            means.append(_rounded_means(rows, self.accesses.weight[mask].astype(np.int64), len(self.first)))
        return means[0], means[1], means[2], means[3], means[4]


def line_rows(
    accesses: Accesses,
    lines: CacheLines,
    chosen: Sequence[int],
    fields: Sequence[str],
    display: str,
    symbolizer: Symbolizer,
    nodes: MemoryNodes,
) -> AccessRows:
    """Group the accesses of chosen lines by offset and the fields of --coalesce."""
    rank_of_line = np.full(len(lines.address), -1, np.int64)
    rank_of_line[np.array(chosen, np.int64)] = np.arange(len(chosen))
    rows = np.flatnonzero(rank_of_line[lines.line] >= 0)
    part = accesses.take(rows)
    line = rank_of_line[lines.line[rows]]
    offset = (part.address & np.uint64(lines.size - 1)).astype(np.int64)
    keys = [line, offset, *(_key(name, part, symbolizer) for name in fields)]
    group, first = group_rows(keys)
    counts = KindCounts(part.kinds, group, len(first))
    sets, changes = physical_memory(part.physical, group, len(first), nodes)
    has_cpu = np.flatnonzero(part.cpu >= 0)
    cpus = sets_of(group[has_cpu], part.cpu[has_cpu], len(first))
    first_line, first_offset = line[first], offset[first]
    chosen_counts = displayed(counts, display)
    others = counts.hitm - chosen_counts if display in ("rmt", "lcl") else np.zeros(len(first), np.int64)
    order = np.lexsort((-others, -chosen_counts, first_offset, first_line))
    is_shown = (chosen_counts > 0) | (counts["store"] > 0)
    return AccessRows(first_line, first_offset, first, group, part, counts, sets, changes, cpus, order, is_shown)


def _rounded_means(group: NDArray[np.int64], values: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Return the mean of each group, 0 without values. perf keeps a running mean, whose error decides how halves are rounded."""
    totals = np.bincount(group, values.astype(np.float64), groups).astype(np.int64)
    numbers = np.maximum(np.bincount(group, minlength=groups), 1)
    means = np.rint(totals / numbers).astype(np.int64)
    halves = np.flatnonzero((totals % numbers) * 2 == numbers)
    if not len(halves):
        return means
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(groups + 1))
    for one in halves.tolist():
        mean = 0.0
        for count, value in enumerate(values[order[starts[one] : starts[one + 1]]].tolist(), 1):
            mean += (value - mean) / count
        means[one] = round(mean)
    return means


def _key(name: str, accesses: Accesses, symbolizer: Symbolizer) -> NDArray[np.int64]:
    table = symbolizer.resolve()
    if name == "iaddr":
        return table.ip[accesses.code].view(np.int64) ^ np.int64(-1 << 63)
    if name == "dso":
        return table.dso[accesses.code].astype(np.int64)
    if name == "tid":
        return accesses.tid.astype(np.int64)
    return -accesses.pid.astype(np.int64)  # perf's order of processes descends
