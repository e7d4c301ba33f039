"""An index of the mappings of address spaces over time.

`AddressSpaces` is built from pieces of mappings, each a range of addresses and of ranks, without overlaps in a space.
It answers any number of (space, address, rank) queries with a few binary searches, without a loop over spaces.
"""

from __future__ import annotations

import bisect
from array import array
from functools import cached_property

import numpy as np

from perfpy.abi.columns import are_among, distinct, rows_where, slices_index
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray


_SHIFT: Final = np.uint64(32)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # spreads numbers that differ in few bits
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

    def contents(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return for each space a number that is equal for spaces with the same mappings in the end, and the rank from which on a space
        has all of them; FOREVER for spaces that lose some.
        """
        content, complete = np.zeros(len(self._forked_from), np.uint64), np.zeros(len(self._forked_from), np.int32)
        number = np.zeros(len(self._owner), np.uint64)
        for column in (self.map_start, self.map_end, self.bias, self.dso):
            number = (number ^ column.astype(np.uint64)) * _MIX
            number ^= number >> _SHIFT
        np.add.at(content, self._owner, number)
        np.maximum.at(complete, self._owner[self._pieces.mapping], self._pieces.born)
        complete[list(self.conflicts)] = FOREVER
        forks = rows_where(self._forked_from >= 0)
        for space, parent, rank in zip(forks.tolist(), self._forked_from[forks].tolist(), self._forked_at[forks].tolist(), strict=True):
            if complete[parent] > rank:  # the fork has only some of its parent's mappings
                complete[space] = FOREVER
            content[space : space + 1] += content[parent]  # sums of one element may overflow, those of numbers warn
        return content, complete

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
        short = rows_where(is_short)
        count = count[short]
        rows = np.repeat(short, count)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        self._entries, self._entry_piece = self._sort(self._first[rows] + offset, rows)
        self._levels = [] if is_short.all() else list(self._enter_long(rows_where(~is_short)))

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


# Divide the mappings of address spaces into pieces of address and time. Mappings, forks and removals arrive in the order in which they
# happened; times are the ranks of side-band records.
#
# A mapping that replaces others splits them as perf does. A mapping that repeats an existing one (the same file at the same addresses, or
# the growth of an anonymous region) does not end it.

_LAST_ADDRESS: Final = (1 << 64) - 1

_ROW: Final = 5  # numbers per piece: space, start, end, mapping, born
_INSERTED: Final = 6  # numbers per inserted mapping: those of Mapping, space, rank
_MOST_PARTS: Final = 8  # into which others divide a mapping, on average: nested mappings have very many


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

    Most spaces belong to short-lived processes, whose mappings do not overlap, or only as those of a library's segments do. Their mappings
    become pieces all at once. The mappings of the other spaces are replayed one by one.
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
        pieces, conflicts = self._make_pieces(inserted, lines)
        return AddressSpaces(
            pieces,
            MappingColumns(start.copy(), end.copy(), bias.copy(), dso.astype(np.int32)),
            owner=owner.astype(np.int32),
            parent=parent,
            parent_rank=parent_rank,
            conflicts=conflicts if lines is None else lines.conflicts_by_space(conflicts, distinct(pieces.space)),
            lines=lines,
        )

    def _make_pieces(self, inserted: NDArray[np.uint64], lines: ForkLines | None) -> tuple[PieceColumns, dict[int, list[int]]]:
        """Return all pieces, and for each space the ranks at which mappings were removed."""
        start, end, _, _, owner, rank = inserted.T
        space = owner if lines is None else lines.holder_of(owner.astype(np.int32), rank.astype(np.int32)).astype(np.uint64)
        simple = self._replay_contested(space, start, end)
        is_simple = are_among(space, simple)
        overlaid, conflicts = overlay(rows_where(is_simple), space, inserted)
        alone = rows_where(~(is_simple | are_among(space, np.array(sorted(self._replayed), np.uint64))))
        rows = np.array(self._rows, np.uint64).reshape(-1, _ROW)
        replayed = (*rows.T, np.array(self._died, np.int32))
        of_alone = (space[alone], start[alone], end[alone], alone, rank[alone], np.full(len(alone), FOREVER))
        of_space, first, last, mapping, born, died = (np.concatenate(parts) for parts in zip(replayed, of_alone, overlaid, strict=True))
        conflicts |= {number: living.conflicts for number, living in self._replayed.items() if living.conflicts}
        of_space, mapping, born, died = (column.astype(np.int32) for column in (of_space, mapping, born, died))
        return PieceColumns(of_space, first, last, mapping, born, died), conflicts

    def _replay_contested(self, space: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Replay the spaces whose mappings overlap in many parts; return those in which they overlap in few, for overlay()."""
        order = np.lexsort((start, space))
        neighbours = space[order[1:]] == space[order[:-1]]
        contested = distinct(space[order[1:]][neighbours & (end[order[:-1]] > start[order[1:]])])
        contested = contested[~are_among(contested, np.array(sorted(self._replayed), np.uint64))]
        is_contested = are_among(space, contested)
        rows = rows_where(is_contested)
        first, last, _ = _parts(space[rows], start[rows], end[rows])
        space_row = np.searchsorted(contested, space[rows])
        is_complex = np.bincount(space_row, last - first, len(contested)) > _MOST_PARTS * np.bincount(space_row, minlength=len(contested))
        self._replayed.update((number, _Space()) for number in contested[is_complex].tolist())
        rows = rows[is_complex[space_row]]
        for number, of_space in zip(rows.tolist(), space[rows].tolist(), strict=True):
            self._replay(number, of_space)
        return contested[~is_complex]

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


def overlay(
    rows: NDArray[np.int64], space: NDArray[np.uint64], inserted: NDArray[np.uint64]
) -> tuple[tuple[NDArray[Any], ...], dict[int, list[int]]]:
    """Return the columns of the pieces of some mappings, and for each space the ranks at which mappings were removed.

    Each part of a space between two bounds has a history, the mappings that cover it in their order. The result has the mapping of every
    address and rank that replaying has, in one pass over the parts of all mappings.

    Args:
        rows: the mappings, in order.
        space: of all mappings.
        inserted: see SpaceBuilder.
    """
    start, end, bias, dso, _, rank = inserted[rows].T
    first, last, bounds = _parts(space[rows], start, end)
    covering = np.repeat(np.arange(len(rows)), last - first)
    part = slices_index(first, last - first)[0]
    order = np.argsort(part, kind="stable")
    covering, part = covering[order], part[order]
    begins = np.ones(len(part), bool)  # a mapping that repeats the one before does not end it
    begins[1:] = part[1:] != part[:-1]
    for column in (dso, bias):
        begins[1:] |= column[covering[1:]] != column[covering[:-1]]
    covering, part = covering[begins], part[begins]
    died = np.full(len(part), FOREVER, np.int64)
    ended = rows_where(part[1:] == part[:-1])
    died[ended] = rank[covering[ended + 1]]
    removals = sorted({*zip(space[rows[covering[ended]]].tolist(), died[ended].tolist(), strict=True)})
    conflicts: dict[int, list[int]] = {}
    for number, removed_at in removals:
        conflicts.setdefault(number, []).append(removed_at)
    # Join the parts of a mapping that end together.
    order = np.lexsort((part, died, covering))
    covering, part, died = covering[order], part[order], died[order]
    is_head = np.ones(len(part) + 1, bool)
    is_head[1:-1] = (covering[1:] != covering[:-1]) | (died[1:] != died[:-1]) | (part[1:] != part[:-1] + 1)
    head, tail = rows_where(is_head[:-1]), rows_where(is_head[1:])
    chosen = covering[head]
    return (space[rows[chosen]], bounds[part[head]], bounds[part[tail] + 1], rows[chosen], rank[chosen], died[head]), conflicts


def _parts(
    space: NDArray[np.uint64], start: NDArray[np.uint64], end: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
    """Divide spaces at the bounds of their mappings; return each mapping's first part, the part after its last one, and all bounds."""
    spaces, bounds = np.concatenate([space, space]), np.concatenate([start, end])
    order = np.lexsort((bounds, spaces))
    spaces, bounds = spaces[order], bounds[order]
    is_new = np.ones(len(bounds), bool)
    is_new[1:] = (spaces[1:] != spaces[:-1]) | (bounds[1:] != bounds[:-1])
    number = np.empty(len(bounds), np.int64)
    number[order] = np.cumsum(is_new) - 1
    return number[: len(space)], number[len(space) :], bounds[is_new]


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


# Joining of long chains of forked address spaces. A forked address space starts as a copy of its parent's: an address that it has not
# mapped itself is looked up in the parent, as of the fork. In a chain of n forks that takes n steps. Chains are therefore joined into
# lines: a space, its child with the most descendants, that child's child with the most, and so on. Each space of a line continues the one
# before it at the fork. Later mappings of a space are not in the line, but in a space of their own, its tail, whose parent is the line. A
# lookup then visits at most 2 log2(n) lines and tails.

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
