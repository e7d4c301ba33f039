"""Replay the side-band records of a recording's tasks.

TaskReplay gets TaskRecords as columns. It computes the comm and the address space of every thread and process over time, and the mappings
of each space. Only records that affect the meaning of later ones are applied one by one: of mappings, the majority, these are the first of
each process and of each file. The others are processed as columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.flags import MISC_KERNEL, RecordType
from perfpy.symbols.dso import DsoKind, user_kind
from perfpy.symbols.interning import IdTable
from perfpy.symbols.mapped_names import KERNEL_NAME, is_kernel_name, is_memory, shown_name
from perfpy.symbols.tasks.mapping_index import MappingColumns
from perfpy.symbols.tasks.mapping_intervals import Mapping, SpaceBuilder
from perfpy.symbols.tasks.task_states import IDLE, KERNEL_PID, KERNEL_SPACE, ProcessSpaces, ThreadComms
from perfpy.symbols.tasks.value_history import ValueHistory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.records import Ksymbol
    from perfpy.abi.task_columns import MapColumns, MappedFile, TaskColumns, TaskRecords
    from perfpy.symbols.dso import DsoTable
    from perfpy.symbols.tasks.mapping_index import AddressSpaces

_ADDRESSES: Final = 1 << 64
_KSYMBOL_UNREGISTER: Final = 1
_USER_MAP, _KERNEL_MAP = int(RecordType.MMAP2), int(RecordType.MMAP)  # steps of the replay, besides record types
_PID_WIDTH: Final = np.uint64(32)
NOBODY: Final = -1  # the comm of an unnamed thread


class TaskReplay:
    """One pass over the records.

    Attributes:
        comms: the names of threads.
        comm_history: index into `comms` of each thread, NOBODY after its end.
        last_comms: the last name of each thread.
        changes: the ranks at which processes change their address space.
        space_pid: the process of each space.
        space_since: the rank from which that process has the space.
        spaces: the mappings.
        kernel_dso: see TaskTimeline.
        kernel_reference: see TaskTimeline.
    """

    def __init__(self, records: TaskRecords, dso_table: DsoTable, kernel_name: str, *, keep_exited: bool) -> None:
        self.comms: list[str] = [IDLE]
        self.kernel_dso = -1
        self.kernel_reference: tuple[str, int] | None = None
        self._dso_table = dso_table
        self._kernel_name = kernel_name
        self._files, self._comms, self._ksymbols = records.files, records.comms, records.ksymbols
        self._kernel_maps, self._kernel_maps_seen = records.maps.rows(records.maps.mode == MISC_KERNEL), 0
        # user mode, or unknown in the oldest files
        self._user = _UserMaps(records.maps.rows((records.maps.mode == 0) | (records.maps.mode == MISC_KERNEL + 1)), records.files)
        self._tasks = _TaskRecords(records.tasks, with_exits=not keep_exited)
        self._thread_comms = ThreadComms(0)  # by index of comms
        self._processes = ProcessSpaces(with_exits=not keep_exited)
        self.space_pid, self.space_since = self._processes.pid, self._processes.since
        self._comm_numbers = {IDLE: 0}
        self._number_of_comm = [-1] * len(self._comms)
        self._task_comms: list[int] = []  # the comm after each task record
        self._kernel_changes: list[int] = []
        self._builder = SpaceBuilder()
        self._builder.new_space(live=True)  # the kernel's
        self._replay()
        tasks, user = self._tasks, self._user.maps
        self.comm_history = ValueHistory([0, *tasks.tid], [0, *tasks.rank], [0, *self._task_comms])
        changed = np.concatenate([self.space_since[1:], user.rank, self._kernel_changes]).astype(np.int32)
        owner = np.concatenate([self.space_pid[1:], user.pid, np.full(len(self._kernel_changes), KERNEL_PID)])
        self.changes = ValueHistory(owner, changed, changed)
        self.last_comms = self._thread_comms.last()
        self.spaces = self._map_all()

    def _replay(self) -> None:
        """Apply in order the records that must be applied one by one."""
        apply = {
            int(RecordType.FORK): self._fork,
            int(RecordType.COMM): self._comm,
            int(RecordType.EXIT): self._exit,
            int(RecordType.KSYMBOL): self._ksymbol,
            _USER_MAP: self._first_of_user,
            _KERNEL_MAP: self._kernel_mmap,
        }
        first_rows = self._user.first_rows
        ksymbol_ranks = [rank for rank, _ in self._ksymbols]
        groups: list[tuple[list[int], list[int], list[int]]] = [
            (self._tasks.rank, self._tasks.type, list(range(len(self._tasks.rank)))),
            (self._user.maps.rank[first_rows].tolist(), [_USER_MAP] * len(first_rows), first_rows.tolist()),
            (self._kernel_maps.rank.tolist(), [_KERNEL_MAP] * len(self._kernel_maps.rank), list(range(len(self._kernel_maps.rank)))),
            (ksymbol_ranks, [int(RecordType.KSYMBOL)] * len(ksymbol_ranks), list(range(len(ksymbol_ranks)))),
        ]
        rank, record_type, row = (np.concatenate([np.array(group[column], np.int64) for group in groups]) for column in range(3))
        order = np.argsort(rank, kind="stable")
        for record_rank, kind, of_group in zip(rank[order].tolist(), record_type[order].tolist(), row[order].tolist(), strict=True):
            apply[kind](of_group, record_rank)

    def _map_all(self) -> AddressSpaces:
        """Insert the mappings of all processes into their spaces."""
        user, maps = self._user, self._user.maps
        self._builder.new_spaces(self._processes.parent[1:], self.space_since[1:])
        space = ValueHistory(self.space_pid[1:], self.space_since[1:], np.arange(1, len(self.space_pid))).find(maps.pid, maps.rank, -1)
        dso = np.array(user.dso_of_mapped, np.int32)[user.mapped]
        bias = np.where(user.is_memory[maps.file], np.uint64(0), maps.pgoff - maps.start)
        self._builder.insert_all(MappingColumns(maps.start, maps.start + maps.length, bias, dso), space, maps.rank)
        self._tell_pids(dso)
        return self._builder.build()

    def _tell_pids(self, dso: NDArray[np.int32]) -> None:
        """Set the pids that mapped each Dso."""
        pairs = distinct(dso.astype(np.uint64) << _PID_WIDTH | self._user.maps.pid)
        dsos, pids = (pairs >> _PID_WIDTH).astype(np.int64), pairs.astype(np.uint32)
        first_rows = rows_where(np.diff(dsos, prepend=-1)).tolist()
        for first, end in pairwise([*first_rows, len(pairs)]):
            self._dso_table.dsos[int(dsos[first])].pids.update(pids[first:end].tolist())

    def _comm_number(self, comm: str) -> int:
        number = self._comm_numbers.get(comm)
        if number is None:
            number = self._comm_numbers[comm] = len(self.comms)
            self.comms.append(comm)
        return number

    def _comm(self, row: int, rank: int) -> None:
        tasks = self._tasks
        tid, pid, comm = tasks.tid[row], tasks.pid[row], tasks.comm[row]
        number = self._number_of_comm[comm]
        if number < 0:
            number = self._number_of_comm[comm] = self._comm_number(self._comms[comm])
        self._thread_comms.living[tid] = number
        self._task_comms.append(number)
        if tid != pid:
            self._processes.add_thread(pid, tid)

    def _fork(self, row: int, rank: int) -> None:
        tasks = self._tasks
        tid = tasks.tid[row]
        comm = self._thread_comms.fork(tid, tasks.ptid[row])
        self._task_comms.append(NOBODY if comm is None else comm)
        self._processes.fork(tasks.pid[row], tid, tasks.ppid[row], tasks.misc[row], rank)

    def _exit(self, row: int, rank: int) -> None:
        tid = self._tasks.tid[row]
        self._task_comms.append(NOBODY)
        self._thread_comms.exit(tid)
        self._processes.exit(self._tasks.pid[row], tid, rank)

    def _first_of_user(self, row: int, rank: int) -> None:
        """Apply a mapping that is the first of its process, or the first of its addresses."""
        user = self._user
        pid, mapped = int(user.maps.pid[row]), int(user.mapped[row])
        self._processes.of(pid, rank)
        if mapped < len(user.dso_of_mapped):
            return
        file = self._files[user.maps.file[row]]
        name = shown_name(file.name, pid, file.flags, executable=file.executable)
        kind = DsoKind.NONE if is_memory(name, file.flags) and name == file.name else user_kind(name)
        user.dso_of_mapped.append(self._dso_table.id_of(name, kind, file.build_id.hex(), file.identity))

    def _kernel_mmap(self, row: int, rank: int) -> None:
        maps = self._kernel_maps
        file = self._files[maps.file[row]]
        name, start, pgoff = file.name, int(maps.start[row]), int(maps.pgoff[row])
        end = start + int(maps.length[row])
        self._kernel_maps_seen += 1
        if is_kernel_name(name):
            dso, bias = self._kernel_number(file.build_id.hex()), 0
            if start == end == 0:
                end = _ADDRESSES - 1
            if pgoff:
                self.kernel_reference = (name[len(KERNEL_NAME) :], pgoff)
        elif name.startswith(("/", "[")) and (start or (end == _ADDRESSES - 1 and _last_of_two_found(self._kernel_maps_seen))):
            dso, bias = self._dso_table.id_of(name, DsoKind.MODULE, file.build_id.hex()), -start % _ADDRESSES
        else:
            return
        self._builder.insert(KERNEL_SPACE, Mapping(start, min(end, _ADDRESSES - 1), bias, dso), rank)
        self._kernel_changes.append(rank)

    def _kernel_number(self, build_id: str) -> int:
        if self.kernel_dso < 0:
            self.kernel_dso = self._dso_table.id_of(self._kernel_name, DsoKind.KERNEL, build_id)
        return self.kernel_dso

    def _ksymbol(self, row: int, rank: int) -> None:
        record: Ksymbol = self._ksymbols[row][1]
        self._kernel_changes.append(rank)
        if record.flags & _KSYMBOL_UNREGISTER:
            held = self._builder.holder(KERNEL_SPACE, record.addr)
            if held and held.dso != self.kernel_dso:
                self._builder.remove(KERNEL_SPACE, record.addr, rank)
        elif self._builder.holder(KERNEL_SPACE, record.addr) is None:
            dso = self._dso_table.id_of(record.name, DsoKind.BPF)
            mapping = Mapping(record.addr, record.addr + record.len, -record.addr % _ADDRESSES, dso)
            self._builder.insert(KERNEL_SPACE, mapping, rank)


class _UserMaps:
    """The mappings of processes.

    Attributes:
        is_memory: for each file, whether it is memory instead.
        mapped: for each mapping, the number of the mapped file or of one process's memory, in order of appearance.
        first_rows: mappings that are the first of their addresses or of their process.
        dso_of_mapped: filled in by the replay.
    """

    def __init__(self, maps: MapColumns, files: list[MappedFile]) -> None:
        self.maps = maps
        self.is_memory = np.array([is_memory(file.name, file.flags) for file in files], bool)
        is_code = self.is_memory & np.array([file.executable for file in files], bool)
        file = maps.file.astype(np.uint64) << np.uint64(33)
        self.mapped, first_of_mapped = IdTable().ids_and_new(
            np.where(is_code[maps.file], file | np.uint64(1) << _PID_WIDTH | maps.pid, file)
        )
        _, first_of_pid = IdTable().ids_and_new(maps.pid)
        self.first_rows = distinct(np.concatenate([first_of_mapped, first_of_pid]))
        self.dso_of_mapped: list[int] = []


class _TaskRecords:
    """The task records as lists. `with_exits`: include exits."""

    def __init__(self, tasks: TaskColumns, *, with_exits: bool) -> None:
        rows = slice(None) if with_exits else tasks.type != RecordType.EXIT
        self.rank: list[int] = tasks.rank[rows].tolist()
        self.type: list[int] = tasks.type[rows].tolist()
        self.misc: list[int] = tasks.misc[rows].tolist()
        self.pid: list[int] = tasks.pid[rows].tolist()
        self.tid: list[int] = tasks.tid[rows].tolist()
        self.ppid: list[int] = tasks.ppid[rows].tolist()
        self.ptid: list[int] = tasks.ptid[rows].tolist()
        self.comm: list[int] = tasks.comm[rows].tolist()


def _last_of_two_found(count: int) -> bool:
    """Whether perf's search finds the last of `count` kernel maps, instead of the last but one.

    If kptr_restrict hides addresses, all maps are at 0 and empty except the kernel's and that of the last recorded module. These two
    contain all addresses and are sorted last. The one that a binary search reaches first wins.
    """
    middle = count // 2
    while middle < count - 2:
        middle = (middle + 1 + count) // 2
    return middle == count - 1
