"""What each thread does in each segment of its time: kinds, functions, locks and wakers as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.system_calls.numbers import has_table, numbers_by_name
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.events import first_arguments, numbers_of
from perfpy.analysis.why.kinds import RUNNING, STOPPED, WITH_FUTEX
from perfpy.analysis.why.stacks import NO_FUNCTION, StackMeanings
from perfpy.analysis.why.wakers import concerned_threads, find_wakers, values_of
from perfpy.scheduling.segments import BLOCKED, READY, SegmentIndex, Segments, SwitchColumns, WakeupColumns, make_segments

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.why.events import WhyEvents
    from perfpy.symbols.symbolizer import Symbolizer

    Int64 = NDArray[np.int64]

_NONE: Final = -1
_STOPPED_BITS: Final = 4 | 8
#: reasons by system call, for recordings without the kernel's symbols
OF_CALLS: Final = {
    reasons.FUTEX: ("futex",),
    reasons.SLEEP: ("nanosleep", "clock_nanosleep"),
    reasons.CHILD: ("wait4", "waitid", "waitpid"),
    reasons.DISK: ("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"),
    reasons.FILE_LOCK: ("flock",),
    reasons.EVENTS: ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
    reasons.NETWORK: ("recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "connect"),
    reasons.SIGNAL: ("pause", "rt_sigsuspend", "rt_sigtimedwait"),
}


class Activities(NamedTuple):
    """The segments of all threads, with what happens in each.

    Attributes:
        segments: sorted by thread and time.
        kind: int64[n], see perfpy.analysis.why.kinds.
        function: int64[n], the function that waits; NO_FUNCTION: unknown.
        lock: uint64[n], the address of the lock; 0: none.
        chain: int64[n], the callchain of a wait; -1: none.
        waker: int64[n], the thread that ended a blocked segment; -1: unknown, or an interrupt.
        by_interrupt: bool[n], whether an interrupt ended it.
        waker_chain: int64[n], the callchain of the waker; -1: none.
        priorities: thread -> its last priority.
        meanings: of the callchains.
        samples: of running threads.
    """

    segments: Segments
    kind: Int64
    function: Int64
    lock: NDArray[np.uint64]
    chain: Int64
    waker: Int64
    by_interrupt: NDArray[np.bool_]
    waker_chain: Int64
    priorities: dict[int, int]
    meanings: StackMeanings
    samples: RunningSamples


class RunningSamples(NamedTuple):
    """Samples of running threads, sorted by thread and time.

    Attributes:
        tid, time: int64[n].
        function: int64[n], the own function.
        spins: bool[n], whether the thread waited for a spinlock.
    """

    tid: Int64
    time: Int64
    function: Int64
    spins: NDArray[np.bool_]


def make_activities(events: WhyEvents, symbolizer: Symbolizer, machine: str, tids: Collection[int] | None = None) -> Activities:
    """Return the activities of all threads.

    Args:
        events: of the recording.
        symbolizer: of the recording.
        machine: its architecture, for the numbers of system calls.
        tids: the threads whose waits are to be explained. Callchains of threads that are not concerned are not read. None for all.
    """
    switches, wakeups, samples = events.switches, events.wakeups, events.samples
    prev, state = numbers_of(switches, "prev_pid"), numbers_of(switches, "prev_state")
    segments = _segments(events, prev, state)
    meanings = StackMeanings(symbolizer)
    concerned = None if tids is None else concerned_threads(events, segments, np.array(sorted(tids), np.int64))
    of_switches = _added(meanings, switches.chains, switches.pid, switches.key, prev, concerned)
    of_wakeups = _added(meanings, wakeups.chains, wakeups.pid, wakeups.key, numbers_of(wakeups, "pid"), concerned)
    of_samples = _added(meanings, samples.chains, samples.pid, samples.key, samples.tid, concerned)
    meanings.resolve()
    departure, wakeup = segments.departure, segments.wakeup
    chain = values_of(of_switches, departure)
    kind, is_blocked = np.where(segments.kind == READY, reasons.CPU, RUNNING), segments.kind == BLOCKED
    reason = np.where(chain >= 0, meanings.column("reason", np.maximum(chain, 0)), reasons.OTHER)
    reason = np.where(values_of(state, departure) & _STOPPED_BITS & (departure >= 0) * 0xFF, STOPPED, reason)
    kind = np.where(is_blocked, reason, kind)
    call, address = _last_calls(events, segments, machine)
    kind = np.where(is_blocked & (kind == reasons.OTHER) & (call != reasons.OTHER), call, kind)
    # Each wait for a condition of Python has a lock of its own, so that the address says nothing.
    has_address = is_blocked & (call == reasons.FUTEX) & ((chain < 0) | (meanings.column("is_python", np.maximum(chain, 0)) == 0))
    lock = np.where(has_address & np.isin(kind, WITH_FUTEX), address, np.uint64(0))
    waker_chain = np.where(is_blocked, values_of(of_wakeups, wakeup), _NONE)
    waker, by_interrupt = find_wakers(events, wakeup, waker_chain, meanings, is_blocked)
    function = np.where(chain >= 0, meanings.column("function", np.maximum(chain, 0)), NO_FUNCTION)
    priorities = dict(zip(prev.tolist(), numbers_of(switches, "prev_prio").tolist(), strict=True))
    read = np.flatnonzero(of_samples >= 0)
    order = read[np.lexsort((samples.time[read], samples.tid[read]))]
    numbers = of_samples[order]
    running = RunningSamples(
        samples.tid[order], samples.time[order], meanings.column("function", numbers), meanings.column("is_spin", numbers) > 0
    )
    return Activities(segments, kind, function, lock, chain, waker, by_interrupt, waker_chain, priorities, meanings, running)


def _added(
    meanings: StackMeanings, chains: Ragged | None, pid: NDArray[Any], key: NDArray[np.uint64], tid: Int64, concerned: Int64 | None
) -> Int64:
    """Return the numbers of the callchains of threads; -1 for threads that are not concerned."""
    rows = np.arange(len(tid)) if concerned is None else np.flatnonzero(np.isin(tid, concerned))
    numbers = np.full(len(tid), _NONE, np.int64)
    numbers[rows] = meanings.add(None if chains is None else chains.take(rows), pid[rows].astype(np.int64), key[rows])
    return numbers


def _segments(events: WhyEvents, prev: Int64, state: Int64) -> Segments:
    switches, wakeups, samples = events.switches, events.wakeups, events.samples
    times = np.concatenate([switches.time, wakeups.time, samples.time])
    return make_segments(
        SwitchColumns(switches.time, switches.order, switches.cpu.astype(np.int64), prev, numbers_of(switches, "next_pid"), state),
        WakeupColumns(wakeups.time, wakeups.order, numbers_of(wakeups, "pid"), events.is_new),
        int(times.min(initial=np.iinfo(np.int64).max)) if len(times) else 0,
        int(times.max(initial=0)),
    )


def _last_calls(events: WhyEvents, segments: Segments, machine: str) -> tuple[Int64, NDArray[np.uint64]]:
    """Return the reason and the first argument of the last system call before each departure."""
    none, no_address = np.full(len(segments.tid), reasons.OTHER, np.int64), np.zeros(len(segments.tid), np.uint64)
    calls = events.calls
    if not len(calls.order) or not has_table(machine):
        return none, no_address
    numbers = numbers_by_name(machine)
    of_call = {numbers[name]: reason for reason, names in OF_CALLS.items() for name in names if name in numbers}
    ids = numbers_of(calls, "id")
    reason_of = np.full(len(ids), reasons.OTHER, np.int64)
    for number, reason in of_call.items():
        reason_of[ids == number] = reason
    by_thread = np.lexsort((calls.order, calls.tid))
    own, when = calls.tid[by_thread].astype(np.int64), calls.time[by_thread]
    index = SegmentIndex(own, when, when)
    first, count = index.overlapping(segments.tid, segments.begin, segments.begin)
    last = np.maximum(first + count - 1, 0)
    row = by_thread[np.minimum(last, len(by_thread) - 1)]
    has_call = (count > 0) & (calls.time[row] <= segments.begin) & (calls.tid[row] == segments.tid) & (segments.departure >= 0)
    return np.where(has_call, reason_of[row], reasons.OTHER), np.where(has_call, first_arguments(calls)[row], np.uint64(0))
