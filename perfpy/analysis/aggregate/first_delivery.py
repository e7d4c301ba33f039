"""Find the first delivered sample of each row, from batches in the order of the file.

So rows can be sorted into the order in which perf creates them, although the samples are never sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.analysis.samples.sample_view import DeliveryOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView

_NEVER: Final = ~np.uint64(0)


class FirstDelivery:
    """The first sample of each row: its delivery order and its thread."""

    def __init__(self) -> None:
        self._rows_with_sample = 0  # all rows below have had a sample
        self._latest = np.uint64(0)  # the highest key of all samples
        self._size = 0  # rows; there is room for more
        self._key, self._time = (np.zeros(0, np.uint64) for _ in range(2))
        self._ordinal, self._tid = (np.zeros(0, np.int64) for _ in range(2))

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._key.nbytes + self._time.nbytes + self._ordinal.nbytes + self._tid.nbytes

    def add(self, ids: NDArray[np.int32], size: int, samples: SampleView) -> None:
        """Add a batch: the row of each sample, `size` rows so far. Its ordinals follow those of earlier batches."""
        self.add_moments(ids, size, samples.delivery, samples.column("tid"))

    def add_moments(self, ids: NDArray[np.int32], size: int, when: DeliveryOrder, tid: NDArray[Any]) -> None:
        """Add a batch by its delivery order and the thread of each sample."""
        if size > self._size:
            self._grow(size)
        key, time, ordinal = when
        rows = rows_where(ids >= self._rows_with_sample) if self._follow(key) else rows_where(key <= self._key[ids])
        rows = rows[(key[rows] < self._key[ids[rows]]) | (time[rows] < self._time[ids[rows]])]
        if not len(rows):
            return
        rows = rows[np.lexsort((time[rows], key[rows]))[::-1]]  # backwards, so that the first one is written last
        updated = ids[rows]
        self._key[updated], self._time[updated], self._ordinal[updated] = key[rows], time[rows], ordinal[rows]
        self._tid[updated] = tid[rows]
        without = rows_where(self._key[self._rows_with_sample : size] == _NEVER)
        self._rows_with_sample = self._rows_with_sample + int(without[0]) if len(without) else size

    def _follow(self, key: NDArray[np.uint64]) -> bool:
        """Whether these samples follow all others, in order: then only samples of new rows can be first ones."""
        if not len(key):
            return False
        before, self._latest = self._latest, max(self._latest, key.max())
        return bool(key[0] > before) and bool((key[1:] > key[:-1]).all())

    def _grow(self, size: int) -> None:
        """Extend the arrays to `size` rows."""
        if size > len(self._key):
            room, old = max(size, 2 * len(self._key)), slice(self._size)
            self._key, self._time, self._ordinal, self._tid = (
                _enlarge(values[old], room) for values in (self._key, self._time, self._ordinal, self._tid)
            )
        added = slice(self._size, size)
        self._key[added], self._time[added], self._ordinal[added], self._tid[added] = _NEVER, _NEVER, 0, 0
        self._size = size

    def first_samples(self, size: int) -> tuple[DeliveryOrder, NDArray[np.int64]]:
        """Return the delivery order and the thread of the first `size` rows."""
        return DeliveryOrder(self._key[:size], self._time[:size], self._ordinal[:size]), self._tid[:size]


def _enlarge(values: NDArray[Any], room: int) -> NDArray[Any]:
    """Copy the values into a larger array, whose unused pages take no memory."""
    grown = np.empty(room, values.dtype)
    grown[: len(values)] = values
    return grown
