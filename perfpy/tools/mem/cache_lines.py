"""Accesses by cache line: perf c2c's table of lines that CPUs share.

A line is a place in a file, or in the anonymous memory of one process; accesses by the kernel and by user code are apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.symbols.dso import file_ranks
from perfpy.tools.mem.accesses import NO_NODE, KindCounts, has_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.mem.accesses import Accesses, MemoryNodes


LINE_SIZE: Final = 64  # bytes
#: lines with a smaller share of the accesses that --display counts are hidden
LEAST_SHARE: Final = 0.001


class CacheLines(NamedTuple):
    """The lines of a recording, in ascending order of CPU mode, device and inode of the file, and address.

    Attributes:
        size: of a line in bytes; 128 for pairs.
        line: int64[accesses], the line of each access.
        address: uint64[lines], in the memory of the process that used it first.
        counts: of each line.
        memory_nodes: the nodes of each line's memory.
        physical: int64[lines], how often its physical address changed; 0 if it is unknown.
    """

    size: int
    line: NDArray[np.int64]
    address: NDArray[np.uint64]
    counts: KindCounts
    memory_nodes: list[tuple[int, ...]]
    physical: NDArray[np.int64]

    def ranked(self, display: str, *, show_all: bool) -> list[int]:
        """Return the lines to show, those with the most accesses of --display first."""
        chosen = displayed(self.counts, display)
        share = chosen / max(int(chosen.sum()), 1)
        order = np.argsort(-chosen, kind="stable")
        return [line for line in order.tolist() if show_all or share[line] >= LEAST_SHARE]

    def share(self, display: str, line: int) -> float:
        """Return the percentage of a line among all accesses of --display."""
        chosen = displayed(self.counts, display)
        return 100.0 * int(chosen[line]) / max(int(chosen.sum()), 1)

    def shared(self) -> NDArray[np.bool_]:
        """Return which lines CPUs share: another cache had them."""
        return (self.counts.hitm > 0) | (self.counts.peer > 0)


def displayed(counts: KindCounts, display: str) -> NDArray[np.int64]:
    """Return the counts that --display sorts by: tot, lcl, rmt or peer."""
    if display == "tot":
        return counts.hitm
    return counts.peer if display == "peer" else counts["local_hitm" if display == "lcl" else "remote_hitm"]


def cache_lines(accesses: Accesses, symbolizer: Symbolizer, nodes: MemoryNodes, size: int = LINE_SIZE) -> CacheLines:
    """Group accesses by line."""
    keys = _line_keys(accesses, symbolizer, size)
    line, first = group_rows(keys)
    mask = ~np.uint64(size - 1)
    counts = KindCounts(accesses.kinds, line, len(first))
    sets, changes = physical_memory(accesses.physical, line, len(first), nodes)
    return CacheLines(size, line, accesses.address[first] & mask, counts, sets, changes)


def _line_keys(accesses: Accesses, symbolizer: Symbolizer, size: int) -> list[NDArray[np.int64]]:
    table = symbolizer.resolve()
    dso = table.dso[accesses.data].astype(np.int64)
    is_anonymous = np.array([file.is_anonymous for file in symbolizer.dsos] + [False], bool)
    file = np.array(file_ranks(symbolizer.dsos), np.int64)[dso]
    owner = np.where((dso >= 0) & is_anonymous[dso], accesses.pid, 0).astype(np.int64)
    address = np.where(dso >= 0, table.address[accesses.data], accesses.address) & ~np.uint64(size - 1)
    return [accesses.mode.astype(np.int64), (dso < 0).astype(np.int64), file, owner, address.view(np.int64) ^ np.int64(-1 << 63)]


def group_rows(keys: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row of equal keys, numbered in order of the keys, and the first row of each group."""
    rows = len(keys[0])
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort(keys[::-1])
    is_new = np.ones(rows, bool)
    is_new[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    group = np.zeros(rows, np.int64)
    group[order] = np.cumsum(is_new) - 1
    return group, order[is_new]


def physical_memory(
    physical: NDArray[np.uint64], group: NDArray[np.int64], groups: int, nodes: MemoryNodes
) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Return the nodes of each group's memory, and how often its physical address changed from one access to the next."""
    rows = np.flatnonzero(physical)
    order = rows[np.argsort(group[rows], kind="stable")]
    sorted_group, sorted_address = group[order], physical[order]
    is_change = np.ones(len(order), bool)
    is_change[1:] = (sorted_group[1:] != sorted_group[:-1]) | (sorted_address[1:] != sorted_address[:-1])
    changes = np.bincount(sorted_group[is_change], minlength=groups)
    node = nodes.of_memory(physical)
    rows = np.flatnonzero((physical != 0) & (node != NO_NODE))
    return sets_of(group[rows], node[rows], groups), changes


def sets_of(group: NDArray[np.int64], number: NDArray[np.int32], groups: int) -> list[tuple[int, ...]]:
    """Return the distinct numbers of each group, ascending."""
    sets: list[list[int]] = [[] for _ in range(groups)]
    _, first = group_rows([group, number.astype(np.int64)])
    for index, value in zip(group[first].tolist(), number[first].tolist(), strict=True):
        sets[index].append(value)
    return [tuple(values) for values in sets]


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

    def mean_weights(self) -> list[NDArray[np.float64]]:
        """Return the mean latencies of remote and local HITM, remote and local peer, and other loads, in cycles; 0 without any."""
        kinds = self.accesses.kinds
        rest = np.ones(len(kinds), bool)
        means = []
        for name in ("remote_hitm", "local_hitm", "remote_peer", "local_peer", "load"):
            mask = rest & has_kind(kinds, name)
            rest &= ~mask
            rows = self.group[mask]
            means.append(rounded_means(rows, self.accesses.weight[mask].astype(np.uint64).astype(np.float64), len(self.first)))
        return means


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


def rounded_means(group: NDArray[np.int64], values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """Return the mean of each group as a whole number, 0 without values.

    perf keeps a running mean, whose error decides how halves are rounded.
    """
    totals = np.bincount(group, values, groups)
    numbers = np.maximum(np.bincount(group, minlength=groups), 1)
    means: NDArray[np.float64] = np.rint(totals / numbers)
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
        return _name_ranks(symbolizer)[table.dso[accesses.code]]
    if name == "tid":
        return accesses.tid.astype(np.int64)
    return -accesses.pid.astype(np.int64)  # perf's order of processes descends


def _name_ranks(symbolizer: Symbolizer) -> NDArray[np.int64]:
    """Return the rank of each file's name; files of one name are the same, as in perf. The last one is that of unknown files."""
    names = [file.short_name.encode("utf-8", "surrogateescape") for file in symbolizer.dsos]
    rank_of = {name: rank for rank, name in enumerate(sorted(set(names)))}
    return np.array([*(rank_of[name] for name in names), len(names)], np.int64)
