"""Whole stacks with their weights, for flame graphs and exports: Stacks, and StackTree, the prefix tree of one or two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.stacks.code_sites import CodeSites
    from perfpy.unwind.truncated_stacks import TruncatedStacks


#: events whose periods are nanoseconds
_CLOCKS = ("cpu-clock", "task-clock")


class Function(NamedTuple):
    """A function as a stack shows it: name, short name of its file ("" if unknown), and whether it is in the kernel."""

    name: str
    dso: str
    kernel: bool = False


@dataclass(frozen=True, slots=True)
class TimedSamples:
    """Single samples, in order of time, for formats with a time line. All arrays have one entry a sample.

    Attributes:
        chain: index into the chains.
        comm: index into comms.
        pid, tid: of the thread.
        time: nanoseconds.
        cpu: -1 if unknown.
        weight: the period.
        payload: index into Stacks.payloads, if requested.
        waits: marks time off the CPU, if an event has both.
        count: the number of merged samples, if any are merged.
        site: the row in another fold of the same samples, if requested; otherwise 0.
    """

    chain: NDArray[np.int32]
    comm: NDArray[np.int32]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    time: NDArray[np.uint64]
    cpu: NDArray[np.int32]
    weight: NDArray[np.uint64]
    payload: NDArray[np.int32] | None = None
    waits: NDArray[np.bool_] | None = None
    count: NDArray[np.int32] | None = None
    site: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks of one event. A row is a chain that occurred `count` times in `comm`, with the sum of periods `weight`.

    Attributes:
        event: its name.
        functions: the distinct functions.
        frames, offsets: chain i is frames[offsets[i]:offsets[i + 1]], function ids from the innermost out (int32, int64).
        comms: the distinct comms.
        chain, comm, weight, count: of each row.
        timed: the single samples, if requested.
        truncated: stack copies that were too short.
        in_seconds: weights are ns of time.
        off_cpu: waits, which end at their samples' times.
        sites, site: the sites in code, and the site of each of `frames`, if requested; chains of different sites are separate.
        tracepoint: whether the event is one.
        payloads: raw data, if requested.
        tasks: pid and tid of each row, if requested: int32[rows] each.
        cgroup: id of each row's cgroup (0: unknown) if rows have tasks and samples have cgroups.
        categories: the category of each function (perfpy.analysis.verdict.categories, or WAITING), with single samples only.
    """

    event: str
    functions: Sequence[Function]
    frames: NDArray[np.int32]
    offsets: NDArray[np.int64]
    comms: Sequence[str]
    chain: NDArray[np.int32]
    comm: NDArray[np.int32]
    weight: NDArray[np.uint64]
    count: NDArray[np.int64]
    timed: TimedSamples | None = None
    truncated: Sequence[TruncatedStacks] = ()
    in_seconds: bool = False
    off_cpu: bool = False
    sites: CodeSites | None = None
    site: NDArray[np.int32] | None = None
    tracepoint: bool = False
    payloads: Sequence[bytes] = ()
    categories: Sequence[int] = ()
    tasks: tuple[NDArray[np.int32], ...] = ()
    cgroup: NDArray[np.int64] | None = None

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.weight.sum())

    @property
    def in_nanoseconds(self) -> bool:
        """Whether weights are time, on the CPU or off it."""
        return self.in_seconds or self.event.startswith(_CLOCKS)

    def chain_of(self, index: int) -> NDArray[np.int32]:
        """Return the function ids of one chain, innermost first."""
        return self.frames[self.offsets[index] : self.offsets[index + 1]]

    def sites_of(self, index: int) -> NDArray[np.int32]:
        """Return the sites of one chain, innermost first; only if requested."""
        assert self.site is not None
        return self.site[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True, slots=True)
class StackTree:
    """A prefix tree of stacks, outermost function at the root, as columns in depth-first order; siblings are sorted by name.

    Attributes:
        names: distinct (name, dso, kernel) of nodes, including commands with dso "".
        name: index into names.
        depth: 0 for commands.
        own: one weight column for each of the Stacks, of stacks that end at the node.
        totals: the sum of each column.
        leaf: the node at which each row of the Stacks ends, part after part.
    """

    names: Sequence[Function]
    name: NDArray[np.int32]
    depth: NDArray[np.int32]
    own: tuple[NDArray[np.float64], ...]
    totals: tuple[float, ...]
    leaf: NDArray[np.int32]

    @classmethod
    def build(cls, *parts: Stacks, weighed: bool = True) -> StackTree:
        """Return the tree of one Stacks, or of several merged; weighed: with their weights."""
        names, ranks = _ranked_names(parts)
        paths, lengths, weights = _paths(parts, ranks)
        return _tree(names, paths, lengths, weights if weighed else weights[:0])


def _ranked_names(parts: Sequence[Stacks]) -> tuple[list[Function], dict[Function, int]]:
    """Return all names of commands and functions, sorted, and each one's index."""
    every = {Function(comm, "") for part in parts for comm in part.comms}
    for part in parts:
        every.update(part.functions)
    names = sorted(every)
    return names, {name: rank for rank, name in enumerate(names)}


def _paths(parts: Sequence[Stacks], ranks: dict[Function, int]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
    """Return every row as a path of name ranks: command, outermost function, and so on.

    The result is the paths one after the other, their lengths, and a weight column
    for each part (shape: parts, rows).
    """
    paths, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for part in parts:
        function_rank = np.array([ranks[f] for f in part.functions], np.int32)
        comm_rank = np.array([ranks[Function(c, "")] for c in part.comms], np.int32)
        length = np.diff(part.offsets)[part.chain]
        ends = np.cumsum(length + 1)
        path = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
        heads = ends - length - 1
        path[heads] = comm_rank[part.comm]
        inner = np.ones(len(path), bool)
        inner[heads] = False
        # positions of a chain's frames from its end down: outermost first
        step = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        path[inner] = function_rank[part.frames[np.repeat(part.offsets[part.chain + 1] - 1, length) - step]]
        paths.append(path)
        lengths.append(length + 1)
    weights = np.zeros((len(parts), sum(map(len, lengths))))
    first = 0
    for i, part in enumerate(parts):
        weights[i, first : first + len(part.weight)] = part.weight
        first += len(part.weight)
    return np.concatenate(paths), np.concatenate(lengths), weights


class _StackLevel(NamedTuple):
    """All nodes of one depth, ordered by parent, then name; ending: the paths that end there; last: their nodes."""

    parent: NDArray[np.int64]
    name: NDArray[np.int64]
    own: NDArray[np.float64]
    ending: NDArray[np.int64]
    last: NDArray[np.int64]


def _tree(names: list[Function], paths: NDArray[np.int32], lengths: NDArray[np.int64], weights: NDArray[np.float64]) -> StackTree:
    levels = _levels(len(names), paths, lengths, weights)
    sizes = _subtree_sizes(levels)
    count = int(sizes[0].sum()) if levels else 0
    name, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    own = np.zeros((len(weights), count))
    leaf = np.empty(len(lengths), np.int32)
    above = np.array([-1], np.int64)
    for level, (nodes, size) in enumerate(zip(levels, sizes, strict=True)):
        before = np.cumsum(size) - size
        first_sibling = np.searchsorted(nodes.parent, nodes.parent)  # nodes are sorted by parent
        position = above[nodes.parent] + 1 + before - before[first_sibling]
        name[position], depth[position] = nodes.name, level
        own[:, position] = nodes.own
        leaf[nodes.ending] = position[nodes.last]
        above = position
    return StackTree(names, name, depth, tuple(own), tuple(float(w.sum()) for w in weights), leaf)


def _levels(width: int, paths: NDArray[np.int32], lengths: NDArray[np.int64], weights: NDArray[np.float64]) -> list[_StackLevel]:
    """Return the tree level by level; each path walks down one node a step."""
    starts = np.cumsum(lengths) - lengths
    alive = np.arange(len(lengths))
    node = np.zeros(len(lengths), np.int64)
    levels: list[_StackLevel] = []
    while len(alive):
        depth = len(levels)
        keys, node = np.unique(node * width + paths[starts[alive] + depth], return_inverse=True)
        ends = lengths[alive] == depth + 1
        weight = [np.bincount(node[ends], column[alive[ends]], len(keys)).astype(np.float64) for column in weights]
        own = np.array(weight).reshape(len(weights), len(keys))
        levels.append(_StackLevel(keys // width, keys % width, own, alive[ends], node[ends]))
        alive, node = alive[~ends], node[~ends]
    return levels


def _subtree_sizes(levels: list[_StackLevel]) -> list[NDArray[np.int64]]:
    """Return for each level the number of nodes in each node's subtree, itself included."""
    sizes: list[NDArray[np.int64]] = []
    for depth in range(len(levels) - 1, -1, -1):
        size = np.ones(len(levels[depth].name), np.int64)
        if sizes:
            size += np.bincount(levels[depth + 1].parent, sizes[0], len(size)).astype(np.int64)
        sizes.insert(0, size)
    return sizes
