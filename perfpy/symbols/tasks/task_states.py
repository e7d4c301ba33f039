"""What fork, exec, comm and exit do to tasks: the one replay of them, for whoever follows the side-band.

What enters: such records in delivery order, one call each, as plain numbers.
What leaves: ThreadComms, what each thread is called by now, and ProcessSpaces,
which address space each process has by now and where it was copied from.
Reports feed it from columns (task_replay), `report --tasks` and the lines of
`script` from records (task_tree, TaskNames); the end of `perfpy record`, which
sees records in no order, asks `copies_parent` only. So there is no numpy here.

The rules are perf 6.12's, learnt from what it prints: a thread takes its name
from the thread that forked it, if anything had named that one; exec ends
nothing by itself: the new program's COMM and mappings follow, and cover the old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from perfpy.abi.flags import MISC_FORK_EXEC
from perfpy.abi.records import Comm, Exit, Fork

if TYPE_CHECKING:
    from collections.abc import Mapping

KERNEL_PID: Final = -1  # as whose the kernel's address space is kept
KERNEL_SPACE: Final = 0
NO_PARENT: Final = -1  # of an address space that is not a copy
_UNSIGNED: Final = (1 << 32) - 1
IDLE: Final = "swapper"  # the comm of thread 0

CommT = TypeVar("CommT")


def copies_parent(pid: int, ppid: int, misc: int) -> bool:
    """Whether a FORK gives its process a copy of the parent's mappings.

    Threads share them; and a FORK that perf made up for a running process is
    followed by that process's own mappings.
    """
    return pid != ppid and not misc & MISC_FORK_EXEC


def unnamed(tid: int) -> str:
    """What a thread is called that nothing named."""
    return f":{tid}"


class ThreadComms(Generic[CommT]):
    """Which thread is called what. living: by tid, of threads that anything named; idle: the name of thread 0."""

    __slots__ = ("_ended", "living")

    def __init__(self, idle: CommT) -> None:
        self.living = {0: idle}
        self._ended: dict[int, CommT] = {}

    def fork(self, tid: int, ptid: int) -> CommT | None:
        """A new thread has its parent's name: that name; None where the parent has none."""
        comm = self.living.get(ptid)
        if comm is None:
            self.forget(tid)
        else:
            self.living[tid] = comm
        return comm

    def exit(self, tid: int) -> None:
        """The thread is no more; its last name is remembered."""
        if tid in self.living:
            self._ended[tid] = self.living.pop(tid)

    def forget(self, tid: int) -> None:
        """The number now means another thread, which nothing has named."""
        self.living.pop(tid, None)
        self._ended.pop(tid, None)

    def last(self) -> Mapping[int, CommT]:
        """The last name of every thread, those that ended too."""
        return self._ended | self.living


class TaskNames:
    """ThreadComms that records are applied to as they are."""

    __slots__ = ("_comms",)

    def __init__(self) -> None:
        self._comms = ThreadComms(IDLE)

    def apply(self, record: object) -> None:
        """What a record changes."""
        if isinstance(record, Comm):
            self._comms.living[record.tid] = record.comm
        elif isinstance(record, Fork):
            self._comms.fork(record.tid, record.ptid)
        elif isinstance(record, Exit):
            self._comms.exit(record.tid)

    def name(self, tid: int) -> str:
        """The comm of a thread, given signed or unsigned; ":TID" while nothing named it."""
        return self._comms.living.get(tid & _UNSIGNED, unnamed(tid))


class ProcessSpaces:
    """Which address space each process has, the spaces numbered as they appear; the first is the kernel's.

    pid, since, parent: of each space: whose it is, from which rank on, and which space it started as a copy of.
    with_exits: whether exits are told, and processes end with their last thread.
    """

    __slots__ = ("_dropped", "_of", "_threads", "_with_exits", "parent", "pid", "since")

    def __init__(self, *, with_exits: bool = False) -> None:
        self.pid = [KERNEL_PID]
        self.since = [0]
        self.parent = [NO_PARENT]
        self._of: dict[int, int] = {}  # by pid
        self._with_exits = with_exits
        self._threads: dict[int, set[int]] = {}  # that live, by pid
        self._dropped: dict[int, tuple[int, int]] = {}  # of a process that ended: at which rank, and the space it had

    def of(self, pid: int, rank: int = 0) -> int:
        """The space of a process; a new one for a process that nothing spoke of before."""
        space = self._of.get(pid)
        return self._start(pid, rank) if space is None else space

    def add_thread(self, pid: int, tid: int) -> None:
        """A thread of the process lives."""
        threads = self._threads.get(pid)
        if threads is not None:
            threads.add(tid)
        elif self._with_exits:  # otherwise it does not matter who is left
            self._threads[pid] = {tid}

    def fork(self, pid: int, tid: int, ppid: int, misc: int, rank: int = 0) -> None:
        """A new thread, or a new process."""
        self._dropped.pop(pid, None)
        if pid == ppid:
            self.add_thread(pid, tid)
        else:
            self._start(pid, rank, self._of.get(ppid, NO_PARENT) if copies_parent(pid, ppid, misc) else NO_PARENT)

    def forget(self, pid: int) -> None:
        """The number means another process, of which nothing is known."""
        self._of.pop(pid, None)

    def exit(self, pid: int, tid: int, rank: int) -> None:
        """A thread is forgotten, and with its last thread a process."""
        threads = self._threads.get(pid, set())
        threads.discard(tid)
        dropped = self._dropped.pop(pid, None)
        if dropped and tid != pid:  # a thread that nothing spoke of: it kept the mappings until now
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
