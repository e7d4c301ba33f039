"""Long chains of forked address spaces, laid end to end.

A forked address space starts as a copy of its parent's: what it has not mapped
itself is looked for in the parent, as that was at the fork. In a chain of n
forks that takes n steps. So chains are joined: a space, its child with the most
descendants, that one's child with the most, and so on, are one line, in which
each space continues the one before at the fork. What a space maps after that
fork is not in the line; it becomes a space of its own, its tail, whose parent
is the line. A look-up then passes at most 2 log2(n) lines and tails.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

FOREVER: Final = (1 << 31) - 1  # the rank at which what is never removed ends: ranks are below it
_DEPTH: Final = 32  # chains up to this length are looked through one by one


class ForkLines:
    """The lines of a forest of address spaces; the tail of space i has the number `spaces + i`.

    line: int32[spaces], the first space of each space's line. end: int32[spaces], the rank of the fork at which the line goes
    on with a child, FOREVER for the last of a line.
    """

    def __init__(self, parent: NDArray[np.int32], parent_rank: NDArray[np.int32], heir: list[int]) -> None:
        """Heir: of each space the child that continues its line, -1 for none."""
        spaces = len(parent)
        heirs = np.array(heir, np.int64)
        self.end = np.where(heirs >= 0, parent_rank[heirs], FOREVER).astype(np.int32)
        line = list(range(spaces))
        for space, above in enumerate(parent.tolist()):
            if above >= 0 and heir[above] == space:
                line[space] = line[above]
        self.line = np.array(line, np.int32)
        self._since = np.where(self.line == np.arange(spaces), -1, parent_rank).astype(np.int32)
        own_parent = np.where(parent >= 0, self.holder_of(parent, parent_rank), -1)
        #: of lines and tails
        self.parent = np.concatenate([own_parent, self.line]).astype(np.int32)
        self.parent_rank = np.concatenate([parent_rank, self.end]).astype(np.int32)

    def holder_of(self, space: NDArray[np.int32], rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """The line or the tail that holds what each space maps at each rank."""
        return np.where(rank > self.end[space], np.int32(len(self.line)) + space, self.line[space]).astype(np.int32)

    def conflicts_by_space(self, conflicts: dict[int, list[int]], used: NDArray[np.int32]) -> dict[int, list[int]]:
        """The ranks at which each space loses a mapping. conflicts: the same of lines and tails; used: those with mappings."""
        spaces, with_mappings = len(self.line), set(used.tolist())
        found: dict[int, list[int]] = {}
        rows = zip(self.line.tolist(), self._since.tolist(), self.end.tolist(), strict=True)
        for space, (line, since, end) in enumerate(rows):
            of_line = conflicts.get(line, [])
            ranks = of_line[bisect.bisect_right(of_line, since) : bisect.bisect_right(of_line, end)]
            if spaces + space in with_mappings:
                ranks = [*ranks, end, *conflicts.get(spaces + space, [])]  # from `end` on the tail may cover the line
            if ranks:
                found[space] = ranks
        return found


def find_lines(parent: NDArray[np.int32], parent_rank: NDArray[np.int32], apart: Iterable[int] = ()) -> ForkLines | None:
    """Join chains of forks; None where all are short.

    parent: int32[n], the space that each is a copy of, which has a lower number, or -1. parent_rank: since when.
    apart: spaces that stay as they are.
    """
    if not _is_deep(parent):
        return None
    parents = parent.tolist()
    sizes = [1] * len(parents)
    heir = [-1] * len(parents)
    lone = set(apart)
    for space in range(len(parents) - 1, -1, -1):
        above = parents[space]
        if above < 0:
            continue
        sizes[above] += sizes[space]
        if space not in lone and above not in lone and (heir[above] < 0 or sizes[space] > sizes[heir[above]]):
            heir[above] = space
    return ForkLines(parent, parent_rank, heir)


def _is_deep(parent: NDArray[np.int32]) -> bool:
    above = parent[parent >= 0]
    for _ in range(_DEPTH):
        if not len(above):
            return False
        above = parent[above]
        above = above[above >= 0]
    return len(above) > 0
