"""The times around each context switch, by the rules of `perf sched timehist`.

For each switch: how long the thread that left had run, how long it had waited for its CPU before, and how long it had been off the CPU.
All switches are computed at once, from the last switch on the same CPU, the last departure of the same thread, and the first wakeup of the
thread after that departure.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import distinct, first_of_each, grouped, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Final

    from numpy.typing import NDArray

_NONE: Final = -1
_SHORT: Final = 1 << 16


class Events(NamedTuple):
    """Events of threads.

    Attributes:
        thread: int32[n] or int64[n], small numbers of threads.
        time: int64[n], nanoseconds.
        order: int64[n], ascending; orders all events of a recording.
    """

    thread: NDArray[np.integer[Any]]
    time: NDArray[np.int64]
    order: NDArray[np.int64]

    def take(self, rows: NDArray[np.integer[Any]]) -> Events:
        """Select rows."""
        return Events(self.thread.take(rows), self.time.take(rows), self.order.take(rows))


class SwitchTimes(NamedTuple):
    """Durations before each switch, in nanoseconds: int64[n], or 0 if unknown.

    Attributes:
        ran: the time on the CPU.
        delay: from readiness until the CPU.
        waited: from the last departure until the CPU.
        before_migration: from readiness until the thread moved to another CPU.
        last_on_cpu: int64[n], the index of the last switch on this CPU; -1: none.
        last_of_thread: int64[n], the index of the last departure of the thread; -1: none.
    """

    ran: NDArray[np.int64]
    delay: NDArray[np.int64]
    waited: NDArray[np.int64]
    before_migration: NDArray[np.int64]
    last_on_cpu: NDArray[np.int64]
    last_of_thread: NDArray[np.int64]


def previous_of(group: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return for each row the index of the row before it in the same group; -1: none."""
    fits = len(group) and int(group.min()) >= 0 and int(group.max()) < _SHORT
    order = np.argsort((group.astype(np.uint16) if fits else group), kind="stable")
    previous = np.full(len(group), _NONE, np.int64)
    same = group[order[1:]] == group[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


class SwitchRuns:
    """The times around switches.

    Args:
        switches: departures of threads, by ascending order.
        cpu: the CPU of each switch.
        is_ready: whether the thread was still ready to run when it left.
        wakeups: of threads.
        migrations: of threads to another CPU.
    """

    def __init__(self, switches: Events, cpu: NDArray[np.int64], is_ready: NDArray[np.bool_], wakeups: Events, migrations: Events) -> None:
        self._switches, self._is_ready = switches, is_ready
        self._wakeups, self._migrations = wakeups, migrations
        self._rows = _ThreadOrder(switches, wakeups)
        self._last_on_cpu = previous_of(cpu)

    def times(self) -> SwitchTimes:
        """Return the times around each switch."""
        switches, rows = self._switches, self._rows
        last_on_cpu, last_of_thread = self._last_on_cpu, rows.last_departures()
        has_left = last_of_thread >= 0
        since = _taken_or(switches.time, last_on_cpu, 0)
        left = _taken_or(switches.time, last_of_thread, 0)
        ready = rows.first_wakeups(self._wakeups.time)
        ready = np.where(has_left & self._is_ready.take(last_of_thread, mode="clip"), left, ready) if len(ready) else ready
        is_known = since > 0
        was_ready = is_known & (ready > 0) & (ready <= since)
        delay = np.where(was_ready, since - ready, 0)
        before_migration = np.broadcast_to(np.int64(0), len(since))
        if len(self._migrations.thread):
            on_cpu_since, after = (_taken_or(switches.order, last, _NONE) for last in (last_on_cpu, last_of_thread))
            moved = _last_between(self._migrations, switches, on_cpu_since, after)
            before_migration = np.where(was_ready & (moved > ready) & (moved < since), moved - ready, 0)
        waited = np.where(is_known & (left > 0) & (left <= since), since - left, 0)
        ran = np.where(is_known, np.maximum(switches.time - since, 0), 0)
        return SwitchTimes(ran, delay, waited, before_migration, last_on_cpu, last_of_thread)

    def rows_to_keep(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return the ascending rows of switches, wakeups and migrations that decide the times of later switches."""
        left, woken = self._rows.last_rows()
        is_last = np.ones(len(self._last_on_cpu), bool)
        is_last[self._last_on_cpu[self._last_on_cpu >= 0]] = False
        last_of_cpus = rows_where(is_last)
        return distinct(np.concatenate([left, last_of_cpus])), distinct(woken), self._migrations_to_keep(last_of_cpus)

    def _migrations_to_keep(self, last_of_cpus: NDArray[np.intp]) -> NDArray[np.integer[Any]]:
        """Return each thread's last migration before each of some switches, and its last one: a CPU may run it since any of them."""
        thread, _, order = self._migrations
        if not len(thread):
            return np.zeros(0, np.int64)
        span = np.searchsorted(np.sort(self._switches.order[last_of_cpus]), order)
        rows = np.lexsort((order, span, thread))
        is_last = np.ones(len(rows), bool)
        is_last[:-1] = (thread[rows[1:]] != thread[rows[:-1]]) | (span[rows[1:]] != span[rows[:-1]])
        return distinct(rows[is_last])


def _taken_or(values: NDArray[np.int64], rows: NDArray[np.int64], default: int) -> NDArray[np.int64]:
    """Return values at some rows, or a default for row -1."""
    if not len(values):
        return np.full(len(rows), default, np.int64)
    return np.where(rows >= 0, values.take(rows, mode="clip"), default)


class _ThreadOrder:
    """The events of all threads, sorted by thread and order. Rows are indexes into the sorted events.

    Attributes:
        departure: the row of each switch.
        last_departure: the row of the last switch of the same thread; -1: none.
        first: the first row of each switch's thread.
    """

    def __init__(self, switches: Events, wakeups: Events) -> None:
        thread = np.concatenate([switches.thread, wakeups.thread])
        self._rows = thread_order(thread, np.concatenate([switches.order, wakeups.order]))
        self._count = len(switches.thread)
        position = np.arange(len(self._rows), dtype=np.int32)
        sorted_thread = thread[self._rows]
        begins = np.ones(len(position), bool)
        begins[1:] = sorted_thread[1:] != sorted_thread[:-1]
        self._begins = rows_where(begins)
        is_switch = self._rows < self._count
        self._departures = rows = rows_where(is_switch)
        switch = self._rows[rows]
        self.departure = np.empty(self._count, np.int32)
        self.departure[switch] = rows
        self.first = np.maximum.accumulate(np.where(begins, position, np.int32(0))).take(self.departure)
        before = np.full(self._count, _NONE, np.int32)
        before[switch[1:]] = rows[:-1]
        self.last_departure = np.where(before >= self.first, before, np.int32(_NONE))
        next_wakeup = np.where(is_switch, np.int32(len(position)), position)
        self._next_wakeup = np.minimum.accumulate(next_wakeup[::-1])[::-1]

    def last_departures(self) -> NDArray[np.int64]:
        """Return for each switch the index of the last departure of its thread; -1: none."""
        return np.where(self.last_departure >= 0, self._rows.take(self.last_departure, mode="clip"), _NONE)

    def first_wakeups(self, time: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time of the first wakeup of each switch's thread since its last departure; 0: none.

        time: of the wakeups.
        """
        if not len(time):
            return np.zeros(self._count, np.int64)
        row = self._next_wakeup.take(np.maximum(self.last_departure, self.first))  # no wakeup is at the row of a departure
        is_inside = row < self.departure
        return np.where(is_inside, time.take(self._rows.take(row, mode="clip") - self._count, mode="clip"), 0)

    def last_rows(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return the last switch of each thread, and its first wakeup after that, as indexes into switches and wakeups."""
        if not len(self._rows):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ends = np.append(self._begins[1:], len(self._rows))
        departures = np.append(self._departures, len(self._rows))
        index = np.searchsorted(self._departures, ends) - 1
        left = departures[index]  # -1, the last one, is no departure
        has_left = (index >= 0) & (left >= self._begins)
        woken = self._next_wakeup[np.where(has_left, left, self._begins)]
        return self._rows[left[has_left]], self._rows[woken[woken < ends]] - self._count


def _last_between(events: Events, switches: Events, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time of the last event of each switch's thread between two orders; 0: none."""
    times = np.zeros(len(switches.thread), np.int64)
    if not len(times):
        return times
    by_thread = thread_order(events.thread, events.order)
    top = max(int(events.order.max()), int(switches.order.max())) + 2
    index = (
        np.searchsorted(
            events.thread[by_thread].astype(np.int64) * top + events.order[by_thread], switches.thread.astype(np.int64) * top + before + 1
        )
        - 1
    )
    row = by_thread[np.maximum(index, 0)]
    inside = (index >= 0) & (events.thread[row] == switches.thread) & (events.order[row] > after)
    times[inside] = events.time[row[inside]]
    return times


# Delays on the run queue, by the rules of `perf sched latency`. Each thread has a state after each of its transitions: on a CPU, waiting
# for a CPU since a time, or asleep. A delay lasts from the moment the thread became ready (woken, or preempted) until it came to a CPU. A
# thread whose first transition is a wakeup was asleep before; other threads were ready from their first transition on. All threads are
# computed at once: transitions are sorted by thread, and the state before each arrival on a CPU follows from the last arrival or
# departure before it.

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
_ZERO: Final = np.int32(0)
_NO_ROW: Final = np.int32(-1)


class QueueTransitions(NamedTuple):
    """Transitions of threads.

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

    def take(self, rows: NDArray[np.integer[Any]]) -> QueueTransitions:
        """Select rows."""
        return QueueTransitions._make(column.take(rows) for column in self)


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
        slots: NDArray[np.int32] = np.full(int(order.max()) + 1, -1, np.int32)
        slots[order] = np.arange(len(order), dtype=np.int32)
        rows = slots[slots >= 0]
        is_present = np.zeros(int(tid.max()) + 1, bool)
        is_present[tid] = True
        rank = np.cumsum(is_present, dtype=np.int32)
        if int(rank[-1]) <= _SHORT:  # sorting 16-bit numbers is a radix sort
            return rows.take(np.argsort((rank - 1).astype(np.uint16).take(tid.take(rows)), kind="stable"))
    keys = tid.astype(np.uint32).astype(np.uint64) << _THREAD_BITS | order.astype(np.uint64)
    return np.argsort(keys)


def sorted_by_thread(transitions: QueueTransitions) -> QueueTransitions:
    """Return the transitions sorted by thread, then by order."""
    return transitions.take(thread_order(transitions.tid, transitions.order))


class QueueStates:
    """The states of threads on the run queue after each of their transitions.

    Args:
        transitions: of all threads, sorted by thread (see sorted_by_thread).
        one_cpu: perf's rules for a recording of a single CPU, where transitions are missing: every wakeup counts, and a migration
            restarts the wait.
        is_new: of each transition: False for those of an earlier window (see rows_to_keep); None: all are new.
    """

    def __init__(self, transitions: QueueTransitions, *, one_cpu: bool = False, is_new: NDArray[np.bool_] | None = None) -> None:
        self._transitions, self._one_cpu = transitions, one_cpu
        self._is_new: NDArray[np.bool_] = np.ones(len(transitions.tid), bool) if is_new is None else is_new
        tid, kind, _, _ = transitions
        self._position = position = np.arange(len(tid), dtype=np.int32)
        self._first = first = np.ones(len(tid), bool)
        np.not_equal(tid[1:], tid[:-1], out=first[1:])
        self._woken = kind == WOKEN
        left = kind <= LEFT_BLOCKED
        self._last_left = np.maximum.accumulate(np.where(left | first, position, _ZERO))
        self._last_woken = np.maximum.accumulate(np.where(self._woken, position, _NO_ROW))
        # A thread that came to a CPU although it slept is still asleep by perf's rules: its wakeup was lost, or comes later.
        is_asleep = (kind == LEFT_BLOCKED).take(self._last_left) & (self._last_woken < self._last_left)
        self._turn = np.maximum.accumulate(np.where(left | first | ((kind == CAME) & ~is_asleep), position, _ZERO))

    def delays(self) -> Delays:
        """Return the delays between readiness and the CPU."""
        tid, kind, time, _ = self._transitions
        came = kind == CAME
        ends = rows_where(came & self._is_new)
        before = np.where(self._first.take(ends), ends, self._turn.take(ends - 1, mode="clip"))  # decides the state of the thread
        begin, counts = self._waits_since(before, ends)
        rows = rows_where(counts)
        ends, begin = ends.take(rows), begin.take(rows)
        end = time.take(ends)
        return Delays(tid.take(ends), np.minimum(begin, end), end)

    def wakeup_count(self) -> int:
        """Return the number of wakeups of sleeping threads; for a recording of one CPU of all wakeups and migrations."""
        kind = self._transitions.kind
        if self._one_cpu:
            return int(np.count_nonzero((self._woken | (kind == MIGRATED)) & self._is_new))
        rows = rows_where((kind <= WOKEN) | self._first)
        kind = kind.take(rows)
        was_asleep = np.append(False, kind[:-1] == LEFT_BLOCKED) | self._first.take(rows)
        return int(np.count_nonzero((kind == WOKEN) & was_asleep & self._is_new.take(rows)))

    def rows_to_keep(self) -> NDArray[np.intp]:
        """Return the transitions that decide the states of later ones, if these are sorted behind them."""
        if not len(self._position):
            return rows_where(self._first)
        last = np.append(rows_where(self._first)[1:], len(self._position)) - 1
        first = rows_where(self._first)
        turn, woken = self._turn.take(last), self._last_woken
        rows = [turn, self._last_left.take(last), woken.take(last), woken.take(turn), self._next_wakeup().take(turn)]
        if self._one_cpu:
            rows.append(self._last_move().take(last))
        return distinct(np.concatenate([row[(row >= first) & (row <= last)] for row in rows]))

    def _next_wakeup(self) -> NDArray[np.int32]:
        """Return the first wakeup at each row or after it; the number of rows if there is none."""
        woken = np.where(self._woken, self._position, np.int32(len(self._position)))
        next_wakeup: NDArray[np.int32] = np.minimum.accumulate(woken[::-1])[::-1]
        return next_wakeup

    def _last_move(self) -> NDArray[np.int32]:
        """Return the last wakeup or migration up to each row; -1: none."""
        last_move: NDArray[np.int32] = np.maximum.accumulate(
            np.where(self._woken | (self._transitions.kind == MIGRATED), self._position, _NO_ROW)
        )
        return last_move

    def _waits_since(self, before: NDArray[np.integer[Any]], ends: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return since when each arriving thread waited for a CPU, and whether it did. before: the transitions that decide."""
        _, kind, time, _ = self._transitions
        is_first = self._first.take(before)
        kind_before = kind.take(before)
        starts_ready = (kind_before == LEFT_READY) | (is_first & ((kind_before == RAN) | (kind_before == MIGRATED))) | (before == ends)
        if self._one_cpu:
            previous = np.maximum(ends - 1, 0)
            last_move, last_wakeup = self._last_move().take(previous), self._last_woken.take(previous)
            was_woken = (last_wakeup >= before) & (last_wakeup < ends)
            begin = np.where((last_move >= before) & (last_move < ends), time.take(last_move, mode="clip"), time.take(before))
            return begin, starts_ready | was_woken
        wakeup = self._next_wakeup().take(before)
        was_woken = ((kind_before == LEFT_BLOCKED) | (is_first & (kind_before == WOKEN))) & (wakeup < ends)
        return time.take(np.where(starts_ready, before, wakeup), mode="clip"), starts_ready | was_woken


# The priorities with which threads came to a CPU.

_IDLE: Final = 0


class SwitchPriorities(NamedTuple):
    """The threads of switches, and their priorities: int64[n] each, or other integers.

    Attributes:
        tid, priority: of the threads that left.
        next_tid, next_priority: of the threads that came.
        cpu: of the switches.
    """

    tid: NDArray[np.int64]
    next_tid: NDArray[np.int64]
    cpu: NDArray[np.int64]
    priority: NDArray[np.int64]
    next_priority: NDArray[np.int64]


class LastPriorities:
    """The priorities with which threads came to a CPU, as in perf: usually in the switch before on it, unless events were lost."""

    def __init__(self) -> None:
        self._by_thread: dict[int, int] = {}  # after the earlier windows, by tid, or -1 - CPU for idle threads

    def of_window(self, switches: SwitchPriorities, before: NDArray[np.integer[Any]], *, kept: int) -> NDArray[np.int64]:
        """Return the priority with which each thread that left had come; a thread that never came has the one with which it left.

        Args:
            before: the switch before each on its CPU, -1 for none.
            kept: the number of switches of earlier windows, which are the first ones.
        """
        tid, next_tid = switches.tid, switches.next_tid.astype(np.int64)
        came: NDArray[np.int64] = np.where(before >= 0, switches.next_priority[before], switches.priority).astype(np.int64)
        thread = np.where(next_tid == _IDLE, -1 - switches.cpu, next_tid)
        lost = np.flatnonzero((before < 0) | (next_tid[before] != tid))
        lost = lost[lost >= kept]
        if len(lost):
            leaving = np.where(tid[lost] == _IDLE, -1 - switches.cpu[lost], tid[lost])
            numbers = grouped(np.concatenate([thread, leaving]))[1]
            arrivals = np.sort(numbers[: len(thread)] * len(thread) + np.arange(len(thread)))
            searched = numbers[len(thread) :] * len(thread)
            found = arrivals[np.maximum(arrivals.searchsorted(searched + lost) - 1, 0)]
            row = np.where((found >= searched + kept) & (found < searched + lost), found - searched, -1)
            earlier = [self._by_thread.get(*pair) for pair in zip(leaving.tolist(), switches.priority[lost].tolist(), strict=True)]
            came[lost] = np.where(row >= 0, switches.next_priority[row], earlier)
        last = len(thread) - 1 - first_of_each(thread[::-1])
        self._by_thread.update(zip(thread[last].tolist(), switches.next_priority[last].tolist(), strict=True))
        return came


class Arrivals(NamedTuple):
    """Threads that come to a CPU, in order: int64[n] each.

    Attributes:
        thread: ids.
        order: ascending.
        priority: with which they come.
    """

    thread: NDArray[np.int64]
    order: NDArray[np.int64]
    priority: NDArray[np.int64]


class ArrivalPriorities:
    """The priorities with which threads came to a CPU last, window by window."""

    def __init__(self) -> None:
        self._earlier: dict[int, int] = {}  # by thread, after the earlier windows

    def before(self, thread: NDArray[np.int64], order: NDArray[np.int64], arrivals: Arrivals) -> NDArray[np.int64]:
        """Return the priority with which each thread came last before an order; -1 if it never came. arrivals: of the window."""
        threads, numbers = grouped(thread)
        earlier = np.array([self._earlier.get(one, -1) for one in threads.tolist()], np.int64)[numbers]
        if not len(arrivals.order) or not len(thread):
            return earlier
        both = grouped(np.concatenate([arrivals.thread, thread]))[1]
        top = max(int(arrivals.order[-1]), int(order.max())) + 1
        keys = both[: len(arrivals.order)] * top + arrivals.order
        rows = np.argsort(keys)
        lowest = both[len(arrivals.order) :] * top
        found = np.searchsorted(keys[rows], lowest + order) - 1
        row = rows[np.maximum(found, 0)]
        return np.where((found >= 0) & (keys[row] >= lowest), arrivals.priority[row], earlier)

    def add(self, arrivals: Arrivals) -> None:
        """Go on after a window."""
        last = len(arrivals.thread) - 1 - first_of_each(arrivals.thread[::-1])
        self._earlier.update(zip(arrivals.thread[last].tolist(), arrivals.priority[last].tolist(), strict=True))
