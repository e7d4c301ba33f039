"""The times around each context switch, by the rules of `perf sched timehist`.

For each switch: how long the thread that left had run, how long it had waited for its CPU before, and how long it had been off the CPU.
All switches are computed at once, from the last switch on the same CPU, the last departure of the same thread, and the first wakeup of the
thread after that departure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.scheduling.run_queue import thread_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NONE: Final = -1
_SHORT: Final = 1 << 16


class Events(NamedTuple):
    """Events of threads.

    Attributes:
        thread: int64[n], small numbers of threads.
        time: int64[n], nanoseconds.
        order: int64[n], ascending; orders all events of a recording.
    """

    thread: NDArray[np.int64]
    time: NDArray[np.int64]
    order: NDArray[np.int64]


class SwitchTimes(NamedTuple):
    """Durations before each switch, in nanoseconds: int64[n]; 0 if unknown.

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
    order = np.argsort(_short(group), kind="stable")
    previous = np.full(len(group), _NONE, np.int64)
    same = group[order[1:]] == group[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _short(group: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the numbers as 16-bit ones if they fit, because these are sorted by radix."""
    fits = len(group) and int(group.min()) >= 0 and int(group.max()) < _SHORT
    return group.astype(np.uint16) if fits else group


def switch_times(switches: Events, cpu: NDArray[np.int64], is_ready: NDArray[np.bool_], wakeups: Events, migrations: Events) -> SwitchTimes:
    """Return the times around switches.

    Args:
        switches: departures of threads, by ascending order.
        cpu: the CPU of each switch.
        is_ready: whether the thread was still ready to run when it left.
        wakeups: of threads.
        migrations: of threads to another CPU.
    """
    rows = _ThreadOrder(switches, wakeups)
    last_on_cpu, last_of_thread = previous_of(cpu), rows.last_departures()
    since = np.where(last_on_cpu >= 0, switches.time[last_on_cpu], 0)
    left = np.where(last_of_thread >= 0, switches.time[last_of_thread], 0)
    after = np.where(last_of_thread >= 0, switches.order[last_of_thread], -1)
    ready = rows.first_wakeups(wakeups.time)
    ready = np.where((last_of_thread >= 0) & is_ready[last_of_thread], left, ready)
    on_cpu_since = np.where(last_on_cpu >= 0, switches.order[last_on_cpu], -1)
    moved = _last_between(migrations, switches, on_cpu_since, after)
    is_known = since > 0
    was_ready = is_known & (ready > 0) & (ready <= since)
    delay = np.where(was_ready, since - ready, 0)
    before_migration = np.where(was_ready & (moved > ready) & (moved < since), moved - ready, 0)
    waited = np.where(is_known & (left > 0) & (left <= since), since - left, 0)
    ran = np.where(is_known, np.maximum(switches.time - since, 0), 0)
    return SwitchTimes(ran, delay, waited, before_migration, last_on_cpu, last_of_thread)


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
        is_switch = self._rows < self._count
        rows = np.flatnonzero(is_switch)
        switch = self._rows[rows]
        self.departure = np.empty(self._count, np.int32)
        self.departure[switch] = rows
        self.first = np.maximum.accumulate(np.where(begins, position, 0))[self.departure]
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
        row = self._next_wakeup[np.maximum(self.last_departure, self.first)]  # no wakeup is at the row of a departure
        is_inside = row < self.departure
        return np.where(is_inside, time.take(self._rows.take(row, mode="clip") - self._count, mode="clip"), 0)


def _last_between(events: Events, switches: Events, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time of the last event of each switch's thread between two orders; 0: none."""
    times = np.zeros(len(switches.thread), np.int64)
    if not len(events.thread) or not len(times):
        return times
    by_thread = thread_order(events.thread, events.order)
    top = max(int(events.order.max()), int(switches.order.max())) + 2
    index = np.searchsorted(events.thread[by_thread] * top + events.order[by_thread], switches.thread * top + before + 1) - 1
    row = by_thread[np.maximum(index, 0)]
    inside = (index >= 0) & (events.thread[row] == switches.thread) & (events.order[row] > after)
    times[inside] = events.time[row[inside]]
    return times
