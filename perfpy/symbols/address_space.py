"""Tasks over time: the command of every thread and the address space of every process.

What enters: a recording's side-band records in delivery order, each with its
key (the delivery key of perfdata.reader). What leaves: `TaskTimeline`, which
answers for whole columns of samples: which comm, and which view.

A view is an address space during a span in which nothing that was mapped went
away; so (view, address) names a mapping but for moments before the mapping
came, which the symbolizer checks. A forked process has a copy of its parent's
address space. After exec, the mappings of the new program cover the old ones:
those that they leave are still asked for, by callchains out of execve itself.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from perfpy.abi import records
from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_FORK_EXEC, MISC_KERNEL, MISC_MMAP_DATA
from perfpy.symbols.dso import KERNEL_NAME, MAP_HUGETLB, DsoKind, DsoTable, is_module, user_kind
from perfpy.symbols.intervals import FOREVER, AddressSpaces, Mapping, SpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Ranks = NDArray[np.int32]
_PROT_EXEC: Final = 4
_ADDRESSES: Final = 1 << 64
_KSYMBOL_UNREGISTER: Final = 1
_KERNEL_SPACE: Final = 0
_KERNEL_PID: Final = -1  # as whose the kernel's address space is kept
_KERNEL_PREFIX: Final = KERNEL_NAME[:-1]
_WIDTH: Final = np.uint64(32)

NO_SPACE: Final = 0  # a view without mappings: the process is not known


class Delivered(Protocol):
    """What perfdata.reader's SideRecord offers."""

    @property
    def record(self) -> Any:
        """A record of abi.records."""

    @property
    def key(self) -> int:
        """Its delivery key."""


def kernel_name(entries: Iterable[tuple[int, str]]) -> str:
    """What a recording's build-id table calls the kernel: (misc, file name) each; [kernel.kallsyms] unless it says otherwise."""
    for misc, name in entries:
        if misc & MISC_CPUMODE_MASK == MISC_KERNEL and not is_module(name):
            return name
    return KERNEL_NAME


class _Spans:
    """Who has which value from which rank on: (id, rank) -> value, for columns."""

    def __init__(self) -> None:
        self._rows = array("q")  # owner, rank, value of each
        self._latest: dict[int, int] = {}
        self._final: dict[int, int] = {}

    def add(self, owner: int, rank: int, value: int) -> None:
        """As `set`, where nobody will ask for `latest` and `final`."""
        self._rows.extend((owner & 0xFFFFFFFF, rank, value))

    def set(self, owner: int, rank: int, value: int) -> None:
        """From `rank` on, `owner` (a pid or tid) has `value`."""
        self.add(owner, rank, value)
        self._latest[owner] = self._final[owner] = value

    def forget(self, owner: int, rank: int, value: int) -> None:
        """From `rank` on the owner is gone: it has `value`, which counts as none for `latest`."""
        self.add(owner, rank, value)
        self._latest.pop(owner, None)

    def final(self, owner: int) -> int | None:
        """The value that the owner had last, before it was gone."""
        return self._final.get(owner)

    def latest(self, owner: int) -> int | None:
        """The value set last, None before the first."""
        return self._latest.get(owner)

    def freeze(self) -> None:
        """Sort what was set; afterwards `find` works."""
        rows = np.array(self._rows, np.int64).reshape(-1, 3)
        keys = rows[:, 0].astype(np.uint64) << _WIDTH | rows[:, 1].astype(np.uint64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], rows[order, 2].astype(np.int32)
        del self._rows, self._latest

    def find(self, owner: NDArray[Any], rank: Ranks, default: int) -> NDArray[np.int32]:
        """The value of each owner at each rank."""
        if not len(self._keys):
            return np.full(len(owner), default, np.int32)
        wanted = owner.astype(np.uint32).astype(np.uint64)
        at = np.searchsorted(self._keys, wanted << _WIDTH | rank.astype(np.uint64), side="right") - 1
        known = (at >= 0) & (self._keys[at] >> _WIDTH == wanted)
        return np.where(known, self._values[at], np.int32(default))


class TaskTimeline:
    """Commands and address spaces of all tasks of a recording, over time.

    records: the side-band in delivery order. build_ids: file name -> hex, of the
    recording's BUILD_ID feature; kernel_name: what the kernel is called there
    (see `kernel_name`). keep_exited: whether threads that exited
    keep their names (perf report has it so, perf script not).
    """

    def __init__(
        self,
        side_records: Iterable[Delivered],
        *,
        build_ids: dict[str, str] | None = None,
        kernel_name: str = KERNEL_NAME,
        keep_exited: bool = False,
    ) -> None:
        self.dso_table = DsoTable(build_ids)
        self.comms: list[str] = ["swapper"]
        self._keep_exited = keep_exited
        self.kernel_reference: tuple[str, int] | None = None
        self.kernel_dso = -1
        self._kernel_maps = 0
        self._kernel_name = kernel_name
        self._comm_numbers = {"swapper": 0}
        self._comm_spans = _Spans()
        self._comm_spans.set(0, 0, 0)
        self._space_spans = _Spans()
        self._known_files: dict[tuple[str, bytes, int], tuple[int, bool]] = {}  # what _user_file says of those that all processes share
        self._changes = _Spans()  # of a process's address space: each has a number of its own
        self._threads: dict[int, set[int]] = {}  # that live, by pid
        self._builder = SpaceBuilder()
        self._builder.new_space(live=True)  # the kernel's
        self._dropped: dict[int, tuple[int, int]] = {}  # of a process whose mappings went: at which rank, and the space with them
        self._space_since: list[tuple[int, int]] = [(_KERNEL_PID, 0)]  # of each space: its pid, and the rank at which it began
        self._keys = self._replay(side_records)
        self._comm_spans.freeze()
        self._changes.freeze()
        self.spaces: AddressSpaces = self._builder.build()
        self._make_views()
        # what only the replay needed: a system-wide recording of a build has very many processes
        del self._builder, self._threads, self._dropped, self._space_since, self._known_files, self._space_spans

    def ranks(self, key: NDArray[np.uint64]) -> Ranks:
        """How many of the records that matter here had happened at each key."""
        if not len(key):
            return np.zeros(0, np.int32)
        # batches are short against the recording: few records, often none, fall into one
        low, high = np.searchsorted(self._keys, np.array([key.min(), key.max()]), side="right").tolist()
        if low == high:
            return np.full(len(key), low, np.int32)
        found: Ranks = (np.searchsorted(self._keys[low:high], key, side="right") + low).astype(np.int32)
        return found

    def comm_ids(self, tid: NDArray[Any], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The comm of each thread at each key, as numbers into `comms`; a thread that nothing named is ":TID"."""
        found = self._comm_spans.find(tid, self.ranks(key), -1)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            strangers, which = np.unique(tid[unknown].astype(np.int32), return_inverse=True)
            numbers = [self._comm_number(f":{stranger}") for stranger in strangers.tolist()]
            found[unknown] = np.array(numbers, np.int32)[which.ravel()]
        return found

    def last_comm(self, tid: int) -> str:
        """The comm that a thread had last."""
        number = self._comm_spans.final(tid)
        return f":{tid}" if number is None else self.comms[number]

    def views(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int32]:
        """The view of each process at each rank; NO_SPACE for processes without any mapping."""
        return self._view_spans.find(pid, rank, NO_SPACE)

    def kernel_views(self, rank: Ranks) -> NDArray[np.int32]:
        """The view of the kernel's own address space at each rank."""
        return self._view_spans.find(np.full(len(rank), _KERNEL_PID), rank, NO_SPACE)

    def comm_states(self, tid: NDArray[Any], rank: Ranks) -> NDArray[np.int64]:
        """Numbers that are equal only for threads of the same comm."""
        found = self._comm_spans.find(tid, rank, -1).astype(np.int64)
        return np.where(found >= 0, found, -1 - tid.astype(np.uint32).astype(np.int64))

    def space_states(self, pid: NDArray[Any], rank: Ranks) -> NDArray[np.int32]:
        """Numbers that are equal only where the same is mapped, by the same process."""
        return self._changes.find(pid, rank, 0)

    def kernel_states(self, rank: Ranks) -> NDArray[np.int32]:
        """As space_states, of the kernel's address space."""
        return self._changes.find(np.full(len(rank), _KERNEL_PID), rank, 0)

    def _comm_number(self, comm: str) -> int:
        number = self._comm_numbers.get(comm)
        if number is None:
            number = self._comm_numbers[comm] = len(self.comms)
            self.comms.append(comm)
        return number

    def _replay(self, side_records: Iterable[Delivered]) -> NDArray[np.uint64]:
        """Apply the records in order; return the keys of those that had an effect here."""
        handlers: dict[type, Callable[[Any, int], None]] = {
            records.Mmap: self._mmap,
            records.Mmap2: self._mmap,
            records.Comm: self._comm,
            records.Fork: self._fork,
            records.Exit: self._exit,
            records.Ksymbol: self._ksymbol,
        }
        keys: list[int] = []
        for side in side_records:
            handler = handlers.get(type(side.record))
            if handler:
                keys.append(side.key)
                handler(side.record, len(keys))
        return np.maximum.accumulate(np.array(keys, np.uint64))

    def _start_space(self, pid: int, rank: int, parent: int = -1) -> int:
        space = self._builder.new_space(parent, rank)
        self._space_since.append((pid, rank))
        self._threads.setdefault(pid, set()).add(pid)
        self._space_spans.set(pid, rank, space)
        self._changed(pid, rank)
        return space

    def _changed(self, pid: int, rank: int) -> None:
        self._changes.add(pid, rank, rank)

    def _comm(self, record: records.Comm, rank: int) -> None:
        self._comm_spans.set(record.tid, rank, self._comm_number(record.comm))
        if record.tid != record.pid:
            self._threads.setdefault(record.pid, set()).add(record.tid)

    def _fork(self, record: records.Fork, rank: int) -> None:
        comm = self._comm_spans.latest(record.ptid)
        self._comm_spans.set(record.tid, rank, self._comm_number(f":{record.tid}") if comm is None else comm)
        self._dropped.pop(record.pid, None)
        if record.pid != record.ppid:
            # a FORK that perf made up for a running process is followed by that process's own mappings
            made_up = bool(record.misc & MISC_FORK_EXEC)
            parent = None if made_up else self._space_spans.latest(record.ppid)
            self._start_space(record.pid, rank, -1 if parent is None else parent)
        else:
            self._threads.setdefault(record.pid, set()).add(record.tid)

    def _exit(self, record: records.Exit, rank: int) -> None:
        if self._keep_exited:  # as perf report has it; perf script forgets a thread, and with its last thread a process
            return
        self._comm_spans.forget(record.tid, rank, self._comm_number(f":{record.tid}"))
        threads = self._threads.get(record.pid, set())
        threads.discard(record.tid)
        dropped = self._dropped.pop(record.pid, None)
        if dropped and record.tid != record.pid:  # a thread that nothing spoke of: it kept the mappings until now
            self._start_space(record.pid, *dropped)
        space = self._space_spans.latest(record.pid)
        if not threads and space is not None:
            self._dropped[record.pid] = rank, space
            self._start_space(record.pid, rank)

    def _mmap(self, record: records.Mmap | records.Mmap2, rank: int) -> None:
        mode = record.misc & MISC_CPUMODE_MASK
        if mode == MISC_KERNEL:
            self._kernel_mmap(record, rank)
        elif mode <= MISC_KERNEL + 1:  # user, or unknown in the oldest files
            self._user_mmap(record, rank)

    def _user_mmap(self, record: records.Mmap | records.Mmap2, rank: int) -> None:
        pid, start = record.pid, record.addr
        if isinstance(record, records.Mmap2):
            executable, huge, build_id = record.prot & _PROT_EXEC, record.flags & MAP_HUGETLB, record.build_id
        else:
            executable, huge, build_id = not record.misc & MISC_MMAP_DATA, 0, b""
        dso, of_file = self._known_files.get((record.filename, build_id, huge)) or self._user_file(record, executable, huge, build_id)
        self.dso_table.dsos[dso].pids.add(pid)
        bias = (record.pgoff - start) % _ADDRESSES if of_file else 0
        space = self._space_spans.latest(pid)
        if space is None:
            space = self._start_space(pid, rank)
        self._builder.insert(space, Mapping(start, start + record.len, bias, dso), rank)
        self._changes.add(pid, rank, rank)

    def _user_file(self, record: records.Mmap | records.Mmap2, executable: int, huge: int, build_id: bytes) -> tuple[int, bool]:
        """(the Dso of a mapping, whether addresses are counted from the file's beginning)."""
        name, kind = record.filename, user_kind(record.filename)
        if kind is not DsoKind.NONE and not huge:
            found = self.dso_table.id_of(name, kind, build_id.hex()), True
            self._known_files[name, build_id, huge] = found
            return found
        kind = DsoKind.NONE
        if executable:  # code that a process has made for itself
            name, kind = f"/tmp/perf-{record.pid}.map", DsoKind.JIT
        return self.dso_table.id_of(name, kind, build_id.hex()), False

    def _kernel_mmap(self, record: records.Mmap | records.Mmap2, rank: int) -> None:
        name, start, end = record.filename, record.addr, record.addr + record.len
        self._kernel_maps += 1
        build_id = record.build_id.hex() if isinstance(record, records.Mmap2) else ""
        if name.startswith(_KERNEL_PREFIX):
            dso, bias = self._kernel_number(build_id), 0
            if start == end == 0:
                end = _ADDRESSES - 1
            if record.pgoff:
                self.kernel_reference = (name[len(KERNEL_NAME) :], record.pgoff)
        elif name.startswith(("/", "[")) and (start or (end == _ADDRESSES - 1 and _last_of_two_found(self._kernel_maps))):
            dso, bias = self.dso_table.id_of(name, DsoKind.MODULE, build_id), -start % _ADDRESSES
        else:
            return
        self._builder.insert(_KERNEL_SPACE, Mapping(start, min(end, _ADDRESSES - 1), bias, dso), rank)
        self._changed(_KERNEL_PID, rank)

    def _kernel_number(self, build_id: str) -> int:
        if self.kernel_dso < 0:
            self.kernel_dso = self.dso_table.id_of(self._kernel_name, DsoKind.KERNEL, build_id)
        return self.kernel_dso

    def _ksymbol(self, record: records.Ksymbol, rank: int) -> None:
        self._changed(_KERNEL_PID, rank)
        if record.flags & _KSYMBOL_UNREGISTER:
            held = self._builder.holder(_KERNEL_SPACE, record.addr)
            if held and held.dso != self.kernel_dso:
                self._builder.remove(_KERNEL_SPACE, record.addr, rank)
        elif self._builder.holder(_KERNEL_SPACE, record.addr) is None:
            dso = self.dso_table.id_of(record.name, DsoKind.BPF)
            mapping = Mapping(record.addr, record.addr + record.len, -record.addr % _ADDRESSES, dso)
            self._builder.insert(_KERNEL_SPACE, mapping, rank)

    def _make_views(self) -> None:
        """Cut every space at its conflicts, and every process's time at its spaces and their cuts."""
        spans = self._view_spans = _Spans()
        space_of_view, first_rank, last_rank = [-1], [0], [FOREVER - 1]
        for space, (pid, since) in enumerate(self._space_since):
            cuts = [since, *(rank for rank in self.spaces.conflicts.get(space, ()) if rank > since)]
            for at, rank in enumerate(cuts):
                spans.add(pid, rank, len(space_of_view))
                space_of_view.append(space)
                first_rank.append(rank)
                last_rank.append(cuts[at + 1] - 1 if at + 1 < len(cuts) else FOREVER - 1)
        spans.freeze()
        self.view_space = np.array(space_of_view, np.int32)
        self.view_first_rank = np.array(first_rank, np.int32)
        self.view_last_rank = np.array(last_rank, np.int32)


def _last_of_two_found(count: int) -> bool:
    """Whether perf, looking for an address among `count` kernel maps, finds the last of them, not the last but one.

    Where kptr_restrict hid addresses all maps are at 0, all empty but the kernel's and that of the module which was recorded
    last: these two hold all addresses, and are sorted behind the others. What a binary search comes across first counts.
    """
    middle = count // 2
    while middle < count - 2:
        middle = (middle + 1 + count) // 2
    return middle == count - 1
