"""Address ranges that come and go: which mapping held an address of an address space at a moment.

What enters: mappings, forks and removals in the order in which they happened,
moments being the ranks of the side-band records. What leaves: `AddressSpaces`,
an index over columns that answers any number of (space, address, moment)
questions with a few binary searches, without a loop per space.

A mapping that replaces others splits them as perf does. One that only repeats
what is there (the same file at the same place, or the growth of an anonymous
region) ends nothing.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOREVER: Final = (1 << 31) - 1  # the rank at which what is never removed ends: ranks are below it
_SHIFT: Final = np.uint64(32)


class Mapping(NamedTuple):
    """[start, end) of an address space; `bias` added to an address (modulo 2^64) makes it an address within the Dso."""

    start: int
    end: int
    bias: int
    dso: int


class _Piece(NamedTuple):
    """A part of a mapping that lives from rank `born` on; its place in the columns is `row`."""

    start: int
    end: int
    row: int


class _Space:
    """The living pieces of one address space, by start address."""

    __slots__ = ("conflicts", "parent", "parent_rank", "pieces", "starts")

    def __init__(self, parent: int, parent_rank: int) -> None:
        self.starts: list[int] = []
        self.pieces: list[_Piece] = []
        self.parent = parent
        self.parent_rank = parent_rank
        self.conflicts: list[int] = []


class SpaceBuilder:
    """Collects mappings; `build` makes the index."""

    def __init__(self) -> None:
        self._spaces: list[_Space] = []
        self._mappings: list[Mapping] = []
        # space, start, end, mapping, born of each piece; died is known when something replaces it
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._died: dict[int, int] = {}

    def new_space(self, parent: int = -1, rank: int = 0) -> int:
        """A new address space; a fork's starts as its parent is at that moment (nothing is copied)."""
        self._spaces.append(_Space(parent, rank))
        return len(self._spaces) - 1

    def insert(self, space: int, mapping: Mapping, rank: int) -> None:
        """Map a range from `rank` on; what it overlaps is cut off or split."""
        if mapping.end <= mapping.start:
            return
        living = self._spaces[space]
        first = bisect.bisect_right(living.starts, mapping.start) - 1
        if first < 0 or living.pieces[first].end <= mapping.start:
            first += 1
        last = bisect.bisect_left(living.starts, mapping.end, lo=first)
        number = len(self._mappings)
        self._mappings.append(mapping)
        if first == last:
            replacement = [self._add(space, mapping.start, mapping.end, number, rank)]
        else:
            replacement = self._overlay(space, living.pieces[first:last], mapping, number, rank)
        living.pieces[first:last] = replacement
        living.starts[first:last] = [piece.start for piece in replacement]

    def remove(self, space: int, address: int, rank: int) -> None:
        """Unmap the mapping that holds an address, from `rank` on."""
        living = self._spaces[space]
        at = bisect.bisect_right(living.starts, address) - 1
        if at >= 0 and address < living.pieces[at].end:
            self._end_piece(space, living.pieces[at], rank)
            del living.pieces[at], living.starts[at]

    def holder(self, space: int, address: int) -> Mapping | None:
        """The mapping that now holds an address."""
        living = self._spaces[space]
        at = bisect.bisect_right(living.starts, address) - 1
        if at >= 0 and address < living.pieces[at].end:
            return self._mapping_of(living.pieces[at])
        return None

    def build(self) -> AddressSpaces:
        """The index over everything inserted so far."""
        space, start, end, mapping, born = zip(*self._rows, strict=True) if self._rows else ((),) * 5
        died = np.full(len(self._rows), FOREVER, np.int32)
        died[list(self._died)] = list(self._died.values())
        return AddressSpaces(
            PieceColumns(
                space=np.array(space, np.int32),
                start=np.array(start, np.uint64),
                end=np.array(end, np.uint64),
                mapping=np.array(mapping, np.int32),
                born=np.array(born, np.int32),
                died=died,
            ),
            self._mappings,
            parent=np.array([space.parent for space in self._spaces], np.int32),
            parent_rank=np.array([space.parent_rank for space in self._spaces], np.int32),
            conflicts=[space.conflicts for space in self._spaces],
        )

    def _add(self, space: int, start: int, end: int, mapping: int, born: int) -> _Piece:
        self._rows.append((space, start, end, mapping, born))
        return _Piece(start, end, len(self._rows) - 1)

    def _end_piece(self, space: int, piece: _Piece, rank: int) -> None:
        self._died[piece.row] = rank
        conflicts = self._spaces[space].conflicts
        if not conflicts or conflicts[-1] != rank:
            conflicts.append(rank)

    def _mapping_of(self, piece: _Piece) -> Mapping:
        return self._mappings[self._rows[piece.row][3]]

    def _same(self, piece: _Piece, mapping: Mapping) -> bool:
        held = self._mapping_of(piece)
        return held.bias == mapping.bias and held.dso == mapping.dso

    def _overlay(self, space: int, overlapped: list[_Piece], mapping: Mapping, number: int, rank: int) -> list[_Piece]:
        """Put a mapping over living pieces: equal ones live on, others end and keep only what sticks out."""
        result: list[_Piece] = []
        tail: _Piece | None = None
        at = mapping.start
        for piece in overlapped:
            if self._same(piece, mapping):
                if at < piece.start:
                    result.append(self._add(space, at, piece.start, number, rank))
                result.append(piece)
                at = max(at, piece.end)
                continue
            self._end_piece(space, piece, rank)
            held = self._rows[piece.row][3]
            if piece.start < mapping.start:
                result.append(self._add(space, piece.start, mapping.start, held, rank))
            if piece.end > mapping.end:
                tail = self._add(space, mapping.end, piece.end, held, rank)
        if at < mapping.end:
            result.append(self._add(space, at, mapping.end, number, rank))
        if tail:
            result.append(tail)
        result.sort()
        return result


@dataclass(frozen=True)
class PieceColumns:
    """One row a piece: its space, range, mapping, and the ranks [born, died) between which it is there."""

    space: NDArray[np.int32]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    mapping: NDArray[np.int32]
    born: NDArray[np.int32]
    died: NDArray[np.int32]


class AddressSpaces:
    """Answers (space, address, rank) -> mapping for whole columns.

    The addresses at which any piece starts or ends are numbered; each space is
    cut into segments at its own; and each (segment, rank of birth) has the
    piece that holds the segment from then on.
    """

    def __init__(
        self,
        pieces: PieceColumns,
        mappings: list[Mapping],
        *,
        parent: NDArray[np.int32],
        parent_rank: NDArray[np.int32],
        conflicts: list[list[int]],
    ) -> None:
        self._pieces = pieces
        self._parent = parent
        self._parent_rank = parent_rank
        self.conflicts = conflicts  # per space: the ranks at which something that was there went away
        self.map_start = np.array([mapping.start for mapping in mappings], np.uint64)
        self.map_end = np.array([mapping.end for mapping in mappings], np.uint64)
        self.bias = np.array([mapping.bias for mapping in mappings], np.uint64)
        self.dso = np.array([mapping.dso for mapping in mappings], np.int32)
        self._bounds = distinct(np.concatenate([pieces.start, pieces.end]))
        self._cut()

    def _cut(self) -> None:
        pieces = self._pieces
        space = pieces.space.astype(np.uint64) << _SHIFT
        first = space | np.searchsorted(self._bounds, pieces.start).astype(np.uint64)
        last = space | np.searchsorted(self._bounds, pieces.end).astype(np.uint64)
        self._segments = distinct(np.concatenate([first, last]))
        from_segment = np.searchsorted(self._segments, first)
        count = np.searchsorted(self._segments, last) - from_segment
        rows = np.repeat(np.arange(len(count)), count)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        segment = (from_segment[rows] + offset).astype(np.uint64)
        entries = segment << _SHIFT | pieces.born[rows].astype(np.uint64)
        order = np.argsort(entries, kind="stable")
        self._entries = entries[order]
        self._entry_piece = rows[order]

    def find(
        self, space: NDArray[np.int32], address: NDArray[np.uint64], rank: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The mapping (-1: none) that holds each address after the record of that rank, and the rank since when."""
        found = np.full(len(space), -1, np.int32)
        born = np.zeros(len(space), np.int32)
        if not len(self._entries):
            return found, born
        todo = np.flatnonzero(space >= 0)
        space, address, rank = space[todo], address[todo], rank[todo]
        bound = np.searchsorted(self._bounds, address, side="right") - 1
        first_try = True
        # a forked space holds what its parent held then, unless it mapped something else itself
        while len(todo):
            piece = self._find_own(space, bound, rank)
            hit = piece >= 0
            found[todo[hit]] = self._pieces.mapping[piece[hit]]
            if first_try:
                born[todo[hit]] = self._pieces.born[piece[hit]]
                first_try = False
            orphan = ~hit & (self._parent[space] >= 0)
            todo, bound, space = todo[orphan], bound[orphan], space[orphan]
            rank = self._parent_rank[space]
            space = self._parent[space]
        return found, born

    def _find_own(self, space: NDArray[np.int32], bound: NDArray[np.int64], rank: NDArray[np.int32]) -> NDArray[np.int64]:
        """The piece of the space itself, -1 where it has none."""
        wide = space.astype(np.uint64)
        place = wide << _SHIFT | np.maximum(bound, 0).astype(np.uint64)
        segment = np.searchsorted(self._segments, place, side="right") - 1
        in_space = (segment >= 0) & (bound >= 0)
        in_space &= self._segments[np.maximum(segment, 0)] >> _SHIFT == wide
        moment = segment.astype(np.uint64) << _SHIFT | rank.astype(np.uint64)
        entry = np.searchsorted(self._entries, moment, side="right") - 1
        in_segment = in_space & (entry >= 0)
        entry = np.maximum(entry, 0)
        in_segment &= self._entries[entry] >> _SHIFT == segment.astype(np.uint64)
        piece = self._entry_piece[entry]
        in_segment &= self._pieces.died[piece] > rank
        return np.where(in_segment, piece, -1)
