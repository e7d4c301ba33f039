"""The order in which perf delivers records, as one key per record.

The rule (tools/perf/util/ordered-events.c): a record with a time stamp waits in a
queue; each FINISHED_ROUND delivers, in order of time, the records not later than
the latest time before the previous FINISHED_ROUND; a record
without a time stamp is delivered when it is read; the end of the file delivers the rest.

So the records delivered before a record is read have times up to a limit, the
`floor`; a record with an earlier time is late and follows all of them.
Sorting by (key, time, offset in the file) gives the order of delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ONE: Final = np.uint64(1)
_LATEST: Final = np.uint64((1 << 64) - 1)


class Numbers:
    """Keys for files delivered in their own order: numbers, from 1 on."""

    def __init__(self) -> None:
        self._next = 1

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of the next records."""
        first = self._next
        self._next += len(times)
        return np.arange(first, self._next, dtype=np.uint64)


class Rounds:
    """The rounds of one file, followed from its first record to its last."""

    def __init__(self) -> None:
        self._floor = np.uint64(0)  # everything up to this time has been delivered
        self._limit = np.uint64(0)  # the next FINISHED_ROUND delivers up to this time
        self._latest = np.uint64(0)  # the latest time so far

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of the next records.

        A record without time gets the key of its floor: records delivered before have lower keys.

        Args:
            times: uint64[n], nanoseconds, 0 for none.
            rounds: the rows of the FINISHED_ROUND records.
        """
        if not len(times):
            return times
        begins = np.append(0, rounds)  # the first record at each floor
        floors = self._floors(times, begins)
        lowest_each = np.where(floors, np.minimum(floors, _LATEST - _ONE) + _ONE, floors)
        return np.maximum(times, lowest_each if len(floors) == 1 else np.repeat(lowest_each, np.diff(begins, append=len(times))))

    def _floors(self, times: NDArray[np.uint64], begins: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the floors in these records."""
        # A FINISHED_ROUND has no time: as the first record it also stands for the empty range before it.
        latest = np.maximum.accumulate(np.append(self._latest, np.maximum.reduceat(times, begins)).astype(np.uint64))
        delivered = np.append(np.array([self._floor, self._limit], np.uint64), latest[1:-1])[: len(begins)]
        floors: NDArray[np.uint64] = np.maximum.accumulate(delivered)
        if len(begins) > 1:
            self._floor, self._limit = floors[-1], latest[-2]
        self._latest = latest[-1]
        return floors


def delivery_order(keys: NDArray[np.uint64], times: NDArray[np.uint64]) -> NDArray[np.intp] | None:
    """Return the indexes that sort records from file order to order of delivery; None if they are sorted."""
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return None
    late = keys != times
    if late.any():
        return np.lexsort((times, keys))
    if bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")


class EqualTimes:
    """The offsets of a recording's side-band records, by key."""

    def __init__(self, key: NDArray[np.uint64], time: NDArray[np.uint64], offset: NDArray[np.int64]) -> None:
        """Keep the columns of records in order of delivery. Records without time, and late ones, precede all samples of their key."""
        on_time = time == key
        self._keys, self._offsets = key[on_time], offset[on_time]

    def settle(self, key: NDArray[np.uint64], offset: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of samples, lowered by one for a sample that comes before all records of its key in the file.

        A record applies to the samples with keys not below its own: so not to these.
        """
        if not len(key):
            return key
        first, last = int(self._keys.searchsorted(key.min(), "left")), int(self._keys.searchsorted(key.max(), "right"))
        if first == last:
            return key
        keys = self._keys[first:last]
        index = keys.searchsorted(key, "left")
        tied = np.flatnonzero(keys.take(index, mode="clip") == key)
        before = tied[offset[tied] < self._offsets[first:last][index[tied]]]
        if not len(before):
            return key
        settled = key.copy()
        settled[before] -= np.uint64(1)
        return settled
