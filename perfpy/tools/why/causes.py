"""Explain the time of threads by what those did for whom they waited.

A wait ends when another thread wakes the waiting one. What that thread did during the wait explains it, and where it waited itself, the
thread that woke it, and so on. The result is a tree: each node is one kind of activity within its parent's wait, with the time spent in it.
All waits of one depth are followed at once.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.scheduling.segments import RUNNING as RUNS
from perfpy.scheduling.segments import SegmentIndex
from perfpy.tools.why.activities import NO_FUNCTION, follows_waker
from perfpy.tools.why.tasks import FOR_OTHERS, LOCKS, RUNNING, SPINNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.tools.why.activities import Activities, StackMeanings

    Int64 = NDArray[np.int64]


DEEPEST: Final = 12  # waits that are followed from thread to thread
MOST_PIECES: Final = 4_000_000  # parts of segments that are looked at
ROOT: Final = -1
_DETAILS: Final = ("tids", "wakers", "waker_chains", "chains", "interrupts", "launches", "runners", "samples", "counts")
_WORD: Final = (1 << 64) - 1


class Windows(NamedTuple):
    """Times of threads that need an explanation.

    Attributes:
        node: int64[n], the node whose time each window is part of.
        tid: int64[n], the thread.
        begin, end: int64[n], nanoseconds.
    """

    node: Int64
    tid: Int64
    begin: Int64
    end: Int64

    @property
    def length(self) -> Int64:
        """The duration of each window."""
        return self.end - self.begin


class Label(NamedTuple):
    """The activity that took the time of a node.

    Attributes:
        kind: see perfpy.tools.why.tasks.
        comm: the number of the name of the thread.
        function: the number of the function that waits; NO_FUNCTION for running and ready threads.
        lock: the address of the lock.
    """

    kind: int
    comm: int
    function: int
    lock: int


class Pieces(NamedTuple):
    """Parts of segments, each in a node.

    Attributes:
        node, row: int64[n], the node and the segment.
        begin, end: int64[n], nanoseconds.
    """

    node: Int64
    row: Int64
    begin: Int64
    end: Int64

    def take(self, chosen: NDArray[np.bool_]) -> Pieces:
        """Select pieces by mask."""
        return Pieces._make(column[chosen] for column in self)


class _Weights:
    """Sums of times, or counts, by node and value."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int64, Int64, Int64]] = []

    def add(self, node: Int64, value: Int64, weight: Int64) -> None:
        if len(node):
            self._parts.append(_totals(node, value, weight))

    def by_node(self) -> dict[int, dict[int, int]]:
        """Return node -> value -> sum, the largest sum first."""
        if not self._parts:
            return {}
        node, value, weight = _totals(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))
        tables: dict[int, dict[int, int]] = {}
        for row in np.lexsort((value, -weight)).tolist():
            tables.setdefault(int(node[row]), {})[int(value[row])] = int(weight[row])
        return tables


class CauseTree:
    """The tree of one set of windows.

    Args:
        activities: of all threads.
        comm_of: int64[n], the number of the name of each segment's thread.
        launches: bool[n], which segments are waits for programs that the waiting program started.

    Attributes:
        labels: of each node. Parents come before their children.
        parents: the parent of each node; ROOT.
        times: nanoseconds in each node.
        total: nanoseconds of all windows.
        cut: nanoseconds that were not followed, because there was too much to follow.
    """

    def __init__(self, activities: Activities, comm_of: Int64, launches: NDArray[np.bool_]) -> None:
        self._activities = activities
        segments = activities.segments
        self._comm_of, self._launches = comm_of, launches
        self._index = SegmentIndex(segments.tid, segments.begin, segments.end)
        self._follows = follows_waker(activities.segments, activities.waker)
        self._numbers: dict[tuple[int, int, int, int, int], int] = {}
        self._weights = {name: _Weights() for name in _DETAILS}
        self.labels: list[Label] = []
        self.parents: list[int] = []
        self.times: list[int] = []
        self.total = self.cut = 0
        self._left = MOST_PIECES

    def explain(self, tid: Int64, begin: Int64, end: Int64) -> None:
        """Add windows of threads to the tree."""
        windows = Windows(np.full(len(tid), ROOT, np.int64), tid, begin, end)
        self.total += int(windows.length.sum())
        for _ in range(DEEPEST):
            if not len(windows.tid):
                return
            windows = self._follow(windows)
        self.cut += int(windows.length.sum())

    def details(self, name: str) -> dict[int, dict[int, int]]:
        """Return node -> value -> nanoseconds (of samples: their number), the largest first.

        Args:
            name: "tids", the threads; "wakers", the threads that ended waits; "waker_chains" and "chains", the callchains of wakers and
                of waits; "interrupts", 1 for waits that interrupts ended; "launches", 1 for waits for started programs; "runners",
                threads that ran on the CPU that a ready thread waited for; "samples", functions of running threads, times two, plus one
                if the thread waits for a spinlock; "counts", the number of segments, for value 0.
        """
        return self._weights[name].by_node()

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Node -> its children, those with the most time first. ROOT is the parent of the first nodes."""
        children: dict[int, list[int]] = {}
        for number in sorted(range(len(self.times)), key=lambda number: -self.times[number]):
            children.setdefault(self.parents[number], []).append(number)
        return children

    def _follow(self, windows: Windows) -> Windows:
        """Add what the threads of windows did to the tree; return the windows of the waits among it."""
        windows, first, count = self._bounded(windows)
        rows, _ = slices_index(first, count)
        which = np.repeat(np.arange(len(first)), count)
        segments = self._activities.segments
        begin, end = np.maximum(segments.begin[rows], windows.begin[which]), np.minimum(segments.end[rows], windows.end[which])
        pieces = Pieces(windows.node[which], rows, begin, end).take(end > begin)
        pieces = pieces._replace(node=self._add(pieces))
        waits = pieces.take(self._follows[pieces.row])
        return Windows(waits.node, self._activities.waker[waits.row], waits.begin, waits.end)

    def _bounded(self, windows: Windows) -> tuple[Windows, Int64, Int64]:
        """Return the longest windows that there is room for, with their first segments and the numbers of segments."""
        first, count = self._index.overlapping(windows.tid, windows.begin, windows.end)
        if int(count.sum()) > self._left:
            order = np.argsort(-windows.length, kind="stable")
            order = order[np.cumsum(count[order]) <= self._left]
            self.cut += int(windows.length.sum() - windows.length[order].sum())
            windows, first, count = Windows._make(column[order] for column in windows), first[order], count[order]
        self._left -= int(count.sum())
        return windows, first, count

    def _add(self, pieces: Pieces) -> Int64:
        """Add pieces, given with their parents' nodes, to the tree; return their own nodes."""
        activities, rows = self._activities, pieces.row
        kind = activities.kind[rows]
        function = np.where((kind == RUNNING) | (kind == reasons.CPU), NO_FUNCTION, activities.function[rows])
        keys = np.stack([pieces.node, kind, self._comm_of[rows], function, activities.lock[rows].view(np.int64)], axis=1)
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        count_before = len(self.labels)
        numbers = np.array([self._number(*key) for key in distinct.tolist()], np.int64)
        is_parent = numbers == distinct[:, 0] if len(numbers) else np.zeros(0, bool)
        self.__dict__.pop("children", None)
        self.times += [0] * (len(self.labels) - count_before)
        which = which.ravel()
        nodes = numbers[which] if len(numbers) else which.astype(np.int64)
        self._add_times(pieces._replace(node=nodes), ~is_parent[which])
        return nodes

    def _number(self, parent: int, kind: int, comm: int, function: int, lock: int) -> int:
        """Return the node of a child. The wait for a lock within a wait for the same lock is the same node."""
        lock &= _WORD
        if parent != ROOT and kind in LOCKS and self._is_same_lock(self.labels[parent], Label(kind, comm, function, lock)):
            return parent
        number = self._numbers.setdefault((parent, kind, comm, function, lock), len(self.labels))
        if number == len(self.labels):
            self.labels.append(Label(kind, comm, function, lock))
            self.parents.append(parent)
        return number

    @staticmethod
    def _is_same_lock(one: Label, other: Label) -> bool:
        return one[:2] == other[:2] and one.lock == other.lock and (one.lock != 0 or one.function == other.function)

    def _add_times(self, pieces: Pieces, counts: NDArray[np.bool_]) -> None:
        """Add the times of pieces; counts: whether a piece's time is not in its node yet."""
        activities, length = self._activities, pieces.end - pieces.begin
        totals = np.bincount(pieces.node[counts], length[counts], minlength=len(self.times)) if len(pieces.node) else np.zeros(0)
        for number in np.flatnonzero(totals).tolist():
            self.times[number] += int(totals[number])
        once = pieces.node[counts]
        self._weights["counts"].add(once, np.zeros(len(once), np.int64), np.ones(len(once), np.int64))
        columns = {
            "tids": activities.segments.tid,
            "wakers": activities.waker,
            "waker_chains": activities.waker_chain,
            "chains": activities.chain,
            "interrupts": np.where(activities.by_interrupt, 1, -1),
            "launches": np.where(self._launches, 1, -1),
        }
        for name, column in columns.items():
            values = column[pieces.row]
            has_value = values >= 0
            self._weights[name].add(pieces.node[has_value], values[has_value], length[has_value])
        self._add_runners(pieces.take(activities.kind[pieces.row] == reasons.CPU))
        self._add_samples(pieces.take(activities.kind[pieces.row] == RUNNING))

    @cached_property
    def _runs(self) -> tuple[Int64, SegmentIndex]:
        """The segments of running threads by CPU and time, and their index."""
        segments = self._activities.segments
        rows = np.flatnonzero(segments.kind == RUNS)
        rows = rows[np.lexsort((segments.begin[rows], segments.cpu[rows]))]
        return rows, SegmentIndex(segments.cpu[rows], segments.begin[rows], segments.end[rows])

    def _add_runners(self, waits: Pieces) -> None:
        """Add the threads that ran on the CPUs that ready threads came to."""
        rows, index = self._runs
        segments = self._activities.segments
        first, count = index.overlapping(segments.cpu[waits.row], waits.begin, waits.end)
        fits = np.cumsum(count) <= max(self._left, 0)
        count = np.where(fits, count, 0)
        self._left -= int(count.sum())
        position, _ = slices_index(first, count)
        which = np.repeat(np.arange(len(first)), count)
        run = rows[position]
        length = np.minimum(segments.end[run], waits.end[which]) - np.maximum(segments.begin[run], waits.begin[which])
        ran = (length > 0) & (segments.tid[run] != segments.tid[waits.row[which]])
        self._weights["runners"].add(waits.node[which[ran]], segments.tid[run[ran]], length[ran])

    @cached_property
    def _samples(self) -> SegmentIndex:
        samples = self._activities.samples
        return SegmentIndex(samples.tid, samples.time, samples.time)

    def _add_samples(self, runs: Pieces) -> None:
        """Count the samples of running threads: function << 1, or 1 more where the thread waits for a spinlock."""
        segments, samples = self._activities.segments, self._activities.samples
        first, count = self._samples.overlapping(segments.tid[runs.row], runs.begin, runs.end)
        fits = np.cumsum(count) <= max(self._left, 0)
        count = np.where(fits, count, 0)
        self._left -= int(count.sum())
        row, _ = slices_index(first, count)
        which = np.repeat(np.arange(len(first)), count)
        inside = (samples.time[row] >= runs.begin[which]) & (samples.time[row] <= runs.end[which]) & (samples.function[row] >= 0)
        row, which = row[inside], which[inside]
        self._weights["samples"].add(runs.node[which], samples.function[row] << 1 | samples.spins[row], np.ones(len(row), np.int64))


def _totals(node: Int64, value: Int64, weight: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the distinct pairs of node and value with the totals of their weights."""
    order = np.lexsort((value, node))
    node, value = node[order], value[order]
    starts = np.ones(len(node), bool)
    starts[1:] = (node[1:] != node[:-1]) | (value[1:] != value[:-1])
    where = np.flatnonzero(starts)
    return node[where], value[where], np.add.reduceat(weight[order], where) if len(where) else weight[:0]


_MERGED_DETAILS = ("tids", "wakers", "waker_chains", "chains", "runners", "samples", "counts")
_STARTS: Final = re.compile(r"_start|_*libc_start_(?:call_)?main\S*|start_thread|_*clone3?")
_MOST: Final = 0.6  # of a wait: a part that explains it
_NESTED: Final = 3  # waits for processes that only wait for others


class Cause(NamedTuple):
    """Nodes of the tree with the same label, whose times belong together.

    Attributes:
        kind, comm, function, lock: of the label, the names as texts.
        time: nanoseconds.
        nodes: of the tree.
        is_started: whether it is in a program that the explained one started and waits for.
    """

    kind: int
    comm: str
    function: str
    lock: int
    time: int
    nodes: tuple[int, ...]
    is_started: bool = False


def _whole_lock(kind: int, address: int) -> int:
    """Return the address that the futexes of one lock share: glibc's condition variable has two, side by side, which take turns."""
    return address & ~7 if kind == reasons.CONDITION else address


class CauseGroups:
    """The causes in a tree.

    Args:
        tree: a finished tree.
        comms: names of threads by number.
        meanings: of callchains.

    Attributes:
        lock_names: variables at addresses of locks.
    """

    def __init__(self, tree: CauseTree, comms: Sequence[str], meanings: StackMeanings) -> None:
        self.tree, self.comms, self.meanings = tree, comms, meanings
        self.lock_names: dict[int, str] = {}
        self._details = {name: tree.details(name) for name in _MERGED_DETAILS}
        self._interrupts, self._launches = tree.details("interrupts"), tree.details("launches")

    def children(self, nodes: Iterable[int]) -> list[Cause]:
        """Return what happened within nodes, merged by label, the longest first; runs are divided by waiting for spinlocks."""
        merged: dict[tuple[int, int, int, int], tuple[int, int, list[int]]] = {}
        for parent in nodes:
            for number in self.tree.children.get(parent, ()):
                for kind, time in self._kinds(number):
                    label = self.tree.labels[number]
                    key = label._replace(kind=kind, lock=_whole_lock(kind, label.lock))
                    before, lock, numbers = merged.get(key, (0, label.lock, []))
                    merged[key] = (before + time, min(lock, label.lock), [*numbers, number])
        causes = [
            Cause(kind, self.comms[comm], self.function(function), lock, time, tuple(numbers))
            for (kind, comm, function, _), (time, lock, numbers) in merged.items()
            if time
        ]
        return sorted(causes, key=lambda cause: -cause.time)

    def _kinds(self, number: int) -> list[tuple[int, int]]:
        """Return the kinds of a node with their times."""
        kind, time = self.tree.labels[number].kind, self.tree.times[number]
        if kind != RUNNING:
            return [(kind, time)]
        samples = self._details["samples"].get(number, {})
        spinning = sum(count for value, count in samples.items() if value & 1) * time // max(sum(samples.values()), 1)
        return [(RUNNING, time - spinning), (SPINNING, spinning)]

    def causes(self) -> list[Cause]:
        """Return what the time of the main thread was spent with.

        The ends of threads and the waits for started programs are explained by what those did. What is left of them comes last.
        """
        cause_of: dict[tuple[int, str, str, int, bool], Cause] = {}
        left = [(cause, 0) for cause in self.children([ROOT])]
        while left:
            cause, depth = left.pop()
            inner = self.children(cause.nodes) if depth < DEEPEST and self.is_passing(cause) else []
            is_started = cause.is_started or self.launched(cause.nodes) >= _MOST * cause.time
            left += [(one._replace(is_started=is_started), depth + 1) for one in inner]
            rest = cause._replace(time=cause.time - sum(one.time for one in inner))
            if rest.time > 0:
                key = (*rest[:3], _whole_lock(rest.kind, rest.lock), rest.is_started)
                before = cause_of.get(key)
                cause_of[key] = rest if before is None else before._replace(time=before.time + rest.time, nodes=before.nodes + rest.nodes)
        return sorted(cause_of.values(), key=lambda cause: (self.launched(cause.nodes) >= _MOST * cause.time, -cause.time))

    def is_passing(self, cause: Cause, depth: int = 0) -> bool:
        """Return whether a wait is no cause: one for the end of a thread, for a started program, or for a process that waits for one."""
        if cause.kind == reasons.JOIN or self.launched(cause.nodes) >= _MOST * cause.time:
            return True
        if cause.kind not in FOR_OTHERS or depth >= _NESTED:
            return False
        passing = sum(one.time for one in self.children(cause.nodes) if one.kind in FOR_OTHERS and self.is_passing(one, depth + 1))
        return passing >= _MOST * cause.time

    def launched(self, nodes: Iterable[int]) -> int:
        """Return the nanoseconds of waits for programs that the waiting one started."""
        return sum(self._launches.get(number, {}).get(1, 0) for number in dict.fromkeys(nodes))

    def function(self, number: int) -> str:
        """Return the name of a function; "" if it only starts threads, because then the program's own function has no symbol."""
        name = self.meanings.functions[number] if number >= 0 else ""
        return "" if _STARTS.fullmatch(name) else name

    def largest(self, detail: str, nodes: Iterable[int]) -> tuple[int, int]:
        """Return the value of a detail with the largest total over nodes, and that total; (-1, 0) for none."""
        totals = self.all_of(detail, nodes)
        return max(totals.items(), key=lambda item: (item[1], -item[0])) if totals else (-1, 0)

    def all_of(self, detail: str, nodes: Iterable[int]) -> dict[int, int]:
        """Return the totals of a detail over nodes."""
        totals: dict[int, int] = {}
        for number in dict.fromkeys(nodes):
            for value, weight in self._details[detail].get(number, {}).items():
                totals[value] = totals.get(value, 0) + weight
        return totals

    def interrupted(self, nodes: Iterable[int]) -> int:
        """Return the nanoseconds of waits that an interrupt ended."""
        return sum(self._interrupts.get(number, {}).get(1, 0) for number in dict.fromkeys(nodes))
