"""What tasks were at the moments of samples, as numbers: equal where two tasks were alike in that respect.

What enters: the tasks of a batch's samples, and when these were taken. What
leaves: a number for each sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import MISC_KERNEL
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.tasks.address_space import TaskTimeline

# odd and without a pattern, so that sums of products with them are alike by accident once in 2^60 pairs
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


class TaskStates:
    """What the tasks of a batch's samples were at their moments, found once for each task and moment."""

    def __init__(self, timeline: TaskTimeline, pid: NDArray[Any], tid: NDArray[Any], key: NDArray[np.uint64]) -> None:
        self._timeline = timeline
        pid, tid = (column.astype(np.uint32).astype(np.uint64) for column in (pid, tid))
        rank = timeline.ranks(key)
        moment = (pid << _HALF | tid) ^ rank.astype(np.uint64) * MIX
        # samples of one task often follow each other
        fresh = np.ones(len(moment), np.bool_)
        np.not_equal(moment[1:], moment[:-1], out=fresh[1:])
        begins = rows_where(fresh)
        ids, new = IdTable().ids_and_new(moment[begins])
        self._of_sample = np.repeat(ids, np.diff(np.append(begins, len(moment))))
        first = begins[new]
        self._pid, self._tid, self._rank = pid[first], tid[first], rank[first]

    def comm(self) -> NDArray[np.int64]:
        """Equal for threads of one comm."""
        return self._timeline.comm_states(self._tid, self._rank)[self._of_sample]

    def mode_space(self, cpumode: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Equal where an address of the sample's own mode means the same."""
        kernel = self._timeline.kernel_states(self._rank)[self._of_sample]
        user = self._timeline.space_states(self._pid, self._rank)[self._of_sample]
        return np.where(cpumode == MISC_KERNEL, kernel, user).astype(np.int64)

    def space(self) -> NDArray[np.int64]:
        """Equal where every address means the same."""
        kernel, user = self._timeline.kernel_states(self._rank), self._timeline.space_states(self._pid, self._rank)
        return (kernel.astype(np.int64) << 32 | user)[self._of_sample]
