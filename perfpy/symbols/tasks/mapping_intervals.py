"""Address ranges that come and go: which mapping held an address of an address space at a moment.

What enters: mappings, forks and removals in the order in which they happened,
moments being the ranks of the side-band records. What leaves: `AddressSpaces`,
an index over columns that answers any number of (space, address, moment)
questions with a few binary searches, without a loop per space.

A mapping that replaces others splits them as perf does. One that only repeats
what is there (the same file at the same addresses, or the growth of an anonymous
region) ends nothing.
"""

from __future__ import annotations

import bisect
from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FOREVER: Final = (1 << 31) - 1  # the rank at which what is never removed ends: ranks are below it
_SHIFT: Final = np.uint64(32)
_LAST_ADDRESS: Final = (1 << 64) - 1


_INSERTED: Final = 6  # numbers kept of a mapping that is inserted: those of Mapping, space, rank


class Mapping(NamedTuple):
    """[start, end) of an address space; `bias` added to an address (modulo 2^64) makes it an address within the Dso."""

    start: int
    end: int
    bias: int
    dso: int


class _Piece(NamedTuple):
    """A range that lives, of one file at one offset; `rows` are its parts in the columns: a region grows part by part."""

    start: int
    end: int
    rows: list[int]


class _Space:
    """The living pieces of one address space, by start address."""

    __slots__ = ("conflicts", "pieces", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[_Piece] = []
        self.conflicts: list[int] = []


class SpaceBuilder:
    """Collects mappings; `build` makes the index.

    Most spaces are those of short-lived processes, in which nothing is mapped
    twice: their mappings are only noted, and all become pieces at once. The
    mappings of the other spaces are replayed one by one.
    """

    def __init__(self) -> None:
        self._parents = array("i")
        self._parent_ranks = array("i")
        self._inserted = array("Q")  # what _INSERTED says
        self._replayed: dict[int, _Space] = {}
        # space, start, end, mapping, born of each row; died is known when something replaces it
        self._rows = array("Q")
        self._died: dict[int, int] = {}

    def new_space(self, parent: int = -1, rank: int = 0, *, live: bool = False) -> int:
        """A new address space; a fork's starts as its parent is at that moment (nothing is copied).

        live: whether holder() and remove() will be asked of it.
        """
        self._parents.append(parent)
        self._parent_ranks.append(rank)
        number = len(self._parents) - 1
        if live:
            self._replayed[number] = _Space()
        return number

    def new_spaces(self, parents: list[int], ranks: list[int]) -> None:
        """As new_space, for many."""
        self._parents.extend(parents)
        self._parent_ranks.extend(ranks)

    def insert_all(self, mappings: MappingColumns, space: NDArray[np.int32], rank: NDArray[np.int32]) -> None:
        """As insert, for many, each into its space from its rank on, none of which is live."""
        kept = mappings.end > mappings.start
        rows = np.empty((int(np.count_nonzero(kept)), _INSERTED), np.uint64)
        columns: tuple[NDArray[Any], ...] = (*mappings, space, rank)
        for index, column in enumerate(columns):
            rows[:, index] = column[kept]
        self._inserted.frombytes(rows.tobytes())

    def insert(self, space: int, mapping: Mapping, rank: int) -> None:
        """Map a range from `rank` on; what it overlaps is cut off or split. One beyond the last address holds none, as in perf."""
        if not mapping.start < mapping.end <= _LAST_ADDRESS:
            return
        self._inserted.extend((*mapping, space, rank))
        if space in self._replayed:
            self._replay(len(self._inserted) // _INSERTED - 1)

    def remove(self, space: int, address: int, rank: int) -> None:
        """Unmap the mapping that holds an address, from `rank` on."""
        living = self._replayed[space]
        index = bisect.bisect_right(living.starts, address) - 1
        if index >= 0 and address < living.pieces[index].end:
            self._end_piece(space, living.pieces[index], rank)
            del living.pieces[index], living.starts[index]

    def holder(self, space: int, address: int) -> Mapping | None:
        """The mapping that now holds an address."""
        living = self._replayed[space]
        index = bisect.bisect_right(living.starts, address) - 1
        if index >= 0 and address < living.pieces[index].end:
            return self._mapping_of(living.pieces[index])
        return None

    def build(self) -> AddressSpaces:
        """The index over everything inserted so far."""
        inserted = np.array(self._inserted, np.uint64).reshape(-1, _INSERTED)
        start, end, bias, dso, space, rank = inserted.T
        self._replay_contested(space, start, end)
        alone = rows_where(~np.isin(space, list(self._replayed)))
        rows = np.array(self._rows, np.uint64).reshape(-1, 5)
        died = np.full(len(rows) + len(alone), FOREVER, np.int32)
        died[list(self._died)] = list(self._died.values())
        pieces = (space[alone], start[alone], end[alone], alone, rank[alone])
        of_space, first, last, mapping, born = (np.concatenate([rows[:, index], column]) for index, column in enumerate(pieces))
        return AddressSpaces(
            PieceColumns(
                space=of_space.astype(np.int32),
                start=first,
                end=last,
                mapping=mapping.astype(np.int32),
                born=born.astype(np.int32),
                died=died,
            ),
            MappingColumns(start.copy(), end.copy(), bias.copy(), dso.astype(np.int32)),
            parent=np.array(self._parents, np.int32),
            parent_rank=np.array(self._parent_ranks, np.int32),
            conflicts={space: living.conflicts for space, living in self._replayed.items() if living.conflicts},
        )

    def _replay_contested(self, space: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64]) -> None:
        """Replay the spaces in which mappings overlap."""
        order = np.lexsort((start, space))
        neighbours = space[order[1:]] == space[order[:-1]]
        contested = distinct(space[order[1:]][neighbours & (end[order[:-1]] > start[order[1:]])])
        fresh = [number for number in contested.tolist() if number not in self._replayed]
        self._replayed.update((number, _Space()) for number in fresh)
        for number in rows_where(np.isin(space, fresh)).tolist():
            self._replay(number)

    def _replay(self, number: int) -> None:
        """Put a mapping into its space as it is by now."""
        *of_mapping, space, rank = self._inserted[number * _INSERTED : (number + 1) * _INSERTED]
        mapping = Mapping(*of_mapping)
        living = self._replayed[space]
        first = bisect.bisect_right(living.starts, mapping.start) - 1
        if first < 0 or living.pieces[first].end <= mapping.start:
            first += 1
        last = bisect.bisect_left(living.starts, mapping.end, lo=first)
        if first == last:
            replacement = [self._add(space, mapping.start, mapping.end, number, rank)]
        else:
            replacement = self._overlay(space, living.pieces[first:last], mapping, number, rank)
        living.pieces[first:last] = replacement
        living.starts[first:last] = [piece.start for piece in replacement]

    def _add(self, space: int, start: int, end: int, mapping: int, born: int) -> _Piece:
        self._rows.extend((space, start, end, mapping, born))
        return _Piece(start, end, [len(self._rows) // 5 - 1])

    def _end_piece(self, space: int, piece: _Piece, rank: int) -> None:
        self._died.update(dict.fromkeys(piece.rows, rank))
        conflicts = self._replayed[space].conflicts
        if not conflicts or conflicts[-1] != rank:
            conflicts.append(rank)

    def _mapping_number(self, piece: _Piece) -> int:
        return self._rows[5 * piece.rows[0] + 3]

    def _mapping_of(self, piece: _Piece) -> Mapping:
        index = self._mapping_number(piece) * _INSERTED
        return Mapping(*self._inserted[index : index + len(Mapping._fields)])

    def _same(self, piece: _Piece, mapping: Mapping) -> bool:
        held = self._mapping_of(piece)
        return held.bias == mapping.bias and held.dso == mapping.dso

    def _overlay(self, space: int, overlapped: list[_Piece], mapping: Mapping, number: int, rank: int) -> list[_Piece]:
        """Put a mapping over living pieces: equal ones live on as parts of it, others end and keep only what sticks out."""
        result: list[_Piece] = []
        rows: list[int] = []
        start, end, uncovered = mapping.start, mapping.end, mapping.start
        for piece in overlapped:
            if self._same(piece, mapping):
                if uncovered < piece.start:
                    rows += self._add(space, uncovered, piece.start, number, rank).rows
                rows = _together(rows, piece.rows)
                start, end, uncovered = min(start, piece.start), max(end, piece.end), max(uncovered, piece.end)
                continue
            self._end_piece(space, piece, rank)
            held = self._mapping_number(piece)
            if piece.start < mapping.start:
                result.append(self._add(space, piece.start, mapping.start, held, rank))
            if piece.end > mapping.end:
                result.append(self._add(space, mapping.end, piece.end, held, rank))
        if uncovered < mapping.end:
            rows += self._add(space, uncovered, mapping.end, number, rank).rows
        return sorted([*result, _Piece(start, end, rows)])


def _together(few: list[int], many: list[int]) -> list[int]:
    """Both lists in one; the longer is used again: a region that grows a thousand times must not be copied each time."""
    if len(few) > len(many):
        few, many = many, few
    many += few
    return many


class PieceColumns(NamedTuple):
    """One row a piece: its space, range, mapping, and the ranks [born, died) between which it is there."""

    space: NDArray[np.int32]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    mapping: NDArray[np.int32]
    born: NDArray[np.int32]
    died: NDArray[np.int32]


class MappingColumns(NamedTuple):
    """One row a mapping: the fields of Mapping."""

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    bias: NDArray[np.uint64]
    dso: NDArray[np.int32]


class AddressSpaces:
    """Answers (space, address, rank) -> mapping for whole columns.

    The addresses at which any piece starts or ends are numbered; each space is
    cut into segments at its own; and each (segment, rank of birth) has the
    piece that holds the segment from then on.
    """

    def __init__(
        self,
        pieces: PieceColumns,
        mappings: MappingColumns,
        *,
        parent: NDArray[np.int32],
        parent_rank: NDArray[np.int32],
        conflicts: dict[int, list[int]],
    ) -> None:
        self._pieces = pieces
        self._parent = parent
        self._parent_rank = parent_rank
        self.conflicts = conflicts  # by space, where there are any: the ranks at which something that was there went away
        self.map_start, self.map_end, self.bias, self.dso = mappings
        self._bounds = distinct(np.concatenate([pieces.start, pieces.end]))
        self._cut()

    def dsos(self, space: int) -> Iterator[int]:
        """Every dso that was ever mapped in a space, or in those that it was forked from; some of them more than once."""
        while space >= 0:
            low, high = np.searchsorted(self._spaces_of_pieces, [space, space + 1])
            yield from self.dso[self._pieces.mapping[self._pieces_by_space[low:high]]].tolist()
            space = int(self._parent[space])

    @cached_property
    def _pieces_by_space(self) -> NDArray[np.int64]:
        return np.argsort(self._pieces.space, kind="stable")

    @cached_property
    def _spaces_of_pieces(self) -> NDArray[np.int32]:
        return self._pieces.space[self._pieces_by_space]

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
        todo = rows_where(space >= 0)
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
        packed = wide << _SHIFT | np.maximum(bound, 0).astype(np.uint64)
        segment = np.searchsorted(self._segments, packed, side="right") - 1
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
