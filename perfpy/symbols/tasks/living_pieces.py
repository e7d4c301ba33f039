"""The ranges of one address space that live, in order, in blocks: one list of all would be moved at each change."""

from __future__ import annotations

import bisect
from typing import Final, TypeAlias

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
