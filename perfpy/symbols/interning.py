"""Dense int32 ids for 64-bit keys, and exact sums by them: the hash table of every group-by.

Equal keys get equal ids; new keys get the next ids in the order of first use. `IdTable.keys` maps ids back to keys.

np.unique sorts. This open-addressing table takes a tenth of the time for a million keys that are mostly known, and memory only for
distinct keys.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Growing, rows_where
from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]
    Ids = NDArray[np.int32]


# 2^64 divided by the golden ratio: this factor spreads keys that differ in few bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NEXT_SPREAD = 0xD1342543DE82EF95  # computes the next multiplier from the last; both are odd
_FIRST_BITS = 12
_EMPTY = -1
_WAITS = -2
_ROOM = 3  # minimum slots per id
_WORTH_TABLE = 4096  # values
_TABLE_ITEM = 4
_NEAR = 2
_SLOTS_OF_LOW = 8  # per key
_FIRST = 2048  # keys that an empty table takes first
_MANY = 4 * _FIRST


def first_occurrences(keys: Keys) -> NDArray[np.bool_]:
    """Mark the first occurrence of each key.

    Keys are scattered into a table in reverse, so that of equal keys the first is written last. A key that does not read back its own
    position is a repetition, or was overwritten by another key and is retried with another multiplier. Low keys are their own slots.
    """
    if (highest := int(keys.max(initial=0))) < _SLOTS_OF_LOW * len(keys):
        holder = np.empty(highest + 1, np.int32)
        positions = np.arange(len(keys), dtype=np.int32)
        slots = keys.view(np.int64)
        holder[slots[::-1]] = positions[::-1]
        return np.equal(holder[slots], positions)
    first = np.zeros(len(keys), np.bool_)
    bits = max(4, (2 * len(keys)).bit_length())
    holder = np.empty(1 << bits, np.int32)
    pending = np.arange(len(keys), dtype=np.int32)
    spread = _SPREAD
    while len(pending):
        trying = keys[pending]
        slots = ((trying * spread) >> np.uint64(64 - bits)).astype(np.int64)
        holder[slots[::-1]] = pending[::-1]
        winner = holder[slots]
        first[pending[winner == pending]] = True
        pending = pending[keys[winner] != trying]
        spread = np.uint64((int(spread) * _NEXT_SPREAD + 2) % (1 << 64))
    return first


def number_values(values: NDArray[Any]) -> tuple[NDArray[Any], Ids]:
    """Return the distinct integers in order of first appearance, and the number of each element's value among them.

    >>> distinct, numbers = number_values(np.array([7, -5, 7]))
    >>> distinct.tolist(), numbers.tolist()
    ([7, -5], [0, 1, 0])
    """
    if (near := _number_near_values(values)) is not None:
        return near
    table = IdTable()
    numbers = table.ids(values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64))
    return table.keys.view(np.int64 if values.dtype.kind == "i" else np.uint64), numbers


def _number_near_values(values: NDArray[Any]) -> tuple[NDArray[Any], Ids] | None:
    """Number values by a table of all numbers up to the highest, or None if it would be large, or if some are negative."""
    first = _first_of_near_values(values)
    if first is None:
        return None
    present = rows_where(first >= 0)
    distinct_values = present[np.argsort(first[present])]
    first[distinct_values] = np.arange(len(distinct_values), dtype=np.int32)
    return distinct_values.astype(np.int64 if values.dtype.kind == "i" else np.uint64), first.take(values)


def _first_of_near_values(values: NDArray[Any]) -> Ids | None:
    """Return the first row of each number up to the highest, _EMPTY for those without; None as _number_near_values() does."""
    if (
        len(values) < _WORTH_TABLE
        or values.dtype.itemsize < _TABLE_ITEM
        or int(values.min()) < 0
        or int(values.max()) > _NEAR * len(values)
    ):
        return None
    first = np.full(int(values.max()) + 1, _EMPTY, np.int32)
    first[values[::-1]] = np.arange(len(values), dtype=np.int32)[::-1]  # the last write counts: the first occurrence
    return first


def first_rows(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the first row of each distinct integer, by ascending row.

    >>> first_rows(np.array([7, 5, 7, 2])).tolist()
    [0, 1, 3]
    """
    if (near := _first_of_near_values(values)) is not None:
        return np.sort(near[near >= 0]).astype(np.int64)
    distinct, numbers = number_values(values)
    first = np.zeros(len(distinct), np.int64)
    first[numbers[::-1]] = np.arange(len(values))[::-1]  # the last write counts
    return first


class IdTable:
    """A mapping of uint64 keys to dense int32 ids in order of first appearance."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        self._keys = Growing(np.uint64)

    def __len__(self) -> int:
        return len(self._keys.values)

    @property
    def keys(self) -> Keys:
        """The key of every id, uint64[ids]."""
        keys: Keys = self._keys.values
        return keys

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._slot_ids.nbytes + self._keys.values.nbytes

    def ids(self, keys: NDArray[Any]) -> Ids:
        """Return the id of every key (uint64, any length), adding new keys."""
        return self.ids_and_new(keys)[0]

    def ids_and_new(self, keys: NDArray[Any]) -> tuple[Ids, NDArray[np.int64]]:
        """Return the ids, and the positions in `keys` at which new ids first occur, in order of the new ids."""
        keys = np.ascontiguousarray(keys, np.uint64)
        if not len(self) and len(keys) > _MANY:  # the first ones are often all there are, and known keys are found sooner than counted
            first_ids, first_new = self.ids_and_new(keys[:_FIRST])
            later_ids, later_new = self.ids_and_new(keys[_FIRST:])
            return np.concatenate([first_ids, later_ids]), np.concatenate([first_new, later_new + _FIRST])
        ids, missing, slots = self._find(keys)
        if not len(missing):
            return ids, missing
        unknown = keys[missing]
        if len(unknown) > len(self):  # many may be repetitions: reserve room for distinct keys only
            first = rows_where(first_occurrences(unknown))
            self._reserve(len(self) + len(first))
            self._add(unknown[first], self._slots(unknown[first]))
            ids[missing] = self._find(unknown)[0]
            return ids, missing[first]
        if self._reserve(len(self) + len(unknown)):
            slots = self._slots(unknown)
        ids[missing], first = self._add(unknown, slots)
        return ids, missing[first]

    def _slots(self, keys: Keys) -> NDArray[np.int64]:
        spread = keys * _SPREAD
        spread >>= np.uint64(64 - self._bits)
        return spread.view(np.int64)

    def _find(self, keys: Keys) -> tuple[Ids, NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of the known keys, the positions of the unknown ones, and the free slots at which their searches ended."""
        slots, slot_keys = self._slots(keys), self.keys
        ids = self._slot_ids.take(slots)
        if not len(slot_keys):
            missing = np.arange(len(keys))
            return ids, missing, slots
        # Unless a key is in its first slot, the slots up to it are taken. A free slot compares as different from every key.
        elsewhere = rows_where(slot_keys.take(ids, mode="clip") != keys)
        pending = elsewhere[ids[elsewhere] != _EMPTY]
        index = slots[pending]
        mask = len(self._slot_ids) - 1
        # Probe linearly. Few keys collide, and each round visits only those that still do.
        while len(pending):
            index = index + 1 & mask
            probed = self._slot_ids.take(index)
            ids[pending] = probed
            slots[pending] = index
            still = rows_where((slot_keys.take(probed, mode="clip") != keys[pending]) & (probed != _EMPTY))
            pending, index = pending[still], index[still]
        missing = elsewhere[ids[elsewhere] == _EMPTY]
        return ids, missing, slots[missing]

    def _add(self, keys: Keys, slots: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """Insert keys that are not in the table, possibly repeated; return their ids and a mask of the first occurrences.

        `slots`: where the search for each begins; no earlier slot is free.
        """
        mask = len(self._slot_ids) - 1
        holder = np.arange(len(keys), dtype=np.int32)  # the position of the first equal key
        pending, index = np.arange(len(keys)), slots.copy()
        while len(pending):
            # If several keys want one slot, the first is written last. Free slots hold pending keys as numbers below _EMPTY.
            free = rows_where(self._slot_ids[index] == _EMPTY)[::-1]
            self._slot_ids[index[free]] = _WAITS - pending[free]
            winner = _WAITS - self._slot_ids[index]
            is_settled = winner >= 0
            is_settled[is_settled] = keys[winner[is_settled]] == keys[pending[is_settled]]
            holder[pending[is_settled]] = winner[is_settled]
            slots[pending[is_settled]] = index[is_settled]
            displaced = rows_where(~is_settled)
            pending, index = pending[displaced], index[displaced] + 1 & mask
        first = rows_where(holder == np.arange(len(keys)))
        fresh = np.arange(len(self), len(self) + len(first), dtype=np.int32)
        self._slot_ids[slots[first]] = fresh
        self._keys.append(keys[first])
        ids = np.empty(len(keys), np.int32)
        ids[first] = fresh
        return ids[holder], first

    def _reserve(self, count: int) -> bool:
        """Make room for `count` ids; return whether existing ids moved."""
        if count * _ROOM <= len(self._slot_ids):
            return False
        while count * _ROOM > 1 << self._bits:
            self._bits += 1
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        keys, self._keys = self.keys, Growing(np.uint64)
        self._add(keys, self._slots(keys))
        return True


# Exact sums of 64-bit counts by group.


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

    def columns(self, *, is_narrow: bool = False) -> list[NDArray[Any]]:
        """Return the numbers of each column for every id: int64, or int32 for dense ones if is_narrow."""
        kind = np.int32 if is_narrow else np.int64
        numbers = np.arange(len(self), dtype=kind)
        columns: list[NDArray[Any]] = []
        for index in range(len(self._pairs) - 1, -1, -1):
            if index or len(self._pairs) == 1:
                packed = self._pairs[index].keys[numbers]
                small, numbers = (packed & _LOW).astype(kind), (packed >> _HALF).astype(kind)
            else:
                small = numbers
            values = self._values[index]
            columns.append(small if values is None else values.keys.view(np.int64)[small])
        return columns[::-1]
