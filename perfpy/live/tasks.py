"""The side-band of running tasks: address spaces and names of the tasks that samples hit, in memory that days do not fill.

Records of ended tasks are dropped once no sample can refer to them. The mappings of a process that maps and unmaps code all the time
are replaced by those that it has now.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import MISC_KERNEL, NATIVE_ENDIAN, RecordType
from perfpy.abi.task_columns import TASK_TYPES
from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.perfdata.records.side_band import SideBand
from perfpy.symbols.tasks.address_space import TaskTimeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery.keys import OrderedChunk
    from perfpy.perfdata.records.event_table import EventTable
    from perfpy.symbols.dso import DsoTable

_TYPES: Final = sorted(TASK_TYPES)
_MAPS: Final = (int(RecordType.MMAP), int(RecordType.MMAP2))
_TASKS: Final = (int(RecordType.FORK), int(RecordType.EXIT), int(RecordType.COMM))
_WORTH_FORGETTING: Final = 4096  # records
_MOST_MAPS: Final = 4096  # mappings recorded for one process before they are compared with its present ones
_NO_PID: Final = 0xFFFFFFFF  # of the kernel's mappings


class LiveTasks:
    """The records of tasks and mappings.

    Args:
        table: the events of the records.
        maps_of: synthesizes the present mappings of a process.
        is_alive: whether a process or thread runs.
    """

    def __init__(
        self,
        table: EventTable,
        maps_of: Callable[[int], RawRecords | None] = lambda _pid: None,
        is_alive: Callable[[int], bool] = lambda tid: os.path.exists(f"/proc/{tid}"),
    ) -> None:
        self._table = table
        self._maps_of = maps_of
        self._is_alive = is_alive
        self._parts: list[RawRecords] = []
        self._forgotten_at = _WORTH_FORGETTING
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, ordered: OrderedChunk) -> None:
        """Add the side-band of a chunk."""
        chunk = ordered.chunk
        chosen = np.isin(chunk.types[chunk.others], _TYPES)
        if chosen.any():
            self._append(RawRecords.of_chunk(ordered, chosen))

    def _append(self, records: RawRecords) -> None:
        self._parts.append(records)
        self._size += len(records)

    def records(self) -> RawRecords:
        """Return all records, in order."""
        if len(self._parts) != 1:
            self._parts = [RawRecords.concat(self._parts).in_order()]
        return self._parts[0]

    def timeline(self, pids: NDArray[np.uint32], dso_table: DsoTable) -> TaskTimeline:
        """Return the comms and address spaces of some processes; those of their parents count for what they inherited."""
        records = self.records()
        pid = _pids(records)
        chosen = np.isin(pid, self._with_parents(records, pid, pids)) | (pid == _NO_PID) | _are_of_kernel(records)
        band = SideBand(RawRecords(records.rows[chosen], records.bodies), lambda _types: iter(()), self._table, lambda _text: None, None)
        return TaskTimeline(band.tasks(), keep_exited=True, dso_table=dso_table)

    @staticmethod
    def _with_parents(records: RawRecords, pid: NDArray[np.uint32], pids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return processes, and those that they were forked from."""
        forks = records.rows["type"] == RecordType.FORK
        children, parents = pid[forks], _words(records, 1)[forks]
        chosen = distinct(pids)
        while True:
            larger = distinct(np.concatenate([chosen, parents[np.isin(children, chosen)]]))
            if len(larger) == len(chosen):
                return larger
            chosen = larger

    def forget(self, before: int) -> None:
        """Drop the records of tasks that ended before any sample to come, if there are many. No later sample has a key below `before`."""
        if self._size < self._forgotten_at:
            return
        records = self.records()
        rows, pid, tid = records.rows, _pids(records), _tids(records)
        exits = (rows["type"] == RecordType.EXIT) & (rows["key"] < before)
        ended = np.array([one for one in distinct(tid[exits]).tolist() if not self._is_alive(one)], np.uint32)
        ended_processes = ended[np.isin(ended, pid[exits])]
        living_children = self._with_parents(records, pid, pid[~np.isin(pid, ended_processes) & (pid != _NO_PID)])
        dropped = np.isin(pid, ended_processes) & ~np.isin(pid, living_children)
        dropped |= np.isin(rows["type"], _TASKS) & np.isin(tid, ended) & (tid != pid)
        dropped &= ~_are_of_kernel(records)
        self._parts = [RawRecords(rows[~dropped], records.bodies).compact()]
        self._refresh_maps()
        self._size = sum(map(len, self._parts))
        self._forgotten_at = max(_WORTH_FORGETTING, 2 * self._size)

    def _refresh_maps(self) -> None:
        """Replace the mappings of processes that have mapped far more than they have mapped now."""
        records = self._parts[0]
        pid, maps = _pids(records), np.isin(records.rows["type"], _MAPS)
        present, counts = np.unique(pid[maps], return_counts=True)
        for one in present[(counts > _MOST_MAPS) & (present != _NO_PID)].tolist():
            now = self._maps_of(one)
            if now is not None and 2 * len(now) < int(counts[present == one][0]):
                dropped = maps & (pid == one)
                self._parts[0] = records = RawRecords(records.rows[~dropped], records.bodies).compact()
                self._parts.append(now)
                pid, maps = _pids(records), np.isin(records.rows["type"], _MAPS)


def _words(records: RawRecords, number: int) -> NDArray[np.uint32]:
    """Return a word of 32 bits of each record's body."""
    if not len(records):
        return np.zeros(0, np.uint32)
    words: NDArray[np.uint32] = np.frombuffer(records.bodies, NATIVE_ENDIAN + "u4").take((records.rows["start"] >> 2) + number, mode="clip")
    return words


def _pids(records: RawRecords) -> NDArray[np.uint32]:
    return _words(records, 0)


def _tids(records: RawRecords) -> NDArray[np.uint32]:
    """Return the thread of each FORK, EXIT and COMM; for other types the value means nothing."""
    is_comm = records.rows["type"] == RecordType.COMM
    return np.where(is_comm, _words(records, 1), _words(records, 2)).astype(np.uint32)


def _are_of_kernel(records: RawRecords) -> NDArray[np.bool_]:
    """Return a mask of the records about the kernel's code."""
    kinds, misc = records.rows["type"], records.rows["misc"]
    mask: NDArray[np.bool_] = (kinds == RecordType.KSYMBOL) | (np.isin(kinds, _MAPS) & ((misc & 7) == MISC_KERNEL))
    return mask
