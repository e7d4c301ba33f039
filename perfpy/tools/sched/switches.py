"""Each switch with its times, and the wakeups and migrations between them: the lines of `sched timehist`."""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Ragged, distinct, pieces
from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.task_columns import NAMING_TYPES
from perfpy.perfdata.tracepoint_rows import WINDOW
from perfpy.scheduling.switch_times import (
    ArrivalPriorities,
    Arrivals,
    Events,
    LastPriorities,
    SwitchPriorities,
    SwitchRuns,
    SwitchTimes,
)
from perfpy.symbols.address_spaces import DeliveredValues
from perfpy.symbols.interning import IdTable, first_rows, number_values
from perfpy.symbols.tasks import name_of_unnamed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.scheduler import SchedEvents
    from perfpy.perfdata.records.delivery import RawRecords
    from perfpy.perfdata.sample_source import FileSource, SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.symbols.address_spaces import TaskTimeline

    Int64 = NDArray[np.int64]
    Keys = NDArray[np.uint64]

IDLE: Final = 0
_UNKNOWN: Final = -1  # a process
STATE_BITS: Final = 0xFF  #: of prev_state; higher bits mean preemption
_IDLE_BASE: Final = np.int64(1) << np.int64(62)


class TaskColumn(NamedTuple):
    """A column of threads: int64[n] each.

    Attributes:
        thread: ids (perfpy.tools.sched.switches).
        tid, pid: numbers; pid 0 or -1: unknown.
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
    """Switches in order of delivery.

    Attributes:
        task: the threads that left.
        next_tid: int64[n], of the threads that came.
        next_comm: their names as recorded: bytes; None if they were not read.
        cpu, time, order: int64[n].
        state: of the threads that left: int64[n].
        came_with_priority, left_with_priority: of the threads that left: int64[n], when they came and when they left.
        next_priority: of the threads that came: int64[n].
        times: durations.
        chains: callchains of the threads that left; None without.
        sampled_pid: whose mappings the callchains need; None without callchains.
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
    next_priority: NDArray[np.int64]
    times: SwitchTimes
    chains: Ragged | None
    key: NDArray[np.uint64]
    sampled_pid: NDArray[np.int32] | None


class TaskEvents(NamedTuple):
    """Wakeups or migrations of threads.

    Attributes:
        by: the threads that ran.
        task: the threads that were woken or migrated.
        cpu, time, order: int64[n].
        from_cpu, to_cpu: of migrations.
        by_priority, priority: with which the threads that ran and the others came to a CPU last: int64[n], -1 if they never did.
    """

    by: TaskColumn
    task: TaskColumn
    cpu: NDArray[np.int64]
    time: NDArray[np.int64]
    order: NDArray[np.int64]
    key: NDArray[np.uint64]
    from_cpu: NDArray[np.int64] | None = None
    to_cpu: NDArray[np.int64] | None = None
    by_priority: NDArray[np.int64] | None = None
    priority: NDArray[np.int64] | None = None


class History(NamedTuple):
    """The switches, wakeups and migrations of a window of a recording.

    Attributes:
        switches: those of earlier windows that decide the times of later ones, then the window's.
        kept: the number of switches of earlier windows.
    """

    switches: Switches
    kept: int
    wakeups: TaskEvents
    migrations: TaskEvents


class TaskColumnMaker:
    """Makes TaskColumns: the identity, process and name of threads at the time of samples.

    Args:
        source: of the samples.
        make_timeline: returns a timeline of the known side-band; indexes of names in earlier ones stay valid.
    """

    def __init__(self, source: FileSource, make_timeline: Callable[[], TaskTimeline]) -> None:
        self._source, self._make_timeline = source, make_timeline
        self._side_band: RawRecords | None = None  # that was looked at
        self._record_count = -1  # of the records of it that name threads
        self._recorded_names: dict[int, int] = {}  # indexes into the timeline's comms, by thread id
        self._recorded: dict[int, tuple[int, int]] = {}  # by thread: key and process of the first record that names it
        self._processes: dict[int, int] = {}  # by thread, of its first mention

    def update(self) -> None:
        """Take over what was read of the side-band since the last window."""
        source, known = self._source, self._source.records.known_side_band
        if known is self._side_band:
            return
        self._side_band = known
        numbers = source.side_band(NAMING_TYPES).task_numbers()
        if len(numbers.tid) == self._record_count:
            return
        self._record_count = len(numbers.tid)
        self._ids, self._timeline = ThreadIds(source), self._make_timeline()
        tid, named = numbers.tid.astype(np.int64), np.flatnonzero(numbers.type != RecordType.EXIT)
        # A record names the parent, the parent's main thread, its own thread and its main thread. COMM records have 0 as parent.
        columns = [(numbers.ptid, numbers.ppid), (numbers.ppid, numbers.ppid), (numbers.tid, numbers.pid), (numbers.pid, numbers.pid)]
        names, pids = (np.stack([pair[number][named] for pair in columns], axis=1).reshape(-1) for number in range(2))
        keys = np.repeat(numbers.key[named], len(columns))
        threads = self._ids.of(names.astype(np.int64), keys)
        first = first_rows(threads)
        first_mentions = zip(*(column[first].tolist() for column in (threads, keys, pids)), strict=True)
        self._recorded = {one: (key, pid) for one, key, pid in first_mentions}
        # perf starts a parent anew if it has no process yet, and takes that of the record.
        begun, forks = np.flatnonzero(numbers.type != RecordType.COMM), np.flatnonzero(numbers.type == RecordType.FORK)
        owners, rows = np.concatenate([tid[begun], numbers.ptid[forks]]), np.concatenate([begun, forks])
        self._parents = DeliveredValues(owners, numbers.key[rows], np.append(np.zeros(len(begun), np.int64), numbers.ppid[forks]))

    def column(
        self,
        tid: NDArray[np.integer[Any]],
        pid: NDArray[np.integer[Any]],
        key: NDArray[np.uint64],
        *,
        are_named: bool = True,
    ) -> TaskColumn:
        """Return a column of threads. pid: as mentioned, see with_processes; are_named: else all have the first name."""
        threads: NDArray[np.int64] = tid.astype(np.int64)
        comm = self._timeline.comm_ids(threads, key).astype(np.int64) if are_named else np.broadcast_to(np.int64(0), len(tid))
        return TaskColumn(self._ids.of(threads, key), threads, pid.astype(np.int64), comm)

    def arrivals(self, switches: Switches) -> Arrivals:
        """Return the threads that come to a CPU."""
        threads = self._ids.of(switches.next_tid.astype(np.int64), switches.key)
        is_idle = switches.next_tid == IDLE
        return Arrivals(np.where(is_idle, _IDLE_BASE + switches.cpu, threads), switches.order, switches.next_priority)

    def with_recorded_names(self, tasks: TaskColumn, recorded: NDArray[np.bytes_] | None) -> TaskColumn:
        """Return the tasks; those without a name get the first recorded one of their thread."""
        if recorded is None:
            return tasks
        rows = np.flatnonzero(self._are_unnamed(tasks))
        for row in rows[first_rows(tasks.thread[rows])].tolist():
            thread = int(tasks.thread[row])
            if thread not in self._recorded_names:
                name = bytes(recorded[row]).decode("utf-8", "surrogateescape")
                self._recorded_names[thread] = self._timeline.comm_number(name)
        comm = tasks.comm.copy()
        comm[rows] = [self._recorded_names[thread] for thread in tasks.thread[rows].tolist()]
        return tasks._replace(comm=comm)

    def _are_unnamed(self, tasks: TaskColumn) -> NDArray[np.bool_]:
        numbers, which = number_values(tasks.comm)
        names = [self._timeline.comms[number] for number in numbers.tolist()]
        unnamed = np.array([name.startswith(":") and name[1:].lstrip("-").isdecimal() for name in names], bool)
        return unnamed[which]

    def named_as(self, events: TaskEvents, switches: Switches) -> TaskEvents:
        """Return the events; each thread that ran and has no name gets that of its last switch before, if there was one."""
        order = np.lexsort((switches.order, switches.task.thread))
        if not len(order):
            return events
        top = max(int(switches.order.max()), int(events.order.max(initial=0))) + 2
        ranks = distinct(np.concatenate([switches.task.thread, events.by.thread]))
        keys = np.searchsorted(ranks, switches.task.thread[order]) * top + switches.order[order]
        searched_keys = np.searchsorted(ranks, events.by.thread) * top + events.order
        index = np.searchsorted(keys, searched_keys) - 1
        row = order[np.maximum(index, 0)]
        is_renamed = (index >= 0) & (switches.task.thread[row] == events.by.thread) & self._are_unnamed(events.by)
        comm = np.where(is_renamed, switches.task.comm[row], events.by.comm)
        return events._replace(by=events.by._replace(comm=comm))

    def with_processes(self, columns: Sequence[TaskColumn], keys: Sequence[Keys], orders: Sequence[Int64]) -> list[TaskColumn]:
        """Return the columns of a window with the process of each thread: that of its first mention, as in perf.

        A field of a tracepoint names a thread without its process, which is then 0, whatever later samples say. -1 leaves it open.
        At equal orders, the columns count in their order.
        """
        thread, tid, pid = (np.concatenate([column[number] for column in columns]) for number in range(3))
        key, order = np.concatenate(keys), np.concatenate(orders)
        threads, numbers = number_values(thread)
        is_new = np.array([one not in self._processes for one in threads.tolist()], bool)
        since = np.full(len(threads), -1)
        if is_new.any():
            rows = np.flatnonzero(is_new[numbers] & (pid != _UNKNOWN))
            rows = rows[np.argsort(order[rows], kind="stable")]
            rows = rows[first_rows(thread[rows])]
            since[numbers[rows]] = order[rows]
            # A thread's first mention is one of its process's main thread, too.
            of_others = rows[(pid[rows] > 0) & (pid[rows] != tid[rows])]
            main = self._ids.of(pid[of_others], key[of_others])
            begins = dict(zip(thread[rows].tolist(), order[rows].tolist(), strict=True))
            main_begins = zip(main.tolist(), order[of_others].tolist(), strict=True)
            is_first = np.array([begin < begins.get(one, begin + 1) for one, begin in main_begins], bool)
            for owners, mentioned in ((main[is_first], of_others[is_first]), (thread[rows], rows)):
                for one, process, begin in zip(owners.tolist(), pid[mentioned].tolist(), key[mentioned].tolist(), strict=True):
                    recorded_key, recorded = self._recorded.get(one, (begin, process))
                    self._processes.setdefault(one, recorded if recorded_key <= begin else process)
        processes = np.array([self._processes.get(one, _UNKNOWN) for one in threads.tolist()], np.int64).take(numbers)
        processes[(pid == _UNKNOWN) & (order < since[numbers])] = _UNKNOWN
        nameless = np.flatnonzero((processes == 0) & (tid != IDLE))
        processes[nameless] = self._parents.find(tid[nameless], key[nameless], 0)
        ends = np.cumsum([len(column.tid) for column in columns])[:-1]
        return [column._replace(pid=part) for column, part in zip(columns, pieces(processes, ends), strict=True)]

    def last_comms(self, tid: Int64) -> NDArray[np.int64]:
        """Return the names that threads have at the end of the recording, -1 for threads without one."""
        self.update()
        comm = self._timeline.comm_ids(tid, np.full(len(tid), np.iinfo(np.uint64).max)).astype(np.int64)
        unnamed = [self._timeline.comms[number] == name_of_unnamed(one) for one, number in zip(tid.tolist(), comm.tolist(), strict=True)]
        comm[np.array(unnamed, bool)] = -1
        return comm


_NO_TIMES: Final = SwitchTimes(*[np.zeros(0, np.int64)] * len(SwitchTimes._fields))


class HistoryMaker:
    """Makes the history of each window, with the times of its switches.

    Args:
        source: of the windows.
        make_timeline: see TaskColumnMaker.
        takes_names: whether threads without a known name get the one in the switch, as in perf 7.
        shows_wakers: whether `by` and the names of wakeups and migrations are needed; without, they are zeros.
        has_priorities: whether the windows have priorities; without, all are zeros.
    """

    def __init__(
        self,
        source: FileSource,
        make_timeline: Callable[[], TaskTimeline],
        *,
        takes_names: bool = False,
        shows_wakers: bool = True,
        has_priorities: bool = True,
    ) -> None:
        self._names = TaskColumnMaker(source, make_timeline)
        self._takes_names, self._shows_wakers = takes_names, shows_wakers
        self._priorities = LastPriorities() if has_priorities else None
        self._arrivals = ArrivalPriorities()
        self._numbers = IdTable()  # of threads
        self._kept: Switches | None = None
        none = np.zeros(0, np.int64)
        self._wakeups = self._migrations = Events(none, none, none)  # those of earlier windows that decide the times of later switches

    def least(self) -> int:
        """Return the least number of samples of the next window: more than the rows that are kept, so that these are read seldom."""
        return max(WINDOW, 2 * (len(self._kept.time) if self._kept else 0))

    def add(self, events: SchedEvents) -> History:
        """Return the history of the next window."""
        names = self._names
        names.update()
        wakeups, migrations = (self._task_events(rows) for rows in (events.wakeups, events.migrations))
        new = self._new_switches(events.switches)
        new, wakeups, migrations = self._with_processes(new, wakeups, migrations)
        if self._priorities is not None and self._shows_wakers:
            arrivals = self._names.arrivals(new)
            wakeups, migrations = (self._with_priorities(one, arrivals) for one in (wakeups, migrations))
            self._arrivals.add(arrivals)
        kept, shift = 0, 0
        if self._kept is not None:
            # The rows of earlier windows get the lowest orders.
            orders = distinct(np.concatenate([self._kept.order, self._wakeups.order, self._migrations.order]))
            kept, shift = len(self._kept.time), len(orders)
            earlier = self._kept._replace(order=orders.searchsorted(self._kept.order))
            new = _joined(earlier, new._replace(order=new.order + shift))
            self._wakeups, self._migrations = (
                one._replace(order=orders.searchsorted(one.order)) for one in (self._wakeups, self._migrations)
            )
            wakeups, migrations = (one._replace(order=one.order + shift) for one in (wakeups, migrations))
        switches = self._with_times(new, wakeups, migrations)
        if self._takes_names and self._shows_wakers:
            wakeups, migrations = (names.named_as(one, switches) for one in (wakeups, migrations))
        return History(switches, kept, wakeups, migrations)

    def _with_processes(self, switches: Switches, wakeups: TaskEvents, migrations: TaskEvents) -> tuple[Switches, TaskEvents, TaskEvents]:
        mentions: list[tuple[TaskColumn, Keys, Int64]] = [(one.task, one.key, one.order) for one in (wakeups, migrations, switches)]
        if self._shows_wakers:
            mentions += [(one.by, one.key, one.order) for one in (wakeups, migrations)]
        columns, keys, orders = zip(*mentions, strict=True)
        woken, migrated, task, *by = self._names.with_processes(columns, keys, orders)
        wakers, movers = by or (wakeups.by, migrations.by)
        return switches._replace(task=task), wakeups._replace(task=woken, by=wakers), migrations._replace(task=migrated, by=movers)

    def last_comms(self, tid: Int64) -> NDArray[np.int64]:
        """Return the names that threads have at the end of the recording, -1 for threads without one."""
        return self._names.last_comms(tid)

    def _task_events(self, rows: TracepointRows) -> TaskEvents:
        names, shows_wakers = self._names, self._shows_wakers
        if shows_wakers:
            by = names.column(rows.tid, rows.pid, rows.key)
        else:
            by = TaskColumn(*[np.broadcast_to(np.int64(0), len(rows.key))] * len(TaskColumn._fields))
        woken = rows.fields["pid"]
        task = names.column(woken, np.broadcast_to(np.int64(0), len(woken)), rows.key, are_named=shows_wakers)
        cpus = [rows.fields[name].astype(np.int64) if name in rows.fields else None for name in ("orig_cpu", "dest_cpu")]
        return TaskEvents(by, task, rows.cpu.astype(np.int64), rows.time, rows.order, rows.key, *cpus)

    def _with_priorities(self, events: TaskEvents, arrivals: Arrivals) -> TaskEvents:
        """Return the events with priorities. arrivals: of the same window."""
        by = np.where(events.by.tid == IDLE, _IDLE_BASE + events.cpu, events.by.thread)
        by_priority, priority = (self._arrivals.before(thread, events.order, arrivals) for thread in (by, events.task.thread))
        return events._replace(by_priority=by_priority, priority=priority)

    def _new_switches(self, rows: TracepointRows) -> Switches:
        cpu = rows.cpu.astype(np.int64)
        is_idle = rows.fields["prev_pid"] == IDLE
        task = self._names.column(np.where(is_idle, 0, rows.tid), np.where(is_idle, 0, rows.pid), rows.key)
        task = task._replace(thread=np.where(is_idle, _IDLE_BASE + cpu, task.thread))
        task = self._names.with_recorded_names(task, rows.fields.get("prev_comm") if self._takes_names else None)
        return Switches(
            task=task,
            next_tid=rows.fields["next_pid"],
            next_comm=rows.fields.get("next_comm"),
            cpu=cpu,
            time=rows.time,
            order=rows.order,
            state=rows.fields["prev_state"],
            came_with_priority=rows.fields["prev_prio"],
            left_with_priority=rows.fields["prev_prio"],
            next_priority=rows.fields["next_prio"],
            times=_NO_TIMES,
            chains=rows.chains,
            key=rows.key,
            sampled_pid=None if rows.chains is None else rows.pid,
        )

    def _with_times(self, switches: Switches, wakeups: TaskEvents, migrations: TaskEvents) -> Switches:
        """Return the switches with their times, and keep the rows that decide the times of later ones."""
        number = self._numbers.ids(switches.task.thread.view(np.uint64))
        is_ready = (switches.state & STATE_BITS) == 0
        woken, moved = self._events_after(self._wakeups, wakeups), self._events_after(self._migrations, migrations)
        runs = SwitchRuns(Events(number, switches.time, switches.order), switches.cpu, is_ready, woken, moved)
        times = runs.times()
        switches = switches._replace(times=times)
        if self._priorities is not None:
            kept = 0 if self._kept is None else len(self._kept.time)
            tasks = switches.task.tid, switches.next_tid, switches.cpu, switches.left_with_priority, switches.next_priority
            came = self._priorities.of_window(SwitchPriorities(*tasks), times.last_on_cpu, kept=kept)
            switches = switches._replace(came_with_priority=came)
        rows, woken_rows, moved_rows = runs.rows_to_keep()
        self._kept = rows_of(switches, rows)
        self._wakeups, self._migrations = woken.take(woken_rows), moved.take(moved_rows)
        return switches

    def _events_after(self, kept: Events, new: TaskEvents) -> Events:
        """Return the kept events, then the new ones."""
        thread = self._numbers.ids(new.task.thread.view(np.uint64))
        columns = (kept.thread, thread), (kept.time, new.time), (kept.order, new.order)
        return Events(*(np.concatenate(pair) for pair in columns))


def _joined(earlier: Switches, later: Switches) -> Switches:
    """Return switches of two windows, without times."""
    chains = None if earlier.chains is None or later.chains is None else Ragged.concat([earlier.chains, later.chains])
    next_comm = None if earlier.next_comm is None or later.next_comm is None else np.concatenate([earlier.next_comm, later.next_comm])
    task = TaskColumn(*(np.concatenate(pair) for pair in zip(earlier.task, later.task, strict=True)))
    pids = None if chains is None or earlier.sampled_pid is None else np.concatenate([earlier.sampled_pid, later.sampled_pid])
    names = [name for name in Switches._fields if name not in ("task", "next_comm", "times", "chains", "sampled_pid")]
    columns = {name: np.concatenate([getattr(earlier, name), getattr(later, name)]) for name in names}
    return Switches(task=task, next_comm=next_comm, times=_NO_TIMES, chains=chains, sampled_pid=pids, **columns)


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
        """Return a mask of the window's switches that are shown, and the history with its times cut at the span."""
        switches = history.switches
        included = self.tasks.mask(switches.task) & (
            np.ones(len(switches.cpu), bool) if self.cpus is None else np.isin(switches.cpu, list(self.cpus))
        )
        if self.tasks.priorities is not None:
            included &= np.isin(switches.came_with_priority, list(self.tasks.priorities))
        if self.idle_only:
            included &= switches.task.tid == IDLE
        included[: history.kept] = False
        switches, in_span = self._cut(switches)
        wakeups, migrations = self._events(history.wakeups), self._events(history.migrations)
        return included & in_span, history._replace(switches=switches, wakeups=wakeups, migrations=migrations)

    def _events(self, events: TaskEvents) -> TaskEvents:
        begin, end = self.span
        chosen = self._tasks(events.by, events.by_priority) | self._tasks(events.task, events.priority)  # perf applies -C to switches only
        if begin or end:
            chosen &= (events.time >= begin) & (events.time <= (end or np.iinfo(np.int64).max))
        if self.idle_only:
            chosen[:] = False
        return events if chosen.all() else rows_of_events(events, chosen)

    def _tasks(self, tasks: TaskColumn, priority: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Return which threads of wakeups fulfil the conditions, priority included: if it is unknown, they do."""
        mask = self.tasks.mask(tasks)
        if self.tasks.priorities is None or priority is None:
            return mask
        return mask & ((priority < 0) | np.isin(priority, list(self.tasks.priorities)))

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


def taken(history: History, chosen: NDArray[np.bool_]) -> Switches:
    """Return some switches of a window."""
    if chosen[history.kept :].all():
        return rows_of(history.switches, slice(history.kept, None))
    return rows_of(history.switches, np.flatnonzero(chosen))


def rows_of(switches: Switches, rows: NDArray[np.integer[Any]] | slice) -> Switches:
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
        next_priority=switches.next_priority[rows],
        times=SwitchTimes._make([column[rows] for column in switches.times]),
        chains=None if switches.chains is None else switches.chains.take(rows),
        key=switches.key[rows],
        sampled_pid=None if switches.sampled_pid is None else switches.sampled_pid[rows],
    )


def rows_of_events(events: TaskEvents, chosen: NDArray[np.bool_] | slice) -> TaskEvents:
    """Return some wakeups or migrations."""
    columns = [None if column is None else column[chosen] for column in events[2:]]
    return TaskEvents._make([events.by.take(chosen), events.task.take(chosen), *columns])


class ThreadIds:
    """Ids that distinguish threads with the same number: generation << 32 | tid."""

    def __init__(self, source: SampleSource) -> None:
        records = source.side_band({RecordType.FORK, RecordType.EXIT}).tasks()
        tasks = records.tasks
        keys = records.keys[tasks.rank.astype(np.int64) - 1]
        self._values = DeliveredValues(tasks.tid.astype(np.int64), keys, np.arange(1, len(keys) + 1))

    def of(self, tid: NDArray[np.int64], key: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the id of each thread at each delivery key."""
        generation = self._values.find(tid, key, 0).astype(np.int64)
        return generation << np.int64(32) | (tid & np.int64(0xFFFFFFFF))
