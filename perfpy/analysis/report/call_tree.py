"""Call trees: caller or callee trees of many histogram entries, grown together, level by level.

What enters: walkers (perfpy.analysis.report.entries). A walker is one distinct chain under one root (a
histogram entry): where its frames begin and end in one flat array of frame
classes, in the order in which the tree is read, with its period and its
number of samples. What leaves: a `CallForest`, from which the nodes of one
root are read.

A level is one group-by over (parent node, frame class) of all walkers at
once; nodes below the threshold are dropped with everything under them before
the next level, so that the work is in the part that will be shown. Sums that
need the dropped nodes (what a node itself has, what its children have) are
taken before they are dropped.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.aggregate.exact_sums import count_by, sum_by
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.report.entries import Walkers

    Int64 = NDArray[np.int64]

_SPARSE: Final = 64  # a table with so many places for each key is still quicker than a search by hashes
_SMALL: Final = 1 << 16
_MOST_PERIOD: Final = float(1 << 62)


class Pruning(NamedTuple):
    """Which nodes a tree keeps.

    minimum: the least period of a node that is kept (per root, or one number
    for all); relative: instead, the least share (0..1) of what all children
    of the node's parent have.
    """

    minimum: int = 0
    relative: float | None = None

    def least(self, parents: Int64, child_periods: Int64) -> Int64:
        """The least period of each child, given its parent's node number and the parents' children's periods."""
        if self.relative is None:
            return np.full(len(parents), self.minimum, np.int64)
        least: Int64 = np.ceil(child_periods * self.relative).astype(np.int64)
        return least[parents]


class SiblingNames(NamedTuple):
    """The order of siblings of which any was inlined: by name. rank, inlined: of each frame class."""

    rank: Int64
    inlined: NDArray[np.bool_]

    def order(self, owner: Int64, frame: Int64) -> Int64:
        """A number for each node, by its parent and its class: smaller ones come first among equal siblings."""
        by_name = np.zeros(int(owner.max()) + 1 if len(owner) else 0, np.bool_)
        by_name[owner[self.inlined[frame]]] = True
        return np.where(by_name[owner], self.rank[frame], frame)


@dataclass(eq=False, repr=False)
class _TreeLevel:
    """The nodes of one depth, children of one parent side by side."""

    frame: Int64
    example: Int64  # a position in the flat frames: the first chain that came here
    period: Int64
    count: Int64
    child_period: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    child_count: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # children of node i are the next level's nodes first_child[i] .. first_child[i + 1]
    first_child: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # node i has one continuation only, and no chain ends in it: it and its child are one line of calls
    continues: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


@dataclass(slots=True, eq=False, repr=False)
class CallNode:
    """A stretch of calls without a branch.

    frames: positions of the frames in the flat array; period and count: of
    everything that passes here; own_period and own_count: of the chains that
    end here; child_period, child_count: the rest, shown or not.
    """

    frames: list[int]
    period: int
    count: int
    child_period: int
    child_count: int
    children: list[CallNode]

    @property
    def own_period(self) -> int:
        """The period of the chains that end here."""
        return self.period - self.child_period

    @property
    def own_count(self) -> int:
        """How many samples' chains end here."""
        return self.count - self.child_count


class CallForest:
    """The trees of all roots."""

    def __init__(self, roots: _TreeLevel, levels: list[_TreeLevel]) -> None:
        self._roots = roots
        self._levels = levels

    def have_nodes(self, roots: Int64) -> NDArray[np.bool_]:
        """Which of some roots have nodes."""
        first = self._roots.first_child
        found: NDArray[np.bool_] = first[roots + 1] > first[roots]
        return found

    def children_of_root(self, root: int) -> list[CallNode]:
        """The top nodes of a root's tree, in the order in which they are shown."""
        first, last = self._roots.first_child[root], self._roots.first_child[root + 1]
        return [self._node(0, index) for index in range(first, last)]

    def child_period(self, root: int) -> int:
        """The period of all chains under a root, shown or not."""
        return int(self._roots.child_period[root])

    def child_count(self, root: int) -> int:
        """How many samples have chains under a root."""
        return int(self._roots.child_count[root])

    def _node(self, depth: int, index: int) -> CallNode:
        top, first, last, depth = self._stretch(depth, index)
        stack = [(top, first, last, depth)]
        while stack:
            node, first, last, depth = stack.pop()
            for child in range(first, last):
                stretch = self._stretch(depth, child)
                node.children.append(stretch[0])
                stack.append(stretch)
        return top

    def _stretch(self, depth: int, index: int) -> tuple[CallNode, int, int, int]:
        """The node that begins here, the range of its children, and their depth."""
        frames = []
        while True:
            level = self._levels[depth]
            frames.append(int(level.example[index]))
            first, last = int(level.first_child[index]), int(level.first_child[index + 1])
            depth += 1
            if not (level.continues[index] and last == first + 1):
                break
            index = first
        node = CallNode(
            frames,
            int(level.period[index]),
            int(level.count[index]),
            int(level.child_period[index]),
            int(level.child_count[index]),
            [],
        )
        return node, first, last, depth


class Forests:
    """The trees of all roots, which were grown in several ranges of roots. first: of each range."""

    def __init__(self, first: list[int], forests: list[CallForest]) -> None:
        self._first, self._forests = first, forests

    def _of(self, root: int) -> tuple[CallForest, int]:
        number = bisect_right(self._first, root) - 1
        return self._forests[number], root - self._first[number]

    def have_nodes(self, roots: Int64) -> NDArray[np.bool_]:
        """Which of some roots have nodes."""
        found = np.zeros(len(roots), np.bool_)
        borders = [*self._first[1:], None]
        for forest, first, end in zip(self._forests, self._first, borders, strict=True):
            here = np.flatnonzero((roots >= first) & (end is None or roots < end))
            found[here] = forest.have_nodes(roots[here] - first)
        return found

    def children_of_root(self, root: int) -> list[CallNode]:
        """As CallForest has them."""
        forest, number = self._of(root)
        return forest.children_of_root(number)

    def child_period(self, root: int) -> int:
        """The period of all chains under a root, shown or not."""
        forest, number = self._of(root)
        return forest.child_period(number)

    def child_count(self, root: int) -> int:
        """How many samples have chains under a root."""
        forest, number = self._of(root)
        return forest.child_count(number)


class Steps(NamedTuple):
    """The chains that walkers go along. frames: one after the other; classes: of each frame, by its id."""

    frames: NDArray[np.int32]
    classes: Int64

    def at(self, positions: Int64) -> Int64:
        """The classes of the frames there."""
        found: Int64 = self.classes[self.frames[positions]]
        return found


def grow(
    steps: Steps,
    walkers: Walkers,
    roots: int,
    pruning: Pruning,
    *,
    by_period: bool = True,
    names: SiblingNames | None = None,
) -> CallForest:
    """Grow the trees of all roots.

    steps: a class with a smaller number comes first among siblings with equal periods. roots: how many there are. by_period:
    siblings with more come first; else they come in order of their class. names:
    another order of classes, for siblings of which some were inlined.
    """
    classes = int(steps.classes.max()) + 1 if len(steps.classes) else 1
    node, index, end = walkers.root.astype(np.int64), walkers.start.astype(np.int64), walkers.end.astype(np.int64)
    period, count = walkers.period, walkers.samples
    empty = np.zeros(roots, np.int64)
    root_level = parents = _TreeLevel(empty, empty, empty, count_by(node, roots))
    levels: list[_TreeLevel] = []
    while True:
        going = index < end
        if not going.all():
            node, index, end, period, count = node[going], index[going], end[going], period[going], count[going]
        keys, group = _group(node * classes + steps.at(index), len(parents.period) * classes)
        owner = keys // classes
        level = _level(keys % classes, group, index, period, count)
        parents.child_period = sum_by(owner, level.period, len(parents.period))
        parents.child_count = sum_by(owner, level.count, len(parents.period))
        rank, kept = _arrange(owner, level, pruning.least(owner, parents.child_period), names, by_period=by_period)
        _link(parents, owner[kept], level)
        if not len(kept):
            return CallForest(root_level, levels)
        levels.append(level)
        node = rank[group]
        going = node >= 0
        node, index, end, period, count = node[going], index[going] + 1, end[going], period[going], count[going]
        parents = level


def _group(keys: Int64, domain: int) -> tuple[Int64, Int64]:
    """Distinct keys in ascending order, and for every key its number among them."""
    if domain <= _SPARSE * len(keys) + _SMALL:
        seen = np.zeros(domain, np.bool_)
        seen[keys] = True
        distinct = np.flatnonzero(seen)
        number = np.empty(domain, np.int64)  # nothing is read of it but what is written here, and of memory only that is taken
        number[distinct] = np.arange(len(distinct))
        return distinct, number[keys]
    table = IdTable()
    ids = table.ids(keys.view(np.uint64))
    distinct = table.keys.view(np.int64)
    order = np.argsort(distinct)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return distinct[order], number[ids]


def _level(frame: Int64, group: Int64, index: Int64, period: Int64, count: Int64) -> _TreeLevel:
    """The nodes that walkers come to. group: the node of each walker; index: where each is in the flat frames."""
    size = len(frame)
    level = _TreeLevel(frame, np.zeros(size, np.int64), sum_by(group, period, size), sum_by(group, count, size))
    level.example[group[::-1]] = index[::-1]  # filled from the back, so that the first walker's position stays
    return level


def _arrange(owner: Int64, level: _TreeLevel, least: Int64, names: SiblingNames | None, *, by_period: bool) -> tuple[Int64, Int64]:
    """Drop and sort the nodes of a level, in place.

    Returns the new number of each node (-1: dropped), and the old numbers in the new order.
    """
    kept = np.flatnonzero(level.period >= least)
    frame = level.frame[kept] if names is None else names.order(owner[kept], level.frame[kept])
    keys = (frame, -level.period[kept], owner[kept]) if by_period else (frame, owner[kept])
    kept = kept[np.lexsort(keys)]
    rank = np.full(len(level.period), -1, np.int64)
    rank[kept] = np.arange(len(kept))
    level.frame, level.example = level.frame[kept], level.example[kept]
    level.period, level.count = level.period[kept], level.count[kept]
    return rank, kept


def _link(parents: _TreeLevel, owner: Int64, level: _TreeLevel) -> None:
    """Tell parents where their children are, and which of them are mere continuations."""
    size = len(parents.period)
    children = count_by(owner, size)
    parents.first_child = np.concatenate([[0], np.cumsum(children)]).astype(np.int64)
    parents.continues = np.zeros(size, np.bool_)
    only = children[owner] == 1
    parents.continues[owner[only]] = level.count[only] == parents.count[owner[only]]


def minimum_period(total: int, percent: float) -> int:
    """The least period of a node that has `percent` of `total`, as perf rounds it: down; a period in any case, whatever was asked for."""
    return math.floor(min(max(0.0, total * (percent / 100)), _MOST_PERIOD))
