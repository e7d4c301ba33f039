"""Watch the threads of processes through /proc, and add up what they do: what `perfpy why` shows to users without access to tracepoints.

Times on a CPU and waits for one are the kernel's own. The remaining time is divided among the waits that were seen, some hundred times a
second. Who ended a wait is not known.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.system_calls import names_by_number
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.capture.wait_targets import thread_or_lock
from perfpy.errors import plural
from perfpy.kernel.procfs import ProcFs, children_of, read_state, target_of
from perfpy.tools.why.activities import OF_CALLS
from perfpy.tools.why.explanation import ThreadTimes
from perfpy.tools.why.tasks import COLUMNS, PAGE_FAULT, RUNNING, STOPPED
from perfpy.tools.why.text import thread_table
from perfpy.tools.why.verdict import NAMES, OBJECTS, VERBS, launch_text
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfpy.kernel.procfs import ThreadState


_MOST_THREADS: Final = 5000  # that are watched
_WITH_DESCRIPTOR: Final = ("read", "write", "readv", "writev", "pread64", "pwrite64", "sendfile", "splice", "ioctl")


class SeenWait(NamedTuple):
    """A wait of a thread.

    Attributes:
        kind: see perfpy.tools.why.tasks.
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
            thread, lock = thread_or_lock(state.arguments, tids)
            kind = reasons.JOIN if thread else reasons.LOCK if lock else reasons.FUTEX
            return SeenWait(kind, "futex", 0 if thread else state.arguments[0], thread)
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


def _reason_of_target(target: str, letter: str) -> int:
    """Return the reason of a wait for a descriptor."""
    kind = target.partition(":")[0]
    if kind in ("pipe", "socket"):
        return reasons.PIPE if kind == "pipe" else reasons.NETWORK
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return reasons.TERMINAL
    return reasons.DISK if letter == "D" else reasons.OTHER


_MATTERS: Final = 0.1  # of the time
_RUNS: Final = 0.65  # of the time: programs that run for longer do not mainly wait
_SENTENCES: Final = 3
_THREADS: Final = 10
_MOST_PROGRAMS: Final = 16  # that wait for each other in a row


class WatchedWait(NamedTuple):
    """One kind of wait of a thread.

    Attributes:
        tid: the thread.
        kind: see perfpy.tools.why.tasks.
        call: the system call; "".
        lock: the address of a futex; 0.
        time: nanoseconds.
    """

    tid: int
    kind: int
    call: str
    lock: int
    time: int


def watched_lines(
    main: int,
    threads: Sequence[ThreadTimes],
    waits: Mapping[int, Sequence[WatchedWait]],
    parents: Mapping[int, int],
    *,
    all_threads: bool,
    width: int | None = None,
) -> Iterator[str]:
    """Yield the verdict and the table of threads.

    Args:
        main: the first thread of the process.
        threads: their times.
        waits: what each thread did.
        parents: process -> its parent.
        all_threads: list all threads, not only the first ones.
        width: of the terminal, None without one.
    """
    yield from watched_verdict(main, threads, waits, parents)
    if threads:
        yield ""
        yield from thread_table(threads, None if all_threads else _THREADS, width)


def watched_verdict(
    main: int, threads: Sequence[ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]
) -> list[str]:
    """Return the sentences.

    Threads for whose end the main thread waits are considered in its place, and so is a program that it started and waits for.
    """
    by_tid = {thread.tid: thread for thread in threads}
    if main not in by_tid:
        return ["The process ended before it was looked at."]
    programs = _programs(main, by_tid, waits, parents)
    through = launch_text([by_tid[pid].comm for pid in programs])
    main = programs[-1]
    chosen = [main]
    joined = sum(wait.time for wait in waits.get(main, ()) if wait.kind == reasons.JOIN)
    if joined > by_tid[main].wall / 2:
        chosen = [thread.tid for thread in threads if thread.pid == by_tid[main].pid and thread.tid != main] or chosen
    whole = sum(by_tid[tid].wall for tid in chosen)
    merged: dict[tuple[int, str, int], tuple[int, set[int]]] = {}
    for tid in chosen:
        for wait in waits.get(tid, ()):
            time, tids = merged.get(wait[1:4], (0, set()))
            merged[wait[1:4]] = (time + wait.time, tids | {tid})
    rows = sorted(merged.items(), key=lambda item: -item[1][0])
    running = [row for row in rows if row[0][0] == RUNNING]
    others = [row for row in rows if row[0][0] != RUNNING]
    runs = sum(time for _, (time, _) in running)
    ordered = running + others if runs >= _RUNS * whole or not others else others + running
    sentences = []
    for (kind, call, lock), (time, tids) in ordered[:_SENTENCES]:
        if time >= _MATTERS * whole and whole:
            who = _who([by_tid[tid] for tid in sorted(tids)])
            sentences.append(f"{who} {_activity(kind, call, lock, f'{percent(time / whole)} of {seconds(whole / 1e9)}')}.")
    sentences = sentences or [f"{_who([by_tid[main]])} has no long wait in {seconds(whole / 1e9)}."]
    return [f"{sentences[0].removesuffix('.')}; {through}.", *sentences[1:]] if through else sentences


def _programs(
    main: int, by_tid: Mapping[int, ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]
) -> list[int]:
    """Return the processes from one that waits for the end of the only program that it started, to the last program in this row.

    Other waits are left out, because /proc does not tell who will end them.
    """
    programs = [main]
    while len(programs) < _MOST_PROGRAMS:
        waiting = by_tid[programs[-1]]
        awaited = sum(wait.time for wait in waits.get(waiting.tid, ()) if wait.kind == reasons.CHILD)
        children = (by_tid[pid] for pid, parent in parents.items() if parent == waiting.pid and pid in by_tid)
        started = [one.tid for one in children if one.comm != waiting.comm and one.wall > waiting.wall / 2]
        if len(started) != 1 or started[0] in programs or awaited <= waiting.wall / 2:
            break
        programs += started
    return programs


def _who(threads: Sequence[ThreadTimes]) -> str:
    name = visible(threads[0].comm)
    return f"{name} ({threads[0].tid})" if len(threads) == 1 else f"{name} ({len(threads)} {plural(len(threads), 'thread')})"


def _activity(kind: int, call: str, lock: int, amount: str) -> str:
    if kind in VERBS:
        verb, _, rest = VERBS[kind].partition(" ")
        return f"{verb} {amount}{f' {rest}' if rest else ''}"
    awaited = (
        f"{'a lock' if kind == reasons.LOCK else 'a lock or another thread'} (futex {lock:#x})" if lock else OBJECTS.get(kind, NAMES[kind])
    )
    return f"waits {amount} for {awaited}{f' ({visible(call)})' if call and not lock else ''}"


def watched_json(main: int, threads: Sequence[ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]) -> str:
    """Return one JSON object; times are nanoseconds."""
    by_tid = {thread.tid: thread for thread in threads}
    rows = sorted((wait for of_thread in waits.values() for wait in of_thread), key=lambda wait: -wait.time)
    return json.dumps(
        {
            "format": "perfpy-why",
            "version": 1,
            "watched": True,
            "verdict": watched_verdict(main, threads, waits, parents),
            "main": {"tid": main, "comm": by_tid[main].comm if main in by_tid else "", "time": by_tid[main].wall if main in by_tid else 0},
            "threads": [thread._asdict() for thread in threads],
            "waits": [wait._asdict() | {"kind": NAMES[wait.kind], "lock": f"{wait.lock:#x}" if wait.lock else None} for wait in rows],
        }
    )
