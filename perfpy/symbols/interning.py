"""Dense ids for 64-bit keys: the one hash table behind every group-by.

What enters: arrays of uint64 keys, batch after batch. What leaves: for each
key a small int32 id; equal keys get equal ids, new keys get the next ids in
the order in which they are first seen. `IdTable.keys` turns ids back to keys.

np.unique sorts; this probes an open table, which for a million keys of which
most were seen before takes a tenth of the time, and memory for the unique
keys only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]

# 2^64 divided by the golden ratio: multiplying by it spreads keys that differ in few bits
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NEXT_SPREAD = 0xD1342543DE82EF95  # makes the next multiplier of the last; both odd
_FIRST_BITS = 12
_EMPTY = -1


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
        self._slot_keys = np.zeros(1 << self._bits, np.uint64)
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        self._found: list[Keys] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> Keys:
        """The key of every id, as one uint64 array."""
        if len(self._found) != 1:
            self._found = [np.concatenate(self._found) if self._found else np.zeros(0, np.uint64)]
        return self._found[0]

    def ids(self, keys: NDArray[Any]) -> Ids:
        """Return the id of every key (uint64, any length), adding the ones not seen before."""
        return self.ids_and_new(keys)[0]

    def ids_and_new(self, keys: NDArray[Any]) -> tuple[Ids, NDArray[np.int64]]:
        """As `ids`, with the positions in `keys` at which each new id was first seen, in order of the new ids."""
        keys = np.ascontiguousarray(keys, np.uint64)
        ids, missing = self._find(keys)
        if not len(missing):
            return ids, missing
        unknown = keys[missing]
        first = np.flatnonzero(first_occurrences(unknown))
        self._add(unknown[first])
        ids[missing] = self._find(unknown)[0]
        return ids, missing[first]

    def _slots(self, keys: Keys) -> NDArray[np.int64]:
        return ((keys * _SPREAD) >> np.uint64(64 - self._bits)).astype(np.int64)

    def _find(self, keys: Keys) -> tuple[Ids, NDArray[np.int64]]:
        """Ids of the known keys, and the positions of the unknown ones."""
        slots = self._slots(keys)
        ids = self._slot_ids[slots]
        pending = np.flatnonzero((self._slot_keys[slots] != keys) & (ids != _EMPTY))
        slots = slots[pending]
        mask = len(self._slot_ids) - 1
        # linear probing: few keys collide, and each round looks only at those that still do
        while len(pending):
            slots = slots + 1 & mask
            probed = self._slot_ids[slots]
            ids[pending] = probed
            still = (self._slot_keys[slots] != keys[pending]) & (probed != _EMPTY)
            pending, slots = pending[still], slots[still]
        return ids, np.flatnonzero(ids == _EMPTY)

    def _add(self, fresh: Keys) -> None:
        self._found.append(fresh)
        self._count += len(fresh)
        if self._count * 4 > len(self._slot_ids):
            self._grow()
        else:
            self._place(fresh, np.arange(self._count - len(fresh), self._count, dtype=np.int32))

    def _grow(self) -> None:
        while self._count * 4 > 1 << self._bits:
            self._bits += 1
        self._slot_keys = np.zeros(1 << self._bits, np.uint64)
        self._slot_ids = np.full(1 << self._bits, _EMPTY, np.int32)
        self._place(self.keys, np.arange(self._count, dtype=np.int32))

    def _place(self, keys: Keys, ids: Ids) -> None:
        """Put distinct keys that are not in the table into free slots."""
        slots = self._slots(keys)
        mask = len(self._slot_ids) - 1
        while len(keys):
            free = self._slot_ids[slots] == _EMPTY
            # of several keys for one slot the last write wins; the others see it taken and move on
            self._slot_ids[slots[free]] = ids[free]
            placed = self._slot_ids[slots] == ids
            self._slot_keys[slots[placed]] = keys[placed]
            rest = ~placed
            keys, ids, slots = keys[rest], ids[rest], slots[rest] + 1 & mask
