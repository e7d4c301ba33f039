"""The side-band of running tasks: address spaces and names of the tasks that samples hit, in memory that days do not fill.

Records that no later sample needs are dropped (outdated_records). The mappings of a process that maps and unmaps code all the time are
replaced by those that it has now, and so is what a process has inherited through very many generations.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_CPUMODE_MASK, MISC_KERNEL, NATIVE_ENDIAN, RecordType
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.task_columns import TASK_TYPES
from perfpy.perfdata.records.delivery import RawRecords, SideBand
from perfpy.symbols.address_spaces import TaskTimeline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery import EventTable, OrderedChunk
    from perfpy.symbols.dso import DsoTable


_WORTH_FORGETTING: Final = 4096  # records
_MOST_MAPS: Final = 4096  # mappings recorded for one process before they are compared with its present ones
MOST_MAP_BYTES: Final = 4 << 20  # of one process, 30,000 usual mappings; a process may have 65,530 with names of 4 kB
_MOST_ANCESTORS: Final = 1024  # ended processes whose mappings others have inherited
_NO_PID: Final = 0xFFFFFFFF  # of the kernel's mappings


class LiveTasks:
    """The records of tasks and mappings.

    Args:
        table: the events of the records.
        state_of: synthesizes the present name and mappings of a process.
        is_alive: whether a process or thread runs.
        types: of the records.
    """

    def __init__(
        self,
        table: EventTable,
        state_of: Callable[[int], RawRecords | None] = lambda _pid: None,
        is_alive: Callable[[int], bool] = lambda tid: os.path.exists(f"/proc/{tid}"),
        types: Collection[int] = TASK_TYPES,
    ) -> None:
        self._table = table
        self._state_of = state_of
        self._is_alive = is_alive
        self._types = sorted(types)
        self._parts: list[RawRecords] = []
        self._forgotten_at = _WORTH_FORGETTING
        self._size = 0
        self._offset = 0
        self._missing: dict[int, int] = {}  # tasks without an EXIT that do not run -> the latest key then

    def __len__(self) -> int:
        return self._size

    def add(self, ordered: OrderedChunk) -> bool:
        """Add the side-band of a chunk; return whether there are records of tasks."""
        chunk = ordered.chunk
        chosen = np.isin(chunk.types[chunk.others], self._types)
        if not chosen.any():
            return False
        records = RawRecords.of_chunk(ordered, chosen)
        records.rows["offset"] += self._offset
        self._offset += len(chunk.data)
        self._parts.append(records)
        self._size += len(records)
        return True

    def records(self) -> RawRecords:
        """Return all records, in order."""
        if len(self._parts) != 1:
            self._parts = [RawRecords.concat(self._parts).in_order()]
        return self._parts[0]

    def timeline(self, pids: NDArray[np.uint32] | None, dso_table: DsoTable, *, keep_exited: bool = True) -> TaskTimeline:
        """Return the comms and address spaces of some processes, None for all; parents count for what was inherited from them."""
        records = self.records()
        if pids is not None:
            numbers = task_numbers(records)
            chosen = numbers.is_kernel | np.isin(numbers.pid, _with_parents(records, numbers, pids)) | (numbers.pid == _NO_PID)
            records = RawRecords(records.rows[chosen], records.bodies)
        band = SideBand(records, lambda _types: iter(()), self._table, lambda _text: None, None)
        return TaskTimeline(band.tasks(), keep_exited=keep_exited, dso_table=dso_table)

    def forget(self, before: int) -> None:
        """Drop the records that no later sample needs, if there are many. No later sample has a key below `before`."""
        if self._size < self._forgotten_at:
            return
        records = self.records()
        numbers = task_numbers(records)
        rows = records.rows
        exits = (rows["type"] == RecordType.EXIT) & (rows["key"] < np.uint64(before))
        recorded = distinct(numbers.tid[exits])
        present = distinct(np.concatenate([numbers.pid[~numbers.is_kernel], numbers.tid[numbers.is_thread]]))
        dead = [one for one in present.tolist() if not self._is_alive(one)]
        latest = int(rows["key"].max(initial=0))
        waiting = self._missing
        has_exit = set(numbers.tid[rows["type"] == RecordType.EXIT].tolist())
        self._missing = {one: waiting.get(one, latest) for one in dead if one not in has_exit}
        lost = [one for one, key in self._missing.items() if one in waiting and key < before]
        ended = distinct(np.concatenate([recorded[np.isin(recorded, np.array(dead, np.uint32))], np.array(lost, np.uint32)]))
        inheritance = Inheritance(records, numbers, ended, before)
        states = self._present_states(inheritance)
        if states:
            is_fork = (records.rows["type"] == RecordType.FORK) & (numbers.tid == numbers.pid)
            kept = ~(is_fork & np.isin(numbers.pid, np.array(list(states), np.uint32)))
            records = RawRecords(records.rows[kept], records.bodies)
            numbers = task_numbers(records)
            inheritance = Inheritance(records, numbers, ended, before)
        dropped = outdated(records, numbers, inheritance, ended, before)
        self._parts = [RawRecords(records.rows[~dropped], records.bodies).compact(), *states.values()]
        self._refresh_maps()
        self._size = sum(map(len, self._parts))
        self._forgotten_at = max(_WORTH_FORGETTING, 2 * self._size)

    def _present_states(self, inheritance: Inheritance) -> dict[int, RawRecords]:
        """Return the present state of processes that have inherited theirs from ended ones; empty if few have ended."""
        if int(np.count_nonzero(inheritance.is_needed & inheritance.is_ended)) <= _MOST_ANCESTORS:
            return {}
        return {one: state for one in inheritance.orphans().tolist() if (state := self._state_of(one)) is not None}

    def _refresh_maps(self) -> None:
        """Replace the mappings of processes that have mapped far more than they have mapped now, or whose names are very long."""
        records = self._parts[0]
        numbers = task_numbers(records)
        of_user = numbers.is_map & ~numbers.is_kernel
        present, position, counts = np.unique(numbers.pid[of_user], return_inverse=True, return_counts=True)
        is_large = np.bincount(position, records.rows["size"][of_user], len(present)) > MOST_MAP_BYTES
        for one in present[(counts > _MOST_MAPS) | is_large].tolist():
            now = self._state_of(one)
            if now is not None and (2 * len(now) < int(counts[present == one][0]) or bool(is_large[present == one][0])):
                numbers = task_numbers(records)
                dropped = numbers.is_map & ~numbers.is_kernel & (numbers.pid == one)
                self._parts[0] = records = RawRecords(records.rows[~dropped], records.bodies).compact()
                self._parts.append(now)


def _with_parents(records: RawRecords, numbers: RecordedTaskNumbers, pids: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return these processes and all their parents, which they inherited code from."""
    forks = records.rows["type"] == RecordType.FORK
    children, parents = numbers.pid[forks], numbers.parent[forks]
    chosen = distinct(pids)
    while True:
        larger = distinct(np.concatenate([chosen, parents[np.isin(children, chosen)]]))
        if len(larger) == len(chosen):
            return larger
        chosen = larger


# Find the records of tasks that no later sample needs. A record is outdated if its process has ended, or has executed another program
# since. It is needed all the same if a living process has inherited what it says: by a fork after which the child has not executed
# another program.

_MAPS: Final = (int(RecordType.MMAP), int(RecordType.MMAP2))
_OF_THREADS: Final = (int(RecordType.FORK), int(RecordType.EXIT), int(RecordType.COMM))
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
