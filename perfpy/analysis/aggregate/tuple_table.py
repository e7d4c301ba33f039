"""Dense ids for tuples of numbers: equal rows of several columns get the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class TupleTable:
    """A table between tuples of numbers and dense ids.

    dense: the columns with small ids already (32 bits, not negative); the
    others get ids of their own first.
    """

    def __init__(self, dense: Sequence[bool]) -> None:
        self._values = [None if small else IdTable() for small in dense]
        self._pairs = [IdTable() for _ in dense]

    def __len__(self) -> int:
        return len(self._pairs[-1])

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return sum(table.nbytes for table in (*self._values, *self._pairs) if table is not None)

    def ids_and_new(self, columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the id of each row, and the rows where new ids first occur, in order of these ids."""
        ids, new = np.zeros(len(columns[0]), np.int32), np.zeros(0, np.int64)
        first = True
        for values, pairs, column in zip(self._values, self._pairs, columns, strict=True):
            small = column if values is None else values.ids(column.astype(np.int64, copy=False).view(np.uint64))
            packed = small.astype(np.uint64)
            if not first:
                packed |= ids.astype(np.uint64) << _HALF
                ids, new = pairs.ids_and_new(packed)
            elif len(columns) == 1:
                ids, new = pairs.ids_and_new(packed)
            else:
                ids = small.astype(np.int32, copy=False)
            first = False
        return ids, new

    def columns(self) -> list[NDArray[np.int64]]:
        """Return the numbers of each column for every id."""
        numbers = np.arange(len(self))
        columns: list[NDArray[np.int64]] = []
        for index in range(len(self._pairs) - 1, -1, -1):
            if index or len(self._pairs) == 1:
                packed = self._pairs[index].keys[numbers]
                small, numbers = (packed & _LOW).astype(np.int64), (packed >> _HALF).astype(np.int64)
            else:
                small = numbers
            values = self._values[index]
            columns.append(small if values is None else values.keys.view(np.int64)[small])
        return columns[::-1]
