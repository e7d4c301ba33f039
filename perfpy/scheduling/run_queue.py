"""Delays on the run queue, by the rules of `perf sched latency`.

Each thread has a state after each of its transitions: on a CPU, waiting for a CPU since a time, or asleep. A delay lasts from the moment
the thread became ready (woken, or preempted) until it came to a CPU. A thread whose first transition is a wakeup was asleep before;
other threads were ready from their first transition on. All threads are computed at once: transitions are sorted by thread, and the
state before each arrival on a CPU follows from the last arrival or departure before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# kinds of transitions
LEFT_READY: Final = 0  #: the thread left its CPU, still ready to run
LEFT_BLOCKED: Final = 1  #: the thread left its CPU to wait
WOKEN: Final = 2  #: the thread was woken
RAN: Final = 3  #: the kernel accounted time on a CPU
CAME: Final = 4  #: the thread came to a CPU
MIGRATED: Final = 5  #: the thread moved to another CPU's run queue

_THREAD_BITS: Final = np.uint64(32)
_SPARSE: Final = 8  # the largest number, by the number of rows, up to which a table of all numbers is cheaper than sorting
_LARGEST_TABLE: Final = 1 << 24
_SHORT: Final = 1 << 16
_ZERO: Final = np.int32(0)
_NONE: Final = np.int32(-1)


class QueueTransitions(NamedTuple):
    """QueueTransitions of all threads, in any order.

    Attributes:
        tid: int32[n] or int64[n].
        kind: uint8[n], a constant of this module.
        time: int64[n], nanoseconds.
        order: int32[n] or int64[n], distinct; sorts the transitions of a thread.
    """

    tid: NDArray[np.integer[Any]]
    kind: NDArray[np.uint8]
    time: NDArray[np.int64]
    order: NDArray[np.integer[Any]]


class Delays(NamedTuple):
    """The delays of all threads, sorted by thread and time. Times are nanoseconds."""

    tid: NDArray[np.integer[Any]]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def thread_order(tid: NDArray[np.integer[Any]], order: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the indexes that sort rows by thread, then by order (distinct, below 2**32)."""
    if not len(tid):
        return np.zeros(0, np.int64)
    if int(order.max()) < _SPARSE * len(order) and int(tid.min()) >= 0 and int(tid.max()) < _LARGEST_TABLE:
        rows = _by_slot(order)
        is_present = np.zeros(int(tid.max()) + 1, bool)
        is_present[tid] = True
        rank = np.cumsum(is_present, dtype=np.int32)
        if int(rank[-1]) <= _SHORT:  # sorting 16-bit numbers is a radix sort
            return rows.take(np.argsort((rank - 1).astype(np.uint16).take(tid.take(rows)), kind="stable"))
    keys = tid.astype(np.uint32).astype(np.uint64) << _THREAD_BITS | order.astype(np.uint64)
    return np.argsort(keys)


def _by_slot(order: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Return the indexes that sort distinct numbers that are not far apart."""
    slots: NDArray[np.int32] = np.full(int(order.max()) + 1, -1, np.int32)
    slots[order] = np.arange(len(order), dtype=np.int32)
    return slots[slots >= 0]


def sorted_by_thread(transitions: QueueTransitions) -> QueueTransitions:
    """Return the transitions sorted by thread, then by order."""
    rows = thread_order(transitions.tid, transitions.order)
    return QueueTransitions._make(column.take(rows) for column in transitions)


def run_queue_delays(transitions: QueueTransitions, *, one_cpu: bool = False) -> Delays:
    """Return the delays between readiness and the CPU.

    Args:
        transitions: of all threads, sorted by thread (see sorted_by_thread).
        one_cpu: perf's rules for a recording of a single CPU, where transitions are missing: every wakeup counts, and a migration
            restarts the wait.
    """
    tid, kind, time = transitions.tid, transitions.kind, transitions.time
    position = np.arange(len(tid), dtype=np.int32)
    first = np.ones(len(tid), bool)
    first[1:] = tid[1:] != tid[:-1]
    first_row = np.maximum.accumulate(np.where(first, position, _ZERO))
    ends = np.flatnonzero(kind == CAME)
    left = (kind == LEFT_READY) | (kind == LEFT_BLOCKED)
    # A thread that came to a CPU although it slept is still asleep by perf's rules: its wakeup was lost, or comes later.
    last_left = np.maximum.accumulate(np.where(left | first, position, _ZERO))
    last_woken = np.maximum.accumulate(np.where(kind == WOKEN, position, _NONE))
    turns = left | ((kind == CAME) & ~((kind[last_left] == LEFT_BLOCKED) & (last_woken < last_left)))
    turn = np.maximum.accumulate(np.where(turns | first, position, _ZERO))
    before = np.where(first[ends], ends, turn[ends - 1])  # the transition that decides the state; of a first arrival itself
    begin, counts = _waits_since(before, ends, first_row, kind, time, one_cpu=one_cpu)
    ends, begin = ends[counts], begin[counts]
    return Delays(tid[ends], np.minimum(begin, time[ends]), time[ends])


def count_wakeups(transitions: QueueTransitions, *, one_cpu: bool = False) -> int:
    """Return the number of wakeups of sleeping threads; with one_cpu of all wakeups and migrations.

    The transitions are sorted by thread.
    """
    if one_cpu:
        return int(((transitions.kind == WOKEN) | (transitions.kind == MIGRATED)).sum())
    tid, kind = transitions.tid, transitions.kind
    first = np.ones(len(tid), bool)
    first[1:] = tid[1:] != tid[:-1]
    counted = (kind != RAN) & (kind != CAME) | first
    tid, kind, first = tid[counted], kind[counted], first[counted]
    before = np.append(np.uint8(LEFT_READY), kind[:-1])
    return int(((kind == WOKEN) & (first | (before == LEFT_BLOCKED))).sum())


def _waits_since(
    before: NDArray[np.int64],
    ends: NDArray[np.int64],
    first_row: NDArray[np.int64],
    kind: NDArray[np.uint8],
    time: NDArray[np.int64],
    *,
    one_cpu: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return since when each arriving thread waited for a CPU, and whether it did."""
    position = np.arange(len(kind), dtype=np.int32)
    woken = kind == WOKEN
    is_first = before == first_row[ends]
    kind_before = kind[before]
    starts_ready = (kind_before == LEFT_READY) | (is_first & ((kind_before == RAN) | (kind_before == MIGRATED))) | (before == ends)
    if one_cpu:
        moves = woken | (kind == MIGRATED)
        last_move = np.maximum.accumulate(np.where(moves, position, _NONE))[np.maximum(ends - 1, 0)]
        last_wakeup = np.maximum.accumulate(np.where(woken, position, _NONE))[np.maximum(ends - 1, 0)]
        was_woken = last_wakeup >= before
        begin = np.where((last_move >= before) & (last_move < ends), time[last_move], time[before])
        return begin, starts_ready | (was_woken & (last_wakeup < ends))
    next_wakeup = len(kind) - 1 - np.maximum.accumulate(np.where(woken[::-1], position, _NONE))[::-1]  # at a row or after it
    wakeup = next_wakeup[before]
    can_be_woken = (kind_before == LEFT_BLOCKED) | (is_first & woken[before])
    was_woken = can_be_woken & (wakeup < ends)
    begin = np.where(starts_ready, time[before], time[np.minimum(wakeup, len(kind) - 1)])
    return begin, starts_ready | was_woken
