"""Build caller or callee trees of many histogram entries together, level by level.

A walker (perfpy.analysis.entries.entries) is one distinct chain under one root (a
histogram entry): the range of its frames in one flat array of frame
classes, in the order of the tree, with its period and its
number of samples. The result is a `CallForest`, from which the nodes of one
root are read.

A level is one group-by over (parent node, frame class) of all walkers at
once; nodes below the threshold are dropped with everything under them before
the next level, so that the work is limited to the visible part. Sums that
need the dropped nodes (a node's own period, its children's period) are
computed before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple, dataclass, field
from perfpy.analysis.aggregate.exact_sums import count_by, sum_by
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.entries.entries import Walkers

    Int64 = NDArray[np.int64]

_SPARSE: Final = 64  # a table with this many places for each key is still faster than a hash table
_SMALL: Final = 1 << 16
_MOST_PERIOD: Final = float(1 << 62)


class Pruning(NamedTuple):
    """The threshold of nodes.

    Attributes:
        minimum: the least period of a node (per root, or one number for all).
        relative: instead, the least share (0..1) of the period of all siblings.
    """

    minimum: int = 0
    relative: float | None = None

    def least(self, parents: Int64, child_periods: Int64) -> Int64:
        """Return the least period of each child, given its parent's node number and the parents' children's periods."""
        if self.relative is None:
            return np.full(len(parents), self.minimum, np.int64)
        least: Int64 = np.ceil(child_periods * self.relative).astype(np.int64)
        return least[parents]


class SiblingNames(NamedTuple):
    """The order of siblings if any of them is inlined: by name. rank, inlined: of each frame class."""

    rank: Int64
    inlined: NDArray[np.bool_]

    def order(self, owner: Int64, frame: Int64) -> Int64:
        """Return a number for each node, by its parent and its class: smaller ones come first among equal siblings."""
        by_name = np.zeros(int(owner.max()) + 1 if len(owner) else 0, np.bool_)
        by_name[owner[self.inlined[frame]]] = True
        return np.where(by_name[owner], self.rank[frame], frame)


@dataclass(eq=False, repr=False)
class _TreeLevel:
    """The nodes of one depth, children of one parent adjacent."""

    frame: Int64
    example: Int64  # a position in the flat frames: of the first chain through the node
    period: Int64
    count: Int64
    child_period: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    child_count: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # children of node i are the next level's nodes first_child[i] .. first_child[i + 1]
    first_child: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # node i has one child only, and no chain ends in it: both are one line of calls
    continues: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


class CallNode:
    """A run of calls without a branch.

    Attributes:
        frames: positions of the frames in the flat array.
        period, count: of all chains through the node.
        child_period, child_count: of all children, visible or not.
        children: the visible ones.
    """

    __slots__ = ("child_count", "child_period", "children", "count", "frames", "period")

    def __init__(self, frames: list[int], period: int, count: int, child_period: int, child_count: int, children: list[CallNode]) -> None:
        self.frames = frames
        self.period = period
        self.count = count
        self.child_period = child_period
        self.child_count = child_count
        self.children = children

    @property
    def own_period(self) -> int:
        """The period of the chains that end here."""
        return self.period - self.child_period

    @property
    def own_count(self) -> int:
        """The number of samples whose chains end here."""
        return self.count - self.child_count


class CallForest:
    """The trees of all roots."""

    def __init__(self, roots: _TreeLevel, levels: list[_TreeLevel]) -> None:
        self._roots = roots
        self._levels = levels

    def have_nodes(self, roots: Int64) -> NDArray[np.bool_]:
        """Return a mask of the roots that have nodes."""
        first = self._roots.first_child
        has_nodes: NDArray[np.bool_] = first[roots + 1] > first[roots]
        return has_nodes

    def children_of_root(self, root: int) -> list[CallNode]:
        """Return the top nodes of a root's tree, in display order."""
        first, last = self._roots.first_child[root], self._roots.first_child[root + 1]
        return [self._node(0, index) for index in range(first, last)]

    def child_period(self, root: int) -> int:
        """Return the period of all chains below a root, including hidden ones."""
        return int(self._roots.child_period[root])

    def child_count(self, root: int) -> int:
        """Return the number of samples with chains below a root."""
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
        """Return the node that begins here, the range of its children, and their depth."""
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
    """The trees of all roots, built in several ranges of roots; first: the first root of each range."""

    def __init__(self, first: list[int], forests: list[CallForest]) -> None:
        self._first, self._forests = first, forests

    def _of(self, root: int) -> tuple[CallForest, int]:
        number = bisect_right(self._first, root) - 1
        return self._forests[number], root - self._first[number]

    def have_nodes(self, roots: Int64) -> NDArray[np.bool_]:
        """Return a mask of the roots that have nodes."""
        has_nodes = np.zeros(len(roots), np.bool_)
        borders = [*self._first[1:], None]
        for forest, first, end in zip(self._forests, self._first, borders, strict=True):
            here = np.flatnonzero((roots >= first) & (end is None or roots < end))
            has_nodes[here] = forest.have_nodes(roots[here] - first)
        return has_nodes

    def children_of_root(self, root: int) -> list[CallNode]:
        """Return the top nodes of a root's tree."""
        forest, number = self._of(root)
        return forest.children_of_root(number)

    def child_period(self, root: int) -> int:
        """Return the period of all chains under a root, visible or not."""
        forest, number = self._of(root)
        return forest.child_period(number)

    def child_count(self, root: int) -> int:
        """Return the number of samples with chains under a root."""
        forest, number = self._of(root)
        return forest.child_count(number)


class ClassedFrames(NamedTuple):
    """The chains of walkers; frames: of all chains; classes: of each frame, by id."""

    frames: NDArray[np.int32]
    classes: Int64

    def classes_at(self, positions: Int64) -> Int64:
        """Return the classes of the frames at some positions."""
        classes: Int64 = self.classes[self.frames[positions]]
        return classes


def grow(
    flat: ClassedFrames,
    walkers: Walkers,
    roots: int,
    pruning: Pruning,
    *,
    by_period: bool = True,
    names: SiblingNames | None = None,
) -> CallForest:
    """Build the trees of all roots.

    Args:
        flat: frames of the walkers; smaller classes come first among siblings with equal periods.
        by_period: sort siblings by period; otherwise by class.
        names: another order of classes, for siblings of which some are inlined.
    """
    classes = int(flat.classes.max()) + 1 if len(flat.classes) else 1
    node, index, end = walkers.root.astype(np.int64), walkers.start.astype(np.int64), walkers.end.astype(np.int64)
    period, count = walkers.period, walkers.samples
    empty = np.zeros(roots, np.int64)
    root_level = parents = _TreeLevel(empty, empty, empty, count_by(node, roots))
    levels: list[_TreeLevel] = []
    while True:
        is_going = index < end
        if not is_going.all():
            node, index, end, period, count = node[is_going], index[is_going], end[is_going], period[is_going], count[is_going]
        keys, group = _group(node * classes + flat.classes_at(index), len(parents.period) * classes)
        owner = keys // classes
        level = _level(keys % classes, group, index, period, count)
        parents.child_period = sum_by(owner, level.period, len(parents.period))
        parents.child_count = sum_by(owner, level.count, len(parents.period))
        rank, old_numbers = _arrange(owner, level, pruning.least(owner, parents.child_period), names, by_period=by_period)
        _link(parents, owner[old_numbers], level)
        if not len(old_numbers):
            return CallForest(root_level, levels)
        levels.append(level)
        node = rank[group]
        is_going = node >= 0
        node, index, end, period, count = node[is_going], index[is_going] + 1, end[is_going], period[is_going], count[is_going]
        parents = level


def _group(keys: Int64, domain: int) -> tuple[Int64, Int64]:
    """Return the distinct keys in ascending order, and the index of each key among them."""
    if domain <= _SPARSE * len(keys) + _SMALL:
        is_present = np.zeros(domain, np.bool_)
        is_present[keys] = True
        distinct = np.flatnonzero(is_present)
        number = np.empty(domain, np.int64)  # only the written entries are read, and take memory
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
    """Return the nodes that walkers come to. group: the node of each walker; index: its position in the flat frames."""
    size = len(frame)
    level = _TreeLevel(frame, np.zeros(size, np.int64), sum_by(group, period, size), sum_by(group, count, size))
    level.example[group[::-1]] = index[::-1]  # backwards, so that the first walker's position stays
    return level


def _arrange(owner: Int64, level: _TreeLevel, least: Int64, names: SiblingNames | None, *, by_period: bool) -> tuple[Int64, Int64]:
    """Drop and sort the nodes of a level, in place; return the new number of each node (-1: dropped), and the old numbers, sorted."""
    old_numbers = np.flatnonzero(level.period >= least)
    frame = level.frame[old_numbers] if names is None else names.order(owner[old_numbers], level.frame[old_numbers])
    keys = (frame, -level.period[old_numbers], owner[old_numbers]) if by_period else (frame, owner[old_numbers])
    old_numbers = old_numbers[np.lexsort(keys)]
    rank = np.full(len(level.period), -1, np.int64)
    rank[old_numbers] = np.arange(len(old_numbers))
    level.frame, level.example = level.frame[old_numbers], level.example[old_numbers]
    level.period, level.count = level.period[old_numbers], level.count[old_numbers]
    return rank, old_numbers


def _link(parents: _TreeLevel, owner: Int64, level: _TreeLevel) -> None:
    """Set the child ranges of parents, and mark those with one child only."""
    size = len(parents.period)
    children = count_by(owner, size)
    parents.first_child = np.concatenate([[0], np.cumsum(children)]).astype(np.int64)
    parents.continues = np.zeros(size, np.bool_)
    only = children[owner] == 1
    parents.continues[owner[only]] = level.count[only] == parents.count[owner[only]]


def minimum_period(total: int, percent: float) -> int:
    """Return the least period of `percent` of `total`, rounded down like perf; always a valid period."""
    return math.floor(min(max(0.0, total * (percent / 100)), _MOST_PERIOD))
