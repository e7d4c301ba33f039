"""Threads and processes as side-band records tell of them: names of threads, address spaces of processes, names of mappings.

Imports no numpy, because `report --tasks` and the end of `perfpy record` do without.
"""

from __future__ import annotations

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_GUEST_KERNEL, MISC_KERNEL
from perfpy.abi.light_types import TYPE_CHECKING, Generic, TypeVar
from perfpy.abi.records import Comm, Exit, Fork, copies_parent
from perfpy.untrusted.files import perf_map

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final


# Apply fork, exec, comm and exit to tasks.
#
# Records arrive in delivery order, one call each, as plain numbers. ThreadComms has the current comm of each thread. ProcessSpaces has the
# current address space of each process and the space it was copied from. Reports call them from columns (address_spaces), `report --tasks`
# and `script` from records.
#
# The rules are perf 6.12's, derived from its output: a thread gets its name from the thread that forked it, if that one is named; exec
# itself ends nothing, because the new program's COMM and mappings follow and cover the old ones.


KERNEL_PID: Final = -1  # the pid of the kernel's address space
GUEST_TASK: Final = 1 << 30  # no process has so large a number
NO_PARENT: Final = -1  # of an address space that is not a copy
_UNSIGNED: Final = (1 << 32) - 1
IDLE: Final = "swapper"  # the comm of thread 0

CommT = TypeVar("CommT")


def name_of_unnamed(tid: int) -> str:
    """Return the name of an unnamed thread."""
    return f":{number_of(tid)}"


def number_of(task: int) -> int:
    """Return a pid or tid without the mark of guest_tasks()."""
    return task & ~GUEST_TASK if task > 0 else task


class ThreadComms(Generic[CommT]):
    """The current comm of each thread.

    Args:
        idle: the name of thread 0.

    Attributes:
        living: tid -> name of running threads.
    """

    __slots__ = ("_ended", "living")

    def __init__(self, idle: CommT) -> None:
        self.living = {0: idle}
        self._ended: dict[int, CommT] = {}

    def fork(self, tid: int, ptid: int) -> CommT | None:
        """Give a new thread its parent's name and return it, or None if the parent is unnamed."""
        comm = self.living.get(ptid)
        if comm is None:
            self.forget(tid)
        else:
            self.living[tid] = comm
        return comm

    def exit(self, tid: int) -> None:
        """Remove a thread, remembering its last name."""
        if tid in self.living:
            self._ended[tid] = self.living.pop(tid)

    def forget(self, tid: int) -> None:
        """Forget a thread's name, because its tid now means another thread."""
        self.living.pop(tid, None)
        self._ended.pop(tid, None)

    def last(self) -> dict[int, CommT]:
        """The last name of every thread, including exited ones."""
        return self._ended | self.living


class TaskNames:
    """ThreadComms updated from records."""

    __slots__ = ("_comms",)

    def __init__(self) -> None:
        self._comms = ThreadComms(IDLE)

    def apply(self, record: object) -> None:
        """Apply a record."""
        if isinstance(record, Comm):
            self._comms.living[record.tid] = record.comm
        elif isinstance(record, Fork):
            self._comms.fork(record.tid, record.ptid)
        elif isinstance(record, Exit):
            self._comms.exit(record.tid)

    def name(self, tid: int) -> str:
        """Return the comm of a thread (signed or unsigned tid), ":TID" if it is unnamed."""
        return self._comms.living.get(tid & _UNSIGNED, name_of_unnamed(tid))


class ProcessSpaces:
    """The address space of each process. Spaces are numbered in order of appearance; the first are the kernels'.

    Args:
        with_exits: whether exits are reported, so that processes end with their last thread.
        kernels: the owners of the kernels' spaces, the host's first.

    Attributes:
        pid: the process of each space.
        since: the rank from which the process has the space.
        parent: the space that each space started as a copy of.
    """

    __slots__ = ("_dropped", "_of", "_threads", "_with_exits", "parent", "pid", "since")

    def __init__(self, *, with_exits: bool = False, kernels: Sequence[int] = (KERNEL_PID,)) -> None:
        self.pid = [*kernels]
        self.since = [0] * len(self.pid)
        self.parent = [NO_PARENT] * len(self.pid)
        self._of: dict[int, int] = {}  # by pid
        self._with_exits = with_exits
        self._threads: dict[int, set[int]] = {}  # running threads by pid
        self._dropped: dict[int, tuple[int, int]] = {}  # exited process -> rank of the exit, and the space it had

    def of(self, pid: int, rank: int = 0) -> int:
        """Return the space of a process, creating one for an unknown process."""
        space = self._of.get(pid)
        return self._start(pid, rank) if space is None else space

    def add_thread(self, pid: int, tid: int) -> None:
        """Record that a thread of the process runs."""
        threads = self._threads.get(pid)
        if threads is not None:
            threads.add(tid)
        elif self._with_exits:  # without exits, the remaining threads do not matter
            self._threads[pid] = {tid}

    def fork(self, pid: int, tid: int, ppid: int, misc: int, rank: int = 0) -> None:
        """Apply the fork of a thread or process."""
        self._dropped.pop(pid, None)
        if pid == ppid:
            self.add_thread(pid, tid)
        else:
            self._start(pid, rank, self._of.get(ppid, NO_PARENT) if copies_parent(pid, ppid, misc) else NO_PARENT)

    def forget(self, pid: int) -> None:
        """Forget a process, because its pid now means another one."""
        self._of.pop(pid, None)

    def exit(self, pid: int, tid: int, rank: int) -> None:
        """Remove a thread, and with its last thread a process."""
        threads = self._threads.get(pid, set())
        threads.discard(tid)
        dropped = self._dropped.pop(pid, None)
        if dropped and tid != pid:  # an unknown thread kept the mappings until now
            self._start(pid, *dropped)
        space = self._of.get(pid)
        if not threads and space is not None:
            self._dropped[pid] = rank, space
            self._start(pid, rank)

    def _start(self, pid: int, rank: int, parent: int = NO_PARENT) -> int:
        self.add_thread(pid, pid)
        space = self._of[pid] = len(self.pid)
        self.pid.append(pid)
        self.since.append(rank)
        self.parent.append(parent)
        return space


# The meanings of file names in MMAP records of processes: files, anonymous memory, generated code. The names are the kernel's (mm/mmap.c,
# kernel/events/core.c).

MAP_HUGETLB: Final = 0x40000  # asm-generic/mman-common.h
#: memory that programs move their text to, in /proc/PID/maps; the name of usual anonymous memory is empty
_MOVE_TARGETS: Final = ("/anon_hugepage", "/memfd:", "/dev/shm/", "/dev/hugepages/", "/dev/zero", "[anon:", "[anon_shmem:")


def is_user_map(misc: int) -> bool:
    """Whether a record maps something into its process's address space."""
    return misc & MISC_CPUMODE_MASK not in (MISC_KERNEL, MISC_GUEST_KERNEL)


def is_anonymous(name: str) -> bool:
    """Whether a mapping has no file: //anon, /dev/zero, huge pages."""
    return name == "//anon" or name.startswith(("/dev/zero", "/anon_hugepage"))


def has_no_file(name: str) -> bool:
    """Whether a mapping is [heap], [stack...] or System V shared memory."""
    return name == "[heap]" or name.startswith(("[stack", "/SYSV"))


def is_memory(name: str, flags: int = 0) -> bool:
    """Whether a mapping is memory instead of a file. `flags`: of mmap()."""
    return is_anonymous(name) or has_no_file(name) or bool(flags & MAP_HUGETLB)


def is_move_target(path: str) -> bool:
    """Whether a name in /proc/PID/maps is that of memory to which programs move their text."""
    return not path or path.startswith(_MOVE_TARGETS)


def shown_name(name: str, pid: int, flags: int, *, executable: bool) -> str:
    """Return the name of a mapping: its file, or for generated code the perf map of its process."""
    return perf_map(pid) if executable and is_memory(name, flags) else name
