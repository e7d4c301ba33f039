"""Find the records of tasks that no later sample needs.

A record is outdated if its process has ended, or has executed another program since. It is needed all the same if a living process has
inherited what it says: by a fork after which the child has not executed another program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_CPUMODE_MASK, MISC_KERNEL, NATIVE_ENDIAN, RecordType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.raw_records import RawRecords

_MAPS: Final = (int(RecordType.MMAP), int(RecordType.MMAP2))
_OF_THREADS: Final = (int(RecordType.FORK), int(RecordType.EXIT), int(RecordType.COMM))
_NO_PID: Final = 0xFFFFFFFF  # of the kernel's mappings
_MOST_NAMES: Final = 64  # of one thread


class RecordedTaskNumbers(NamedTuple):
    """The processes and threads of records.

    Attributes:
        pid: uint32[n].
        parent: uint32[n], the parent process; defined for FORK and EXIT.
        tid: uint32[n], the thread; defined for FORK, EXIT and COMM.
        is_map, is_thread: masks of the mappings, and of FORK, EXIT and COMM.
        is_kernel: a mask of the records about the kernel's code.
    """

    pid: NDArray[np.uint32]
    parent: NDArray[np.uint32]
    tid: NDArray[np.uint32]
    is_map: NDArray[np.bool_]
    is_thread: NDArray[np.bool_]
    is_kernel: NDArray[np.bool_]


def task_numbers(records: RawRecords) -> RecordedTaskNumbers:
    """Return the processes and threads of records."""
    rows = records.rows
    words = np.frombuffer(records.bodies, NATIVE_ENDIAN + "u4") if records.bodies else np.zeros(1, np.uint32)
    pid, second, third = (words.take((rows["start"] >> 2) + number, mode="clip").astype(np.uint32) for number in range(3))
    kinds = rows["type"]
    is_map = np.isin(kinds, _MAPS)
    is_kernel = (kinds == RecordType.KSYMBOL) | (is_map & (((rows["misc"] & MISC_CPUMODE_MASK) == MISC_KERNEL) | (pid == _NO_PID)))
    tid = np.where(kinds == RecordType.COMM, second, third).astype(np.uint32)
    return RecordedTaskNumbers(pid, second, tid, is_map, np.isin(kinds, _OF_THREADS), is_kernel)


class Inheritance:
    """What each process needs of the records: its own, what it inherited from its parents, and from which time on.

    Args:
        records: in order.
        numbers: of the records.
        ended: the processes that have ended.
        before: no later sample has a key below it.

    Attributes:
        processes: uint32[p], ascending.
        is_needed: bool[p], whether any record of the process is needed.
        needs_origin: bool[p], whether the process needs what it has inherited.
        program_key: uint64[p], the key of the last executed program; 0: none before `before`.
        is_ended: bool[p].
    """

    def __init__(self, records: RawRecords, numbers: RecordedTaskNumbers, ended: NDArray[np.uint32], before: int) -> None:
        rows, pid = records.rows, numbers.pid
        self.processes: NDArray[np.uint32] = distinct(pid[~numbers.is_kernel])
        self.is_ended: NDArray[np.bool_] = np.isin(self.processes, ended)
        executions = (rows["type"] == RecordType.COMM) & ((rows["misc"] & MISC_COMM_EXEC) != 0) & (rows["key"] < np.uint64(before))
        self.program_key = np.zeros(len(self.processes), np.uint64)
        np.maximum.at(self.program_key, self.positions(pid[executions]), rows["key"][executions])
        forks = (rows["type"] == RecordType.FORK) & (pid != numbers.parent) & np.isin(numbers.parent, self.processes)
        self.child, self.parent = self.positions(pid[forks]), self.positions(numbers.parent[forks])
        self._fork_key = rows["key"][forks]
        self.is_needed: NDArray[np.bool_] = ~self.is_ended
        self.needs_origin: NDArray[np.bool_] = ~self.is_ended & (self.program_key == 0)
        self._follow()

    def positions(self, pid: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the positions of processes."""
        return np.searchsorted(self.processes, pid)

    def _follow(self) -> None:
        """Mark the parents of processes that need what they have inherited."""
        before_program = self._fork_key < self.program_key[self.parent]
        while True:
            inherited = self.needs_origin[self.child]
            needed, origin = self.is_needed.copy(), self.needs_origin.copy()
            needed[self.parent[inherited]] = True
            origin[self.parent[inherited & (before_program | (self.program_key[self.parent] == 0))]] = True
            if bool((needed == self.is_needed).all()) and bool((origin == self.needs_origin).all()):
                return
            self.is_needed, self.needs_origin = needed, origin

    def orphans(self) -> NDArray[np.uint32]:
        """Return the living processes that need what they have inherited from processes that have ended."""
        chosen = self.needs_origin[self.child] & ~self.is_ended[self.child] & self.is_ended[self.parent]
        orphans: NDArray[np.uint32] = self.processes[distinct(self.child[chosen])]
        return orphans


def outdated(
    records: RawRecords, numbers: RecordedTaskNumbers, inheritance: Inheritance, ended: NDArray[np.uint32], before: int
) -> NDArray[np.bool_]:
    """Return a mask of the records that no later sample needs.

    Args:
        records: in order.
        numbers: of the records.
        inheritance: of the processes.
        ended: the threads that have ended.
        before: no later sample has a key below it.
    """
    rows = records.rows
    is_kernel, is_thread = numbers.is_kernel, numbers.is_thread
    positions = np.minimum(inheritance.positions(numbers.pid), max(len(inheritance.processes) - 1, 0))
    if not len(inheritance.processes):
        return np.zeros(len(rows), np.bool_)
    is_of_earlier_program = ~inheritance.needs_origin[positions] & (rows["key"] < inheritance.program_key[positions])
    mask = ~inheritance.is_needed[positions] | is_of_earlier_program
    mask |= is_thread & np.isin(numbers.tid, ended) & (numbers.tid != numbers.pid)
    mask |= _earlier_names(records, numbers, before)
    result: NDArray[np.bool_] = mask & ~is_kernel
    return result


def _earlier_names(records: RawRecords, numbers: RecordedTaskNumbers, before: int) -> NDArray[np.bool_]:
    """Return a mask of the names of threads that were renamed often since."""
    rows = records.rows
    mask = np.zeros(len(rows), np.bool_)
    is_name = (rows["type"] == RecordType.COMM) & ((rows["misc"] & MISC_COMM_EXEC) == 0) & (rows["key"] < np.uint64(before))
    names = np.flatnonzero(is_name)
    names = names[np.argsort(numbers.tid[names], kind="stable")]
    tids = numbers.tid[names]
    begins = np.flatnonzero(np.diff(tids, prepend=np.int64(-1)))
    counts = np.diff(np.append(begins, len(tids)))
    is_last = np.append(tids[1:] != tids[:-1], True) if len(tids) else np.zeros(0, np.bool_)
    mask[names[np.repeat(counts > _MOST_NAMES, counts) & ~is_last]] = True
    return mask
