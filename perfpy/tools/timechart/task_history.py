"""What each task did, from switches, wakeups, forks and exits: the intervals of a chart.

The rules are perf 6.12's, learnt from its charts. A task has one name after the other, and each name has its own state: an interval that
began under one name and ended under another is lost. An interval that lasts until the end of the recording is lost, too.
"""

from __future__ import annotations

from array import array

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.perfdata.tracepoint_rows import read_tracepoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]


NONE: Final = 0
RUNNING: Final = 1
WAITING: Final = 2
BLOCKED: Final = 3
BLOCKED_UNTIL_RUN: Final = 4  # the wakeup is missing
SWITCH: Final = "sched:sched_switch"
WAKEUP: Final = "sched:sched_wakeup"
UNINTERRUPTIBLE: Final = 2  # a bit of prev_state (include/linux/sched.h)
_FIELDS: Final = {SWITCH: ("prev_pid", "next_pid", "prev_state"), WAKEUP: ("pid",)}
TASK_RECORDS: Final = frozenset((RecordType.FORK, RecordType.COMM, RecordType.EXIT))


class TaskName:
    """A task under one of its names.

    Attributes:
        comm: the name; None if the recording does not have it.
        begin: nanoseconds, of the first interval or of the fork; 0: unknown.
        end: of the exit; 0: unknown.
        state: NONE or the kind of the interval that has begun.
        since: when it began.
        run_time: nanoseconds.
        number: of this name, in order of appearance.
    """

    __slots__ = ("begin", "comm", "end", "number", "run_time", "since", "state")

    def __init__(self, comm: str | None, number: int) -> None:
        self.comm = comm
        self.number = number
        self.begin = self.end = self.since = self.run_time = 0
        self.state = NONE


class ChartedTask:
    """A task: a process or thread by its number.

    Attributes:
        names: the newest last.
        current: its name now; None without any.
    """

    __slots__ = ("current", "names", "parent", "tid")

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.parent = 0
        self.names: list[TaskName] = []
        self.current: TaskName | None = None


class StateIntervals(NamedTuple):
    """StateIntervals of all names, in order of their ends: arrays of one length.

    Attributes:
        name: numbers of TaskName.
        kind: RUNNING, WAITING, BLOCKED or BLOCKED_UNTIL_RUN.
        begin, end: nanoseconds.
        cpu: where the task ran, or where the wait ended.
    """

    name: Int64
    kind: Int64
    begin: Int64
    end: Int64
    cpu: Int64


class Wakeup(NamedTuple):
    """A wakeup: nanoseconds and the task that was woken."""

    time: int
    woken: int


class TaskHistory(NamedTuple):
    """The tasks of a recording.

    Attributes:
        tasks: by process number of the parent and own number.
        intervals: of all names.
        wakeups: in order of time.
        end: nanoseconds, of the last switch or wakeup; 0 without any.
        cpus: one more than the highest CPU.
    """

    tasks: list[ChartedTask]
    intervals: StateIntervals
    wakeups: list[Wakeup]
    end: int
    cpus: int


def read_task_history(source: SampleSource) -> TaskHistory:
    """Return what tasks did; a history without events if the recording has none."""
    tables = read_tracepoints(source, _FIELDS, columns=("cpu",))
    state = ChartedTasks()
    records = source.side_band(TASK_RECORDS)
    changes = iter([(side.key, side.record) for side in records])
    change = next(changes, None)
    end = cpus = 0
    for key, time, cpu, event, first, second, third in _events(tables):
        while change is not None and change[0] <= key:
            state.apply(change[1])
            change = next(changes, None)
        end, cpus = max(end, time), max(cpus, cpu + 1)
        if event == 0:
            state.switch(time, cpu, first, second, third)
        else:
            state.wake(time, cpu, first)
    while change is not None:
        state.apply(change[1])
        change = next(changes, None)
    return TaskHistory(state.sorted_tasks(), state.intervals(), state.wakeups, end, cpus)


def _events(tables: dict[str, TracepointRows]) -> Iterator[tuple[int, ...]]:
    """Yield key, time, CPU, number of the tracepoint (0: a switch, 1: a wakeup) and three fields, in order of delivery."""
    columns = []
    for number, name in enumerate((SWITCH, WAKEUP)):
        if name in tables:
            rows = tables[name].with_numbers(_FIELDS[name])
            fields = [rows.fields[field].astype(np.int64) for field in _FIELDS[name]]
            fields += [np.zeros(len(rows.order), np.int64)] * (3 - len(fields))
            columns.append([rows.order, rows.key, rows.time, rows.cpu, np.full(len(rows.order), number), *fields])
    if not columns:
        return iter(())
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return zip(*(column[order].tolist() for column in joined[1:]), strict=True)


class ChartedTasks:
    """The state of all tasks while events are applied in order.

    Attributes:
        tasks: by number.
        wakeups: in order of time.
    """

    def __init__(self) -> None:
        self.tasks: dict[int, ChartedTask] = {}
        self.wakeups: list[Wakeup] = []
        self._columns = tuple(array("q") for _ in StateIntervals._fields)
        self._count = 0

    def intervals(self) -> StateIntervals:
        """Return the intervals that have ended."""
        return StateIntervals._make(np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64) for column in self._columns)

    def sorted_tasks(self) -> list[ChartedTask]:
        """Return the tasks in the order of the chart: by parent and number."""
        return sorted(self.tasks.values(), key=lambda task: (task.parent, task.tid))

    def apply(self, record: object) -> None:
        """Apply a FORK, COMM or EXIT record."""
        kind = type(record).__name__
        if kind == "Comm":
            self._rename(record.tid, record.comm)  # type: ignore[attr-defined]
        elif kind == "Fork":
            self._fork(record.pid, record.ppid, record.time)  # type: ignore[attr-defined]
        elif kind == "Exit":
            task = self.task(record.pid)  # type: ignore[attr-defined]
            if task.current is not None:
                task.current.end = record.time  # type: ignore[attr-defined]

    def switch(self, time: int, cpu: int, before: int, after: int, state: int) -> None:
        """Apply a switch from one task to another."""
        left, entered = self.name(before), self.name(after)
        if left.state != NONE:  # perf takes what has begun for running, even if the switch to the task is missing
            left.state = RUNNING
            self._add_interval(left, cpu, time)
        if entered.state == BLOCKED:
            entered.state = BLOCKED_UNTIL_RUN
        if entered.state != NONE:
            self._add_interval(entered, cpu, time)
        entered.state, entered.since = RUNNING, time
        left.state, left.since = NONE, time
        if state & UNINTERRUPTIBLE:
            left.state = BLOCKED
        if state == 0:
            left.state = WAITING

    def wake(self, time: int, cpu: int, woken: int) -> None:
        """Apply a wakeup."""
        self.wakeups.append(Wakeup(time, woken))
        name = self.name(woken)
        if name.state == NONE:
            name.state, name.since = WAITING, time
        elif name.state == BLOCKED:
            self._add_interval(name, cpu, time)
            name.state, name.since = WAITING, time

    def task(self, tid: int) -> ChartedTask:
        """Return a task, creating it."""
        task = self.tasks.get(tid)
        if task is None:
            task = self.tasks[tid] = ChartedTask(tid)
        return task

    def name(self, tid: int) -> TaskName:
        """Return the name of a task now, creating an unknown one."""
        task = self.task(tid)
        if task.current is None:
            self._new_name(task, None)
        assert task.current is not None
        return task.current

    def _new_name(self, task: ChartedTask, comm: str | None) -> None:
        task.current = TaskName(comm, self._count)
        task.names.append(task.current)
        self._count += 1

    def _rename(self, tid: int, comm: str) -> None:
        task = self.task(tid)
        for name in reversed(task.names):
            if name.comm == comm:
                task.current = name
                return
        self._new_name(task, comm)

    def _fork(self, pid: int, ppid: int, time: int) -> None:
        task, parent = self.task(pid), self.tasks.get(ppid)
        task.parent = ppid
        if parent is not None and parent.current is not None and task.current is None:
            self._new_name(task, parent.current.comm)
        if task.current is not None and not task.current.begin:  # a new thread, too: its FORK record has its process's number
            task.current.begin = task.current.since = time

    def _add_interval(self, name: TaskName, cpu: int, end: int) -> None:
        for column, value in zip(self._columns, (name.number, name.state, name.since, end, cpu), strict=True):
            column.append(value)
        if name.state == RUNNING:
            name.run_time += end - name.since
        if not name.begin or name.begin > name.since:
            name.begin = name.since


IDLE: Final = "power:cpu_idle"
FREQUENCY: Final = "power:cpu_frequency"
_POWER_FIELDS: Final = ("state", "cpu_id")
_RUNNING: Final = (1 << 32) - 1  # the state that ends idleness


class CpuState(NamedTuple):
    """A state of a CPU.

    Attributes:
        cpu: its number.
        begin, end: nanoseconds; begin is 0 for the beginning of the recording.
        state: the idle state, or the frequency in kHz.
    """

    cpu: int
    begin: int
    end: int
    state: int


class PowerHistory(NamedTuple):
    """The states of all CPUs.

    Attributes:
        idle: in order of their ends.
        frequencies: in order of their ends; the last ones are in `last`.
        set_frequencies: in order of time.
        last: begin and frequency of each CPU at the end of the recording.
        end: nanoseconds, of the last event; 0 without any.
        cpus: one more than the highest CPU.
    """

    idle: list[CpuState]
    frequencies: list[CpuState]
    set_frequencies: list[int]
    last: dict[int, tuple[int, int]]
    end: int
    cpus: int

    def frequencies_until(self, end: int, cpus: int, begin: int) -> list[CpuState]:
        """Return all frequencies; each CPU's last one lasts until the end of the chart.

        Args:
            end: of the chart, nanoseconds.
            cpus: the number of CPUs; perf draws one more.
            begin: of the first event, nanoseconds: the begin of the first states.
        """
        until_end = [CpuState(cpu, since, end, state) for cpu in range(cpus + 1) for since, state in [self.last.get(cpu, (0, 0))]]
        return [state if state.begin else state._replace(begin=begin) for state in (*self.frequencies, *until_end)]


def read_power(source: SampleSource) -> PowerHistory:
    """Return idle states and frequencies.

    The rules are perf 6.12's, learnt from its charts: a later idle state replaces an earlier one that has not ended, and idle states that
    last until the end of the recording are left out. A CPU has an unknown frequency, 0, until the first event.
    """
    tables = read_tracepoints(source, {IDLE: _POWER_FIELDS, FREQUENCY: _POWER_FIELDS}, columns=())
    idle, frequencies = _columns(tables.get(IDLE)), _columns(tables.get(FREQUENCY))
    since: dict[int, tuple[int, int]] = {}
    states = []
    for time, cpu, state in idle:
        if state & _RUNNING != _RUNNING:
            since[cpu] = (time, state)
        elif cpu in since:
            begin, depth = since[cpu]
            states.append(CpuState(cpu, begin, time, depth))
    last: dict[int, tuple[int, int]] = {}
    changes = []
    for time, cpu, state in frequencies:
        begin, before = last.get(cpu, (0, 0))
        changes.append(CpuState(cpu, begin, time, before))
        last[cpu] = (time, state)
    times = [time for time, _, _ in (*idle, *frequencies)]
    cpus = max((cpu for _, cpu, _ in (*idle, *frequencies)), default=-1) + 1
    return PowerHistory(states, changes, [state for _, _, state in frequencies], last, max(times, default=0), cpus)


def _columns(rows: TracepointRows | None) -> list[tuple[int, int, int]]:
    """Return time, CPU and state of each event."""
    if rows is None:
        return []
    table = rows.with_numbers(_POWER_FIELDS)
    columns = (table.time, table.fields["cpu_id"].astype(np.int64), table.fields["state"].astype(np.int64))
    return list(zip(*(column.tolist() for column in columns), strict=True))
