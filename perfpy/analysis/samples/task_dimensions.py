"""The tasks of samples at their moments, as numbers that are equal for equal states."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import MISC_KERNEL
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.symbols.tasks.address_space import TaskTimeline

# odd and without a pattern, so that sums of products with it collide by accident once in 2^60 pairs
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)
_WORTH: Final = 4  # average samples of one task in a row from which on runs are looked up instead of samples
_SAMPLES_A_TASK: Final = 8  # with fewer samples per task, the states of all tasks are not computed

NumberT = TypeVar("NumberT", np.int64, np.uint64)


class TaskStates:
    """The states of a batch's tasks, computed once for each task and moment."""

    def __init__(self, timeline: TaskTimeline, pid: NDArray[Any], tid: NDArray[Any], key: NDArray[np.uint64]) -> None:
        self._timeline = timeline
        task = _tasks(pid, tid)
        # samples of one task often follow each other
        fresh = np.ones(len(task), np.bool_)
        np.not_equal(task[1:], task[:-1], out=fresh[1:])
        low, high = timeline.first_and_last_rank(key) if len(key) else (0, 0)
        if low == high:
            ids, tasks = self._among_all(task, fresh)
            self._rank = np.full(len(tasks), low, np.int32)
        else:
            rank = timeline.ranks(key)
            fresh[1:] |= rank[1:] != rank[:-1]
            begins = rows_where(fresh)
            some, new = IdTable().ids_and_new(task[begins] ^ rank[begins].astype(np.uint64) * MIX)
            ids = _spread(some, begins, len(task))
            tasks, self._rank = task[begins[new]], rank[begins[new]]
        self._of_sample = ids
        self._pid, self._tid = tasks >> _HALF, tasks & _LOW

    def _among_all(self, task: NDArray[np.uint64], fresh: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """Return the task of each sample, and the tasks; fresh: marks changes of the task."""
        table = self._timeline.tasks if len(self._timeline.tasks) <= len(task) // _SAMPLES_A_TASK else IdTable()
        if int(np.count_nonzero(fresh)) * _WORTH > len(task):
            ids = table.ids(task)
        else:
            begins = rows_where(fresh)
            ids = _spread(table.ids(task[begins]), begins, len(task))
        return ids, table.keys

    def comm(self) -> NDArray[np.int64]:
        """Return numbers that are equal for threads of one comm."""
        return self._comm()[self._of_sample]

    def process_comm(self) -> NDArray[np.int64]:
        """Return numbers that are equal for threads of processes with one comm."""
        return self._timeline.process_comm_states(self._pid, self._tid, self._rank)[self._of_sample]

    def mode_space(self, cpumode: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return numbers that are equal if addresses in the samples' own modes mean the same."""
        return self._by_mode(cpumode, *self._spaces())

    def space(self) -> NDArray[np.int64]:
        """Return numbers that are equal if all addresses mean the same."""
        return self._space()[self._of_sample]

    def combine(self, names: Collection[str], cpumode: NDArray[np.uint8] | None) -> NDArray[np.uint64]:
        """Combine some of these methods, by name, into one number."""
        comm = self._comm() if "comm" in names else np.zeros(len(self._tid), np.int64)
        if "mode_space" in names:
            assert cpumode is not None
            kernel, user = self._spaces()
            return self._by_mode(cpumode, _mix(comm, kernel), _mix(comm, user))
        return _mix(comm, self._space() if "space" in names else comm)[self._of_sample]

    def _comm(self) -> NDArray[np.int64]:
        return self._timeline.comm_states(self._tid, self._rank)

    def _spaces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each task at its moment the state of the kernel's addresses, and of its own."""
        kernel, user = self._timeline.kernel_states(self._rank), self._timeline.space_states(self._pid, self._rank)
        return kernel.astype(np.int64), user.astype(np.int64)

    def _space(self) -> NDArray[np.int64]:
        kernel, user = self._spaces()
        return kernel << 32 | user

    def _by_mode(self, cpumode: NDArray[np.uint8], kernel: NDArray[NumberT], user: NDArray[NumberT]) -> NDArray[NumberT]:
        """Return the number of each sample: of its task's moment, for the kernel, or of its task."""
        both = np.concatenate([user, kernel])
        numbers: NDArray[NumberT] = both.take(self._of_sample + np.int32(len(user)) * (cpumode == MISC_KERNEL))
        return numbers


def _tasks(pid: NDArray[Any], tid: NDArray[Any]) -> NDArray[np.uint64]:
    """Combine both ids into one number."""
    halves = np.empty((len(pid), 2), np.uint32)
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    halves[:, low], halves[:, high] = tid, pid
    return halves.view(np.uint64)[:, 0]


def _spread(ids: NDArray[np.int32], begins: NDArray[np.intp], size: int) -> NDArray[np.int32]:
    """Return the id of each sample: of the last run that begins before it."""
    return np.repeat(ids, np.diff(begins, append=size))


def _mix(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Combine two numbers into one; sums with powers collide by accident only."""
    product = (one.view(np.uint64) * MIX ^ two.view(np.uint64)) * MIX
    return (product ^ product >> _HALF) * MIX
