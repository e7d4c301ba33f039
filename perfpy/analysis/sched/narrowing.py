"""The filters of `sched timehist`: tasks, CPUs, times, priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.sched.timehist import IDLE, History, Switches, TaskEvents
from perfpy.scheduling.switch_times import SwitchTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import TaskColumn


class TaskFilter(NamedTuple):
    """Conditions on threads; None: all.

    Attributes:
        pids, tids, comms, priorities: allowed values.
        names: the comms by index.
    """

    pids: frozenset[int] | None
    tids: frozenset[int] | None
    comms: frozenset[str] | None
    priorities: frozenset[int] | None
    names: Sequence[str]

    def mask(self, tasks: TaskColumn) -> NDArray[np.bool_]:
        """Return which tasks fulfil the conditions on process, thread and name."""
        chosen = np.ones(len(tasks.tid), bool)
        for allowed, column in ((self.pids, tasks.pid), (self.tids, tasks.tid)):
            if allowed is not None:
                chosen &= np.isin(column, list(allowed))
        if self.comms is not None:
            numbers = [number for number, name in enumerate(self.names) if name in self.comms]
            chosen &= np.isin(tasks.comm, numbers)
        return chosen


class Narrowing(NamedTuple):
    """All filters.

    Attributes:
        tasks: conditions on threads.
        cpus: the CPUs; None for all.
        span: first and last time in nanoseconds; (0, 0): all.
        idle_only: only the idle threads.
    """

    tasks: TaskFilter
    cpus: frozenset[int] | None
    span: tuple[int, int]
    idle_only: bool

    def apply(self, history: History) -> tuple[NDArray[np.bool_], History]:
        """Return a mask of the switches that are shown, and the history with its times cut at the span."""
        switches = history.switches
        included = self.tasks.mask(switches.task) & self._on_cpus(switches.cpu)
        if self.tasks.priorities is not None:
            included &= np.isin(switches.came_with_priority, list(self.tasks.priorities))
        if self.idle_only:
            included &= switches.task.tid == IDLE
        switches, in_span = self._cut(switches)
        return included & in_span, History(switches, self._events(history.wakeups), self._events(history.migrations))

    def _on_cpus(self, cpu: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.ones(len(cpu), bool) if self.cpus is None else np.isin(cpu, list(self.cpus))

    def _events(self, events: TaskEvents) -> TaskEvents:
        begin, end = self.span
        chosen = self.tasks.mask(events.by) | self.tasks.mask(events.task)  # perf applies -C to switches only
        if begin or end:
            chosen &= (events.time >= begin) & (events.time <= (end or np.iinfo(np.int64).max))
        if self.idle_only:
            chosen[:] = False
        return events if chosen.all() else rows_of_events(events, chosen)

    def _cut(self, switches: Switches) -> tuple[Switches, NDArray[np.bool_]]:
        """Cut run times and waits at the span."""
        begin, end = self.span
        if not begin and not end:
            return switches, np.ones(len(switches.time), bool)
        end = end or int(np.iinfo(np.int64).max)
        times, before = switches.times, switches.times.last_on_cpu
        since = np.where(before >= 0, switches.time[before], 0)
        in_span = (switches.time >= begin) & ((since <= end) | (since == 0))
        moved = np.where((since > 0) & (since < begin), begin - since, 0)
        time = np.minimum(switches.time, end)
        ran = np.where(since > 0, np.maximum(time - np.maximum(since, begin), 0), 0)
        cut = times._replace(
            ran=ran,
            delay=np.where(times.delay > 0, times.delay + moved, 0),
            waited=np.where(times.waited > 0, times.waited + moved, 0),
        )
        return switches._replace(times=cut, time=time), in_span


def taken(switches: Switches, chosen: NDArray[np.bool_]) -> Switches:
    """Return some switches."""
    if chosen.all():
        return switches
    return rows_of(switches, np.flatnonzero(chosen))


def rows_of(switches: Switches, rows: NDArray[np.intp] | slice) -> Switches:
    """Return the switches of some rows."""
    return Switches(
        task=switches.task.take(rows),
        next_tid=switches.next_tid[rows],
        next_comm=None if switches.next_comm is None else switches.next_comm[rows],
        cpu=switches.cpu[rows],
        time=switches.time[rows],
        order=switches.order[rows],
        state=switches.state[rows],
        came_with_priority=switches.came_with_priority[rows],
        left_with_priority=switches.left_with_priority[rows],
        times=SwitchTimes._make([column[rows] for column in switches.times]),
        chains=None if switches.chains is None else switches.chains.take(rows),
        key=switches.key[rows],
    )


def rows_of_events(events: TaskEvents, chosen: NDArray[np.bool_] | slice) -> TaskEvents:
    """Return some wakeups or migrations."""
    return TaskEvents(
        by=events.by.take(chosen),
        task=events.task.take(chosen),
        cpu=events.cpu[chosen],
        time=events.time[chosen],
        order=events.order[chosen],
        key=events.key[chosen],
        from_cpu=None if events.from_cpu is None else events.from_cpu[chosen],
        to_cpu=None if events.to_cpu is None else events.to_cpu[chosen],
    )
