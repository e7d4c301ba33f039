"""When the first sample of each row was delivered.

What enters: batches of samples, each with its row, in the order of the file.
What leaves: for each row the moment and the thread of the sample that perf
would deliver first. So rows can be put in the order in which perf makes them,
though nobody put the samples in order.
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
    """The first sample of each row: when it is delivered, and of which thread it is."""

    def __init__(self) -> None:
        self._known = 0  # all rows below have had a sample
        self._latest = np.uint64(0)  # the highest key of all samples
        self._size = 0  # rows; there is room for more
        self._key, self._time = (np.zeros(0, np.uint64) for _ in range(2))
        self._ordinal, self._tid = (np.zeros(0, np.int64) for _ in range(2))

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._key.nbytes + self._time.nbytes + self._ordinal.nbytes + self._tid.nbytes

    def add(self, ids: NDArray[np.int32], size: int, samples: SampleView) -> None:
        """See a batch: the row of each sample, `size` rows being known. Its ordinals come after those of the batches before."""
        self.add_moments(ids, size, samples.delivery, samples.column("tid"))

    def add_moments(self, ids: NDArray[np.int32], size: int, when: DeliveryOrder, tid: NDArray[Any]) -> None:
        """The same of moments, and the thread of each."""
        if size > self._size:
            self._grow(size)
        key, time, ordinal = when
        rows = rows_where(ids >= self._known) if self._follow(key) else rows_where(key <= self._key[ids])
        rows = rows[(key[rows] < self._key[ids[rows]]) | (time[rows] < self._time[ids[rows]])]
        if not len(rows):
            return
        rows = rows[np.lexsort((time[rows], key[rows]))[::-1]]  # backwards: the first one is written last
        where = ids[rows]
        self._key[where], self._time[where], self._ordinal[where] = key[rows], time[rows], ordinal[rows]
        self._tid[where] = tid[rows]
        without = rows_where(self._key[self._known : size] == _NEVER)
        self._known = self._known + int(without[0]) if len(without) else size

    def _follow(self, key: NDArray[np.uint64]) -> bool:
        """Whether these samples come after all others, one after the other: then only those of new rows can be first ones."""
        if not len(key):
            return False
        before, self._latest = self._latest, max(self._latest, key.max())
        return bool(key[0] > before) and bool((key[1:] > key[:-1]).all())

    def _grow(self, size: int) -> None:
        """Know so many rows."""
        if size > len(self._key):
            room, known = max(size, 2 * len(self._key)), slice(self._size)
            self._key, self._time, self._ordinal, self._tid = (
                _with_room(values[known], room) for values in (self._key, self._time, self._ordinal, self._tid)
            )
        more = slice(self._size, size)
        self._key[more], self._time[more], self._ordinal[more], self._tid[more] = _NEVER, _NEVER, 0, 0
        self._size = size

    def found(self, size: int) -> tuple[DeliveryOrder, NDArray[np.int64]]:
        """(when, which thread) for the first `size` rows."""
        return DeliveryOrder(self._key[:size], self._time[:size], self._ordinal[:size]), self._tid[:size]


def _with_room(values: NDArray[Any], room: int) -> NDArray[Any]:
    """The same values, and room for more, which takes no memory as long as nothing is written to it."""
    grown = np.empty(room, values.dtype)
    grown[: len(values)] = values
    return grown
