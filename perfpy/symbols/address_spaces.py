"""Tasks over time: the comm of every thread and the address space of every process.

`TaskTimeline` gets a recording's side-band records in delivery order, each with its key (see perfpy.perfdata.records.delivery). It returns
comms and views for whole columns of samples.

A view is an address space during a span without unmappings, so (view, address) identifies a mapping except before the mapping was created,
which the symbolizer checks. A forked process has a copy of its parent's address space. After exec, the mappings of the new program cover
the old ones; the uncovered old ones are still valid, because callchains out of execve itself use them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from perfpy.abi.columns import are_among, distinct, rows_where
from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, RecordType
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.symbols.dso import (
    GUEST_KERNEL_NAME,
    HOST,
    KERNEL_NAME,
    VDSO,
    VDSO_OF_32_BITS,
    DsoKind,
    DsoTable,
    is_kernel_map,
    is_kernel_name,
    is_module,
    user_kind,
)
from perfpy.symbols.interning import IdTable, number_values
from perfpy.symbols.mappings import FOREVER, Mapping, MappingColumns, SpaceBuilder
from perfpy.symbols.tasks import (
    GUEST_TASK,
    IDLE,
    KERNEL_PID,
    ProcessSpaces,
    ThreadComms,
    is_memory,
    name_of_unnamed,
    shown_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any, Final

    from numpy.typing import ArrayLike, NDArray

    from perfpy.abi.records import Ksymbol
    from perfpy.abi.task_columns import MapColumns, MappedFile, TaskColumns, TaskRecords
    from perfpy.symbols.mappings import AddressSpaces

    Ranks = NDArray[np.int32]


NO_SPACE: Final = 0  # the view without mappings, of unknown processes
KERNEL_SPACE: Final = 0
SHARED_GUEST: Final = 0  # the machine of guests without a kernel of their own
_GUEST_KERNEL: Final = 3 << 29  # the owner of the address space of a guest's kernel
_NEGATIVE: Final = 1 << 31


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
        guests: hypervisors whose virtual machine has a kernel of its own; the others' share one, as in perf.
        comms: the names of an earlier timeline, to which new ones are added; None for a new list.
    """

    def __init__(
        self,
        records: TaskRecords,
        *,
        build_ids: dict[str, str] | None = None,
        kernel_name: str = KERNEL_NAME,
        keep_exited: bool = False,
        dso_table: DsoTable | None = None,
        guests: Collection[int] = (),
        comms: list[str] | None = None,
    ) -> None:
        self.dso_table = DsoTable(build_ids) if dso_table is None else dso_table
        self._keys = np.maximum.accumulate(records.keys)
        self._guests = np.array(sorted(guests), np.int64)
        replay = TaskReplay(records, self.dso_table, kernel_name, keep_exited=keep_exited, guests=guests, comms=comms)
        self.comms = replay.comms
        self.tasks = IdTable()  #: of samples: pid << 32 | tid
        self._comm_numbers = {comm: number for number, comm in enumerate(self.comms)}
        self.kernels = replay.kernels  #: the host's first
        self._last_comms = replay.last_comms
        self._comm_history, self._changes, self.spaces = replay.comm_history, replay.changes, replay.spaces
        self._make_views(np.array(replay.space_pid, np.int64), np.array(replay.space_since, np.int32))

    @property
    def kernel_dso(self) -> int:
        """The host's kernel, -1 if it was not recorded."""
        return self.kernels[0].dso

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

    def shared_views(self, view: NDArray[np.int32], rank: Ranks) -> NDArray[np.int32]:
        """Return one view for all processes with the same mappings at a rank from which on they stay the same, for each view and rank.

        Code has the same meaning in all of them. Memory does not: each process has its own.
        """
        return np.where(rank >= self._shared_since[view], self._shared_view[view], view)

    def kernel_views(self, rank: Ranks) -> NDArray[np.int32]:
        """Return the view of the kernel's address space at each rank."""
        return self._view_history.find(np.full(len(rank), KERNEL_PID), rank, NO_SPACE)

    def guest_kernel_views(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int32]:
        """Return the view of the kernel of each process's virtual machine at each rank."""
        return self._view_history.find(self._guest_kernels(pid), rank, NO_SPACE)

    def _guest_kernels(self, pid: NDArray[Any]) -> NDArray[np.int64]:
        """Return the owner of the kernel's address space in the virtual machine of each process."""
        number = pid.astype(np.int64) & ~GUEST_TASK
        return np.where(np.isin(number, self._guests), number, SHARED_GUEST) | _GUEST_KERNEL

    def comm_states(self, tid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Return numbers that are equal only for threads with the same comm."""
        comms = self._comm_history.find(tid, rank, NOBODY).astype(np.int64)
        return np.where(comms >= 0, comms, -1 - tid.astype(np.uint32).astype(np.int64))

    def process_comm_states(self, pid: NDArray[Any], tid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Return numbers that are equal only for threads with the same process_comm_ids()."""
        comms = self._comm_history.find(pid, rank, NOBODY).astype(np.int64)
        return np.where(comms >= 0, comms, self.comm_states(tid, rank))

    def space_states(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Return numbers that are equal only for one process with the same mappings; of guests, also in their kernel."""
        states = self._changes.find(pid, rank, 0).astype(np.int64)
        guests = rows_where((pid.astype(np.int64) & (GUEST_TASK | _NEGATIVE)) == GUEST_TASK)
        if len(guests):
            states[guests] = states[guests] << 32 | self._changes.find(self._guest_kernels(pid[guests]), rank[guests], 0)
        return states

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
        self.first_shared_view = len(self.view_space)  #: these have mappings that were always there
        self._share_views()

    def _share_views(self) -> None:
        """Add views that processes with the same mappings share, and set the rank from which on each view is one of them."""
        space, (content, complete) = self.view_space, self.spaces.contents()
        self._shared_since = np.where(space > KERNEL_SPACE, complete[space], FOREVER)
        self._shared_view = np.arange(len(space), dtype=np.int32)
        rows = rows_where(self._shared_since < FOREVER)
        number, first = IdTable().ids_and_new(content[space[rows]])
        self._shared_view[rows] = self.first_shared_view + number
        self.view_space = np.append(space, space[rows[first]])
        self.view_first_rank = np.append(self.view_first_rank, np.zeros(len(first), np.int32))
        self.view_last_rank = np.append(self.view_last_rank, np.full(len(first), FOREVER - 1, np.int32))


# Replay the side-band records of a recording's tasks. TaskReplay gets TaskRecords as columns. It computes the comm and the address space
# of every thread and process over time, and the mappings of each space. Only records that affect the meaning of later ones are applied
# one by one: of mappings, the majority, these are the first of each process and of each file. The others are processed as columns.

_ADDRESSES: Final = 1 << 64
_KSYMBOL_UNREGISTER: Final = 1
_USER_MAP, _KERNEL_MAP = int(RecordType.MMAP2), int(RecordType.MMAP)  # steps of the replay, besides record types
_PID_WIDTH: Final = np.uint64(32)
_FOUR_GIB: Final = np.uint64(1 << 32)
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
        kernels: see TaskTimeline.
    """

    def __init__(
        self,
        records: TaskRecords,
        dso_table: DsoTable,
        kernel_name: str,
        *,
        keep_exited: bool,
        guests: Collection[int] = (),
        comms: list[str] | None = None,
    ) -> None:
        self.comms: list[str] = [] if comms is None else comms
        if not self.comms:
            self.comms.append(IDLE)
        self._dso_table = dso_table
        self._kernel_name = kernel_name
        self._files, self._comms, self._ksymbols = records.files, records.comms, records.ksymbols
        mode = records.maps.mode
        self._kernel_maps = records.maps.rows((mode == MISC_KERNEL) | (mode == MISC_GUEST_KERNEL))
        is_of_guest = self._kernel_maps.mode == MISC_GUEST_KERNEL
        hypervisors = self._kernel_maps.pid.astype(np.int64)
        machine = np.where(
            is_of_guest, np.where(are_among(hypervisors, np.array(sorted(guests), np.int64)), hypervisors, SHARED_GUEST), HOST
        )
        self.kernels = [RecordedKernel(HOST), *map(RecordedKernel, distinct(machine[is_of_guest]).tolist())]
        space_of = {kernel.machine: space for space, kernel in enumerate(self.kernels)}
        self._space_of_map = [space_of[number] for number in machine.tolist()]
        # user mode, or unknown in the oldest files
        in_user_mode = (mode == 0) | (mode == MISC_KERNEL + 1) | (mode == MISC_GUEST_USER)
        self._user = _UserMaps(_apart(records.maps.rows(in_user_mode)), records.files, has_vdso32=dso_table.has_vdso32)
        self._tasks = _TaskRecords(records.tasks, with_exits=not keep_exited)
        self._thread_comms = ThreadComms(0)  # by index of comms
        owners = [kernel.machine | _GUEST_KERNEL for kernel in self.kernels[1:]]
        self._processes = ProcessSpaces(with_exits=not keep_exited, kernels=[KERNEL_PID, *owners])
        self._keep_exited = keep_exited
        self._early_comms: dict[int, int] = {}  #: tid -> the first name of threads that were there before the recording
        self._unnamed_forks: dict[int, int] = {}  #: tid -> index into the comms of tasks
        self.space_pid, self.space_since = self._processes.pid, self._processes.since
        self._comm_numbers = {comm: number for number, comm in enumerate(self.comms)}
        self._number_of_comm = [-1] * len(self._comms)
        self._task_comms: list[int] = []  # the comm after each task record
        self._kernel_changes: list[tuple[int, int]] = []  # rank, owner
        self._builder = SpaceBuilder()
        for _ in self.kernels:
            self._builder.new_space(live=True)
        self._apply_in_order()
        tasks, user = self._tasks, self._user.maps
        early_tids, early_comms = self._early_comms.keys(), self._early_comms.values()
        self.comm_history = ValueHistory(
            [0, *early_tids, *tasks.tid], [*[0] * (1 + len(early_tids)), *tasks.rank], [0, *early_comms, *self._task_comms]
        )
        of_kernels = np.array(self._kernel_changes, np.int64).reshape(-1, 2)
        changed = np.concatenate([self.space_since[len(self.kernels) :], user.rank, of_kernels[:, 0]]).astype(np.int32)
        owner = np.concatenate([self.space_pid[len(self.kernels) :], user.pid, of_kernels[:, 1]])
        self.changes = ValueHistory(owner, changed, changed)
        self.last_comms = self._thread_comms.last()
        self.spaces = self._map_all()

    def _apply_in_order(self) -> None:
        """Apply the records that must be applied one by one."""
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
        user, maps, first = self._user, self._user.maps, len(self.kernels)
        pids, since = self.space_pid[first:], self.space_since[first:]
        self._builder.new_spaces(self._processes.parent[first:], since)
        space = ValueHistory(pids, since, np.arange(first, len(self.space_pid))).find(maps.pid, maps.rank, -1)
        dso = np.array(user.dso_of_mapped, np.int32)[user.mapped]
        bias = np.where(user.is_memory[maps.file], np.uint64(0), maps.pgoff - maps.start)
        self._builder.insert_all(MappingColumns(maps.start, maps.start + maps.length, bias, dso), space, maps.rank)
        # Set the pids that mapped each Dso.
        pairs = distinct(dso.astype(np.uint64) << _PID_WIDTH | self._user.maps.pid)
        dsos, mapped_by = (pairs >> _PID_WIDTH).astype(np.int64), pairs.astype(np.uint32)
        first_rows = rows_where(np.diff(dsos, prepend=-1)).tolist()
        for row, end in pairwise([*first_rows, len(pairs)]):
            self._dso_table.dsos[int(dsos[row])].pids.update(mapped_by[row:end].tolist())
        return self._builder.build()

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
        if self._keep_exited and tid not in self._thread_comms.living:
            # To perf report, a thread's first name is also that of its samples before it.
            fork = self._unnamed_forks.pop(tid, None)
            if fork is None:
                self._early_comms.setdefault(tid, number)
            else:
                self._task_comms[fork] = number
        self._thread_comms.living[tid] = number
        self._task_comms.append(number)
        if tid != pid:
            self._processes.add_thread(pid, tid)

    def _fork(self, row: int, rank: int) -> None:
        tasks = self._tasks
        tid = tasks.tid[row]
        comm = self._thread_comms.fork(tid, tasks.ptid[row])
        if comm is None:
            self._unnamed_forks[tid] = len(self._task_comms)
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
        name = VDSO_OF_32_BITS if user.is_vdso32[row] else shown_name(file.name, pid, file.flags, executable=file.executable)
        kind = DsoKind.NONE if is_memory(name, file.flags) and name == file.name else user_kind(name)
        user.dso_of_mapped.append(self._dso_table.id_of(name, kind, file.build_id.hex(), file.identity))

    def _kernel_mmap(self, row: int, rank: int) -> None:
        maps, space = self._kernel_maps, self._space_of_map[row]
        kernel = self.kernels[space]
        file = self._files[maps.file[row]]
        name, start, pgoff = file.name, int(maps.start[row]), int(maps.pgoff[row])
        end = start + int(maps.length[row])
        kernel.maps_seen += 1
        if is_kernel_name(name, of_guest=kernel.machine != HOST):
            if kernel.dso < 0:
                own = self._kernel_name if kernel.machine == HOST else kernel.name
                kernel.dso = self._dso_table.id_of(own, DsoKind.KERNEL, file.build_id.hex(), machine=kernel.machine)
            dso, bias = kernel.dso, 0
            if start == end == 0:
                end = _ADDRESSES - 1
            if pgoff:
                kernel.reference = (name[len(KERNEL_NAME if name.startswith(KERNEL_NAME[:-1]) else kernel.name) :], pgoff)
        elif name.startswith(("/", "[")) and (start or (end == _ADDRESSES - 1 and _last_of_two_found(kernel.maps_seen))):
            dso = self._dso_table.id_of(name, DsoKind.MODULE, file.build_id.hex(), machine=kernel.machine)
            bias = -start % _ADDRESSES
        else:
            return
        self._builder.insert(space, Mapping(start, min(end, _ADDRESSES - 1), bias, dso), rank)
        self._kernel_changes.append((rank, self._processes.pid[space]))

    def _ksymbol(self, row: int, rank: int) -> None:
        record: Ksymbol = self._ksymbols[row][1]
        self._kernel_changes.append((rank, KERNEL_PID))
        if record.flags & _KSYMBOL_UNREGISTER:
            held = self._builder.holder(KERNEL_SPACE, record.addr)
            if held and held.dso != self.kernels[0].dso:
                self._builder.remove(KERNEL_SPACE, record.addr, rank)
        elif self._builder.holder(KERNEL_SPACE, record.addr) is None:
            dso = self._dso_table.id_of(record.name, DsoKind.BPF)
            mapping = Mapping(record.addr, record.addr + record.len, -record.addr % _ADDRESSES, dso)
            self._builder.insert(KERNEL_SPACE, mapping, rank)


class RecordedKernel:
    """The kernel of one machine.

    Attributes:
        machine: HOST, or the hypervisor of a virtual machine; SHARED_GUEST for the kernel that all others share.
        dso: its number, -1 if it was not recorded.
        reference: a symbol and its recorded address, which show by how much the kernel was relocated.
        maps_seen: the number of its maps.
    """

    __slots__ = ("dso", "machine", "maps_seen", "reference")

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self.dso = -1
        self.reference: tuple[str, int] | None = None
        self.maps_seen = 0

    @property
    def name(self) -> str:
        """The kernel's name in records."""
        if self.machine == HOST:
            return KERNEL_NAME
        return f"{GUEST_KERNEL_NAME[:-1]}.{self.machine}]" if self.machine else GUEST_KERNEL_NAME


def _apart(maps: MapColumns) -> MapColumns:
    """Return mappings with the processes of virtual machines told apart from the hypervisors."""
    return maps._replace(pid=guest_tasks(maps.pid, maps.mode))


def guest_tasks(number: NDArray[Any], cpumode: NDArray[Any]) -> NDArray[Any]:
    """Return pids or tids, with a mark in those of virtual machines: a task of a guest has the number of its host's, but not its name."""
    is_of_guest = cpumode >= MISC_GUEST_KERNEL
    return np.where(is_of_guest, number | number.dtype.type(GUEST_TASK), number) if is_of_guest.any() else number


class _UserMaps:
    """The mappings of processes.

    Attributes:
        is_memory: for each file, whether it is memory instead.
        is_vdso32: for each mapping, whether it is the vdso of a 32-bit program among 64-bit ones, which has the same name in the record.
        mapped: for each mapping, the number of the mapped file or of one process's memory, in order of appearance.
        first_rows: mappings that are the first of their addresses or of their process.
        dso_of_mapped: filled in by the replay.
    """

    def __init__(self, maps: MapColumns, files: list[MappedFile], *, has_vdso32: bool) -> None:
        self.maps = maps
        self.is_memory = np.array([is_memory(file.name, file.flags) for file in files], bool)
        is_code = self.is_memory & np.array([file.executable for file in files], bool)
        is_vdso = np.array([has_vdso32 and file.name == VDSO for file in files], bool)
        self.is_vdso32 = is_vdso[maps.file] & (maps.start < _FOUR_GIB)
        file = maps.file.astype(np.uint64) << np.uint64(33) | self.is_vdso32
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


# Values of owners (pids, tids) over time. ValueHistory looks up whole columns of (owner, rank), DeliveredValues columns of (owner,
# delivery key). Ranks are numbers of records (see perfpy.symbols.address_spaces), keys those of perfdata.reader.

_WIDTH: Final = np.uint64(32)
_RANK: Final = np.uint64(0xFFFFFFFF)
_MANY: Final = 4096  # rows from which on a table of all owners is cheaper than a search among the keys of all owners
_SPARSE: Final = 8  # the largest owner, by the number of rows, for which there is such a table


class ValueHistory:
    """Rows of (owner, rank, value): the owner has the value from the rank on. For equal owners and ranks the last row counts."""

    def __init__(self, owner: ArrayLike, rank: ArrayLike, value: ArrayLike) -> None:
        keys = _keys(np.asarray(owner, np.int64), np.asarray(rank, np.int64))
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], np.asarray(value, np.int32)[order]
        self._owners: NDArray[np.uint32] = (self._keys >> _WIDTH).astype(np.uint32)

    @cached_property
    def _ends(self) -> NDArray[np.int32]:
        """The end of the keys of each owner, from -1 on to the highest one, and once more for all others."""
        owners = np.arange(-1, int(self._owners[-1]) + 2)
        return np.searchsorted(self._owners, owners, side="right").astype(np.int32)

    @cached_property
    def _most_keys(self) -> int:
        """The largest number of keys of an owner."""
        return int(np.diff(self._ends).max())

    def find(self, owner: NDArray[Any], rank: NDArray[Any], default: int) -> NDArray[np.int32]:
        """Return the value of each owner at each rank, `default` before its first."""
        if not len(self._keys):
            return np.full(len(owner), default, np.int32)
        if len(owner) >= _MANY and int(self._owners[-1]) < _SPARSE * len(owner):
            # Search among the keys of each owner only: all owners halve their range at the same time.
            ends = self._ends
            owners = np.minimum(owner.astype(np.uint32), np.uint32(len(ends) - 2))
            low, high = ends[owners], ends[1:][owners]  # the answer is before the first key of a higher rank
            begin = low.copy()
            ranks, searched = (self._keys & _RANK).astype(np.uint32), rank.astype(np.uint32)
            for _ in range(self._most_keys.bit_length()):
                middle = (low + high) >> 1
                is_lower = (low < high) & (ranks.take(middle, mode="clip") <= searched)
                low, high = np.where(is_lower, middle + 1, low), np.where(is_lower, high, middle)
            return np.where(low > begin, self._values.take(low - 1, mode="clip"), np.int32(default))
        search_keys = _keys(owner, rank)
        index = np.searchsorted(self._keys, search_keys, side="right") - 1
        is_known = (index >= 0) & (self._keys[index] >> _WIDTH == search_keys >> _WIDTH)
        return np.where(is_known, self._values[index], np.int32(default))


class DeliveredValues:
    """Rows of (owner, key, value): the owner has the value from the delivery key on. For equal owners and keys the last row counts."""

    def __init__(self, owner: ArrayLike, key: ArrayLike, value: ArrayLike) -> None:
        keys = np.asarray(key, np.uint64)
        self._keys = distinct(keys)
        self._history = ValueHistory(owner, self._ranks(keys), value)

    def find(self, owner: NDArray[Any], key: NDArray[np.uint64], default: int) -> NDArray[np.int32]:
        """Return the value of each owner at each key, `default` before its first."""
        return self._history.find(owner, self._ranks(key), default)

    def _ranks(self, key: NDArray[np.uint64]) -> NDArray[np.int64]:
        if len(key) >= _MANY > len(self._keys) and bool((key[1:] >= key[:-1]).all()):
            borders = np.searchsorted(key, self._keys)  # few searches among many rows
            return np.repeat(np.arange(len(self._keys) + 1), np.diff(borders, prepend=0, append=len(key)))
        return np.searchsorted(self._keys, key, side="right")


def _keys(owner: NDArray[Any], rank: NDArray[Any]) -> NDArray[np.uint64]:
    return owner.astype(np.uint32).astype(np.uint64) << _WIDTH | rank.astype(np.uint64)


def without_mark(tasks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return number_of() of many tasks."""
    return np.where(tasks > 0, tasks & ~GUEST_TASK, tasks)
