"""Waits of threads by their reason, from the samples of time off the CPU (record --off-cpu), and of Go's goroutines.

The functions of a wait's callchain decide (perfpy.analysis.verdict.wait_reasons).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.perfpy_encodings import BLOCKED_LOOP, LIKE_OTHERS, PYTHON_MARK, READY, UNKNOWN_STATE, WOKEN_BY_THREAD
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, NOTE_SHIFT
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, OWN, is_own_name
from perfpy.analysis.verdict.functions import blocks_of
from perfpy.analysis.verdict.wait_reasons import (
    CHILD,
    CPU,
    FILE_LOCK,
    KERNEL_BIT,
    LOCK,
    OTHER,
    RESULT,
    RuleBits,
    bits_of_python_call,
    reasons_of,
)
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.verdict.functions import SampledFunctions
    from perfpy.perfdata.kept_files import ObservedFrame, ObservedState


ONE_FUNCTION: Final = 0.9  #: of the waits for one reason, in one function
WHOLE: Final = 0.98  # of the longest wait of all threads, which is as long as the recording if threads hang
_OF_JAVA: Final = re.compile(r"JavaThread::|ObjectMonitor::|Parker::park|VMThread::")
_OF_MUTEX: Final = re.compile(r"_*(?:GI_)?_*(?:pthread_mutex_(?:timed|clock)?lock|lll_(?:mutex_)?lock)\w*")
MATTERS: Final = 0.05  # of the longest waits of a thread: threads that wait for less do not count


class Wait(NamedTuple):
    """The waits for one reason.

    Attributes:
        reason: one of the numbers of wait_reasons.
        seconds: their sum over these threads.
        threads: the number of threads with a share of the waits that matters.
        processes: the number of their processes.
        thread: the one that waited longest.
        longest: the sum of its waits in seconds.
        number, function: own function with most of this time, -1 and "" for none.
        in_function: its share of this time.
        in_own: the share of all own code.
        second: the name of the function with most of the rest, "" for none.
        in_second: its share.
        second_number: its number, -1 for none.
    """

    reason: int
    seconds: float
    threads: int
    processes: int
    thread: int
    longest: float
    number: int
    function: str
    in_function: float
    in_own: float
    second: str = ""
    in_second: float = 0.0
    second_number: int = -1


class Waits:
    """The waits of one event of time off the CPU.

    Attributes:
        functions: that wait.
        rows: their samples.
    """

    def __init__(self, functions: SampledFunctions) -> None:
        self.functions = functions
        self.rows = functions.rows

    @cached_property
    def longest_sum(self) -> float:
        """The seconds for which one thread waited, of the one that waited longest; except for a CPU."""
        is_wait = self.reason != CPU
        tids, number = np.unique(self.rows.dimensions["tid"][is_wait], return_inverse=True)
        return int(sum_by(number.ravel(), self.rows.period[is_wait], len(tids)).max(initial=0)) / NANOSECONDS_A_SECOND

    @cached_property
    def are_of_java(self) -> bool:
        """Whether threads of a JVM wait."""
        return any(_OF_JAVA.match(self.functions.name(number)) for number in self.functions.present.tolist())

    @cached_property
    def reason(self) -> Int64:
        """The reason of each row's waits."""
        functions, rows = self.functions, self.rows
        bits_of = self._bits()
        bits = bits_of[functions.leaf]
        inner = functions.leaf.copy()
        python = self._are_of_python()
        of_call = self._bits_of_python_calls()
        for reached, callee in functions.outwards(np.arange(len(bits))):
            bits[reached] |= bits_of[callee] | np.where(python[callee], of_call[inner[reached]], 0)
            inner[reached] = callee
        reasons = reasons_of(bits)
        if "state" in rows.dimensions:
            reasons[rows.dimensions["state"] == READY] = CPU
        return reasons

    @cached_property
    def are_for_known_locks(self) -> NDArray[np.bool_]:
        """Whether each row waits for a file lock, or in the C library's functions for mutexes: others have no owner in memory."""
        functions = self.functions
        enters = np.zeros(len(functions.category_of), np.bool_)
        for number in functions.present.tolist():
            enters[number] = _OF_MUTEX.fullmatch(functions.name(number).partition("@")[0]) is not None
        is_inside: NDArray[np.bool_] = enters[functions.leaf]
        for reached, callers in functions.outwards(np.arange(len(is_inside)) if enters.any() else np.zeros(0, np.int64)):
            is_inside[reached[enters[callers]]] = True
        are_known: NDArray[np.bool_] = (self.reason == FILE_LOCK) | is_inside & (self.reason == LOCK)
        return are_known

    def share_of_own_stacks(self, reason: int) -> float:
        """Return the share of the waits for a reason that have a stack of their own, not that of a similar wait."""
        if "waker" not in self.rows.dimensions:
            return 1.0
        rows = np.flatnonzero(self.reason == reason)
        period = int(self.rows.period[rows].sum())
        return int(self.rows.period[_with_wakers(self, rows)].sum()) / period if period else 1.0

    def _bits(self) -> NDArray[np.int64]:
        """Return for each function the bits of the rules that its name matches."""
        rules, functions = RuleBits(), self.functions
        bits = np.where(functions.category_of == KERNEL, KERNEL_BIT, 0).astype(np.int64)
        for number in functions.present.tolist():
            bits[number] |= rules.of(functions.name(number))
        return bits

    def _are_of_python(self) -> NDArray[np.bool_]:
        """Return whether each function is one of CPython: other runtimes wait for conditions with a time limit, too."""
        are_of_python: NDArray[np.bool_] = self.functions.category_of == INTERPRETER
        for number in np.flatnonzero(are_of_python).tolist():
            are_of_python[number] = "python" in self.functions.file(number)
        return are_of_python

    def _bits_of_python_calls(self) -> NDArray[np.int64]:
        """Return for each function the bits that it has if CPython calls it."""
        bits = np.zeros(len(self.functions.category_of), np.int64)
        for number in self.functions.present.tolist():
            bits[number] = bits_of_python_call(self.functions.name(number))
        return bits

    def by_reason(self, rows: Int64 | None = None) -> list[Wait]:
        """Return the waits by reason, longest first; rows: only these."""
        rows = np.arange(len(self.rows)) if rows is None else rows
        totals = sum_by(self.reason[rows], self.rows.period[rows], OTHER + 1)
        return [self._wait(reason, int(totals[reason]), rows) for reason in np.argsort(-totals, kind="stable").tolist() if totals[reason]]

    def _wait(self, reason: int, period: int, rows: Int64) -> Wait:
        rows = rows[self.reason[rows] == reason]
        charged, periods = self.functions.charged_functions[rows], self.rows.period[rows]
        is_charged = charged >= 0
        name, share, best, in_own, second, in_second, other = "", 0.0, -1, 0.0, "", 0.0, -1
        if is_charged.any():
            totals = sum_by(charged[is_charged], periods[is_charged], len(self.functions.category_of))
            best, other = np.argsort(-totals, kind="stable")[:2].tolist()
            name, share, in_own = self.functions.name(best), int(totals[best]) / period, int(totals.sum()) / period
            second, in_second = self.functions.name(other), int(totals[other]) / period
            if share >= ONE_FUNCTION:  # threads that wait elsewhere, for a moment, do not count
                rows, periods = rows[charged == best], periods[charged == best]
        tids, thread = np.unique(self.rows.dimensions["tid"][rows], return_inverse=True)
        of_thread = sum_by(thread.ravel(), periods, len(tids))
        matter = of_thread >= MATTERS * of_thread.max()
        longest = int(np.argmax(of_thread))
        pids = self.rows.dimensions["pid"][rows[matter[thread.ravel()]]] if "pid" in self.rows.dimensions else tids[:1]
        processes = len(np.unique(pids))
        return Wait(
            reason, int(of_thread[matter].sum()) / 1e9, int(matter.sum()), processes,
            int(tids[longest]), int(of_thread[longest]) / 1e9, best, name, share, in_own, second, in_second, other,
        )  # fmt: skip


# Find the threads that end waits, and what they do meanwhile.
#
# The samples of time off the CPU have the thread that ended the wait (perfpy.abi.perfpy_encodings).


RUNNING: Final = -1  #: in place of a wait's reason
ONE_WAKER: Final = 0.8  # of the time of waits, which one thread ended
MOST_OF_IT: Final = 0.5  # of the wait: what the waker did
MOST_CHILDREN: Final = 100  # of one process; where there are more, no single child is the cause
_DEEPEST: Final = 8  # threads that wait for each other


class Waker(NamedTuple):
    """The thread that ends waits, and what it did for most of that time.

    Attributes:
        tid, pid: of the thread.
        reason: of its longest waits; RUNNING: it used the CPU.
        seconds: for which it did so.
        number, function: own function with most of this time, -1 and "" for none.
        in_queue: seconds of RUNNING in which it waited for a CPU.
        depth: 1 for the thread that ended the waits itself, 2 for the one that ended its waits, and so on.
        through: the threads between them, the first one first.
        in_function: the share of this time, without that in the queue.
    """

    tid: int
    pid: int
    reason: int
    seconds: float
    number: int
    function: str
    depth: int = 1
    in_queue: float = 0.0
    through: tuple[int, ...] = ()
    in_function: float = 1.0


def find_waker(
    wait: Wait, waits: Waits, running: SampledFunctions | None, children_of: Callable[[int], Sequence[int]], elapsed: float
) -> Waker | None:
    """Return the thread for which a wait's threads waited in the end; None if several or unrecorded ones did it, or an interrupt.

    Args:
        wait: the waits for one reason.
        waits: all of them, with their wakers.
        running: the samples on CPUs if they measure time, else None.
        children_of: returns the processes that a process created.
        elapsed: seconds. What the waker did is told only if most of the wait must have been at the same time.
    """
    if "waker" not in waits.rows.dimensions:
        return None
    rows = np.flatnonzero(waits.reason == wait.reason)
    if wait.threads == 1:
        rows = rows[waits.rows.dimensions["tid"][rows] == wait.thread]
    seen, best = {*np.unique(waits.rows.dimensions["tid"][rows]).tolist()}, None
    of_thread = wait.seconds / max(wait.threads, 1)
    least = MOST_OF_IT * of_thread
    if wait.reason != CHILD:  # a child process lives while its parent waits; others might have done so at another time
        least += max(elapsed - of_thread, 0.0)
    for depth in range(1, _DEEPEST):
        reason = wait.reason if best is None else best.reason
        tid = _child(waits, running, rows, children_of, least) if reason == CHILD else _one_waker(waits, rows)
        waker = _activity(tid, waits, running, depth) if tid > 0 and tid not in seen else None
        if waker is None or waker.seconds < least:
            break
        best = waker._replace(through=() if best is None else (*best.through, best.tid))
        if waker.reason == RUNNING:
            break
        seen.add(tid)
        rows = np.flatnonzero((waits.rows.dimensions["tid"] == tid) & (waits.reason == waker.reason))
    return best


def find_holders(wait: Wait, waits: Waits, running: SampledFunctions | None) -> Waker | None:
    """Return what the threads that ended waits for a lock did besides, if they surely did it while they held the lock; None otherwise.

    While a thread waits, another one holds the lock and does not wait for it. If that is one of several, the activity that they spent
    most of their time with was at least as long as the longest wait, less the time of all their other activities.
    """
    if "waker" not in waits.rows.dimensions:
        return None
    rows = _with_wakers(waits, np.flatnonzero(waits.reason == wait.reason))
    wakers, periods = waits.rows.dimensions["waker"][rows], waits.rows.period[rows]
    is_thread = wakers >> NOTE_SHIFT == WOKEN_BY_THREAD
    holders = np.unique(wakers[is_thread] & 0xFFFFFFFF).tolist()
    if not 1 < len(holders) <= MOST_CHILDREN or int(periods[is_thread].sum()) < ONE_WAKER * int(periods.sum()):
        return None
    totals: dict[tuple[int, str], list[Waker]] = {}
    for tid in holders:
        for one in _activities(tid, waits, running, 1):
            if one.reason != wait.reason:
                totals.setdefault((one.reason, one.function), []).append(one)
    if not totals:
        return None
    most = max(totals.values(), key=lambda activities: sum(one.seconds for one in activities))
    seconds = sum(one.seconds for one in most)
    others = sum(one.seconds for activities in totals.values() for one in activities) - seconds
    return most[0]._replace(seconds=seconds) if wait.longest - others >= MOST_OF_IT * wait.longest else None


def is_never_woken(wait: Wait, waits: Waits) -> bool:
    """Whether no thread ended any of the waits for a reason; False if the recording does not have wakers.

    Samples without a known state are of recordings without tracepoints, which have no wakers either.
    """
    if not {"waker", "state"} <= waits.rows.dimensions.keys():
        return False
    rows = np.flatnonzero(waits.reason == wait.reason)
    has_state = waits.rows.dimensions["state"][rows] != UNKNOWN_STATE
    return len(rows) > 0 and bool(has_state.all()) and not waits.rows.dimensions["waker"][rows].any()


def is_rarely_woken(wait: Wait, waits: Waits) -> bool:
    """Whether interrupts or time limits ended the waits of a wait's longest thread, by time; False if the recording has no wakers."""
    if not {"waker", "state"} <= waits.rows.dimensions.keys():
        return False
    rows = _with_wakers(waits, np.flatnonzero((waits.reason == wait.reason) & (waits.rows.dimensions["tid"] == wait.thread)))
    is_woken = waits.rows.dimensions["waker"][rows] >> NOTE_SHIFT == WOKEN_BY_THREAD
    period = waits.rows.period[rows]
    has_state = waits.rows.dimensions["state"][rows] != UNKNOWN_STATE
    return len(rows) > 0 and bool(has_state.all()) and int(period[is_woken].sum()) <= (1 - ONE_FUNCTION) * int(period.sum())


def is_endless(wait: Wait, waits: Waits) -> bool:
    """Whether each of a wait's threads waited from the begin of the recording to its end: once, or in a JVM, whose threads look again for
    a monitor now and then, until time limits.
    """
    dimensions = waits.rows.dimensions
    rows = np.flatnonzero(waits.reason == wait.reason)
    tids, number = np.unique(dimensions["tid"][rows], return_inverse=True)
    is_whole = sum_by(number.ravel(), waits.rows.period[rows], len(tids)) >= WHOLE * waits.longest_sum * NANOSECONDS_A_SECOND
    rows = rows[is_whole[number.ravel()]]
    looks_again = waits.are_of_java and "state" in dimensions and not (dimensions["state"][rows] == UNKNOWN_STATE).any()
    is_once = int(waits.rows.count[rows].sum()) == int(is_whole.sum())
    is_woken = "waker" in dimensions and bool(dimensions["waker"][rows].any())
    return not is_woken and (is_once or looks_again) and int(is_whole.sum()) == wait.threads


#: functions in which the threads of a pool run their tasks: of Java, and of Python
_RUNS_TASKS: Final = re.compile(rf".*ThreadPoolExecutor\.runWorker\(.*|{PYTHON_MARK}_worker:.*/concurrent/futures/thread\.py", re.DOTALL)


def waiting_workers(waits: Waits) -> int:
    """Return the number of threads that run tasks of pools, if all of them wait for results of tasks all the time; 0 otherwise."""
    functions, rows = waits.functions, waits.rows
    runs = np.zeros(len(functions.category_of), np.bool_)
    for number in functions.present.tolist():
        runs[number] = _RUNS_TASKS.fullmatch(functions.name(number)) is not None
    is_task = np.zeros(len(functions.leaf), np.bool_)
    for reached, callers in functions.outwards(np.arange(len(is_task)) if runs.any() else np.zeros(0, np.int64)):
        is_task[reached[runs[callers]]] = True
    tids = np.unique(rows.dimensions["tid"][is_task])
    of_workers = np.isin(rows.dimensions["tid"], tids)
    is_for_result = of_workers & (waits.reason == RESULT)
    totals = [
        [int(rows.period[mask & (rows.dimensions["tid"] == tid)].sum()) for mask in (is_for_result, of_workers)] for tid in tids.tolist()
    ]
    return len(totals) if all(part >= WHOLE * total for part, total in totals) else 0


class SeenLock(NamedTuple):
    """A lock for which a thread waited, and the thread that held it, as the recorder saw them.

    Attributes:
        tid: the thread that waited.
        name: of the variable, or the path of the locked file; "" without one.
        is_file: whether it is a file lock.
        holder: the thread that held it; of a file lock the process.
        holder_name: its name, "" if it had ended.
    """

    tid: int
    name: str
    is_file: bool
    holder: int
    holder_name: str


_LOCKS: Final = {"mutex": False, "file lock": True}  # kinds of observed states
_FEWEST_LOOKS: Final = 3  # at a thread that waits for a lock


def seen_locks(states: Iterable[ObservedState]) -> list[SeenLock]:
    """Return the locks that one thread held in nearly all looks at another one that waited for it."""
    chosen = [
        one for one in states if one.kind in _LOCKS and one.looks >= _FEWEST_LOOKS and one.seen >= ONE_WAKER * one.looks and one.began
    ]
    return [SeenLock(one.pid, one.reason, _LOCKS[one.kind], one.began[0].line, one.began[0].function) for one in chosen]


def stuck_threads(states: Iterable[ObservedState]) -> dict[int, SeenLock]:
    """Return thread -> the lock that it waited for until the end without running, in several looks."""
    chosen = [one for one in states if one.kind == "stuck" and one.seen >= _FEWEST_LOOKS and one.began]
    return {one.pid: SeenLock(one.pid, one.reason, one.reason.startswith("/"), one.began[0].line, one.began[0].function) for one in chosen}


def find_circle(stuck: Mapping[int, SeenLock]) -> list[SeenLock]:
    """Return the threads of which each one waits for a lock that the next one holds, and the last one for one of the first; empty if there
    are none. A thread may wait for itself.
    """
    settled: set[int] = set()
    for first in stuck:
        path: list[int] = []
        tid = first
        while tid in stuck and tid not in settled:
            settled.add(tid)
            path.append(tid)
            tid = stuck[tid].holder
        if tid in path:
            return [stuck[one] for one in path[path.index(tid) :]]
    return []


def activity_of(tid: int, waits: Waits, running: SampledFunctions | None) -> Waker | None:
    """Return what a thread did for most of the time; None if it is not in the recording."""
    return _activity(tid, waits, running, 1)


def _with_wakers(waits: Waits, rows: Int64) -> Int64:
    """Return those of some rows whose wakers were recorded if there were any: stacks of similar waits do not tell these."""
    has_waker: NDArray[np.bool_] = waits.rows.dimensions["waker"][rows] >> NOTE_SHIFT != LIKE_OTHERS
    return rows[has_waker]


def _one_waker(waits: Waits, rows: Int64) -> int:
    """Return the thread that ended most of some waits, 0 for none."""
    rows = _with_wakers(waits, rows)
    if not len(rows):
        return 0
    wakers, periods = waits.rows.dimensions["waker"][rows], waits.rows.period[rows]
    threads, number = np.unique(np.where(wakers >> NOTE_SHIFT == WOKEN_BY_THREAD, wakers & 0xFFFFFFFF, 0), return_inverse=True)
    totals = sum_by(number.ravel(), periods, len(threads))
    largest = int(np.argmax(totals))
    return int(threads[largest]) if totals[largest] >= ONE_WAKER * totals.sum() else 0


def _child(
    all_waits: Waits, running: SampledFunctions | None, rows: Int64, children_of: Callable[[int], Sequence[int]], least: float
) -> int:
    """Return the child process that a process waits for: the only one that lives for most of this time; 0 for none.

    The kernel does not record that an ended process wakes its parent.
    """
    pids = np.unique(all_waits.rows.dimensions["pid"][rows])
    children = children_of(int(pids[0])) if len(pids) == 1 else []
    times = {child: sum(one.seconds for one in _activities(child, all_waits, running, 0)) for child in children[:MOST_CHILDREN]}
    long = [child for child, seconds in times.items() if seconds >= least]
    return long[0] if len(long) == 1 and len(children) <= MOST_CHILDREN else 0


def _activity(tid: int, waits: Waits, running: SampledFunctions | None, depth: int) -> Waker | None:
    """Return what a thread did for most of the time."""
    return max(_activities(tid, waits, running, depth), key=lambda one: one.seconds, default=None)


def _activities(tid: int, waits: Waits, running: SampledFunctions | None, depth: int) -> list[Waker]:
    """Return what a thread did: its waits by reason; the time on CPUs includes that in which it waited for one."""
    rows = np.flatnonzero(waits.rows.dimensions["tid"] == tid)
    reasons = waits.by_reason(rows)
    pid = int(waits.rows.dimensions["pid"][rows[0]]) if len(rows) else 0
    activities = [
        Waker(tid, pid, one.reason, one.seconds, one.number, one.function, depth, in_function=one.in_function)
        for one in reasons
        if one.reason != CPU
    ]
    in_queue = sum(one.seconds for one in reasons if one.reason == CPU)
    rows = np.flatnonzero(running.rows.dimensions["tid"] == tid) if running is not None else rows[:0]
    if running is not None and len(rows):
        charged, periods = running.charged_functions[rows], running.rows.period[rows]
        number, name, most = -1, "", 0
        if (charged >= 0).any():
            totals = sum_by(charged[charged >= 0], periods[charged >= 0], len(running.category_of))
            number = int(np.argmax(totals))
            name, most = running.name(number), int(totals[number])
        pid = int(running.rows.dimensions["pid"][rows[0]])
        total = int(periods.sum())
        seconds, share = total / NANOSECONDS_A_SECOND, most / max(total, 1)
        activities.append(Waker(tid, pid, RUNNING, seconds + in_queue, number, name, depth, in_queue, in_function=share))
    return activities


# Goroutines: a Go program's threads only run them, so that a thread's waits do not tell what the program waits for.


#: what goroutines wait for, the most telling first
(
    GO_LOCK,
    GO_NAME,
    GO_SEND,
    GO_SLEEP,
    GO_RECEIVE,
    GO_SELECT,
    GO_CONDITION,
    GO_INPUT,
    GO_OTHERS,
    GO_OTHER,
) = range(10)
#: the runtime's text of a wait (since Go 1.9), or a function on the stack where that text is the same for several waits -> the reason
_GO_REASONS: Final = {
    **dict.fromkeys(("sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock", "sync.(*Mutex).Lock"), GO_LOCK),
    **dict.fromkeys(("sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock"), GO_LOCK),
    **dict.fromkeys(("chan send", "chan send (nil chan)"), GO_SEND),
    "sleep": GO_SLEEP,
    **dict.fromkeys(("chan receive", "chan receive (nil chan)"), GO_RECEIVE),
    **dict.fromkeys(("select", "select (no cases)"), GO_SELECT),
    **dict.fromkeys(("sync.Cond.Wait", "sync.(*Cond).Wait"), GO_CONDITION),
    "IO wait": GO_INPUT,
    **dict.fromkeys(("sync.WaitGroup.Wait", "sync.(*WaitGroup).Wait"), GO_OTHERS),
}
_GO_RESOLVES: Final = re.compile(r"net\.\(\*Resolver\)\..*|net\.cgoLookup\w*.*")
#: reasons of goroutines that wait for nothing, as they are in a queue for a CPU, compute, or assist the garbage collector
_GO_RUNS: Final = frozenset({"runnable", "running", "preempted", "GC assist marking", "garbage collection"})
#: packages whose functions are what the reason says
_GO_WAITS: Final = ("runtime.", "sync.", "time.")


class WaitingGoroutines(NamedTuple):
    """Goroutines that wait for one reason in one place.

    Attributes:
        reason: one of GO_LOCK to GO_OTHER.
        number: how many they are, the mean of all looks.
        function, file, line: the innermost own one.
        creator: where they all were started, None for the first goroutine or for several places.
        callee: the function of a library that it calls, and that waits in a way of its own; "" for a lock, a channel or a sleep.
    """

    reason: int
    number: float
    function: str
    file: str
    line: int
    creator: ObservedFrame | None
    callee: str = ""


def waiting_goroutines(states: Iterable[ObservedState]) -> list[WaitingGoroutines]:
    """Return the goroutines of a process that wait in own code, in groups; the group that tells most comes first."""
    counts: dict[tuple[int, ObservedFrame, str], int] = {}
    creators: dict[tuple[int, ObservedFrame, str], set[ObservedFrame]] = {}
    looks = 1
    for state in states:
        number = next((number for number, frame in enumerate(state.frames) if is_own_name(frame.function)), -1)
        if number < 0 or state.reason in _GO_RUNS:
            continue
        callee = state.frames[number - 1].function if number else ""
        texts = (state.reason, *(frame.function for frame in state.frames))
        reason = next((_GO_REASONS[text] for text in texts if text in _GO_REASONS), GO_OTHER)
        reason = GO_NAME if any(map(_GO_RESOLVES.fullmatch, texts)) else reason
        key = reason, state.frames[number], "" if callee.startswith(_GO_WAITS) else callee
        counts[key] = counts.get(key, 0) + state.seen
        creators.setdefault(key, set()).update(state.began[1:])
        looks = max(looks, state.looks)
    groups = []
    for (reason, own, callee), count in counts.items():
        frames = creators[reason, own, callee]
        creator = next(iter(frames)) if len(frames) == 1 and is_own_name(next(iter(frames)).function) else None
        groups.append(WaitingGoroutines(reason, count / looks, *own, creator, callee))
    return sorted(groups, key=lambda group: (group.reason, -group.number))


# The workers of a pool of Python processes: what they did in the time between their first and last task.


_IN_WORKER: Final = re.compile(
    PYTHON_MARK + r"(?:worker:.*/multiprocessing/pool|_process_worker:.*/concurrent/futures/process)\.py", re.DOTALL
)
#: functions of the queues between a pool and its workers
_QUEUE: Final = rf"{PYTHON_MARK}(?:\w+\.)?{{}}:.*/multiprocessing/(?:queues|connection)\.py"
_TAKES: Final = re.compile(_QUEUE.format("(?:get|recv|recv_bytes)"), re.DOTALL)
_PUTS: Final = re.compile(_QUEUE.format("(?:put|send|send_bytes)"), re.DOTALL)
_PICKLES: Final = re.compile(
    PYTHON_MARK + r"(?:_pickle\.(?:loads|\w+\.dump):.*|(?:\w+\.)?dumps:.*/multiprocessing/reduction\.py)", re.DOTALL
)


class PoolTimes(NamedTuple):
    """The times of a pool's workers, on CPUs and waiting, in ns. Each time between two tasks is spent in the functions of its queues.

    Attributes:
        computing: on CPUs, in tasks.
        waiting: for work.
        blocked: waiting in tasks, but not for a CPU.
        giving: the CPU time in which the processes that have the pool pickled tasks, sent them, and unpickled results.
        of_owners: all their CPU time.
        ready: waiting for a CPU.
    """

    workers: int
    computing: int
    waiting: int
    pickling: int
    sending: int
    blocked: int
    giving: int = 0
    of_owners: int = 0
    ready: int = 0


#: functions of the threads by which a process gives tasks to its pool, and takes results
_OF_OWNER: Final = re.compile(
    PYTHON_MARK + r"(?:(?:Pool\.)?_handle_(?:tasks|results):.*/multiprocessing/pool|(?:Queue\.)?_feed:.*/multiprocessing/queues"
    r"|(?:_ExecutorManagerThread\.)?run:.*/concurrent/futures/process)\.py",
    re.DOTALL,
)


def pool_times(on_cpu: SampledFunctions | None, waits: SampledFunctions | None) -> PoolTimes | None:
    """Return what the workers of process pools did, by the frames of their samples and waits; None without workers."""
    workers: set[int] = set()
    taking = putting = pickling = computing = blocked = giving = of_owners = ready = 0
    for functions in filter(None, (on_cpu, waits)):
        size, rows = len(functions.category_of), np.arange(len(functions.leaf))
        kinds = np.zeros((5, size), np.bool_)
        for number in functions.present.tolist():
            name = functions.name(number)
            if name.startswith(PYTHON_MARK):
                kinds[:, number] = [pattern.fullmatch(name) is not None for pattern in (_IN_WORKER, _TAKES, _PUTS, _PICKLES, _OF_OWNER)]
        if not kinds[0].any() or "pid" not in functions.rows.dimensions:
            continue
        seen = kinds[:, functions.leaf]  # which of them are in the callchain of each row
        for reached, callers in functions.outwards(rows):
            seen[1:, reached] |= kinds[1:, callers] & ~seen[0, reached]
            seen[0, reached] |= kinds[0, callers]
        is_worker, takes, puts, pickles, gives = seen
        if functions is on_cpu:
            pids = functions.rows.dimensions["pid"]
            giving += int(functions.rows.period[gives & (takes | puts | pickles)].sum())
            of_owners += int(functions.rows.period[np.isin(pids, pids[gives])].sum())
        periods = np.where(is_worker, functions.rows.period, 0)
        if functions is not on_cpu and "state" in functions.rows.dimensions:
            is_ready = functions.rows.dimensions["state"] == READY
            ready += int(periods[is_ready].sum())
            periods[is_ready] = 0
        workers.update(functions.rows.dimensions["pid"][is_worker].tolist())
        pickling += int(periods[pickles & (takes | puts)].sum())
        taking += int(periods[takes & ~puts & ~pickles].sum())
        putting += int(periods[puts & ~pickles].sum())
        in_tasks = int(periods[~(takes | puts)].sum())
        if functions is on_cpu:
            computing += in_tasks
        else:
            blocked += in_tasks
    return PoolTimes(len(workers), computing, taking, pickling, putting, blocked, giving, of_owners, ready) if workers else None


# Time for which callbacks blocked an event loop of asyncio: on the CPU for over 100 ms of a turn, or waiting.


#: what stands in callchains below callbacks of long turns; and what runs every callback
_LONG_TURN: Final = re.compile(re.escape(f"{PYTHON_MARK}{BLOCKED_LOOP}:") + ".*", re.DOTALL)
_CALLBACK: Final = re.compile(PYTHON_MARK + r"(?:Handle\.)?_run:.*/asyncio/events\.py", re.DOTALL)
_LONG_WAIT: Final = 100_000_000  # ns
_NONE: Final = -1
_MOST_BLOCKED: Final = 0.8  # of the time, in the function that is named


class BlockedTime(NamedTuple):
    """Time in the callbacks of an event loop.

    Attributes:
        period: its sum.
        function: the innermost function of own code with most of it, -1 for none.
        in_function: the part in that function and its callees.
    """

    period: int
    function: int = _NONE
    in_function: int = 0


def long_turns(functions: SampledFunctions) -> BlockedTime:
    """Return the CPU time of turns that lasted over 100 ms, from then on."""
    return _beneath(functions, _LONG_TURN, np.arange(len(functions.leaf)))


def long_waits(functions: SampledFunctions) -> BlockedTime:
    """Return the waits in callbacks of 100 ms and more; equal waits count by their mean."""
    rows = functions.rows
    return _beneath(functions, _CALLBACK, np.flatnonzero(rows.period >= _LONG_WAIT * np.maximum(rows.count, 1)))


def _beneath(functions: SampledFunctions, pattern: re.Pattern[str], rows: Int64) -> BlockedTime:
    """Return the time of rows whose callchains contain a function of this pattern."""
    size = len(functions.category_of)
    matches = np.zeros(size, np.bool_)
    for number in functions.present.tolist():
        matches[number] = pattern.fullmatch(functions.name(number)) is not None
    if not matches.any():
        return BlockedTime(0)
    is_inside = np.zeros(len(functions.leaf), np.bool_)
    depths: list[tuple[Int64, Int64, int]] = []  # own functions within callbacks: rows, numbers, frames from the leaf
    is_sought = np.ones(len(functions.leaf), np.bool_)
    for block in blocks_of(rows):
        for depth, (reached, callers) in enumerate(functions.outwards(block, is_sought)):
            own = functions.category_of[callers] == OWN
            depths.append((reached[own], callers[own], depth))
            is_inside[reached[matches[callers]]] = True
            is_sought[reached] = ~is_inside[reached]
    periods = np.where(is_inside, functions.rows.period, 0)
    return _in_one_function(periods, depths, size)


def _in_one_function(periods: Int64, depths: list[tuple[Int64, Int64, int]], size: int) -> BlockedTime:
    """Return the time of rows, and the innermost function that has most of it; periods: of each row, 0 outside of callbacks."""
    total = int(periods.sum())
    if not total:
        return BlockedTime(0)
    columns = [(rows, numbers, np.full(len(rows), depth)) for rows, numbers, depth in depths]
    row, function, depth = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in zip(*columns, strict=True))
    # a function that calls itself counts once for a row
    _, first = np.unique(row * size + function, return_index=True)
    row, function, depth = row[first], function[first], depth[first]
    totals = sum_by(function, periods[row], size)
    most = np.flatnonzero(totals > _MOST_BLOCKED * total)
    if not len(most):
        return BlockedTime(total)
    mean_depth = sum_by(function, periods[row] // 1000 * depth, size)[most] / totals[most]
    best = int(most[np.argmin(mean_depth)])
    return BlockedTime(total, best, int(totals[best]))
