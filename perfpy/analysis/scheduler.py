"""The scheduler's tracepoints of a recording as columns."""

from __future__ import annotations

import sys

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.errors import UsageError
from perfpy.perfdata.records.delivery import RawRecords
from perfpy.perfdata.tracepoint_rows import TASK_COLUMNS, WINDOW, TracepointRows, read_tracepoints, tracepoint_windows, tracepoints_of
from perfpy.scheduling.switch_times import (
    CAME,
    LEFT_BLOCKED,
    LEFT_READY,
    MIGRATED,
    RAN,
    WOKEN,
    QueueStates,
    QueueTransitions,
    previous_of,
    thread_order,
)
from perfpy.symbols.interning import IdTable, first_rows, number_values
from perfpy.workers import ForkedWorkers, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import RecordIndex
    from perfpy.perfdata.sample_source import FileSource, SampleSource
    from perfpy.scheduling.switch_times import Delays


SWITCH: Final = "sched:sched_switch"
WAKING: Final = "sched:sched_waking"
WAKEUP: Final = "sched:sched_wakeup"
NEW: Final = "sched:sched_wakeup_new"
RUNTIME: Final = "sched:sched_stat_runtime"
MIGRATE: Final = "sched:sched_migrate_task"

_FIELDS: Final = {
    SWITCH: ("prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"),
    WAKING: ("pid", "target_cpu"),
    WAKEUP: ("pid", "target_cpu"),
    NEW: ("pid", "target_cpu"),
    RUNTIME: ("pid", "runtime"),
    MIGRATE: ("pid", "orig_cpu", "dest_cpu"),
}
_BYTES_EACH: Final = 1 << 25  # of two processes, of which one reads what the other one shows
_NO_SWITCHES: Final = "{path}: no sched:sched_switch tracepoint with its format; record one: perfpy sched record -- COMMAND"


class SchedEvents(NamedTuple):
    """The scheduler's events of a recording.

    Attributes:
        switches: sched_switch.
        wakeups: sched_waking, or else sched_wakeup, and sched_wakeup_new, in order.
        runtimes: sched_stat_runtime.
        migrations: sched_migrate_task.
    """

    switches: TracepointRows
    wakeups: TracepointRows
    runtimes: TracepointRows
    migrations: TracepointRows


def read_events(
    source: SampleSource, *, runtimes: bool = True, wakeups: bool = True, comms: bool = False, columns: Collection[str] = TASK_COLUMNS
) -> SchedEvents:
    """Read the scheduler's events. Raises UsageError if the recording has no switches.

    Args:
        source: the samples.
        runtimes: whether to read sched_stat_runtime.
        wakeups: whether to read wakeups and migrations.
        comms: whether to read the names of threads in switches and wakeups.
        columns: which of pid, tid and cpu of the samples to read.
    """
    fields_of = _fields_of(source, runtimes=runtimes, wakeups=wakeups, migrations=wakeups)
    if comms:
        fields_of[SWITCH] += ("prev_comm", "next_comm")
        fields_of |= {name: (*_FIELDS[name], "comm") for name in (WAKING, WAKEUP, NEW) if name in fields_of}
    return _events_of(read_tracepoints(source, fields_of, columns=columns))


def event_windows(
    source: FileSource,
    *,
    runtimes: bool = True,
    wakeups: bool = True,
    migrations: bool = True,
    chains: bool = False,
    comms: bool = False,
    unused: Collection[str] = (),
    columns: Collection[str] = TASK_COLUMNS,
    of_switches_only: bool = False,
    is_settled: bool = False,
    least: Callable[[], int] = lambda: WINDOW,
) -> Iterator[SchedEvents]:
    """Yield the scheduler's events window by window (see tracepoint_windows). Raises UsageError as read_events() does.

    Args:
        source, runtimes, wakeups, columns: see read_events.
        migrations: whether to read migrations.
        chains: whether to keep the callchains of switches.
        comms: whether to read the names of threads in switches.
        unused: fields that are zeros instead of being read.
        of_switches_only: whether other tracepoints than switches have zeros in these columns, too.
        is_settled, least: see tracepoint_windows.
    """
    fields_of = _fields_of(source, runtimes=runtimes, wakeups=wakeups, migrations=migrations)
    if comms:
        fields_of[SWITCH] += ("prev_comm", "next_comm")
    fields_of = {name: tuple(field for field in fields if field not in unused) for name, fields in fields_of.items()}
    with_chains = (SWITCH,) if chains else ()
    threads, reads_ahead = IdTable(), jobs_for(0, source.size, _BYTES_EACH) > 1
    if reads_ahead:  # the caller's threads are unknown to the other process

        def least() -> int:
            return max(WINDOW, 2 * len(threads))

    bare = [name for name in fields_of if name != SWITCH] if of_switches_only else ()
    windows = tracepoint_windows(
        source, fields_of, with_chains=with_chains, columns=columns, bare=bare, is_settled=is_settled, least=least
    )  # fmt: skip
    return map(_events_of, _read_ahead(source, windows, threads) if reads_ahead else windows)


def _read_ahead(source: FileSource, windows: Iterator[dict[str, TracepointRows]], threads: IdTable) -> Iterator[dict[str, TracepointRows]]:
    """Yield windows that a forked process reads meanwhile; it is one window ahead. threads: takes the threads that it has read."""
    begun = 0
    sent: RawRecords | RecordIndex | None = source.record_index if source.is_indexed else None

    def window(number: int) -> tuple[dict[str, list[Any]] | None, RawRecords | RecordIndex | None, list[str]]:
        """Return the number-th window, the side-band so far or at the end the index, if they are new, and the warnings.

        Without that process this one reads them.
        """
        nonlocal begun, sent
        rows = None
        while begun <= number:
            rows, begun = next(windows, None), begun + 1
            if rows is not None:
                threads.ids(rows[SWITCH].with_numbers(["next_pid"]).fields["next_pid"].astype(np.int64).view(np.uint64))
        records = source.record_index if source.is_indexed else source.records.side_band_so_far
        sent, records = records, None if records is sent else records
        return None if rows is None else {name: table.packed() for name, table in rows.items()}, records, source.warnings

    with ForkedWorkers(range(sys.maxsize), window, 1) as reader:
        for tables, records, warnings in reader.results():
            source.warnings.extend([warning for warning in warnings if warning not in source.warnings])
            if isinstance(records, RawRecords):
                source.records.take_side_band(records)
            elif records is not None:
                source.take_index(records)
            if tables is None:
                return
            yield {name: TracepointRows.unpacked(columns) for name, columns in tables.items()}


def _fields_of(source: SampleSource, *, runtimes: bool, wakeups: bool, migrations: bool) -> dict[str, tuple[str, ...]]:
    """Return the fields of each tracepoint to read."""
    present = tracepoints_of(source)
    if SWITCH not in present:
        raise UsageError(_NO_SWITCHES.format(path=source.path))
    waking = WAKING if WAKING in present else WAKEUP
    names = (SWITCH, *((waking, NEW) if wakeups else ()), *((MIGRATE,) if migrations else ()), *((RUNTIME,) if runtimes else ()))
    return {name: _FIELDS[name] for name in names}


def _events_of(rows: dict[str, TracepointRows]) -> SchedEvents:
    rows = {name: table.with_numbers(_FIELDS[name]) for name, table in rows.items()}
    none = _without_rows()
    wakeups = _merged([rows[name] for name in (WAKING, WAKEUP, NEW) if name in rows])
    return SchedEvents(rows[SWITCH], wakeups, rows.get(RUNTIME, none), rows.get(MIGRATE, none))


def _without_rows() -> TracepointRows:
    none = np.zeros(0, np.int64)
    some = none.astype(np.int32)
    names = {name for fields in _FIELDS.values() for name in fields}
    return TracepointRows(none, none.astype(np.uint64), none, some, some, some, dict.fromkeys(names, none))


def _merged(parts: list[TracepointRows]) -> TracepointRows:
    """Return the rows of several tracepoints with the same fields, in order."""
    parts = [part for part in parts if len(part.order)]
    if not parts:
        return _without_rows()
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in parts), strict=True)]
    fields = {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields}
    merged = TracepointRows._make([*columns, fields, None])
    return merged.take(np.argsort(merged.order, kind="stable"))


# The delays on the run queue of each task: the table of `sched latency`.


SORT_KEYS: Final = ("pid", "runtime", "switch", "avg", "max")
DEFAULT_SORT: Final = ("avg", "max", "switch", "runtime")
_STATE_BITS: Final = 0xFF  # of prev_state; higher bits mean preemption
_INT32_END: Final = 1 << 31
_EXACT_IN_DOUBLES: Final = 1 << 53


class TaskDelays(NamedTuple):
    """The delays of one task, or of all tasks with one name.

    Attributes:
        comm: the name.
        tid: of the task; of several the first one's.
        tasks: the number of tasks.
        runtime, total, longest: nanoseconds.
        delays: their number.
        begin, end: of the longest delay, nanoseconds.
    """

    comm: str
    tid: int
    tasks: int
    runtime: int
    delays: int
    total: int
    longest: int
    begin: int
    end: int

    @property
    def average(self) -> int:
        """The average delay in nanoseconds, rounded down."""
        return self.total // self.delays if self.delays else 0


class Problems(NamedTuple):
    """Reasons to doubt delays.

    Attributes:
        wrong_switches: switches away from a thread that the CPU did not run.
        wakeups: the number of wakeups that began a delay.
        lost, chunks: lost records, and the records that report them.
        records: all records and samples.
    """

    wrong_switches: int
    wakeups: int
    lost: int
    chunks: int
    records: int


class DelaySums:
    """The delays on the run queue of each task, added up window by window; and what is wrong with them.

    one_cpu: see QueueStates.
    """

    def __init__(self, *, one_cpu: bool = False) -> None:
        self._one_cpu = one_cpu
        self._parts = [_TaskSums.none()]
        self._kept = QueueTransitions(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int32))
        self._running = np.zeros(0, np.int32), np.zeros(0, np.int32)  # the CPUs, and the thread that came to each last
        self._wrong_switches = self._wakeups = 0

    def add(self, events: SchedEvents) -> None:
        """Add the next window of events."""
        transitions, is_new = _transitions_after(self._kept, events, one_cpu=self._one_cpu)
        states = QueueStates(transitions, one_cpu=self._one_cpu, is_new=is_new)
        self._wakeups += states.wakeup_count()
        kept = transitions.take(states.rows_to_keep())
        self._kept = kept._replace(order=np.arange(len(kept.order), dtype=np.int32))
        tids = transitions.tid[np.append(True, transitions.tid[1:] != transitions.tid[:-1])] if len(is_new) else transitions.tid
        self._parts.append(_TaskSums.of(tids, states.delays(), events.runtimes))
        self._check_switches(events.switches)

    def _check_switches(self, switches: TracepointRows) -> None:
        """Count switches away from a thread that the CPU did not run."""
        count = len(self._running[0])
        cpu = np.concatenate([self._running[0], switches.cpu])
        came = np.concatenate([self._running[1], switches.fields["next_pid"]])
        before = previous_of(cpu)[count:]
        rows = np.flatnonzero(before >= 0)
        self._wrong_switches += int((came[before[rows]] != switches.fields["prev_pid"][rows]).sum())
        last = len(cpu) - 1 - first_rows(cpu[::-1])
        self._running = cpu[last], came[last]

    def tasks(self, comm_of: Callable[[int], str]) -> list[TaskDelays]:
        """Return the delays of each task, by descending tid. comm_of: returns the name of a thread."""
        columns = _TaskSums.joined(self._parts)
        return [TaskDelays(comm_of(tid), tid, 1, *values) for tid, *values in zip(*(column.tolist() for column in columns), strict=True)]

    def problems(self, source: FileSource) -> Problems:
        """Return the reasons to doubt the delays. source: of the events."""
        lost = [side.record.lost for side in source.side_band({RecordType.LOST})]
        records = source.record_index.type_counts.total()  # as in perf, with the ends of rounds and with compressed records
        return Problems(self._wrong_switches, self._wakeups, sum(lost), len(lost), records)


def merged_by_comm(rows: Iterable[TaskDelays]) -> list[TaskDelays]:
    """Return one row for all tasks of the same name, by descending name."""
    merged: dict[str, TaskDelays] = {}
    for row in rows:
        one = merged.get(row.comm)
        if one is None:
            merged[row.comm] = row
            continue
        longer = row if row.longest > one.longest else one
        merged[row.comm] = one._replace(
            tasks=one.tasks + 1, runtime=one.runtime + row.runtime, delays=one.delays + row.delays, total=one.total + row.total,
            longest=longer.longest, begin=longer.begin, end=longer.end,
        )  # fmt: skip
    return sorted(merged.values(), key=lambda row: row.comm.encode(errors="surrogateescape"), reverse=True)


def sorted_delays(rows: Iterable[TaskDelays], keys: Iterable[str]) -> list[TaskDelays]:
    """Return the rows by these keys (SORT_KEYS), highest first."""
    values: dict[str, Callable[[TaskDelays], int]] = {
        "pid": lambda row: row.tid,
        "runtime": lambda row: row.runtime,
        "switch": lambda row: row.delays,
        "avg": lambda row: row.average,
        "max": lambda row: row.longest,
    }
    chosen = [values[key] for key in keys]
    return sorted(rows, key=lambda row: tuple(-value(row) for value in chosen))


def transitions_of(events: SchedEvents, *, one_cpu: bool = False) -> QueueTransitions:
    """Return the transitions of all threads, in any order. Migrations matter for a recording of one CPU only."""
    switches, wakeups, runtimes, migrations = events
    left = np.where(switches.fields["prev_state"] & _STATE_BITS, np.uint8(LEFT_BLOCKED), np.uint8(LEFT_READY))
    # Accounted time tells only that a thread without an earlier transition was ready to run.
    first = first_rows(runtimes.fields["pid"])
    switched, woken, ran = (_twice(rows) for rows in (switches.order, wakeups.order, runtimes.order[first]))
    parts = [
        (switches.fields["prev_pid"], left, switches.time, switched),
        (switches.fields["next_pid"], np.full(len(left), CAME, np.uint8), switches.time, switched + 1),
        (wakeups.fields["pid"], np.full(len(wakeups.order), WOKEN, np.uint8), wakeups.time, woken),
        (runtimes.fields["pid"][first], np.full(len(first), RAN, np.uint8), runtimes.time[first], ran),
    ]
    if one_cpu:
        kinds = np.full(len(migrations.order), MIGRATED, np.uint8)
        parts.append((migrations.fields["pid"], kinds, migrations.time, _twice(migrations.order)))
    return QueueTransitions._make(np.concatenate([part[i] for part in parts]) for i in range(4))


def _transitions_after(kept: QueueTransitions, events: SchedEvents, *, one_cpu: bool) -> tuple[QueueTransitions, NDArray[np.bool_]]:
    """Return the kept transitions of earlier windows and those of a window, sorted by thread; and which are the window's."""
    count = len(kept.order)
    new = transitions_of(events, one_cpu=one_cpu)
    both = kept._replace(
        tid=np.concatenate([kept.tid, new.tid]),
        kind=np.concatenate([kept.kind, new.kind]),
        time=np.concatenate([kept.time, new.time]),
        order=np.concatenate([kept.order, new.order + np.int32(count)]),
    )
    rows = thread_order(both.tid, both.order)
    return both.take(rows), rows >= count


def _twice(order: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Return even numbers, 32-bit ones if they fit."""
    fits = not len(order) or int(order[-1]) < _INT32_END // 4
    return order.astype(np.int32) * 2 if fits else order * 2


class _TaskSums(NamedTuple):
    """Sums over the delays of tasks: int64[n] each.

    Attributes:
        tid: of each task.
        runtime, delays, total, longest, begin, end: see TaskDelays.
    """

    tid: NDArray[np.int64]
    runtime: NDArray[np.int64]
    delays: NDArray[np.int64]
    total: NDArray[np.int64]
    longest: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def none(cls) -> _TaskSums:
        """Return no rows."""
        return cls(*[np.zeros(0, np.int64)] * 7)

    @classmethod
    def of(cls, tids: NDArray[np.integer[Any]], delays: Delays, runtimes: TracepointRows) -> _TaskSums:
        """Return the sums of one window. tids: distinct, with all threads, in the order by which the delays are sorted."""
        added = cls(tids.astype(np.int64), *(np.zeros(len(tids), np.int64) for _ in range(6)))
        by_tid = np.argsort(tids)
        ascending = tids[by_tid]
        threads, numbers = number_values(runtimes.fields["pid"])
        added.runtime[by_tid[np.searchsorted(ascending, threads)]] = _totals(numbers, len(threads), runtimes.fields["runtime"])
        if len(delays.tid):
            lengths = delays.end - delays.begin
            begins = rows_where(np.append(True, delays.tid[1:] != delays.tid[:-1]))
            rows = by_tid[np.searchsorted(ascending, delays.tid[begins])]
            added.delays[rows] = np.diff(begins, append=len(lengths))
            added.total[rows] = np.add.reduceat(lengths, begins)
            most = _first_longest(lengths, begins)
            added.longest[rows], added.begin[rows], added.end[rows] = lengths[most], delays.begin[most], delays.end[most]
        return added

    @classmethod
    def joined(cls, parts: list[_TaskSums]) -> _TaskSums:
        """Return the sums of all windows, by descending tid."""
        tid, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(tid, kind="stable")
        if not len(order):
            return cls.none()
        tid, (runtime, delays, total, longest, begin, end) = tid[order], (column[order] for column in columns)
        begins = rows_where(np.append(True, tid[1:] != tid[:-1]))
        most = _first_longest(longest, begins)
        added = (np.add.reduceat(column, begins) for column in (runtime, delays, total))
        is_long = longest[most] > 0
        rows = (tid[begins], *added, longest[most], np.where(is_long, begin[most], 0), np.where(is_long, end[most], 0))
        return cls._make(column[::-1] for column in rows)


def _first_longest(lengths: NDArray[np.int64], begins: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first row with the largest length of each group. begins: the first row of each group."""
    counts = np.diff(begins, append=len(lengths))
    most = rows_where(lengths == np.repeat(np.maximum.reduceat(lengths, begins), counts))
    return most[np.searchsorted(most, begins)]


def _totals(numbers: NDArray[np.integer[Any]], count: int, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sum of the values of each number."""
    values = values.astype(np.int64, copy=False)
    totals = np.zeros(count, np.int64)
    if not len(values) or int(values.min()) < 0 or int(values.max()) * len(values) >= _EXACT_IN_DOUBLES:
        np.add.at(totals, numbers, values)
        return totals
    return np.bincount(numbers, values, count).astype(np.int64)
