"""Tasks over time: the comm of every thread and the address space of every process.

`TaskTimeline` gets a recording's side-band records in delivery order, each with its key (the delivery key of perfdata.reader). It returns
comms and views for whole columns of samples.

A view is an address space during a span without unmappings, so (view, address) identifies a mapping except before the mapping was created,
which the symbolizer checks. A forked process has a copy of its parent's address space. After exec, the mappings of the new program cover
the old ones; the uncovered old ones are still valid, because callchains out of execve itself use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.symbols.dso import DsoTable, is_module
from perfpy.symbols.interning import IdTable, number_values
from perfpy.symbols.mapped_names import KERNEL_NAME, is_kernel_map
from perfpy.symbols.tasks.fork_lines import FOREVER
from perfpy.symbols.tasks.task_replay import NOBODY, TaskReplay
from perfpy.symbols.tasks.task_states import KERNEL_PID, name_of_unnamed
from perfpy.symbols.tasks.value_history import ValueHistory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.abi.task_columns import TaskRecords

    Ranks = NDArray[np.int32]

NO_SPACE: Final = 0  # the view without mappings, of unknown processes


def kernel_name(entries: Iterable[tuple[int, str]]) -> str:
    """Return the kernel's name in a recording's build-id table of (misc, file name) entries; [kernel.kallsyms] by default."""
    for misc, name in entries:
        if is_kernel_map(misc) and not is_module(name):
            return name
    return KERNEL_NAME


class TaskTimeline:
    """Comms and address spaces of all tasks of a recording, over time.

    Args:
        records: the side-band records of tasks and mappings, in delivery order.
        build_ids: file name -> hex, of the recording's BUILD_ID feature.
        kernel_name: the kernel's name in that table (see `kernel_name`).
        keep_exited: whether exited threads keep their names (perf report: yes, perf script: no).
        dso_table: the dsos of an earlier timeline, whose numbers stay valid; None for a new table.
    """

    def __init__(
        self,
        records: TaskRecords,
        *,
        build_ids: dict[str, str] | None = None,
        kernel_name: str = KERNEL_NAME,
        keep_exited: bool = False,
        dso_table: DsoTable | None = None,
    ) -> None:
        self.dso_table = DsoTable(build_ids) if dso_table is None else dso_table
        self._keys = np.maximum.accumulate(records.keys)
        replay = TaskReplay(records, self.dso_table, kernel_name, keep_exited=keep_exited)
        self.comms = replay.comms
        self.tasks = IdTable()  #: of samples: pid << 32 | tid
        self._comm_numbers = {comm: number for number, comm in enumerate(self.comms)}
        self.kernel_dso, self.kernel_reference = replay.kernel_dso, replay.kernel_reference
        self._last_comms = replay.last_comms
        self._comm_history, self._changes, self.spaces = replay.comm_history, replay.changes, replay.spaces
        self._make_views(np.array(replay.space_pid, np.int64), np.array(replay.space_since, np.int32))

    def first_and_last_rank(self, key: NDArray[np.uint64]) -> tuple[int, int]:
        """Return the lowest and the highest rank of keys, at least one of which is required."""
        low, high = np.searchsorted(self._keys, np.array([key.min(), key.max()]), side="right").tolist()
        return low, high

    def ranks(self, key: NDArray[np.uint64]) -> Ranks:
        """Return the rank of each key: the number of records before it."""
        if not len(key):
            return np.zeros(0, np.int32)
        # Batches are short compared with the recording: few or no records fall into one.
        low, high = self.first_and_last_rank(key)
        if low == high:
            return np.full(len(key), low, np.int32)
        ranks: Ranks = (np.searchsorted(self._keys[low:high], key, side="right") + low).astype(np.int32)
        return ranks

    def comm_ids(self, tid: NDArray[Any], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread at each key, as indices into `comms`. Unnamed threads have the comm ":TID"."""
        comms = self._comm_history.find(tid, self.ranks(key), NOBODY)
        unknown = rows_where(comms < 0)
        if len(unknown):
            strangers, which = number_values(tid[unknown].astype(np.int32))
            numbers = [self.comm_number(name_of_unnamed(stranger)) for stranger in strangers.tolist()]
            comms[unknown] = np.array(numbers, np.int32)[which]
        return comms

    def process_comm_ids(self, pid: NDArray[Any], tid: NDArray[Any], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread's process, which is that of its main thread; the thread's own if that is unknown."""
        comms = self._comm_history.find(pid, self.ranks(key), NOBODY)
        unknown = rows_where(comms < 0)
        if len(unknown):
            comms[unknown] = self.comm_ids(tid[unknown], key[unknown])
        return comms

    def last_comm(self, tid: int) -> str:
        """Return the last comm of a thread."""
        number = self._last_comms.get(tid)
        return name_of_unnamed(tid) if number is None else self.comms[number]

    def views(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int32]:
        """Return the view of each process at each rank; NO_SPACE for processes without mappings."""
        return self._view_history.find(pid, rank, NO_SPACE)

    def kernel_views(self, rank: Ranks) -> NDArray[np.int32]:
        """Return the view of the kernel's address space at each rank."""
        return self._view_history.find(np.full(len(rank), KERNEL_PID), rank, NO_SPACE)

    def comm_states(self, tid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Return numbers that are equal only for threads with the same comm."""
        comms = self._comm_history.find(tid, rank, NOBODY).astype(np.int64)
        return np.where(comms >= 0, comms, -1 - tid.astype(np.uint32).astype(np.int64))

    def process_comm_states(self, pid: NDArray[Any], tid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Return numbers that are equal only for threads with the same process_comm_ids()."""
        comms = self._comm_history.find(pid, rank, NOBODY).astype(np.int64)
        return np.where(comms >= 0, comms, self.comm_states(tid, rank))

    def space_states(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int32]:
        """Return numbers that are equal only for one process with the same mappings."""
        return self._changes.find(pid, rank, 0)

    def kernel_states(self, rank: Ranks) -> NDArray[np.int32]:
        """Return numbers that are equal only for the same mappings in the kernel's address space."""
        return self._changes.find(np.full(len(rank), KERNEL_PID), rank, 0)

    def comm_number(self, comm: str) -> int:
        """Return the number of a comm, adding it if it is new."""
        number = self._comm_numbers.get(comm)
        if number is None:
            number = self._comm_numbers[comm] = len(self.comms)
            self.comms.append(comm)
        return number

    def _make_views(self, pid: NDArray[np.int64], since: NDArray[np.int32]) -> None:
        """Divide every space at its conflicts, and every process's time at its spaces and their divisions."""
        conflicts = self.spaces.conflicts
        conflicting = np.repeat(np.array(list(conflicts), np.int64), [len(ranks) for ranks in conflicts.values()])
        ranks = np.array([rank for ranks in conflicts.values() for rank in ranks], np.int32)
        later = ranks > since[conflicting]
        space = np.concatenate([np.arange(len(pid)), conflicting[later]])
        first_rank = np.concatenate([since, ranks[later]])
        order = np.lexsort((first_rank, space))
        space, first_rank = space[order], first_rank[order]
        last_rank = np.full(len(space), FOREVER - 1, np.int32)
        cut = rows_where(space[1:] == space[:-1])
        last_rank[cut] = first_rank[cut + 1] - 1
        self._view_history = ValueHistory(pid[space], first_rank, np.arange(1, len(space) + 1))
        # view 0 is NO_SPACE
        self.view_space = np.concatenate([[-1], space]).astype(np.int32)
        self.view_first_rank = np.concatenate([[0], first_rank]).astype(np.int32)
        self.view_last_rank = np.concatenate([[FOREVER - 1], last_rank]).astype(np.int32)
