"""The comms of threads over time, by following records of comms, forks and exits; bounded, for streams without an end.

Other than perfpy.symbols.tasks.address_space.TaskTimeline it forgets the past: it knows the comms at the beginning of a batch and their
changes in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from perfpy.abi.columns import grouped, rows_where
from perfpy.tracing.grouped_values import GroupedValues

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_IDLE: Final = "swapper"
_MOST_COMMS: Final = 1 << 16


class ThreadNames(Protocol):
    """The comms of threads over time; perfpy.symbols.tasks.address_space.TaskTimeline is one."""

    comms: list[str]

    def comm_ids(self, tid: NDArray[np.int32], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread at each key, as indexes into `comms`; ":TID" for unnamed threads."""


class FollowedComms:
    """The comms of threads.

    Args:
        read_comm: returns the comm that a thread has now, "" if it has ended.

    Attributes:
        comms: texts, which comm_ids() refers to.
    """

    def __init__(self, read_comm: Callable[[int], str] = lambda _tid: "") -> None:
        self._read_comm = read_comm
        self.comms: list[str] = []
        self._numbers: dict[str, int] = {}
        self._now: dict[int, str] = {0: _IDLE}
        self._last: dict[int, str] = {}  # of threads that ended
        self._changes: dict[int, list[tuple[int, str]]] = {}  # tid -> (key, comm from then on; the first from 0), "" after its end

    def begin_batch(self) -> None:
        """Forget when comms changed, and the threads that ended."""
        self._changes = {}
        if len(self.comms) > _MOST_COMMS:
            self.comms, self._numbers = [], {}

    def name(self, tid: int, comm: str, key: int = 0) -> None:
        """A thread has this comm from a key on."""
        before = self._now.get(tid, "")
        if key:
            self._changes.setdefault(tid, [(0, before)]).append((key, comm))
        if comm:
            self._now[tid] = comm
        elif (last := self._now.pop(tid, "")) and len(self._last) < _MOST_COMMS:
            self._last[tid] = last

    def fork(self, parent: int, child: int, key: int) -> None:
        """A new thread has the comm of its parent."""
        self.name(child, self._known(parent), key)

    def end(self, tid: int, key: int) -> None:
        """A thread ends and loses its comm."""
        self.name(tid, "", key)

    def last_comm(self, tid: int) -> str:
        """Return the comm of a thread now; ":TID" if it is unknown."""
        return self._known(tid) or f":{tid}"

    def final_comm(self, tid: int) -> str:
        """Return the last comm of a thread, also if it has ended."""
        return self._known(tid) or self._last.get(tid, f":{tid}")

    def _known(self, tid: int) -> str:
        comm = self._now.get(tid, "")
        if not comm and tid not in self._changes and (comm := self._read_comm(tid)):
            self._now[tid] = comm
        return comm

    def comm_ids(self, tid: NDArray[np.int32], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread at each key, as indexes into `comms`; ":TID" for unnamed threads."""
        tids, which = grouped(tid)
        ids = np.array([self._number(self.last_comm(one)) for one in tids.tolist()], np.int32)[which]
        changes = [(one, key, comm) for one in tids.tolist() for key, comm in self._changes.get(one, ())]
        if changes:
            changed, keys, comms = zip(*changes, strict=True)
            starts = GroupedValues(np.array(changed, np.int64), np.array(keys, np.uint64))
            numbers = np.array([self._number(comm or f":{one}") for one, comm in zip(changed, comms, strict=True)], np.int32)[starts.order]
            found = starts.find(tid.astype(np.int64), key, "right")
            rows = rows_where(found.begin < found.end)
            ids[rows] = numbers[found.position[rows] - 1]
        return ids

    def _number(self, comm: str) -> int:
        number = self._numbers.get(comm)
        if number is None:
            number = self._numbers[comm] = len(self.comms)
            self.comms.append(comm)
        return number
