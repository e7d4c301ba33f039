"""Watch the threads of processes through /proc, and add up what they do: what `perfpy why` shows to users without access to tracepoints.

Times on a CPU and waits for one are the kernel's own. The remaining time is divided among the waits that were seen, some hundred times a
second. Who ended a wait is not known.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.activities import OF_CALLS
from perfpy.analysis.why.explanation import ThreadTimes
from perfpy.analysis.why.kinds import COLUMNS, PAGE_FAULT, RUNNING, STOPPED
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.thread_states import children_of, read_state, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.kernel.thread_states import ThreadState

_MOST_THREADS: Final = 5000  # that are watched
_FUTEX_COMMANDS: Final = 0x7F  # without FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
_FUTEX_LOCK: Final = (6, 13)  # FUTEX_LOCK_PI, FUTEX_LOCK_PI2
_CONTENDED: Final = 2  # the value of a mutex of the C library with waiting threads
_WITH_DESCRIPTOR: Final = ("read", "write", "readv", "writev", "pread64", "pwrite64", "sendfile", "splice", "ioctl")


class SeenWait(NamedTuple):
    """A wait of a thread.

    Attributes:
        kind: see perfpy.analysis.why.kinds.
        call: the system call; "" outside of calls.
        lock: the address of a futex; 0: none.
        thread: the thread whose end is waited for; 0: none.
    """

    kind: int
    call: str
    lock: int = 0
    thread: int = 0


class _WatchedThread:
    """The sums of one thread."""

    def __init__(self, pid: int, state: ThreadState, now: int) -> None:
        self.pid, self.begin, self.end = pid, now, now
        self.first = self.last = state
        self.waits: dict[SeenWait, int] = {}


class ThreadWatch:
    """The threads of processes and of their children.

    Args:
        pids: the processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = dict.fromkeys(pids)
        self._proc = ProcFs()
        self._names = names_by_number(os.uname().machine)
        self._reasons = {name: reason for reason, names in OF_CALLS.items() for name in names}
        self._threads: dict[int, _WatchedThread] = {}
        self._before: int | None = None
        self.parent_of: dict[int, int] = {}  #: processes that were children of others
        self.readings = 0  #: how often all threads were read

    def look(self) -> int:
        """Read the state of all threads once; return the nanoseconds that it took."""
        now = time.monotonic_ns()
        passed = 0 if self._before is None else now - self._before
        for pid in list(self._pids):
            tids = self._proc.threads(pid)
            for tid in tids:
                self._add(pid, tid, now, passed, tids)
            children = children_of(pid, tids[:_MOST_THREADS])
            self._pids.update(dict.fromkeys(children))
            self.parent_of.update(dict.fromkeys(children, pid))
            if not tids:
                del self._pids[pid]
        self._before = now
        self.readings += 1
        return time.monotonic_ns() - now

    def _add(self, pid: int, tid: int, now: int, passed: int, tids: Sequence[int]) -> None:
        state = read_state(pid, tid)
        if state is None or state.letter in "ZX" or (tid not in self._threads and len(self._threads) >= _MOST_THREADS):
            return
        thread = self._threads.setdefault(tid, _WatchedThread(pid, state, now))
        thread.end, thread.last = now, state
        if passed and state.letter != "R":
            wait = self._wait(pid, state, tids)
            thread.waits[wait] = thread.waits.get(wait, 0) + passed

    def _wait(self, pid: int, state: ThreadState, tids: Sequence[int]) -> SeenWait:
        """Return what a thread that does not run waits for."""
        if state.letter in "Tt":
            return SeenWait(STOPPED, "")
        if state.call is None or state.call < 0:
            return SeenWait(PAGE_FAULT if state.letter == "D" else reasons.OTHER, "")
        name = self._names.get(state.call, f"call {state.call}")
        if name == "futex" and len(state.arguments) > 2:
            return _futex_wait(state.arguments, tids)
        reason = self._reasons.get(name)
        if reason is None:
            is_named = name in _WITH_DESCRIPTOR and state.arguments
            target = target_of(pid, state.arguments[0]) if is_named else ""
            reason = _reason_of_target(target, state.letter)
        return SeenWait(reason, name)

    def times(self) -> list[ThreadTimes]:
        """Return the times of the threads, those with the longest times first."""
        rows = []
        for tid, thread in self._threads.items():
            kinds = self._kinds(thread)
            columns = {name: sum(kinds.get(kind, 0) for kind in members) for name, members in COLUMNS.items()}
            rows.append(ThreadTimes(tid, thread.pid, thread.last.comm, thread.end - thread.begin, columns))
        return sorted(rows, key=lambda row: (-row.wall, row.tid))

    def waits(self, tid: int) -> dict[SeenWait, int]:
        """Return what a thread waited for, in nanoseconds, the longest first."""
        thread = self._threads.get(tid)
        if thread is None:
            return {}
        left = max(thread.end - thread.begin - self._ran(thread) - self._queued(thread), 0)
        seen = sum(thread.waits.values())
        scaled = {wait: passed * left // seen for wait, passed in thread.waits.items() if seen}
        return dict(sorted(scaled.items(), key=lambda item: -item[1]))

    def _kinds(self, thread: _WatchedThread) -> dict[int, int]:
        tid = next(tid for tid, one in self._threads.items() if one is thread)
        kinds = {RUNNING: self._ran(thread), reasons.CPU: self._queued(thread)}
        for wait, passed in self.waits(tid).items():
            kinds[wait.kind] = kinds.get(wait.kind, 0) + passed
        return kinds

    @staticmethod
    def _ran(thread: _WatchedThread) -> int:
        return min(thread.last.ran - thread.first.ran, thread.end - thread.begin)

    @staticmethod
    def _queued(thread: _WatchedThread) -> int:
        return min(thread.last.queued - thread.first.queued, thread.end - thread.begin)


def _futex_wait(arguments: Sequence[int], tids: Sequence[int]) -> SeenWait:
    """Return what a wait in futex() is for: the C library waits for a thread's end until its number becomes 0."""
    address, command, value = arguments[0], arguments[1] & _FUTEX_COMMANDS, arguments[2]
    if value in tids:
        return SeenWait(reasons.JOIN, "futex", 0, value)
    if command in _FUTEX_LOCK or value == _CONTENDED:
        return SeenWait(reasons.LOCK, "futex", address)
    return SeenWait(reasons.FUTEX, "futex", address)


def _reason_of_target(target: str, letter: str) -> int:
    """Return the reason of a wait for a descriptor."""
    kind = target.partition(":")[0]
    if kind in ("pipe", "socket"):
        return reasons.PIPE if kind == "pipe" else reasons.NETWORK
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return reasons.TERMINAL
    return reasons.DISK if letter == "D" else reasons.OTHER
