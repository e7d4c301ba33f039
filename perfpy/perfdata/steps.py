"""Steps: where the records of a chunk begin, packed for keeping.

What enters: the starts of records in a buffer. What leaves: Steps, two bytes a
record, or a few numbers where records of one size follow each other; and the
starts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORTH = 16  # records of one size in a row, on average, from which on runs are kept instead of sizes


class Steps(NamedTuple):
    """first: the first start; steps: from one start to the next, in words; counts: how often each step is taken (None: once)."""

    first: int
    steps: NDArray[np.uint16]
    counts: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The memory that is held."""
        return self.steps.nbytes + (0 if self.counts is None else self.counts.nbytes)

    def starts(self) -> NDArray[np.int64]:
        """The starts in bytes."""
        steps = self.steps if self.counts is None else np.repeat(self.steps, self.counts)
        starts = np.empty(len(steps) + 1, np.int64)
        starts[0] = self.first >> 3
        np.cumsum(steps, out=starts[1:])
        starts[1:] += starts[0]
        return starts << 3


def packed(starts: NDArray[np.int64]) -> Steps | None:
    """The starts (bytes, at least one), packed; None where that cannot be: they are no multiples of 8, or too far apart."""
    steps = np.diff(starts) >> 3
    if np.bitwise_or.reduce(starts) & 7 or (len(steps) and int(steps.max()) > 0xFFFF):
        return None
    small = steps.astype(np.uint16)
    lasts = np.flatnonzero(small[1:] != small[:-1])
    if len(lasts) * _WORTH > len(small):
        return Steps(int(starts[0]), small, None)
    ends = np.append(lasts, len(small) - 1) + 1 if len(small) else np.zeros(0, np.int64)
    return Steps(int(starts[0]), small[ends - 1], np.diff(ends, prepend=0))
