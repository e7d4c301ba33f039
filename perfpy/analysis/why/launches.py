"""The waits of programs for programs that they started: of a shell for make, of make for a compiler.

Such a wait is no cause. What the started program does, or waits for, is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.wakers import follows_waker

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.why.activities import Activities
    from perfpy.analysis.why.tasks import RecordedTasks

#: how programs wait for programs that they started: for their end, their output, or a signal of their end
KINDS: Final = (reasons.CHILD, reasons.PIPE, reasons.NETWORK, reasons.EVENTS, reasons.SIGNAL, reasons.OTHER)
_MOST: Final = 64  # generations of processes


def find_launches(activities: Activities, tasks: RecordedTasks) -> NDArray[np.bool_]:
    """Return which segments are waits that end by a program that the waiting process, or a child of it, started."""
    segments = activities.segments
    rows = np.flatnonzero(follows_waker(activities.segments, activities.waker) & np.isin(activities.kind, KINDS))
    launches = np.zeros(len(segments.tid), bool)
    if not len(rows):
        return launches
    pairs, which = np.unique(np.stack([segments.tid[rows], activities.waker[rows]], axis=1), axis=0, return_inverse=True)
    executed = {pid for pid, _, _ in tasks.execs}
    answers = [_has_started(tid, waker, tasks, executed) for tid, waker in pairs.tolist()]
    launches[rows] = np.array(answers, bool)[which.ravel()]
    return launches


def _has_started(tid: int, waker: int, tasks: RecordedTasks, executed: set[int]) -> bool:
    """Return whether the waker belongs to a program that the process of a thread, or a child of it, started.

    A child that goes on with the program of its parent is part of that program.
    """
    ancestor = tasks.pid_of.get(tid, tid)
    processes = ancestry(tasks.pid_of.get(waker, waker), ancestor, tasks)
    own_name = tasks.comm_of.get(ancestor, "")
    return any(pid in executed or tasks.comm_of.get(pid, "") != own_name for pid in processes[:-1])


def ancestry(pid: int, ancestor: int, tasks: RecordedTasks) -> list[int]:
    """Return a process, its parent and so on, up to an ancestor; [] if it is not a descendant."""
    processes = [pid]
    while processes[-1] != ancestor:
        parent = tasks.parent_of.get(processes[-1])
        if parent is None or len(processes) > _MOST:
            return []
        processes.append(parent)
    return processes


def launchers(tid: int, main: int, tasks: RecordedTasks) -> list[str]:
    """Return the names of the programs from that of one thread to that of a thread that it started, or [] without any in between.

    Args:
        tid: a thread of the started program.
        main: a thread of the first program.
        tasks: of the recording.
    """
    processes = ancestry(tasks.pid_of.get(tid, tid), tasks.pid_of.get(main, main), tasks)
    names: list[str] = []
    executed = {pid for pid, _, _ in tasks.execs}
    for pid in reversed(processes):
        name = tasks.comm_of.get(pid, "")
        if not names or pid in executed or name != names[-1]:
            names.append(name)
    return names
