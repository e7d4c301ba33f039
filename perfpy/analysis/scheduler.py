"""The scheduler's tracepoints of a recording as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import TASK_COLUMNS, TracepointRows, read_tracepoints, tracepoints_of
from perfpy.scheduling.switch_times import (
    CAME,
    LEFT_BLOCKED,
    LEFT_READY,
    MIGRATED,
    RAN,
    WOKEN,
    QueueTransitions,
    count_wakeups,
    previous_of,
    run_queue_delays,
    sorted_by_thread,
)
from perfpy.symbols.interning import first_rows, number_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource


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

    @property
    def has_chains(self) -> bool:
        """Whether the switches have callchains."""
        return self.switches.chains is not None


def read_events(
    source: SampleSource,
    *,
    runtimes: bool = True,
    chains: bool = False,
    comms: bool = False,
    woken_comms: bool = False,
    columns: Collection[str] = TASK_COLUMNS,
) -> SchedEvents:
    """Read the scheduler's events. Raises UsageError if the recording has no switches.

    Args:
        source: the samples.
        runtimes: whether to read sched_stat_runtime.
        chains: whether to keep the callchains of switches.
        comms: whether to read prev_comm and next_comm of switches.
        woken_comms: whether to read comm of wakeups.
        columns: which of pid, tid and cpu of the samples to read.
    """
    present = tracepoints_of(source)
    if SWITCH not in present:
        raise UsageError(_NO_SWITCHES.format(path=source.path))
    waking = WAKING if WAKING in present else WAKEUP
    names = [SWITCH, waking, NEW, MIGRATE, *((RUNTIME,) if runtimes else ())]
    fields_of = {name: _FIELDS[name] for name in names}
    if comms:
        fields_of[SWITCH] = (*_FIELDS[SWITCH], "prev_comm", "next_comm")
    if woken_comms:
        fields_of |= {name: (*_FIELDS[name], "comm") for name in (waking, NEW)}
    rows = read_tracepoints(source, fields_of, with_chains=(SWITCH,) if chains else (), columns=columns)
    rows = {name: table.with_numbers(_FIELDS[name]) for name, table in rows.items()}
    wakeups = [rows[name] for name in (waking, NEW) if name in rows]
    none = _without_rows()
    return SchedEvents(rows[SWITCH], _merged(wakeups), rows.get(RUNTIME, none), rows.get(MIGRATE, none))


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


SORT_KEYS: Final = ("runtime", "switch", "avg", "max")
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


def problems(events: SchedEvents, transitions: QueueTransitions, source: SampleSource, *, one_cpu: bool = False) -> Problems:
    """Return the reasons to doubt the delays of a recording. transitions: of the events."""
    switches = events.switches
    before = previous_of(switches.cpu)
    has_earlier = before >= 0
    wrong = switches.fields["next_pid"][before[has_earlier]] != switches.fields["prev_pid"][has_earlier]
    lost = [side.record.lost for side in source.side_band({RecordType.LOST})]
    records = sum(source.sample_counts.values()) + sum(1 for _ in source.side_band()) if lost else 0
    wakeups = count_wakeups(transitions, one_cpu=one_cpu)
    return Problems(int(wrong.sum()), wakeups, sum(lost), len(lost), records)


def task_delays(
    events: SchedEvents, transitions: QueueTransitions, comm_of: Callable[[int], str], *, one_cpu: bool = False
) -> list[TaskDelays]:
    """Return the delays of each task, by descending tid.

    Args:
        events: of the recording.
        transitions: of the events (transitions_of).
        comm_of: returns the name of a thread.
        one_cpu: see run_queue_delays.
    """
    delays = run_queue_delays(transitions, one_cpu=one_cpu)
    tids = transitions.tid
    tids = np.sort(tids[np.append(True, tids[1:] != tids[:-1])]) if len(tids) else tids
    runtimes = _runtimes(tids, events.runtimes.fields["pid"], events.runtimes.fields["runtime"].astype(np.int64))
    lengths = delays.end - delays.begin
    counts, totals, longest = _ThreadDelays.of(tids, delays.tid, lengths)
    rows = []
    for index, tid in enumerate(tids.tolist()):
        row = int(longest[index])
        most = int(lengths[row]) if row >= 0 else 0
        begin, end = (int(delays.begin[row]), int(delays.end[row])) if most else (0, 0)
        rows.append(TaskDelays(comm_of(tid), tid, 1, int(runtimes[index]), int(counts[index]), int(totals[index]), most, begin, end))
    rows.reverse()
    return rows


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
        "runtime": lambda row: row.runtime,
        "switch": lambda row: row.delays,
        "avg": lambda row: row.average,
        "max": lambda row: row.longest,
    }
    chosen = [values[key] for key in keys]
    return sorted(rows, key=lambda row: tuple(-value(row) for value in chosen))


def transitions_of(events: SchedEvents, *, one_cpu: bool = False) -> QueueTransitions:
    """Return the transitions of all threads, sorted by thread. Migrations matter for a recording of one CPU only."""
    switches, wakeups, runtimes, migrations = events
    left = np.where(switches.fields["prev_state"] & _STATE_BITS, np.uint8(LEFT_BLOCKED), np.uint8(LEFT_READY))
    # Accounted time tells only that a thread without an earlier transition was ready to run.
    first = first_rows(runtimes.fields["pid"])
    parts = [
        (switches.fields["prev_pid"], left, switches.time, _twice(switches.order)),
        (switches.fields["next_pid"], np.full(len(left), CAME, np.uint8), switches.time, _twice(switches.order) + 1),
        (wakeups.fields["pid"], np.full(len(wakeups.order), WOKEN, np.uint8), wakeups.time, _twice(wakeups.order)),
        (runtimes.fields["pid"][first], np.full(len(first), RAN, np.uint8), runtimes.time[first], _twice(runtimes.order[first])),
    ]
    if one_cpu:
        kinds = np.full(len(migrations.order), MIGRATED, np.uint8)
        parts.append((migrations.fields["pid"], kinds, migrations.time, _twice(migrations.order)))
    tid, kind, time, order = (np.concatenate([part[i] for part in parts]) for i in range(4))
    del parts, left
    return sorted_by_thread(QueueTransitions(tid, kind, time, order))


def _twice(order: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Return even numbers, 32-bit ones if they fit."""
    fits = not len(order) or int(order[-1]) < _INT32_END // 2 - 1
    return order.astype(np.int32) * 2 if fits else order * 2


def _runtimes(tids: NDArray[np.integer[Any]], tid: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of the values of each thread. tids: ascending, with all threads."""
    totals = np.zeros(len(tids), np.int64)
    threads, numbers = number_values(tid)
    rows = np.searchsorted(tids, threads)
    if not len(values) or int(values.min()) < 0 or int(values.max()) * len(values) >= _EXACT_IN_DOUBLES:
        np.add.at(totals, rows[numbers], values)
    else:
        totals[rows] = np.bincount(numbers, values).astype(np.int64)
    return totals


class _ThreadDelays(NamedTuple):
    """Sums over the delays of each thread.

    Attributes:
        number, total: their number and sum.
        longest: the index of the first longest delay; -1 without delays.
    """

    number: NDArray[np.int64]
    total: NDArray[np.int64]
    longest: NDArray[np.int64]

    @classmethod
    def of(cls, tids: NDArray[np.integer[Any]], tid: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> _ThreadDelays:
        """Return the sums. Delays are sorted by thread."""
        count, total, longest = np.zeros(len(tids), np.int64), np.zeros(len(tids), np.int64), np.full(len(tids), -1, np.int64)
        if len(tid):
            begins = np.flatnonzero(np.append(True, tid[1:] != tid[:-1]))
            rows = np.searchsorted(tids, tid[begins])
            count[rows] = counts = np.diff(begins, append=len(tid))
            total[rows] = np.add.reduceat(lengths, begins)
            most = np.flatnonzero(lengths == np.repeat(np.maximum.reduceat(lengths, begins), counts))
            longest[np.searchsorted(tids, tid[most[::-1]])] = most[::-1]  # the last write counts: the first one among equals
        return cls(count, total, longest)
