"""The order in which perf delivers records, as one number per record: its key.

What enters: the time stamps of the records of a file, in the file's order, and
where its FINISHED_ROUND records are. What leaves: keys. The rule
(tools/perf/util/ordered-events.c): a record with a time stamp waits in a
queue; each FINISHED_ROUND delivers, in order of time, what is not later than
the latest time that had been seen at the FINISHED_ROUND before it; a record
without a time stamp is delivered when it is read; the end delivers the rest.

So what is delivered before a record is read has times up to a limit, the
`floor`; a record with an earlier time comes too late and follows all of those.
Sorting by (key, time, offset in the file) is the order of delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ONE: Final = np.uint64(1)
_LATEST: Final = np.uint64((1 << 64) - 1)


class Numbers:
    """Keys for files whose records are delivered as they stand: numbers, from 1 on."""

    def __init__(self) -> None:
        self._next = 1

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The key of each of the next records, of which only the number matters."""
        first = self._next
        self._next += len(times)
        return np.arange(first, self._next, dtype=np.uint64)


class Rounds:
    """Follows the rounds of one file from its first record to its last."""

    def __init__(self) -> None:
        self._floor = np.uint64(0)  # everything up to this time has been delivered
        self._limit = np.uint64(0)  # what the next FINISHED_ROUND will deliver
        self._latest = np.uint64(0)  # the latest time seen

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The key of each of the next records.

        times: ns, 0 for records without; rounds: indexes of the
        FINISHED_ROUND records among them. A record without time has the key
        of the floor it was read at: what was delivered before has a lower one.
        """
        if not len(times):
            return times
        begins = np.append(0, rounds)  # of the records that are read at each floor
        floors = self._floors(times, begins)
        lowest_each = np.where(floors, np.minimum(floors, _LATEST - _ONE) + _ONE, floors)
        return np.maximum(times, lowest_each if len(floors) == 1 else np.repeat(lowest_each, np.diff(begins, append=len(times))))

    def _floors(self, times: NDArray[np.uint64], begins: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The floors in these records."""
        # a FINISHED_ROUND has no time: where it is the first record, it stands for the none before it, too
        seen = np.maximum.accumulate(np.append(self._latest, np.maximum.reduceat(times, begins)).astype(np.uint64))
        delivered = np.append(np.array([self._floor, self._limit], np.uint64), seen[1:-1])[: len(begins)]
        floors: NDArray[np.uint64] = np.maximum.accumulate(delivered)
        if len(begins) > 1:
            self._floor, self._limit = floors[-1], seen[-2]
        self._latest = seen[-1]
        return floors


def delivery_order(keys: NDArray[np.uint64], times: NDArray[np.uint64]) -> NDArray[np.intp] | None:
    """The indexes that put records, given in the order of the file, in order of delivery; None when they are already."""
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return None
    late = keys != times
    if late.any():
        return np.lexsort((times, keys))
    if bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")
