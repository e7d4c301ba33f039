"""Build caller or callee trees of many histogram entries together, level by level.

A walker (perfpy.analysis.report.entries) is one distinct chain under one root (a
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
from functools import cached_property

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass, field
from perfpy.analysis.callchains import ENDS, SOURCE, BranchSums
from perfpy.analysis.locations import name_ranks, ranks
from perfpy.symbols.interning import IdTable, count_by, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Locations
    from perfpy.analysis.report.entries import EntryBuilder, Walkers
    from perfpy.analysis.report.options import CallGraph
    from perfpy.analysis.sort_key import KeyTexts

    Int64 = NDArray[np.int64]


_SUMMED: Final = BranchSums._fields.index("words")  # the fields before it are totals
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
    # the fields of BranchSums of each node; None without branch records
    branches: NDArray[np.int64] | None = None

    @cached_property
    def numbers(self) -> tuple[memoryview, ...]:
        """The columns that nodes are read from, one number at a time: memoryview's items take a third of the time of numpy's."""
        columns = (self.example, self.first_child, self.continues, self.period, self.count, self.child_period, self.child_count)
        return tuple(column.data for column in columns)


class CallNode:
    """A run of calls without a branch.

    Attributes:
        frames: positions of the frames in the flat array.
        period, count: of all chains through the node.
        child_period, child_count: of all children, visible or not.
        children: the visible ones.
        branches: what the branch records of each frame amount to; empty without.
    """

    __slots__ = ("branches", "child_count", "child_period", "children", "count", "frames", "period")

    def __init__(
        self,
        frames: list[int],
        period: int,
        count: int,
        child_period: int,
        child_count: int,
        children: list[CallNode],
        branches: Sequence[BranchSums] = (),
    ) -> None:
        self.branches = branches
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
        frames, branches = [], []
        while True:
            level = self._levels[depth]
            example, first_child, continues, period, count, child_period, child_count = level.numbers
            frames.append(example[index])
            if level.branches is not None:
                branches.append(BranchSums(*level.branches[index].tolist()))
            first, last = first_child[index], first_child[index + 1]
            depth += 1
            if last != first + 1 or not continues[index]:
                break
            index = first
        node = CallNode(frames, period[index], count[index], child_period[index], child_count[index], [], branches)
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
    """The chains of walkers.

    Attributes:
        frames: of all chains.
        classes: of each frame, by id.
        branches: what the branch record of each frame says, by id (BranchHistory.numbers()); None without.
    """

    frames: NDArray[np.int32]
    classes: Int64
    branches: Int64 | None = None

    def classes_at(self, positions: Int64) -> Int64:
        """Return the classes of the frames at some positions."""
        classes: Int64 = self.classes.take(self.frames.take(positions))
        return classes

    def branch_sums(self, group: Int64, index: Int64, count: Int64) -> Int64 | None:
        """Return the fields of BranchSums of each node. group: the node of each walker; index, count: of the walkers."""
        if self.branches is None:
            return None
        size, numbers = int(group.max(initial=-1)) + 1, self.branches[self.frames[index]]
        totals = np.zeros((size, len(BranchSums._fields)), np.int64)
        for column in range(_SUMMED):
            totals[:, column] = sum_by(group, numbers[:, column] * count, size)
        words, is_branch = numbers[:, _SUMMED], numbers[:, 0] > 0
        np.bitwise_or.at(totals[:, _SUMMED], group, words & ~ENDS)
        last_end = np.zeros(size, np.int64)
        last_end[group[is_branch]] = words[is_branch] & ENDS  # as in perf, the last branch decides which end the node is
        totals[:, _SUMMED] |= last_end
        is_source = words & ENDS == SOURCE
        begins_with_source = np.zeros(size, np.int64)
        begins_with_source[group[::-1]] = is_source[::-1]  # backwards, so that the first walker's stays
        totals[:, -1] = sum_by(group, is_source * count, size) - begins_with_source
        return totals


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
        going = rows_where((node >= 0) & (index < end))
        if len(going) < len(node):
            node, index, end, period, count = (column.take(going) for column in (node, index, end, period, count))
        keys, group = _group(node * classes + flat.classes_at(index), len(parents.period) * classes)
        owner = keys // classes
        level = _level(keys % classes, group, index, period, count)
        level.branches = flat.branch_sums(group, index, count)
        parents.child_period = sum_by(owner, level.period, len(parents.period))
        parents.child_count = sum_by(owner, level.count, len(parents.period))
        rank, old_numbers = _arrange(owner, level, pruning.least(owner, parents.child_period), names, by_period=by_period)
        _link(parents, owner[old_numbers], level)
        if not len(old_numbers):
            return CallForest(root_level, levels)
        levels.append(level)
        node, index, parents = rank.take(group), index + 1, level


def _group(keys: Int64, domain: int) -> tuple[Int64, Int64]:
    """Return the distinct keys in ascending order, and the index of each key among them."""
    if domain <= _SPARSE * len(keys) + _SMALL:
        is_present = np.zeros(domain, np.bool_)
        is_present[keys] = True
        distinct = np.flatnonzero(is_present)
        number = np.empty(domain, np.int64)  # only the written entries are read, and take memory
        number[distinct] = np.arange(len(distinct))
        return distinct, number.take(keys)
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
    level.branches = level.branches if level.branches is None else level.branches[old_numbers]
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


# The call trees of one table's entries: nodes, totals and names of frames, one entry at a time.


# chains per batch of trees; building takes ten times their memory
_WALKERS_AT_ONCE = 1 << 18


class Trees:
    """The call trees of one histogram's entries, built on first use."""

    def __init__(
        self,
        builder: EntryBuilder,
        entries: Int64,
        weights: Int64,
        total: int,
        graph: CallGraph,
        classes: NDArray[Any],
        frames: NDArray[np.int32],
        locations: Locations,
        names: SiblingNames | None = None,
        calls: CallNames | None = None,
        recursive: NDArray[np.bool_] | None = None,
        branches: Int64 | None = None,
    ) -> None:
        self._builder = builder
        self._entries = entries
        self._weights = weights
        self._minimum = minimum_period(total, graph.percent)
        self._graph = graph
        self._classes = classes  # of each frame
        self._frames = frames  # the frame at each position in the flat chains
        self._locations = locations
        self._names = names
        self._calls = calls  # texts after the names of functions
        self._recursive = recursive  # of each symbol
        self._branches = branches  # of each frame
        self._alone: dict[int, list[CallNode]] = {}
        self._frame_names: dict[int, str] = {}
        self._frame_at = frames.data

    @cached_property
    def _root_of(self) -> Int64:
        roots = np.full(int(self._entries.max()) + 1 if len(self._entries) else 0, -1, np.int64)
        roots[self._entries] = np.arange(len(self._entries))
        return roots

    @cached_property
    def _forest(self) -> Forests:
        return self._grown(self._visible_entries, self._root_of, len(self._entries))

    @cached_property
    def _visible_entries(self) -> Int64:
        """The entries with visible trees: those above the threshold; fractal trees have their own threshold."""
        return self._entries if self._graph.relative else self._entries[self._weights >= self._minimum]

    def _grown(self, entries: Int64, root_of: Int64, roots: int) -> Forests:
        graph = self._graph
        is_selected = np.zeros(self._builder.size, np.bool_)
        is_selected[entries] = True
        padded = np.full(self._builder.size, -1, np.int64)
        padded[: len(root_of)] = root_of
        walkers = self._builder.walkers(is_selected, padded, roots)
        pruning = Pruning(relative=graph.percent / 100) if graph.relative else Pruning(self._minimum)
        by_period = graph.style in ("graph", "fractal")
        ranges = walkers.ranges(_WALKERS_AT_ONCE)
        flat = ClassedFrames(self._frames, self._classes, self._branches)
        grown = [
            grow(flat, walkers.of(*limits), limits[1] - limits[0], pruning, by_period=by_period, names=self._names) for limits in ranges
        ]
        return Forests([begin for begin, _ in ranges], grown)

    def have_calls(self, entries: Int64) -> NDArray[np.bool_]:
        """Return a mask of the entries whose trees have nodes."""
        return self._forest.have_nodes(self._root_of[entries])

    def calls(self, entry: int) -> list[CallNode]:
        """Return the top nodes of an entry's tree."""
        return self._forest.children_of_root(int(self._root_of[entry]))

    def calls_alone(self, entry: int) -> list[CallNode]:
        """Return the top nodes of an entry's tree without building those of other entries."""
        if "_forest" in self.__dict__:
            return self.calls(entry)
        if entry not in self._alone:
            root_of = np.full(entry + 1, 0, np.int64)
            positions = self._visible_entries[self._visible_entries == entry]
            self._alone[entry] = self._grown(positions, root_of, 1).children_of_root(0) if len(positions) else []
        return self._alone[entry]

    def outermost(self, entries: Int64) -> NDArray[np.bool_]:
        """Return a mask of the entries of functions that chains begin with."""
        return self._builder.outermost()[entries]

    def frame_name(self, position: int) -> str:
        """Return the name of a frame in a call tree: its function, or its address."""
        frame = self._frame_at[position]
        name = self._frame_names.get(frame)
        if name is None:
            name = self._frame_names[frame] = self._text_of(frame)
        return name

    def _text_of(self, frame: int) -> str:
        name = self._locations.name(frame)
        source = self._calls.text(frame) if self._calls and name else None
        name = f"{name} {source}" if source is not None else name or _hex(int(self._locations.ip[frame]))
        return f"{name} (inlined)" if self._locations.is_inlined(frame) else name

    def symbol(self, position: int) -> int:
        """Return the function of a frame in a call tree, by the number of its symbol; -1 for none."""
        symbol = int(self._locations.symbol[int(self._frames[position])])
        return int(self._locations.functions[symbol]) if symbol >= 0 else symbol

    def in_kernel(self, position: int) -> bool:
        """Whether a frame of a call tree is in the kernel."""
        return int(self._locations.level[int(self._frames[position])]) == ord("k")

    def is_recursive(self, position: int) -> bool:
        """Whether the frame merges a function and its recursive calls."""
        return self._recursive is not None and bool(self._recursive[self._locations.symbol[int(self._frames[position])]])

    def under(self, entry: int) -> tuple[int, int]:
        """Return the period and the samples of all chains of an entry."""
        root = int(self._root_of[entry])
        return self._forest.child_period(root), self._forest.child_count(root)


def _hex(number: int) -> str:
    """Format a number like C's %#x: no prefix for 0."""
    return hex(number) if number else "0"


# Texts after the functions of call trees whose frames are separated by position: addresses, offsets, source lines.
#
# With -g srcline, frames of one line share a class, whatever their functions.


class CallNames:
    """The texts of some frames; None for frames without mapping."""

    def __init__(self, frames: NDArray[np.int64], texts: list[str | None]) -> None:
        self._frames = frames
        self._texts = texts
        self._of_frame: dict[int, str | None] = dict(zip(frames.tolist(), texts, strict=True))

    @classmethod
    def of(cls, texts: KeyTexts, frames: NDArray[np.int32], key: str) -> CallNames:
        """Return the texts of the frames of callchains for a key of --call-graph."""
        used = distinct(frames).astype(np.int64)
        return cls(used, texts.source_texts.calls(used, offsets=key == "address"))

    def text(self, frame: int) -> str | None:
        """Return the text after the function of a frame."""
        return self._of_frame[frame]

    def ranks(self, location_table: Locations) -> Int64:
        """Return the class of every frame: by its text, or by its address; smaller ones come first among equal siblings."""
        has_text = np.array([text is not None for text in self._texts], np.bool_)
        of_text = name_ranks([text or "" for text in self._texts])
        address = location_table.ip[self._frames]
        classes = np.zeros(len(location_table.ip), np.int64)
        classes[self._frames] = ranks(has_text, np.where(has_text, -of_text, 0), np.where(has_text, np.uint64(0), ~address))
        return classes
