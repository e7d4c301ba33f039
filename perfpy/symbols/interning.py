"""Dense int32 ids for 64-bit keys: the hash table of every group-by.

Equal keys get equal ids; new keys get the next ids in the order of first use. `IdTable.keys` maps ids back to keys.

np.unique sorts. This open-addressing table takes a tenth of the time for a million keys that are mostly known, and memory only for
distinct keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Growing, rows_where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]
    Ids = NDArray[np.int32]

# 2^64 divided by the golden ratio: multiplying by it spreads keys that differ in few bits
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NEXT_SPREAD = 0xD1342543DE82EF95  # makes the next multiplier of the last; both odd
_FIRST_BITS = 12
_EMPTY = -1
_WAITS = -2
_ROOM = 3  # slots for each id, at least


def first_occurrences(keys: Keys) -> NDArray[np.bool_]:
    """Mark each key that no equal key stands before.

    Keys are scattered into a table, the first of equal ones written last;
    what does not find itself there is a repetition, or was pushed out by
    another key and tries again with another multiplier.
    """
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


class IdTable:
    """Hands out dense int32 ids for uint64 keys, in order of first appearance."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        self._keys = Growing(np.uint64)

    def __len__(self) -> int:
        return len(self._keys.values)

    @property
    def keys(self) -> Keys:
        """The key of every id, as one uint64 array."""
        keys: Keys = self._keys.values
        return keys

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._slot_ids.nbytes + self._keys.values.nbytes

    def ids(self, keys: NDArray[Any]) -> Ids:
        """Return the id of every key (uint64, any length), adding the ones not seen before."""
        return self.ids_and_new(keys)[0]

    def ids_and_new(self, keys: NDArray[Any]) -> tuple[Ids, NDArray[np.int64]]:
        """As `ids`, with the positions in `keys` at which each new id was first seen, in order of the new ids."""
        keys = np.ascontiguousarray(keys, np.uint64)
        ids, missing, slots = self._find(keys)
        if not len(missing):
            return ids, missing
        unknown = keys[missing]
        if len(unknown) > len(self):  # many of these may be repetitions: room is made for what is new only
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
        """Ids of the known keys, the positions of the unknown ones, and the free slots at which the search for these ended."""
        slots, known = self._slots(keys), self.keys
        ids = self._slot_ids.take(slots)
        if not len(known):
            missing = np.arange(len(keys))
            return ids, missing, slots
        # a key is in no slot but its first, or behind slots that are taken: what a free one is compared with differs
        elsewhere = rows_where(known.take(ids, mode="clip") != keys)
        pending = elsewhere[ids[elsewhere] != _EMPTY]
        index = slots[pending]
        mask = len(self._slot_ids) - 1
        # linear probing: few keys collide, and each round looks only at those that still do
        while len(pending):
            index = index + 1 & mask
            probed = self._slot_ids.take(index)
            ids[pending] = probed
            slots[pending] = index
            still = rows_where((known.take(probed, mode="clip") != keys[pending]) & (probed != _EMPTY))
            pending, index = pending[still], index[still]
        missing = elsewhere[ids[elsewhere] == _EMPTY]
        return ids, missing, slots[missing]

    def _add(self, keys: Keys, slots: NDArray[np.int64]) -> tuple[Ids, NDArray[np.int64]]:
        """Put keys that are not in the table, some perhaps repeated, into it; returns their ids, and which are no repetitions.

        slots: where the search for each begins; none of those before is free.
        """
        mask = len(self._slot_ids) - 1
        holder = np.arange(len(keys), dtype=np.int32)  # the position of the first key that is equal
        pending, index = np.arange(len(keys)), slots.copy()
        while len(pending):
            # where several want one slot the first is written last; free slots hold what they wait for as numbers below _EMPTY
            free = rows_where(self._slot_ids[index] == _EMPTY)[::-1]
            self._slot_ids[index[free]] = _WAITS - pending[free]
            winner = _WAITS - self._slot_ids[index]
            mine = winner >= 0
            mine[mine] = keys[winner[mine]] == keys[pending[mine]]
            holder[pending[mine]] = winner[mine]
            slots[pending[mine]] = index[mine]
            rest = rows_where(~mine)
            pending, index = pending[rest], index[rest] + 1 & mask
        first = rows_where(holder == np.arange(len(keys)))
        fresh = np.arange(len(self), len(self) + len(first), dtype=np.int32)
        self._slot_ids[slots[first]] = fresh
        self._keys.append(keys[first])
        ids = np.empty(len(keys), np.int32)
        ids[first] = fresh
        return ids[holder], first

    def _reserve(self, count: int) -> bool:
        """Make room for so many ids; whether that moved those that are there."""
        if count * _ROOM <= len(self._slot_ids):
            return False
        while count * _ROOM > 1 << self._bits:
            self._bits += 1
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        keys, self._keys = self.keys, Growing(np.uint64)
        self._add(keys, self._slots(keys))
        return True
