"""The nodes of a tree of causes, merged by what their time was spent with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.causes import DEEPEST, ROOT, CauseTree
from perfpy.analysis.why.kinds import FOR_OTHERS, RUNNING, SPINNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.analysis.why.stacks import StackMeanings

_DETAILS = ("tids", "wakers", "waker_chains", "chains", "runners", "samples", "counts")
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
        self._details = {name: tree.details(name) for name in _DETAILS}
        self._interrupts, self._launches = tree.details("interrupts"), tree.details("launches")

    def children(self, nodes: Iterable[int]) -> list[Cause]:
        """Return what happened within nodes, merged by label, the longest first; runs are divided by waiting for spinlocks."""
        merged: dict[tuple[int, int, int, int], tuple[int, list[int]]] = {}
        for parent in nodes:
            for number in self.tree.children.get(parent, ()):
                for kind, time in self._kinds(number):
                    label = self.tree.labels[number]._replace(kind=kind)
                    before, numbers = merged.get(label, (0, []))
                    merged[label] = (before + time, [*numbers, number])
        causes = [
            Cause(kind, self.comms[comm], self.function(function), lock, time, tuple(numbers))
            for (kind, comm, function, lock), (time, numbers) in merged.items()
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
                key = (*rest[:4], rest.is_started)
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
