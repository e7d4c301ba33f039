"""A higher priority of this process for some time: on busy machines ring buffers fill up and first tables are late without it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any


_LOAD = "/proc/loadavg"
_RUNNABLE = 3  # the field of /proc/loadavg: runnable/all


class HigherPriority:
    """A context with a higher priority, if the user may have it, until it ends or end() is called.

    Nice values weigh tasks of one session (autogroups, sched(7)) or of one cgroup only. Where others use all CPUs, a process with the
    highest weight of its session can still wait for minutes.

    Args:
        change: how much nicer values become lower (setpriority(2)): 5 means three times the CPU time of others, 10 nine times.
        realtime: seconds for which this process also runs before all others that have no realtime priority, if more tasks than CPUs
            are runnable or were in the last minute. For work that is short by its nature: the others wait for it.
        also: child processes that get the same priority.
    """

    def __init__(self, change: int, realtime: float = 0, also: Collection[int] = ()) -> None:
        self._change = change
        self._realtime = realtime
        self._usual: int | None = None
        self._is_realtime = False
        self._alarm: Any = None
        self._children = [*also]

    def __enter__(self) -> HigherPriority:
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        for pid in (0, *self._children):
            with contextlib.suppress(OSError):  # no permission; the child has ended
                os.setpriority(os.PRIO_PROCESS, pid, usual - self._change)
                self._usual = usual
        if self._realtime and _lacks_cpus():
            self._begin_realtime()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def _begin_realtime(self) -> None:
        """Become a realtime process until an alarm at the latest. Threads and processes that it starts meanwhile are realtime ones, too."""
        if os.sched_getscheduler(0) != os.SCHED_OTHER or signal.getitimer(signal.ITIMER_REAL)[0]:
            return
        try:
            self._alarm = signal.signal(signal.SIGALRM, lambda _number, _frame: self._end_realtime())
        except ValueError:  # not the main thread
            return
        for pid in (0, *self._children):
            with contextlib.suppress(OSError):  # no permission; the child has ended
                os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
                self._is_realtime = True
        if self._is_realtime:
            signal.setitimer(signal.ITIMER_REAL, self._realtime)
        else:
            self._end_realtime()

    def include(self, pid: int) -> None:
        """Return a child process, which has inherited the priority, to its usual priority at the end, too."""
        self._children.append(pid)

    def end(self) -> None:
        """Return all threads of this process to their usual priority. Further calls do nothing."""
        self._end_realtime()
        usual, self._usual = self._usual, None
        if usual is not None:
            for tid in (*map(int, os.listdir("/proc/self/task")), *self._children):
                with contextlib.suppress(OSError):  # it has ended
                    os.setpriority(os.PRIO_PROCESS, tid, usual)

    def _end_realtime(self) -> None:
        if self._alarm is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._alarm)
            self._alarm = None
        if self._is_realtime:
            self._is_realtime = False
            for tid in (*map(int, os.listdir("/proc/self/task")), *self._children):
                with contextlib.suppress(OSError):  # it has ended
                    os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))


def _lacks_cpus() -> bool:
    """Whether more tasks are or were runnable than there are CPUs, now or on average in the last minute."""
    try:
        with open(_LOAD) as file:
            fields = file.read().split()
        runnable = max(int(fields[_RUNNABLE].partition("/")[0]), float(fields[0]))
    except (OSError, ValueError, IndexError):
        return False
    return runnable > (os.cpu_count() or 1)
