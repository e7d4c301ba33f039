"""Samples with exactly the key of a record that names tasks or mappings: who comes first stands first in the file.

What enters: the side-band, then keys and offsets of samples. What leaves: keys
that put each such sample on the right side of the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EqualTimes:
    """The offsets of a recording's side-band records, by key."""

    def __init__(self, key: NDArray[np.uint64], time: NDArray[np.uint64], offset: NDArray[np.int64]) -> None:
        """Columns of records in order of delivery. Those without time, and late ones, come before all samples of their key."""
        on_time = time == key
        self._keys, self._offsets = key[on_time], offset[on_time]

    def settled(self, key: NDArray[np.uint64], offset: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The keys of samples; a sample that stands before all records of its key has one less.

        A record applies to samples with a key that is not below its own: so
        it does not to these.
        """
        if not len(key):
            return key
        first, last = int(self._keys.searchsorted(key.min(), "left")), int(self._keys.searchsorted(key.max(), "right"))
        if first == last:
            return key
        known = self._keys[first:last]
        index = known.searchsorted(key, "left")
        tied = np.flatnonzero(known.take(index, mode="clip") == key)
        before = tied[offset[tied] < self._offsets[first:last][index[tied]]]
        if not len(before):
            return key
        settled = key.copy()
        settled[before] -= np.uint64(1)
        return settled
