"""Each switch with its times, and the wakeups and migrations between them: what `sched timehist` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.sched.threads import ThreadIds
from perfpy.scheduling.switch_times import Events, SwitchTimes, switch_times
from perfpy.symbols.interning import IdTable, number_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.sched.events import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.symbols.tasks.address_space import TaskTimeline

IDLE: Final = 0
_STATE_BITS: Final = 0xFF  # of prev_state; higher bits mean preemption
_IDLE_BASE: Final = np.int64(1) << np.int64(62)


class TaskColumn(NamedTuple):
    """A column of threads: int64[n] each.

    Attributes:
        thread: ids (perfpy.analysis.sched.threads).
        tid, pid: numbers; pid -1: unknown.
        comm: indexes into the timeline's comms.
    """

    thread: NDArray[np.int64]
    tid: NDArray[np.int64]
    pid: NDArray[np.int64]
    comm: NDArray[np.int64]

    def take(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_] | slice) -> TaskColumn:
        """Select rows."""
        return TaskColumn(*(column[rows] for column in self))


class Switches(NamedTuple):
    """The switches of a recording, in order of delivery.

    Attributes:
        task: the threads that left.
        next_tid: int64[n], of the threads that came.
        next_comm: their names as recorded: bytes; None if they were not read.
        cpu, time, order: int64[n].
        state, priority, changed_priority: of the threads that left: int64[n]; the priority when it came, and when it left.
        times: durations.
        chains: callchains of the threads that left; None without.
    """

    task: TaskColumn
    next_tid: NDArray[np.int64]
    next_comm: NDArray[np.bytes_] | None
    cpu: NDArray[np.int64]
    time: NDArray[np.int64]
    order: NDArray[np.int64]
    state: NDArray[np.int64]
    came_with_priority: NDArray[np.int64]
    left_with_priority: NDArray[np.int64]
    times: SwitchTimes
    chains: Ragged | None
    key: NDArray[np.uint64]


class TaskEvents(NamedTuple):
    """Wakeups or migrations of threads.

    Attributes:
        by: the threads that ran.
        task: the threads that were woken or migrated.
        cpu, time, order: int64[n].
        from_cpu, to_cpu: of migrations.
    """

    by: TaskColumn
    task: TaskColumn
    cpu: NDArray[np.int64]
    time: NDArray[np.int64]
    order: NDArray[np.int64]
    key: NDArray[np.uint64]
    from_cpu: NDArray[np.int64] | None = None
    to_cpu: NDArray[np.int64] | None = None


class History(NamedTuple):
    """The switches, wakeups and migrations of a recording."""

    switches: Switches
    wakeups: TaskEvents
    migrations: TaskEvents


class TaskColumnMaker:
    """Makes TaskColumns: the identity, process and name of threads at the time of samples."""

    def __init__(self, source: SampleSource, timeline: TaskTimeline) -> None:
        self._ids = ThreadIds(source)
        self._timeline = timeline
        self._pids: dict[int, int] = {}

    def learn(self, tid: NDArray[np.int32], pid: NDArray[np.int32]) -> None:
        """Take over the processes of threads from samples, for threads that only fields of tracepoints mention."""
        both = tid.astype(np.int64) << np.int64(32) | (pid.astype(np.int64) & np.int64(0xFFFFFFFF))
        for one in number_values(both)[0].tolist():
            number = one & 0xFFFFFFFF
            self._pids.setdefault(one >> 32, number - (1 << 32) if number >= 1 << 31 else number)

    def learn_from_records(self, source: SampleSource) -> None:
        """Take over the processes of threads from the records about tasks."""
        tasks = source.side_band().tasks().tasks
        for tid, pid in zip(tasks.tid.astype(np.int32).tolist(), tasks.pid.astype(np.int32).tolist(), strict=True):
            self._pids.setdefault(tid, pid)

    def column(
        self, tid: NDArray[np.integer[Any]], pid: NDArray[np.integer[Any]] | None, key: NDArray[np.uint64], *, are_named: bool = True
    ) -> TaskColumn:
        """Return a column of threads; pid None: look them up; are_named: else all have the first name."""
        threads: NDArray[np.int64] = tid.astype(np.int64)
        if pid is None:
            pid = self._looked_up(threads)
        comm = self._timeline.comm_ids(threads, key).astype(np.int64) if are_named else np.broadcast_to(np.int64(0), len(tid))
        return TaskColumn(self._ids.of(threads, key), threads, pid.astype(np.int64), comm)

    def with_recorded_names(self, tasks: TaskColumn, recorded: NDArray[np.bytes_] | None) -> TaskColumn:
        """Return the tasks; those without a name get the first recorded one of their thread."""
        if recorded is None:
            return tasks
        names = self._timeline.comms
        unnamed = np.array([name.startswith(":") and name[1:].lstrip("-").isdecimal() for name in names], bool)
        rows = np.flatnonzero(unnamed[tasks.comm])
        first: dict[int, int] = {}
        for row in rows.tolist():
            thread = int(tasks.thread[row])
            if thread not in first:
                first[thread] = self._timeline.comm_number(bytes(recorded[row]).decode("utf-8", "surrogateescape"))
        comm = tasks.comm.copy()
        comm[rows] = [first[thread] for thread in tasks.thread[rows].tolist()]
        return tasks._replace(comm=comm)

    def _looked_up(self, tid: NDArray[np.int64]) -> NDArray[np.int64]:
        tids, numbers = number_values(tid)
        pids = np.array([self._pids.get(one, -1) for one in tids.tolist()], np.int64)
        return pids[numbers]


def make_history(
    events: SchedEvents, source: SampleSource, timeline: TaskTimeline, *, takes_names: bool = False, shows_wakers: bool = True
) -> History:
    """Return the switches of a recording with their times.

    Args:
        events: the scheduler's events.
        source: of the events.
        timeline: of the source.
        takes_names: whether threads without a known name get the one in the switch, as in perf 7.
        shows_wakers: whether `by` and the names of wakeups and migrations are needed; without, they are zeros.
    """
    names = TaskColumnMaker(source, timeline)
    names.learn_from_records(source)
    names.learn(events.switches.tid, events.switches.pid)
    wakeups = _task_events(events.wakeups, names, shows_wakers=shows_wakers)
    migrations = _task_events(events.migrations, names, shows_wakers=shows_wakers)
    switches = _switches(events, names, wakeups, migrations, takes_names=takes_names)
    if takes_names and shows_wakers:
        wakeups, migrations = (_named_as(one, switches) for one in (wakeups, migrations))
    return History(switches, wakeups, migrations)


def _task_events(rows: TracepointRows, names: TaskColumnMaker, *, shows_wakers: bool) -> TaskEvents:
    if shows_wakers:
        by = names.column(rows.tid, rows.pid, rows.key)
    else:
        by = TaskColumn(*[np.broadcast_to(np.int64(0), len(rows.key))] * len(TaskColumn._fields))
    task = names.column(rows.fields["pid"], None, rows.key, are_named=shows_wakers)
    cpus = [rows.fields[name].astype(np.int64) if name in rows.fields else None for name in ("orig_cpu", "dest_cpu")]
    return TaskEvents(by, task, rows.cpu.astype(np.int64), rows.time, rows.order, rows.key, *cpus)


def _switches(events: SchedEvents, names: TaskColumnMaker, wakeups: TaskEvents, migrations: TaskEvents, *, takes_names: bool) -> Switches:
    rows = events.switches
    cpu = rows.cpu.astype(np.int64)
    is_idle = rows.fields["prev_pid"] == IDLE
    task = names.column(np.where(is_idle, 0, rows.tid), np.where(is_idle, 0, rows.pid), rows.key)
    task = task._replace(thread=np.where(is_idle, _IDLE_BASE + cpu, task.thread))
    task = names.with_recorded_names(_with_first_pids(task), rows.fields.get("prev_comm") if takes_names else None)
    is_ready = (rows.fields["prev_state"] & _STATE_BITS) == 0
    numbers = IdTable()
    times = switch_times(
        _events(task, rows.time, rows.order, numbers), cpu, is_ready,
        _events(wakeups.task, wakeups.time, wakeups.order, numbers), _events(migrations.task, migrations.time, migrations.order, numbers),
    )  # fmt: skip
    before = times.last_on_cpu
    came = np.where(before >= 0, rows.fields["next_prio"][before], rows.fields["prev_prio"])
    return Switches(
        task=task,
        next_tid=rows.fields["next_pid"],
        next_comm=rows.fields.get("next_comm"),
        cpu=cpu,
        time=rows.time,
        order=rows.order,
        state=rows.fields["prev_state"],
        came_with_priority=came,
        left_with_priority=rows.fields["prev_prio"],
        times=times,
        chains=rows.chains,
        key=rows.key,
    )


def _named_as(events: TaskEvents, switches: Switches) -> TaskEvents:
    """Return the events; each thread that ran has the name of its last switch before, if there was one."""
    order = np.lexsort((switches.order, switches.task.thread))
    top = max(int(switches.order.max(initial=0)), int(events.order.max(initial=0))) + 2
    ranks = distinct(np.concatenate([switches.task.thread, events.by.thread]))
    keys = np.searchsorted(ranks, switches.task.thread[order]) * top + switches.order[order]
    searched_keys = np.searchsorted(ranks, events.by.thread) * top + events.order
    index = np.searchsorted(keys, searched_keys) - 1
    row = order[np.maximum(index, 0)] if len(order) else np.zeros(len(index), np.int64)
    is_known = (index >= 0) & (switches.task.thread[row] == events.by.thread) if len(order) else np.zeros(len(index), bool)
    comm = events.by.comm.copy()
    comm[is_known] = switches.task.comm[row[is_known]]
    return events._replace(by=events.by._replace(comm=comm))


def _with_first_pids(tasks: TaskColumn) -> TaskColumn:
    """Return the tasks, each with the process of the first sample of its thread."""
    number = IdTable().ids(tasks.thread.view(np.uint64))
    pid = np.empty(int(number.max(initial=-1)) + 1, np.int64)
    pid[number[::-1]] = tasks.pid[::-1]  # the last write counts: the first sample
    return tasks._replace(pid=pid[number])


def _events(task: TaskColumn, time: NDArray[np.int64], order: NDArray[np.int64], numbers: IdTable) -> Events:
    return Events(numbers.ids(task.thread.view(np.uint64)).astype(np.int64), time, order)


def is_idle(task: TaskColumn) -> NDArray[np.bool_]:
    """Return a mask of the idle threads."""
    idle: NDArray[np.bool_] = task.tid == IDLE
    return idle
