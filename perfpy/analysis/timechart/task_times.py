"""The time of tasks as running, waiting for a CPU, and blocked on I/O, from switches and wakeups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling import segments as states
from perfpy.scheduling.segments import Segments, SwitchColumns, WakeupColumns, make_segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]

SWITCH: Final = "sched:sched_switch"
_WAKEUPS: Final = ("sched:sched_wakeup", "sched:sched_waking")
_FIELDS: Final = ("prev_pid", "next_pid", "prev_state")
RUNNING: Final = states.RUNNING
WAITING: Final = states.READY
SLEEPING: Final = states.BLOCKED
BLOCKED: Final = 3
_UNINTERRUPTIBLE: Final = 2  # a bit of prev_state (include/linux/sched.h)


class TaskWakeups(NamedTuple):
    """Wakeups: int64[n] each. waker: the thread that ran meanwhile, also when an interrupt woke."""

    time: Int64
    waker: Int64
    woken: Int64


class TaskTimes(NamedTuple):
    """The segments of all threads.

    Attributes:
        segments: see perfpy.scheduling.segments.
        kind: int8[n], RUNNING, WAITING, SLEEPING, or BLOCKED if a sleep was uninterruptible, as waits for disks are.
        is_known: bool[n], whether an event began or ended the segment; the first state of a thread is a guess.
        wakeups: of the recording.
        begin, end: nanoseconds, of the recording's switches and wakeups.
    """

    segments: Segments
    kind: NDArray[np.int8]
    is_known: NDArray[np.bool_]
    wakeups: TaskWakeups
    begin: int
    end: int


def read_task_times(source: SampleSource) -> TaskTimes | None:
    """Return the times of all tasks; None if the recording has no switches."""
    present = tracepoints_of(source)
    if SWITCH not in present:
        return None
    waking = next((name for name in _WAKEUPS if name in present), _WAKEUPS[0])
    tables = read_tracepoints(source, {SWITCH: _FIELDS, waking: ("pid",)}, columns=("cpu", "tid"))
    switches = tables[SWITCH].with_numbers(_FIELDS)
    wakeups = _wakeups(tables.get(waking))
    columns = SwitchColumns(
        switches.time, switches.order, switches.cpu.astype(np.int64), *(switches.fields[name].astype(np.int64) for name in _FIELDS)
    )
    times = np.concatenate([switches.time, wakeups.time])
    begin, end = (int(times.min()), int(times.max())) if len(times) else (0, 0)
    segments = make_segments(columns, wakeups, begin, end)
    departure = segments.departure
    state = np.append(columns.state, 0)[departure]
    is_io = (segments.kind == SLEEPING) & (departure >= 0) & ((state & _UNINTERRUPTIBLE) != 0)
    kind = np.where(is_io, np.int8(BLOCKED), segments.kind)
    is_known = (segments.kind == RUNNING) | (departure >= 0) | (segments.wakeup >= 0)
    wakers = np.zeros(0, np.int64) if waking not in tables else tables[waking].tid.astype(np.int64)
    return TaskTimes(segments, kind, is_known, TaskWakeups(wakeups.time, wakers, wakeups.thread), begin, end)


def _wakeups(rows: TracepointRows | None) -> WakeupColumns:
    if rows is None:
        none = np.zeros(0, np.int64)
        return WakeupColumns(none, none, none, np.zeros(0, bool))
    table = rows.with_numbers(("pid",))
    return WakeupColumns(table.time, table.order, table.fields["pid"].astype(np.int64), np.zeros(len(table.order), bool))
