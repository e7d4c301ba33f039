"""Sleeps of parents that poll for the ends of their children: wait4(WNOHANG) in a loop, as Python's subprocess.wait(timeout).

Such a sleep is a wait for the child, which explains it. It lies between two system calls that look for ended children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.system_calls.numbers import has_table, numbers_by_name
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.events import numbers_of
from perfpy.scheduling.segments import BLOCKED, SegmentIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.why.activities import Activities
    from perfpy.analysis.why.events import WhyEvents
    from perfpy.analysis.why.tasks import RecordedTasks
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.scheduling.segments import Segments

    Int64 = NDArray[np.int64]

_NONE: Final = -1
_ANY: Final = 0  # any child
_WNOHANG: Final = 1
_P_PID: Final = 1  # waitid(): the second argument is a process
_ARGUMENTS: Final = 4
_YOUNGER: Final = 8  # children that are looked at for one that lived during a sleep
#: kinds of sleeps; those for events count only if one child is polled for: servers look for all children once in a while
_KINDS: Final = (reasons.SLEEP, reasons.EVENTS)


def explain_polls(activities: Activities, events: WhyEvents, tasks: RecordedTasks, machine: str) -> Activities:
    """Return the activities with the sleeps of polling parents as waits that the children end.

    Args:
        activities: of all threads.
        events: of the recording.
        tasks: of the recording.
        machine: its architecture, for the numbers of system calls.
    """
    rows, wanted = _polling_sleeps(activities, events.calls, machine)
    if not len(rows):
        return activities
    child = _polled_children(activities.segments, rows, wanted, tasks)
    rows, child = rows[child > 0], child[child > 0]
    kind, waker, chain = (column.copy() for column in (activities.kind, activities.waker, activities.waker_chain))
    by_interrupt = activities.by_interrupt.copy()
    kind[rows], waker[rows], chain[rows], by_interrupt[rows] = reasons.CHILD, child, _NONE, False
    return activities._replace(kind=kind, waker=waker, waker_chain=chain, by_interrupt=by_interrupt)


def _polling_sleeps(activities: Activities, calls: TracepointRows, machine: str) -> tuple[Int64, Int64]:
    """Return the segments of sleeps between two calls that look for ended children, and the process each one looks for; _ANY."""
    none = np.zeros(0, np.int64)
    segments = activities.segments
    polled = _polled_processes(calls, machine)
    sleeps = np.flatnonzero((segments.kind == BLOCKED) & np.isin(activities.kind, _KINDS))
    if not len(sleeps) or not np.any(polled >= 0):
        return none, none
    order = np.lexsort((calls.order, calls.tid))
    tid, when, polled = calls.tid[order].astype(np.int64), calls.time[order], polled[order]
    own = segments.tid[sleeps]
    first, count = SegmentIndex(tid, when, when).overlapping(own, segments.begin[sleeps], segments.begin[sleeps])
    last = first + count - 1
    last = np.where((count > 0) & (when[np.maximum(last, 0)] > segments.begin[sleeps]), last - 1, last)

    def polled_at(position: Int64) -> Int64:
        """Return the process that the calls at positions look for; -1 for other calls, and for those of other threads."""
        inside = np.clip(position, 0, len(tid) - 1)
        return np.where((position == inside) & (tid[inside] == own), polled[inside], _NONE)

    before = np.where(polled_at(last) >= 0, polled_at(last), polled_at(last - 1))  # the sleep is a call itself, not always recorded
    after = polled_at(last + 1)
    is_poll = (before >= 0) & (after >= 0) & ((activities.kind[sleeps] == reasons.SLEEP) | (after != _ANY))
    return sleeps[is_poll], after[is_poll]


def _polled_processes(calls: TracepointRows, machine: str) -> Int64:
    """Return the process that each system call looks for without waiting; _ANY for any child, -1 for other calls."""
    polled = np.full(len(calls.order), _NONE, np.int64)
    arguments = calls.fields.get("args")
    if not isinstance(arguments, np.ndarray) or arguments.ndim != 2 or arguments.shape[1] < _ARGUMENTS or not has_table(machine):
        return polled  # the recorded format says otherwise
    arguments = arguments.astype(np.uint64)
    numbers, ids = numbers_by_name(machine), numbers_of(calls, "id")
    options_at = {"wait4": 2, "waitpid": 2, "waitid": 3}
    for name, position in options_at.items():
        if name not in numbers:
            continue
        rows = np.flatnonzero((ids == numbers[name]) & (arguments[:, position] & np.uint64(_WNOHANG) != 0))
        process = arguments[rows, 1 if name == "waitid" else 0].astype(np.uint32).view(np.int32).astype(np.int64)
        if name == "waitid":
            process = np.where(arguments[rows, 0] == _P_PID, process, _ANY)
        polled[rows] = np.maximum(process, _ANY)
    return polled


def _polled_children(segments: Segments, rows: Int64, wanted: Int64, tasks: RecordedTasks) -> Int64:
    """Return the child that each sleep waits for: the one that is looked for, or else the one that ends first; -1 for none."""
    parents = np.array([tasks.pid_of.get(tid, tid) for tid in segments.tid[rows].tolist()], np.int64)
    is_child = np.array([tasks.parent_of.get(pid) == parent for pid, parent in zip(wanted.tolist(), parents.tolist(), strict=True)], bool)
    child = np.where(is_child, wanted, _NONE)
    left = np.flatnonzero(~is_child)
    if not len(left):
        return child
    children: dict[int, list[int]] = {}
    pollers = set(parents[left].tolist())
    for pid, parent in tasks.parent_of.items():
        if parent in pollers:
            children.setdefault(parent, []).append(pid)
    order = left[np.argsort(parents[left], kind="stable")]
    distinct, starts = np.unique(parents[order], return_index=True)
    for parent, some in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
        pids = np.array(children.get(parent, ()), np.int64)
        if len(pids):
            child[some] = _ending_first(segments, pids, segments.begin[rows[some]], segments.end[rows[some]])
    return child


def _ending_first(segments: Segments, pids: Int64, begin: Int64, end: Int64) -> Int64:
    """Return the process that lived in each time and ended first after its begin; -1 for none."""
    first, after = np.searchsorted(segments.tid, pids), np.searchsorted(segments.tid, pids, side="right")
    pids, first, after = pids[after > first], first[after > first], after[after > first]
    order = np.argsort(segments.end[after - 1], kind="stable")
    pids, born, ended = pids[order], segments.begin[first[order]], segments.end[after[order] - 1]
    found = np.full(len(begin), _NONE, np.int64)
    position = np.searchsorted(ended, begin, side="right")
    for _ in range(_YOUNGER if len(pids) else 0):
        inside = np.minimum(position, len(pids) - 1)
        fits = (found < 0) & (position < len(pids)) & (born[inside] < end)
        found = np.where(fits, pids[inside], found)
        position = position + 1
    return found
