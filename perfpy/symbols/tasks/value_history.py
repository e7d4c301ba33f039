"""Who has which value from which moment on.

What enters: columns of owners (pids, tids), ranks (moments, see
perfpy.symbols.tasks.address_space) and values. What leaves: ValueHistory, which answers
for whole columns of (owner, rank).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_WIDTH: Final = np.uint64(32)


class ValueHistory:
    """From `rank` on, `owner` has `value`, a row each; of equal owners and ranks the last row counts."""

    def __init__(self, owner: ArrayLike, rank: ArrayLike, value: ArrayLike) -> None:
        keys = _keys(np.asarray(owner, np.int64), np.asarray(rank, np.int64))
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], np.asarray(value, np.int32)[order]

    def find(self, owner: NDArray[Any], rank: NDArray[Any], default: int) -> NDArray[np.int32]:
        """The value of each owner at each rank; `default` before its first."""
        if not len(self._keys):
            return np.full(len(owner), default, np.int32)
        wanted = _keys(owner, rank)
        at = np.searchsorted(self._keys, wanted, side="right") - 1
        known = (at >= 0) & (self._keys[at] >> _WIDTH == wanted >> _WIDTH)
        return np.where(known, self._values[at], np.int32(default))


def _keys(owner: NDArray[Any], rank: NDArray[Any]) -> NDArray[np.uint64]:
    return owner.astype(np.uint32).astype(np.uint64) << _WIDTH | rank.astype(np.uint64)
