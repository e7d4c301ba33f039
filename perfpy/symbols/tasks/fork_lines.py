"""Joining of long chains of forked address spaces.

A forked address space starts as a copy of its parent's: an address that it has not mapped itself is looked up in the parent, as of the
fork. In a chain of n forks that takes n steps. Chains are therefore joined into lines: a space, its child with the most descendants, that
child's child with the most, and so on. Each space of a line continues the one before it at the fork. Later mappings of a space are not in
the line, but in a space of their own, its tail, whose parent is the line. A lookup then visits at most 2 log2(n) lines and tails.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

FOREVER: Final = (1 << 31) - 1  # the end rank of what is never removed; all ranks are below it
_DEPTH: Final = 32  # chains up to this length are searched one by one


class ForkLines:
    """The lines of a forest of address spaces. The tail of space i has the number `spaces + i`.

    Attributes:
        line: int32[spaces], the first space of each space's line.
        end: int32[spaces], the rank of the fork at which the line continues with a child, FOREVER for the last space of a line.
    """

    def __init__(self, parent: NDArray[np.int32], parent_rank: NDArray[np.int32], heir: list[int]) -> None:
        """Build the lines. `heir`: the child that continues each space's line, -1 for none."""
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
        """Return the line or tail with the mappings of each space at each rank."""
        return np.where(rank > self.end[space], np.int32(len(self.line)) + space, self.line[space]).astype(np.int32)

    def conflicts_by_space(self, conflicts: dict[int, list[int]], used: NDArray[np.int32]) -> dict[int, list[int]]:
        """Return the ranks at which each space loses a mapping.

        Args:
            conflicts: the ranks at which lines and tails lose a mapping.
            used: the lines and tails with mappings.
        """
        spaces, with_mappings = len(self.line), set(used.tolist())
        conflicts_of: dict[int, list[int]] = {}
        rows = zip(self.line.tolist(), self._since.tolist(), self.end.tolist(), strict=True)
        for space, (line, since, end) in enumerate(rows):
            of_line = conflicts.get(line, [])
            ranks = of_line[bisect.bisect_right(of_line, since) : bisect.bisect_right(of_line, end)]
            if spaces + space in with_mappings:
                ranks = [*ranks, end, *conflicts.get(spaces + space, [])]  # from `end` on the tail may cover the line
            if ranks:
                conflicts_of[space] = ranks
        return conflicts_of


def find_lines(parent: NDArray[np.int32], parent_rank: NDArray[np.int32], apart: Iterable[int] = ()) -> ForkLines | None:
    """Join chains of forks; return None if all are short.

    Args:
        parent: int32[n], the space that each is a copy of, which has a lower number, or -1.
        parent_rank: the rank of the copy.
        apart: spaces that are not joined.
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
