"""Read the same field of many records in one buffer.

Records of one size mostly form long runs. A run is read with a stride instead of an index, in half the time and without evicting the
buffer from the processor's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORTH: Final = 512  # average records in a run that make strides worthwhile
_SHORTEST: Final = 8


class _LongRows(NamedTuple):
    """Runs of records of equal size.

    Attributes:
        step: the size of a record in bytes
        begins, ends: record numbers of each run
    """

    step: int
    begins: list[int]
    ends: list[int]


class RecordStarts:
    """The starts of records: ascending byte offsets, multiples of 8."""

    __slots__ = ("_rows", "starts")

    def __init__(self, starts: NDArray[np.int64]) -> None:
        self.starts = starts
        self._rows = _rows_of(starts) if len(starts) >= _WORTH else None

    def column(self, values: NDArray[Any], offset: int) -> NDArray[Any]:
        """Return a copy of the values at `offset` bytes after each start. `values` is the buffer as numbers of one size.

        >>> RecordStarts(np.array([0, 8, 24])).column(np.arange(6, dtype="<u8"), 8).tolist()
        [1, 2, 4]
        """
        width = values.itemsize
        if self._rows is None:
            return values[offset // width :].take(self.starts >> width.bit_length() - 1)
        step, begins, ends = self._rows
        column = np.empty(len(self.starts), values.dtype)
        for begin, end, start in zip(begins, ends, self.starts[begins].tolist(), strict=True):
            column[begin:end] = values[(start + offset) // width :: step // width][: end - begin]
        return column


def _rows_of(starts: NDArray[np.int64]) -> _LongRows | None:
    """Return the runs of records; None if they are short, or their records differ in size."""
    step = int(starts[1]) - int(starts[0])
    if step < _SHORTEST or step & 7:
        return None
    others = (starts[1:] - starts[:-1] != step).nonzero()[0]
    if (len(others) + 1) * _WORTH > len(starts):
        return None
    borders = (others + 1).tolist()
    return _LongRows(step, [0, *borders], [*borders, len(starts)])
