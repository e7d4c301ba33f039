"""Divide the mappings of address spaces into pieces of address and time.

Mappings, forks and removals arrive in the order in which they happened; times are the ranks of side-band records. The result is
`AddressSpaces` (mapping_index).

A mapping that replaces others splits them as perf does. A mapping that repeats an existing one (the same file at the same addresses, or the
growth of an anonymous region) does not end it.
"""

from __future__ import annotations

import bisect
from array import array
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.startup import NamedTuple
from perfpy.symbols.tasks.fork_lines import FOREVER, find_lines
from perfpy.symbols.tasks.mapping_index import AddressSpaces, MappingColumns, PieceColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.tasks.fork_lines import ForkLines

_LAST_ADDRESS: Final = (1 << 64) - 1

_ROW: Final = 5  # numbers per piece: space, start, end, mapping, born
_INSERTED: Final = 6  # numbers per inserted mapping: those of Mapping, space, rank


class Mapping(NamedTuple):
    """The range [start, end) of an address space. `bias` converts an address to one within the Dso, by addition modulo 2^64."""

    start: int
    end: int
    bias: int
    dso: int


class _Space:
    """The current pieces of one address space, and the ranks of removals."""

    __slots__ = ("conflicts", "pieces")

    def __init__(self) -> None:
        self.pieces = LivingPieces()
        self.conflicts: list[int] = []


class SpaceBuilder:
    """A collection of mappings; `build` returns the index.

    Most spaces belong to short-lived processes without overlapping mappings. Their mappings become pieces all at once. The mappings of the
    other spaces are replayed one by one.
    """

    def __init__(self) -> None:
        self._parents = array("i")
        self._parent_ranks = array("i")
        self._inserted = array("Q")  # columns as for _INSERTED
        self._replayed: dict[int, _Space] = {}
        # Columns as for _ROW, and the rank at which each piece is replaced.
        self._rows = array("Q")
        self._died = array("i")

    def new_space(self, parent: int = -1, rank: int = 0, *, live: bool = False) -> int:
        """Create an address space; a fork's starts as a reference to its parent at `rank`.

        `live`: whether holder() and remove() will be called for it.
        """
        self._parents.append(parent)
        self._parent_ranks.append(rank)
        number = len(self._parents) - 1
        if live:
            self._replayed[number] = _Space()
        return number

    def new_spaces(self, parents: list[int], ranks: list[int]) -> None:
        """Create many address spaces that are not live."""
        self._parents.extend(parents)
        self._parent_ranks.extend(ranks)

    def insert_all(self, mappings: MappingColumns, space: NDArray[np.int32], rank: NDArray[np.int32]) -> None:
        """Insert many mappings, each into its space from its rank on. None of the spaces is live."""
        is_nonempty = mappings.end > mappings.start
        rows = np.empty((int(np.count_nonzero(is_nonempty)), _INSERTED), np.uint64)
        columns: tuple[NDArray[Any], ...] = (*mappings, space, rank)
        for index, column in enumerate(columns):
            rows[:, index] = column[is_nonempty]
        self._inserted.frombytes(rows.tobytes())

    def insert(self, space: int, mapping: Mapping, rank: int) -> None:
        """Map a range from `rank` on; overlapped mappings are truncated or split. As in perf, a range beyond the last address is empty."""
        if not mapping.start < mapping.end <= _LAST_ADDRESS:
            return
        self._inserted.extend((*mapping, space, rank))
        if space in self._replayed:
            self._replay(len(self._inserted) // _INSERTED - 1, space)

    def remove(self, space: int, address: int, rank: int) -> None:
        """Unmap the mapping that contains an address, from `rank` on."""
        living = self._replayed[space]
        for _, _, rows in living.pieces.take(address, address + 1):
            self._end_piece(living, rows, rank)

    def holder(self, space: int, address: int) -> Mapping | None:
        """Return the current mapping that contains an address."""
        piece = self._replayed[space].pieces.find(address)
        if piece is None:
            return None
        first = self._rows[_ROW * piece[2][0] + 3] * _INSERTED
        return Mapping(*self._inserted[first : first + len(Mapping._fields)])

    def build(self) -> AddressSpaces:
        """Return the index over everything inserted so far."""
        inserted = np.array(self._inserted, np.uint64).reshape(-1, _INSERTED)
        start, end, bias, dso, owner, _ = inserted.T
        parent, parent_rank = np.array(self._parents, np.int32), np.array(self._parent_ranks, np.int32)
        lines = find_lines(parent, parent_rank, list(self._replayed))
        pieces = self._make_pieces(inserted, lines)
        conflicts = {space: living.conflicts for space, living in self._replayed.items() if living.conflicts}
        return AddressSpaces(
            pieces,
            MappingColumns(start.copy(), end.copy(), bias.copy(), dso.astype(np.int32)),
            owner=owner.astype(np.int32),
            parent=parent,
            parent_rank=parent_rank,
            conflicts=conflicts if lines is None else lines.conflicts_by_space(conflicts, distinct(pieces.space)),
            lines=lines,
        )

    def _make_pieces(self, inserted: NDArray[np.uint64], lines: ForkLines | None) -> PieceColumns:
        start, end, _, _, owner, rank = inserted.T
        space = owner if lines is None else lines.holder_of(owner.astype(np.int32), rank.astype(np.int32)).astype(np.uint64)
        self._replay_contested(space, start, end)
        alone = rows_where(~np.isin(space, list(self._replayed)))
        rows = np.array(self._rows, np.uint64).reshape(-1, _ROW)
        died = np.concatenate([np.array(self._died, np.int32), np.full(len(alone), FOREVER, np.int32)])
        pieces = (space[alone], start[alone], end[alone], alone, rank[alone])
        of_space, first, last, mapping, born = (np.concatenate([rows[:, index], column]) for index, column in enumerate(pieces))
        return PieceColumns(
            space=of_space.astype(np.int32),
            start=first,
            end=last,
            mapping=mapping.astype(np.int32),
            born=born.astype(np.int32),
            died=died,
        )

    def _replay_contested(self, space: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64]) -> None:
        """Replay the spaces with overlapping mappings."""
        order = np.lexsort((start, space))
        neighbours = space[order[1:]] == space[order[:-1]]
        contested = distinct(space[order[1:]][neighbours & (end[order[:-1]] > start[order[1:]])])
        fresh = [number for number in contested.tolist() if number not in self._replayed]
        self._replayed.update((number, _Space()) for number in fresh)
        rows = rows_where(np.isin(space, fresh))
        for number, of_space in zip(rows.tolist(), space[rows].tolist(), strict=True):
            self._replay(number, of_space)

    def _replay(self, number: int, space: int) -> None:
        """Insert a mapping into the current state of a space."""
        offset = number * _INSERTED
        start, end, rank = self._inserted[offset], self._inserted[offset + 1], self._inserted[offset + 5]
        living = self._replayed[space]
        overlapped = living.pieces.take(start, end)
        if overlapped:
            living.pieces.put(self._overlay(space, living, overlapped, number, rank))
        else:
            living.pieces.put([(start, end, [self._add(space, start, end, number, rank)])])

    def _add(self, space: int, start: int, end: int, mapping: int, born: int) -> int:
        self._rows.extend((space, start, end, mapping, born))
        self._died.append(FOREVER)
        return len(self._died) - 1

    def _end_piece(self, living: _Space, rows: list[int], rank: int) -> None:
        for row in rows:
            self._died[row] = rank
        conflicts = living.conflicts
        if not conflicts or conflicts[-1] != rank:
            conflicts.append(rank)

    def _overlay(self, space: int, living: _Space, overlapped: list[Piece], number: int, rank: int) -> list[Piece]:
        """Put a mapping over current pieces: equal ones become parts of it, others end, and their uncovered ends become new pieces."""
        result: list[Piece] = []
        rows: list[int] = []
        inserted = self._inserted
        new_start, new_end, bias, dso = inserted[number * _INSERTED : number * _INSERTED + 4]
        start, end, uncovered = new_start, new_end, new_start
        for piece_start, piece_end, piece_rows in overlapped:
            held = self._rows[_ROW * piece_rows[0] + 3]
            if inserted[held * _INSERTED + 3] == dso and inserted[held * _INSERTED + 2] == bias:
                if uncovered < piece_start:
                    rows.append(self._add(space, uncovered, piece_start, number, rank))
                rows = _together(rows, piece_rows)
                start, end, uncovered = min(start, piece_start), max(end, piece_end), max(uncovered, piece_end)
                continue
            self._end_piece(living, piece_rows, rank)
            if piece_start < new_start:
                result.append((piece_start, new_start, [self._add(space, piece_start, new_start, held, rank)]))
            if piece_end > new_end:
                result.append((new_end, piece_end, [self._add(space, new_end, piece_end, held, rank)]))
        if uncovered < new_end:
            rows.append(self._add(space, uncovered, new_end, number, rank))
        result.append((start, end, rows))
        result.sort()
        return result


def _together(few: list[int], many: list[int]) -> list[int]:
    """Concatenate two lists by extending the longer one, so that a region that grows a thousand times is not copied each time."""
    if len(few) > len(many):
        few, many = many, few
    many += few
    return many


_LARGEST: Final = 1024  # pieces of a block
_BEYOND: Final = 1 << 64  # above all ends of pieces

#: a mapped range of one file at one offset: start, end, and the rows of its parts in the columns (a region grows part by part)
Piece: TypeAlias = "tuple[int, int, list[int]]"


class LivingPieces:
    """Pieces that do not overlap, by start address."""

    __slots__ = ("_blocks", "_heads")

    def __init__(self) -> None:
        self._blocks: list[list[Piece]] = []
        self._heads: list[int] = []  # the start of each block's first piece

    def find(self, address: int) -> Piece | None:
        """Return the piece that holds an address."""
        block = bisect.bisect_right(self._heads, address) - 1
        if block < 0:
            return None
        pieces = self._blocks[block]
        piece = pieces[bisect.bisect_right(pieces, (address, _BEYOND)) - 1]
        return piece if address < piece[1] else None

    def take(self, start: int, end: int) -> list[Piece]:
        """Remove and return the pieces that overlap a range."""
        block = max(bisect.bisect_right(self._heads, start) - 1, 0)
        overlap: list[Piece] = []
        while block < len(self._blocks) and self._heads[block] < end:
            pieces = self._blocks[block]
            first = bisect.bisect_right(pieces, (start, _BEYOND)) - 1
            if first < 0 or pieces[first][1] <= start:
                first += 1
            last = bisect.bisect_left(pieces, (end,), lo=first)
            overlap += pieces[first:last]
            del pieces[first:last]
            if not pieces:
                del self._blocks[block], self._heads[block]
                continue
            self._heads[block] = pieces[0][0]
            block += 1
        return overlap

    def put(self, new: list[Piece]) -> None:
        """Insert pieces, in order, into a gap."""
        if not self._blocks:
            self._blocks.append([])
            self._heads.append(0)
        block = max(bisect.bisect_right(self._heads, new[0][0]) - 1, 0)
        pieces = self._blocks[block]
        position = bisect.bisect_left(pieces, new[0])
        pieces[position:position] = new
        if len(pieces) > _LARGEST:
            middle = len(pieces) // 2
            self._blocks.insert(block + 1, pieces[middle:])
            self._heads.insert(block + 1, pieces[middle][0])
            del pieces[middle:]
        self._heads[block] = pieces[0][0]
