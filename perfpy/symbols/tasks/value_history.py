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


class ValueHistory:
    """Rows of (owner, rank, value): the owner has the value from the rank on. For equal owners and ranks the last row counts."""

    def __init__(self, owner: ArrayLike, rank: ArrayLike, value: ArrayLike) -> None:
        keys = _keys(np.asarray(owner, np.int64), np.asarray(rank, np.int64))
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], np.asarray(value, np.int32)[order]

    def find(self, owner: NDArray[Any], rank: NDArray[Any], default: int) -> NDArray[np.int32]:
        """Return the value of each owner at each rank, `default` before its first."""
        if not len(self._keys):
            return np.full(len(owner), default, np.int32)
        search_keys = _keys(owner, rank)
        index = np.searchsorted(self._keys, search_keys, side="right") - 1
        is_known = (index >= 0) & (self._keys[index] >> _WIDTH == search_keys >> _WIDTH)
        return np.where(is_known, self._values[index], np.int32(default))


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
        return np.searchsorted(self._keys, key, side="right")


def _keys(owner: NDArray[Any], rank: NDArray[Any]) -> NDArray[np.uint64]:
    return owner.astype(np.uint32).astype(np.uint64) << _WIDTH | rank.astype(np.uint64)
