"""The nodes of a tree of causes, merged by what their time was spent with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.causes import ROOT, CauseTree
from perfpy.analysis.why.kinds import RUNNING, SPINNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.analysis.why.stacks import StackMeanings

_DETAILS = ("tids", "wakers", "waker_chains", "chains", "runners", "samples", "counts")


class Cause(NamedTuple):
    """Nodes of the tree with the same label, whose times belong together.

    Attributes:
        kind, comm, function, lock: of the label, the names as texts.
        time: nanoseconds.
        nodes: of the tree.
    """

    kind: int
    comm: str
    function: str
    lock: int
    time: int
    nodes: tuple[int, ...]


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
        self._interrupts = tree.details("interrupts")

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
        """Return what the time of the main thread was spent with, the ends of threads explained by what those did."""
        cause_of: dict[tuple[int, str, str, int], Cause] = {}
        left = self.children([ROOT])
        while left:
            cause = left.pop()
            inner = self.children(cause.nodes) if cause.kind == reasons.JOIN else []
            left += inner
            rest = cause._replace(time=cause.time - sum(one.time for one in inner))
            if rest.time > 0:
                key = (rest.kind, rest.comm, rest.function, rest.lock)
                before = cause_of.get(key)
                cause_of[key] = rest if before is None else before._replace(time=before.time + rest.time, nodes=before.nodes + rest.nodes)
        return sorted(cause_of.values(), key=lambda cause: -cause.time)

    def function(self, number: int) -> str:
        """Return the name of a function; "" for none."""
        return self.meanings.functions[number] if number >= 0 else ""

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
