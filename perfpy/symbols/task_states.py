"""Apply fork, exec, comm and exit to tasks.

Records arrive in delivery order, one call each, as plain numbers. ThreadComms has the current comm of each thread. ProcessSpaces has the
current address space of each process and the space it was copied from. Reports call them from columns (task_replay), `report --tasks` and
`script` from records (task_tree, TaskNames). The end of `perfpy record`, which sees records unordered, uses only `copies_parent`; therefore
no numpy here.

The rules are perf 6.12's, derived from its output: a thread gets its name from the thread that forked it, if that one is named; exec itself
ends nothing, because the new program's COMM and mappings follow and cover the old ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from perfpy.abi.flags import MISC_FORK_EXEC
from perfpy.abi.records import Comm, Exit, Fork

if TYPE_CHECKING:
    from collections.abc import Mapping

KERNEL_PID: Final = -1  # the pid of the kernel's address space
KERNEL_SPACE: Final = 0
NO_PARENT: Final = -1  # of an address space that is not a copy
_UNSIGNED: Final = (1 << 32) - 1
IDLE: Final = "swapper"  # the comm of thread 0

CommT = TypeVar("CommT")


def copies_parent(pid: int, ppid: int, misc: int) -> bool:
    """Whether a FORK gives its process a copy of the parent's mappings.

    Threads share them, and a FORK that perf synthesized for a running process is followed by the process's own mappings.
    """
    return pid != ppid and not misc & MISC_FORK_EXEC


def name_of_unnamed(tid: int) -> str:
    """Return the name of an unnamed thread."""
    return f":{tid}"


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

    def last(self) -> Mapping[int, CommT]:
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
    """The address space of each process. Spaces are numbered in order of appearance; the first is the kernel's.

    Args:
        with_exits: whether exits are reported, so that processes end with their last thread.

    Attributes:
        pid: the process of each space.
        since: the rank from which the process has the space.
        parent: the space that each space started as a copy of.
    """

    __slots__ = ("_dropped", "_of", "_threads", "_with_exits", "parent", "pid", "since")

    def __init__(self, *, with_exits: bool = False) -> None:
        self.pid = [KERNEL_PID]
        self.since = [0]
        self.parent = [NO_PARENT]
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
