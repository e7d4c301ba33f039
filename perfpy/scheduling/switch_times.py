"""The times around each context switch, by the rules of `perf sched timehist`.

For each switch: how long the thread that left had run, how long it had waited for its CPU before, and how long it had been off the CPU.
All switches are computed at once, from the last switch on the same CPU, the last departure of the same thread, and the first wakeup of the
thread after that departure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NONE: Final = -1


class Events(NamedTuple):
    """Events of threads.

    Attributes:
        thread: int64[n], an id of the thread.
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


def previous_of(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row the index of the row before it in the same group; -1: none."""
    order = np.argsort(group, kind="stable")
    previous = np.full(len(group), _NONE, np.int64)
    same = group[order[1:]] == group[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def switch_times(switches: Events, cpu: NDArray[np.int64], is_ready: NDArray[np.bool_], wakeups: Events, migrations: Events) -> SwitchTimes:
    """Return the times around switches.

    Args:
        switches: departures of threads.
        cpu: the CPU of each switch.
        is_ready: whether the thread was still ready to run when it left.
        wakeups: of threads.
        migrations: of threads to another CPU.
    """
    last_on_cpu, last_of_thread = previous_of(cpu), previous_of(switches.thread)
    since = np.where(last_on_cpu >= 0, switches.time[last_on_cpu], 0)
    left = np.where(last_of_thread >= 0, switches.time[last_of_thread], 0)
    after = np.where(last_of_thread >= 0, switches.order[last_of_thread], -1)
    ready = _first_between(wakeups, switches, after)
    ready = np.where((last_of_thread >= 0) & is_ready[last_of_thread], left, ready)
    on_cpu_since = np.where(last_on_cpu >= 0, switches.order[last_on_cpu], -1)
    moved = _last_between(migrations, switches, on_cpu_since, after)
    is_known = since > 0
    delay = np.where(is_known & (ready > 0) & (ready <= since), since - ready, 0)
    before_migration = np.where(is_known & (ready > 0) & (ready <= since) & (moved > ready) & (moved < since), moved - ready, 0)
    waited = np.where(is_known & (left > 0) & (left <= since), since - left, 0)
    ran = np.where(is_known, np.maximum(switches.time - since, 0), 0)
    return SwitchTimes(ran, delay, waited, before_migration, last_on_cpu, last_of_thread)


def _first_between(events: Events, switches: Events, after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time of the first event of each switch's thread after an order and before the switch; 0: none."""
    times = np.zeros(len(switches.thread), np.int64)
    if not len(events.thread) or not len(times):
        return times
    by_thread = np.lexsort((events.order, events.thread))
    ranks = _ranks(np.concatenate([events.thread, switches.thread]))
    own, of_switches = ranks[: len(events.thread)][by_thread], ranks[len(events.thread) :]
    top = max(int(events.order.max()), int(switches.order.max())) + 2
    index = np.searchsorted(own * top + events.order[by_thread] + 1, of_switches * top + after + 2)
    inside = index < len(by_thread)
    row = by_thread[np.where(inside, index, 0)]
    inside &= (events.thread[row] == switches.thread) & (events.order[row] < switches.order)
    times[inside] = events.time[row[inside]]
    return times


def _last_between(events: Events, switches: Events, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the time of the last event of each switch's thread between two orders; 0: none."""
    times = np.zeros(len(switches.thread), np.int64)
    if not len(events.thread) or not len(times):
        return times
    by_thread = np.lexsort((events.order, events.thread))
    ranks = _ranks(np.concatenate([events.thread, switches.thread]))
    own, of_switches = ranks[: len(events.thread)][by_thread], ranks[len(events.thread) :]
    top = max(int(events.order.max()), int(switches.order.max())) + 2
    index = np.searchsorted(own * top + events.order[by_thread] + 1, of_switches * top + before + 1) - 1
    inside = index >= 0
    row = by_thread[np.where(inside, index, 0)]
    inside &= (events.thread[row] == switches.thread) & (events.order[row] > after)
    times[inside] = events.time[row[inside]]
    return times


def _ranks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each value among the distinct ones."""
    order = np.argsort(values, kind="stable")
    fresh = np.zeros(len(values), np.int64)
    fresh[order[1:]] = values[order[1:]] != values[order[:-1]]
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.cumsum(fresh[order])
    return ranks
