"""Values of owners (pids, tids) over time.

ValueHistory looks up whole columns of (owner, rank), DeliveredValues columns of (owner, delivery key). Ranks are numbers of records (see
perfpy.symbols.tasks.address_space), keys those of perfdata.reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_WIDTH: Final = np.uint64(32)
_RANK: Final = np.uint64(0xFFFFFFFF)
_MANY: Final = 4096  # rows from which on a table of all owners is cheaper than a search among the keys of all owners
_SPARSE: Final = 8  # the largest owner, by the number of rows, for which there is such a table


class ValueHistory:
    """Rows of (owner, rank, value): the owner has the value from the rank on. For equal owners and ranks the last row counts."""

    def __init__(self, owner: ArrayLike, rank: ArrayLike, value: ArrayLike) -> None:
        keys = _keys(np.asarray(owner, np.int64), np.asarray(rank, np.int64))
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], np.asarray(value, np.int32)[order]
        self._owners: NDArray[np.uint32] = (self._keys >> _WIDTH).astype(np.uint32)

    def find(self, owner: NDArray[Any], rank: NDArray[Any], default: int) -> NDArray[np.int32]:
        """Return the value of each owner at each rank, `default` before its first."""
        if not len(self._keys):
            return np.full(len(owner), default, np.int32)
        if len(owner) >= _MANY and int(self._owners[-1]) < _SPARSE * len(owner):
            return self._find_by_table(owner, rank, default)
        search_keys = _keys(owner, rank)
        index = np.searchsorted(self._keys, search_keys, side="right") - 1
        is_known = (index >= 0) & (self._keys[index] >> _WIDTH == search_keys >> _WIDTH)
        return np.where(is_known, self._values[index], np.int32(default))

    def _find_by_table(self, owner: NDArray[Any], rank: NDArray[Any], default: int) -> NDArray[np.int32]:
        """Search among the keys of each owner only: all owners halve their range at the same time."""
        highest = int(self._owners[-1])
        ends = np.searchsorted(self._owners, np.arange(-1, highest + 2), side="right").astype(np.int32)  # of each owner from -1 on
        owners = np.minimum(owner.astype(np.uint32), np.uint32(highest + 1))
        low, high = ends[owners], ends[1:][owners]  # the answer is before the first key of a higher rank
        begin = low.copy()
        ranks, searched = (self._keys & _RANK).astype(np.uint32), rank.astype(np.uint32)
        for _ in range(int(np.diff(ends).max()).bit_length()):
            middle = (low + high) >> 1
            is_lower = (low < high) & (ranks.take(middle, mode="clip") <= searched)
            low, high = np.where(is_lower, middle + 1, low), np.where(is_lower, high, middle)
        return np.where(low > begin, self._values.take(low - 1, mode="clip"), np.int32(default))


class DeliveredValues:
    """Rows of (owner, key, value): the owner has the value from the delivery key on. For equal owners and keys the last row counts."""

    def __init__(self, owner: ArrayLike, key: ArrayLike, value: ArrayLike) -> None:
        keys = np.asarray(key, np.uint64)
        self._keys = distinct(keys)
        self._history = ValueHistory(owner, self._ranks(keys), value)

    def find(self, owner: NDArray[Any], key: NDArray[np.uint64], default: int) -> NDArray[np.int32]:
        """Return the value of each owner at each key, `default` before its first."""
        return self._history.find(owner, self._ranks(key), default)

    def _ranks(self, key: NDArray[np.uint64]) -> NDArray[np.int64]:
        if len(key) >= _MANY > len(self._keys) and bool((key[1:] >= key[:-1]).all()):
            borders = np.searchsorted(key, self._keys)  # few searches among many rows
            return np.repeat(np.arange(len(self._keys) + 1), np.diff(borders, prepend=0, append=len(key)))
        return np.searchsorted(self._keys, key, side="right")


def _keys(owner: NDArray[Any], rank: NDArray[Any]) -> NDArray[np.uint64]:
    return owner.astype(np.uint32).astype(np.uint64) << _WIDTH | rank.astype(np.uint64)
