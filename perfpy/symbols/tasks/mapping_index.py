"""An index of the mappings of address spaces over time.

`AddressSpaces` is built from pieces of mappings (mapping_intervals), each a range of addresses and of ranks, without overlaps in a space.
It answers any number of (space, address, rank) queries with a few binary searches, without a loop over spaces.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.symbols.tasks.fork_lines import ForkLines

_SHIFT: Final = np.uint64(32)
_SHORT: Final = 8  # a piece of up to this many segments is entered at each of them


class PieceColumns(NamedTuple):
    """Columns of pieces: space, range, mapping, and the ranks [born, died) of their existence."""

    space: NDArray[np.int32]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    mapping: NDArray[np.int32]
    born: NDArray[np.int32]
    died: NDArray[np.int32]


class MappingColumns(NamedTuple):
    """Columns of mappings: the fields of Mapping."""

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    bias: NDArray[np.uint64]
    dso: NDArray[np.int32]


class AddressSpaces:
    """The mapping of (space, address, rank), for whole columns.

    Args:
        conflicts: space -> ranks at which a mapping is removed.
        owner: int32[mappings], the space that each mapping was inserted into.
        lines: the joined chains of forks, whose lines and tails the pieces refer to.
    """

    def __init__(
        self,
        pieces: PieceColumns,
        mappings: MappingColumns,
        *,
        owner: NDArray[np.int32],
        parent: NDArray[np.int32],
        parent_rank: NDArray[np.int32],
        conflicts: dict[int, list[int]],
        lines: ForkLines | None = None,
    ) -> None:
        self._pieces = pieces
        self._index = _PieceIndex(pieces)
        self._owner = owner
        self._lines = lines
        self._forked_from, self._forked_at = parent, parent_rank
        self._parent, self._parent_rank = (parent, parent_rank) if lines is None else (lines.parent, lines.parent_rank)
        self.conflicts = conflicts
        self.map_start, self.map_end, self.bias, self.dso = mappings

    def parent(self, space: int) -> int:
        """Return the space that a space started as a copy of, -1 for none."""
        return int(self._forked_from[space])

    def dsos(self, space: int) -> list[int]:
        """Return every dso ever mapped in a space itself."""
        low, high = np.searchsorted(self._sorted_owners, [space, space + 1])
        dsos: list[int] = distinct(self.dso[self._mappings_by_owner[low:high]]).tolist()
        return dsos

    @cached_property
    def _mappings_by_owner(self) -> NDArray[np.int64]:
        return np.argsort(self._owner, kind="stable")

    @cached_property
    def _sorted_owners(self) -> NDArray[np.int32]:
        return self._owner[self._mappings_by_owner]

    def find(
        self, space: NDArray[np.int32], address: NDArray[np.uint64], rank: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the mapping (-1: none) of each address after the record of a rank, and its first rank (0: since the fork)."""
        mapping = np.full(len(space), -1, np.int32)
        born = np.zeros(len(space), np.int32)
        if not len(self._pieces.space):
            return mapping, born
        todo = rows_where(space >= 0)
        space, rank = space[todo], rank[todo]
        forked_at = self._forked_at[space]
        if self._lines is not None:
            space = self._lines.holder_of(space, rank)
        bound = self._index.bound(address[todo])
        # An address that a forked space has not mapped itself belongs to the parent's mapping at the fork.
        while len(todo):
            piece = self._index.find(space, bound, rank)
            hit = piece >= 0
            mapping[todo[hit]] = self._pieces.mapping[piece[hit]]
            since = self._pieces.born[piece[hit]]
            born[todo[hit]] = np.where(since >= forked_at[hit], since, 0)
            orphan = ~hit & (self._parent[space] >= 0)
            todo, bound, space, forked_at = todo[orphan], bound[orphan], space[orphan], forked_at[orphan]
            rank = self._parent_rank[space]
            space = self._parent[space]
        return mapping, born


class _PieceIndex:
    """A search for the piece at a point.

    All start and end addresses of pieces are numbered: bounds. Each space is divided into segments at its own bounds. A piece of few
    segments is entered at each of them, by the rank of its birth. A longer piece is entered once, into a tree over the segments: at the
    smallest node that contains it. The pieces of one node share its middle segment, so no two of them exist at the same time, and the last
    one born before a rank is the only candidate of the node.
    """

    def __init__(self, pieces: PieceColumns) -> None:
        self._born, self._died = pieces.born, pieces.died
        self._bounds = distinct(np.concatenate([pieces.start, pieces.end]))
        space = pieces.space.astype(np.uint64) << _SHIFT
        first = space | np.searchsorted(self._bounds, pieces.start).astype(np.uint64)
        last = space | np.searchsorted(self._bounds, pieces.end).astype(np.uint64)
        self._segments = distinct(np.concatenate([first, last]))
        self._first = np.searchsorted(self._segments, first)
        self._end = np.searchsorted(self._segments, last)
        count = self._end - self._first
        is_short = count <= _SHORT
        self._enter_short(rows_where(is_short), count)
        self._levels = [] if is_short.all() else list(self._enter_long(rows_where(~is_short)))

    def _enter_short(self, short: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        count = count[short]
        rows = np.repeat(short, count)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        self._entries, self._entry_piece = self._sort(self._first[rows] + offset, rows)

    def _enter_long(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.int64]]]:
        """Yield the level of nodes, its entries and their pieces. A node of level n has 2^n segments."""
        first, last = self._first[rows], self._end[rows] - 1
        level = np.frexp((first ^ last).astype(np.float64))[1]
        for one in distinct(level).tolist():
            of_level = level == one
            yield one, *self._sort(first[of_level] >> one, rows[of_level])

    def _sort(self, node: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        entries = node.astype(np.uint64) << _SHIFT | self._born[rows].astype(np.uint64)
        order = np.argsort(entries, kind="stable")
        return entries[order], rows[order]

    def bound(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the last bound up to each address, -1 for none."""
        return np.searchsorted(self._bounds, address, side="right") - 1

    def find(self, space: NDArray[np.int32], bound: NDArray[np.int64], rank: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the piece of each space itself after a bound, -1 for none."""
        wide = space.astype(np.uint64)
        packed = wide << _SHIFT | np.maximum(bound, 0).astype(np.uint64)
        segment = np.searchsorted(self._segments, packed, side="right") - 1
        in_space = (segment >= 0) & (bound >= 0)
        in_space &= self._segments[np.maximum(segment, 0)] >> _SHIFT == wide
        piece = np.where(in_space, self._last_born(segment, rank, self._entries, self._entry_piece), -1)
        for level, entries, pieces in self._levels:
            todo = rows_where(in_space & (piece < 0))
            candidate = self._last_born(segment[todo] >> level, rank[todo], entries, pieces)
            holds = (self._first[candidate] <= segment[todo]) & (segment[todo] < self._end[candidate])
            piece[todo] = np.where(holds, candidate, -1)
        return piece

    def _last_born(
        self, node: NDArray[np.int64], rank: NDArray[np.int32], entries: NDArray[np.uint64], pieces: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the piece of each node at each rank, -1 for none."""
        if not len(entries):
            return np.full(len(node), -1, np.int64)
        wide = node.astype(np.uint64)
        entry = np.searchsorted(entries, wide << _SHIFT | rank.astype(np.uint64), side="right") - 1
        is_found = entry >= 0
        entry = np.maximum(entry, 0)
        piece = pieces[entry]
        is_found &= (entries[entry] >> _SHIFT == wide) & (self._died[piece] > rank)
        return np.where(is_found, piece, -1)
