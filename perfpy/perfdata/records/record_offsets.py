"""RecordOffsets: where the records of a chunk begin, packed for keeping.

What enters: the starts of records in a buffer. What leaves: RecordOffsets, two bytes a
record, or a few numbers where records of one size follow each other; and the
starts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORTH = 16  # records of one size in a row, on average, from which on runs are kept instead of sizes


class RecordOffsets(NamedTuple):
    """first: the first start; distances: from one start to the next, in words; counts: how often each step is taken (None: once)."""

    first: int
    distances: NDArray[np.uint16]
    counts: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The memory that is held."""
        return self.distances.nbytes + (0 if self.counts is None else self.counts.nbytes)

    def starts(self) -> NDArray[np.int64]:
        """The starts in bytes."""
        distances = self.distances if self.counts is None else np.repeat(self.distances, self.counts)
        starts = np.empty(len(distances) + 1, np.int64)
        starts[0] = self.first >> 3
        np.cumsum(distances, out=starts[1:])
        starts[1:] += starts[0]
        return starts << 3


def packed(starts: NDArray[np.int64]) -> RecordOffsets | None:
    """The starts (bytes, at least one), packed; None where that cannot be: they are no multiples of 8, or too far apart."""
    distances = np.diff(starts) >> 3
    if np.bitwise_or.reduce(starts) & 7 or (len(distances) and int(distances.max()) > 0xFFFF):
        return None
    small = distances.astype(np.uint16)
    lasts = np.flatnonzero(small[1:] != small[:-1])
    if len(lasts) * _WORTH > len(small):
        return RecordOffsets(int(starts[0]), small, None)
    ends = np.append(lasts, len(small) - 1) + 1 if len(small) else np.zeros(0, np.int64)
    return RecordOffsets(int(starts[0]), small[ends - 1], np.diff(ends, prepend=0))
