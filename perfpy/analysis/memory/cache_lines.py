"""Accesses by cache line: perf c2c's table of lines that CPUs share.

A line is a place in a file, or in the anonymous memory of one process; accesses by the kernel and by user code are apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.memory.access_kinds import KindCounts
from perfpy.analysis.memory.accesses import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.memory.accesses import Accesses, MemoryNodes
    from perfpy.symbols.symbolizer import Symbolizer

LINE_SIZE: Final = 64  # bytes
#: lines with a smaller share of the accesses that --display counts are hidden
LEAST_SHARE: Final = 0.001


class CacheLines(NamedTuple):
    """The lines of a recording, in ascending order of CPU mode, file and address.

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
    owner = np.where((dso >= 0) & is_anonymous[dso], accesses.pid, 0).astype(np.int64)
    address = np.where(dso >= 0, table.address[accesses.data], accesses.address) & ~np.uint64(size - 1)
    return [accesses.mode.astype(np.int64), (dso < 0).astype(np.int64), dso, owner, address.view(np.int64) ^ np.int64(-1 << 63)]


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
