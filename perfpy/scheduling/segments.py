"""Divide the time of every thread into segments: running, ready for a CPU, or blocked. Pair the begin and the end of what the kernel does.

The input of segments is the switches and wakeups of all CPUs. Transitions are sorted by thread, and each one begins a segment that lasts
until the next transition of its thread. A wakeup counts only if the thread was blocked, and only the first one. Threads are in their first
state since the recording began, unless a wakeup of a new thread is their first transition.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Final

    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


# kinds of segments
RUNNING: Final = 0
READY: Final = 1
BLOCKED: Final = 2

# kinds of transitions
_CAME: Final = 0
_LEFT_READY: Final = 1
_LEFT_BLOCKED: Final = 2
_LEFT_DEAD: Final = 3
_WOKEN: Final = 4
_CREATED: Final = 5
_STATE: Final = np.array([RUNNING, READY, BLOCKED, -1, READY, READY], np.int8)

_STATE_BITS: Final = 0xFF  # of prev_state; higher bits mean preemption
_DEAD_BITS: Final = 0x10 | 0x20  # EXIT_DEAD, EXIT_ZOMBIE (include/linux/sched.h)
_LARGEST: Final = 1 << 62
_NONE: Final = -1


class SwitchColumns(NamedTuple):
    """Context switches in order of delivery: int64[n] each.

    Attributes:
        time: nanoseconds.
        order: positions among the events of the recording.
        cpu: where the switch happened.
        prev, next: the threads that left and came.
        state: prev_state of the tracepoint.
    """

    time: Int64
    order: Int64
    cpu: Int64
    prev: Int64
    next: Int64
    state: Int64


class WakeupColumns(NamedTuple):
    """Wakeups in order of delivery: int64[n] each.

    Attributes:
        time: nanoseconds.
        order: as of SwitchColumns.
        thread: the woken thread.
        is_new: bool[n]; whether the thread was just created.
    """

    time: Int64
    order: Int64
    thread: Int64
    is_new: NDArray[np.bool_]


class Segments(NamedTuple):
    """The segments of all threads, sorted by thread and time.

    Attributes:
        tid: int64[n].
        begin, end: int64[n], nanoseconds.
        kind: int8[n]: RUNNING, READY or BLOCKED.
        cpu: int64[n]: where the thread ran, or came to after it was ready; -1: unknown.
        departure: int64[n], the index of the switch by which a waiting thread left its CPU; -1: none.
        wakeup: int64[n], the index of the wakeup that ended a blocked segment, or began a ready one; -1: none.
    """

    tid: Int64
    begin: Int64
    end: Int64
    kind: NDArray[np.int8]
    cpu: Int64
    departure: Int64
    wakeup: Int64

    def take(self, chosen: NDArray[np.bool_] | Int64) -> Segments:
        """Select rows by mask or index."""
        return Segments._make(column[chosen] for column in self)


class _Transitions(NamedTuple):
    tid: Int64
    time: Int64
    order: Int64
    kind: NDArray[np.int8]
    row: Int64
    cpu: Int64


def make_segments(switches: SwitchColumns, wakeups: WakeupColumns, begin: int, end: int) -> Segments:
    """Return the segments of all threads but the idle ones.

    Args:
        switches, wakeups: of all CPUs.
        begin, end: of the recording, nanoseconds.
    """
    rows = _effective(_sorted_transitions(switches, wakeups))
    if not len(rows.tid):
        none = np.zeros(0, np.int64)
        return Segments(none, none, none, none.astype(np.int8), none, none, none)
    rows = _with_first_states(rows, begin, has_wakeups=bool(len(wakeups.time)))
    is_last = np.append(rows.tid[1:] != rows.tid[:-1], True)
    following = np.minimum(np.arange(len(rows.tid)) + 1, len(rows.tid) - 1)
    finish = np.where(is_last, end, rows.time[following])
    state = _STATE[rows.kind]
    next_kind = np.where(is_last, np.int8(_LEFT_DEAD), rows.kind[following])
    came_to = np.where(next_kind == _CAME, rows.cpu[following], _NONE)
    is_left = (rows.kind == _LEFT_READY) | (rows.kind == _LEFT_BLOCKED)
    is_woken = (rows.kind == _WOKEN) | (rows.kind == _CREATED)
    wakeup = np.where(is_woken, rows.row, np.where((next_kind == _WOKEN) & (state == BLOCKED), rows.row[following], _NONE))
    segments = Segments(
        tid=rows.tid,
        begin=rows.time,
        end=np.maximum(finish, rows.time),
        kind=state,
        cpu=np.where(state == RUNNING, rows.cpu, came_to),
        departure=np.where(is_left, rows.row, _NONE),
        wakeup=wakeup,
    )
    return segments.take((state >= 0) & (rows.tid != 0))


def _sorted_transitions(switches: SwitchColumns, wakeups: WakeupColumns) -> _Transitions:
    count = len(switches.time)
    bits = switches.state & _STATE_BITS
    left = np.where(bits == 0, _LEFT_READY, np.where(bits & _DEAD_BITS, _LEFT_DEAD, _LEFT_BLOCKED)).astype(np.int8)
    woken = np.where(wakeups.is_new, _CREATED, _WOKEN).astype(np.int8)
    parts = (
        (switches.prev, switches.time, 2 * switches.order, left, np.arange(count), switches.cpu),
        (switches.next, switches.time, 2 * switches.order + 1, np.full(count, _CAME, np.int8), np.arange(count), switches.cpu),
        (wakeups.thread, wakeups.time, 2 * wakeups.order, woken, np.arange(len(wakeups.time)), np.full(len(wakeups.time), _NONE)),
    )
    columns: list[NDArray[Any]] = [np.concatenate([part[number] for part in parts]) for number in range(6)]
    rows = _Transitions._make(columns)
    order = np.lexsort((rows.order, rows.tid))
    return _Transitions._make(column[order] for column in rows)


def _effective(rows: _Transitions) -> _Transitions:
    """Drop wakeups of threads that are not blocked, and all but the first one of a blocked thread."""
    index = np.arange(len(rows.tid))
    is_wakeup = rows.kind >= _WOKEN
    first = np.ones(len(rows.tid), bool)
    first[1:] = rows.tid[1:] != rows.tid[:-1]
    own_first = np.maximum.accumulate(np.where(first, index, 0))
    last_switch = np.maximum.accumulate(np.where(is_wakeup, _NONE, index))
    has_switch = last_switch >= own_first
    blocked = ~has_switch | (rows.kind[np.maximum(last_switch, 0)] >= _LEFT_BLOCKED)
    wakeups: Int64 = np.cumsum(is_wakeup)
    since = np.where(has_switch, last_switch, own_first - 1)
    earlier: Int64 = wakeups - np.where(since >= 0, wakeups[np.maximum(since, 0)], 0)
    is_effective = ~is_wakeup | (blocked & (earlier == 1))
    return _Transitions._make(column[is_effective] for column in rows)


def _with_first_states(rows: _Transitions, begin: int, *, has_wakeups: bool) -> _Transitions:
    """Insert the state of each thread before its first transition."""
    first = np.ones(len(rows.tid), bool)
    first[1:] = rows.tid[1:] != rows.tid[:-1]
    where = np.flatnonzero(first & (rows.kind != _CREATED) & (rows.time > begin))
    kind = rows.kind[where]
    before_came = _WOKEN if has_wakeups else _LEFT_BLOCKED
    state = np.where(kind == _CAME, before_came, np.where(kind == _WOKEN, _LEFT_BLOCKED, _CAME)).astype(np.int8)
    none = np.full(len(where), _NONE, np.int64)
    cpu = np.where(state == _CAME, rows.cpu[where], none)
    inserted = _Transitions(rows.tid[where], np.full(len(where), begin, np.int64), none, state, none, cpu)
    columns: list[NDArray[Any]] = [np.insert(rows[number], where, inserted[number]) for number in range(6)]
    return _Transitions._make(columns)


class SegmentIndex:
    """A lookup of the segments that overlap windows of time.

    Args:
        group: int64[n], of each segment; the segments are sorted by it and by their begin.
        begin, end: int64[n], nanoseconds.
    """

    def __init__(self, group: Int64, begin: Int64, end: Int64) -> None:
        starts = np.ones(len(group), bool)
        starts[1:] = group[1:] != group[:-1]
        self._groups = group[starts]
        self._first = int(begin.min()) if len(begin) else 0
        span = (int(end.max()) if len(end) else 0) - self._first + 2
        self._shift = max((span * (len(self._groups) + 1)).bit_length() - _LARGEST.bit_length() + 1, 0)
        self._span = (span >> self._shift) + 2
        self._keys = (np.cumsum(starts) - 1) * self._span + self._scaled(begin)
        self._count = len(group)

    def _scaled(self, time: Int64) -> Int64:
        scaled: Int64 = np.clip((time - self._first) >> self._shift, 0, self._span - 1)
        return scaled

    def overlapping(self, group: Int64, low: Int64, high: Int64) -> tuple[Int64, Int64]:
        """Return the first segment of each window, and the number of segments that may overlap it."""
        if not self._count:
            return np.zeros(len(group), np.int64), np.zeros(len(group), np.int64)
        rank = np.searchsorted(self._groups, group)
        has_group = self._groups[np.minimum(rank, len(self._groups) - 1)] == group
        start = np.searchsorted(self._keys, rank * self._span)
        first = np.maximum(np.searchsorted(self._keys, rank * self._span + self._scaled(low)) - 1, start)
        last = np.searchsorted(self._keys, rank * self._span + self._scaled(high), side="right")
        return np.where(has_group, first, 0), np.where(has_group, np.maximum(last - first, 0), 0)


# Pair the begin and the end of what the kernel does: a system call of a thread, a request of a device, a soft interrupt of a CPU.
class EventPairs(NamedTuple):
    """Begins with their ends.

    Attributes:
        begin, end: int64[n], indexes of the rows.
        open_count: begins without an end.
    """

    begin: Int64
    end: Int64
    open_count: int


def pair_events(begin_key: Int64, begin_order: Int64, end_key: Int64, end_order: Int64) -> EventPairs:
    """Return the begins that an end with the same key follows, before another begin with that key.

    Args:
        begin_key, end_key: what may be under way once at a time.
        begin_order, end_order: positions among all events.
    """
    count = len(begin_key)
    key, order = np.concatenate([begin_key, end_key]), np.concatenate([begin_order, end_order])
    rows = np.lexsort((order, key))
    before, after = rows[:-1], rows[1:]
    is_pair = (before < count) & (after >= count) & (key[before] == key[after])
    pairs = before[is_pair], after[is_pair] - count
    return EventPairs(pairs[0], pairs[1], count - int(is_pair.sum()))


def numbers_of_keys(*columns: Int64) -> Int64:
    """Return a number for each row that is equal for rows with equal values in all columns."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, which = np.unique(column, return_inverse=True)
        _, which = np.unique(numbers * np.int64(len(column) + 1) + which.ravel(), return_inverse=True)
        numbers = which.ravel().astype(np.int64)
    return numbers


# Pair the begin and the end of lock contention. A thread may report the begin twice, as when a mutex is spun on before the thread sleeps;
# the first one counts. All pairs are found at once: rows are sorted by thread and lock, and a wait lasts from the first begin after the
# last end.
class LockEvents(NamedTuple):
    """Begins or ends of contention.

    Attributes:
        tid: int64[n], the thread.
        lock: uint64[n], the address.
        order: int64[n]; orders all events of a recording.
    """

    tid: NDArray[np.int64]
    lock: NDArray[np.uint64]
    order: NDArray[np.int64]


class Contentions(NamedTuple):
    """Waits for locks, by order of their begin.

    Attributes:
        begin: int64[n], indexes of begins.
        end: int64[n], indexes of their ends; -1: none.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def pair_contentions(begins: LockEvents, ends: LockEvents) -> Contentions:
    """Return the waits."""
    count = len(begins.tid)
    tid, lock = np.concatenate([begins.tid, ends.tid]), np.concatenate([begins.lock, ends.lock])
    rows = np.lexsort((np.concatenate([begins.order, ends.order]), lock, tid))
    is_begin = rows < count
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (tid[rows[1:]] != tid[rows[:-1]]) | (lock[rows[1:]] != lock[rows[:-1]]) | ~is_begin[:-1]
    starts = np.flatnonzero(is_begin & is_first)
    next_end = len(rows) - 1 - np.maximum.accumulate(np.where(~is_begin[::-1], np.arange(len(rows)), -1))[::-1]
    end = next_end[starts]  # len(rows) if there is none
    has_end = end < len(rows)
    end_row = rows[np.where(has_end, end, 0)] if len(rows) else end
    begin_row = rows[starts]
    has_end &= (tid[end_row] == tid[begin_row]) & (lock[end_row] == lock[begin_row]) if len(rows) else has_end
    order = np.argsort(begins.order[begin_row], kind="stable")
    return Contentions(begin_row[order], np.where(has_end, end_row - count, -1)[order])
