"""The order in which perf delivers records, as one number per record: its key.

What enters: the time stamps of the records of a file, in the file's order, and
where its FINISHED_ROUND records are. What leaves: keys. The rule
(tools/perf/util/ordered-events.c): a record with a time stamp waits in a
queue; each FINISHED_ROUND delivers, in order of time, what is not later than
the latest time that had been seen at the FINISHED_ROUND before it; a record
without a time stamp is delivered when it is read; the end delivers the rest.

So what is delivered before a record is read has times up to a limit, the
`floor`; a record with an earlier time comes too late and follows all of those.
Sorting by (key, time, place in the file) is the order of delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        self._floor = 0  # everything up to this time has been delivered
        self._limit = 0  # what the next FINISHED_ROUND will deliver
        self._latest = 0  # the latest time seen

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The key of each of the next records.

        times: ns, 0 for records without; rounds: indexes of the
        FINISHED_ROUND records among them. A record without time has the key
        of the floor it was read at: what was delivered before has a lower one.
        """
        floors, counts = self._floors(times, rounds)
        lowest_each = np.array([floor + 1 if floor else 0 for floor in floors], np.uint64)
        return np.maximum(times, lowest_each if len(floors) == 1 else np.repeat(lowest_each, counts))

    def _floors(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """The floors in these records, and how many records are read at each."""
        floors = [self._floor]
        counts = []
        begin = 0
        for end in rounds.tolist():
            counts.append(end - begin)
            self._see(times[begin:end])
            self._floor, self._limit = max(self._floor, self._limit), self._latest
            floors.append(self._floor)
            begin = end
        self._see(times[begin:])
        counts.append(len(times) - begin)
        return floors, counts

    def _see(self, times: NDArray[np.uint64]) -> None:
        if len(times):
            self._latest = max(self._latest, int(times.max()))


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
