"""Exact sums of 64-bit counts by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# float64, which bincount adds in, is exact up to here
_EXACT = 1 << 53
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


def sum_by(groups: NDArray[Any], values: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Sum integers by group (ids below `size`): int64[size], exact; sums beyond 64 bits overflow."""
    if not len(values):
        return np.zeros(size, np.int64)
    highest, lowest = int(values.max()), int(values.min())
    if highest == lowest and 0 <= highest < _EXACT:  # as the periods of a clock's samples are
        return count_by(groups, size) * highest
    if highest * len(values) < _EXACT and lowest >= 0:
        return np.bincount(groups, weights=values, minlength=size).astype(np.int64)
    wide = values.astype(np.uint64)
    low = np.bincount(groups, weights=wide & _LOW_HALF, minlength=size).astype(np.int64)
    high = np.bincount(groups, weights=wide >> _HALF_BITS, minlength=size).astype(np.int64)
    return (high << 32) + low


def count_by(groups: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Count how often each id below `size` occurs."""
    return np.bincount(groups, minlength=size).astype(np.int64, copy=False)


# a batch is added in place if there are four times more groups than values
_SPARSE = 4


class GroupSums:
    """Running sums for a growing number of groups."""

    def __init__(self) -> None:
        self._totals = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._totals.nbytes

    def add(self, groups: NDArray[Any], values: NDArray[Any] | None, size: int) -> None:
        """Add one batch; `values` None counts. `size` is the current number of groups."""
        if size > len(self._totals):
            totals = np.zeros(max(size, 2 * len(self._totals)), np.int64)  # unused pages take no memory
            totals[: len(self._totals)] = self._totals
            self._totals = totals
        if size > _SPARSE * len(groups):
            np.add.at(self._totals, groups, 1 if values is None else values.astype(np.int64))
        else:
            self._totals[:size] += count_by(groups, size) if values is None else sum_by(groups, values, size)

    def totals(self, size: int) -> NDArray[np.int64]:
        """Return the sums of all groups, `size` of them."""
        short = size - len(self._totals)
        return np.concatenate([self._totals, np.zeros(short, np.int64)]) if short > 0 else self._totals[:size]


# Dense ids for tuples of numbers: equal rows of several columns get the same id.


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
