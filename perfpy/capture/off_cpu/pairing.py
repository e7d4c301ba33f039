"""Marks of threads -> waits: what left a CPU, and came back.

What enters: Marks, a piece at a time, and up to when all of them are known. What leaves:
Waits, each ending within what is known by then.

A thread may leave one CPU and come back on another, whose ring was read
before: what ends in a piece may begin in the next one. So marks are put in order of
time, those that are newer than everything known are kept for later, and so are
threads that have not come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.waits import DEAD
from perfpy.capture.off_cpu.marks import END, IN, NOTE_SHIFT, OUT, STACK, WOKEN, Marks
from perfpy.capture.off_cpu.running import RunningTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged

_WHO: Final = np.uint64((1 << NOTE_SHIFT) - 1)


#: a time off the CPU: whose; on which CPU it began; when it ended and how many ns it took; in which state (a letter); who ended it and the
#: note on that (0: not known); the index of its callchain (-1: none)
WAIT: Final = np.dtype(
    [
        *(("pid", "i4"), ("tid", "i4"), ("cpu", "i4"), ("end", "u8"), ("duration", "u8")),
        *(("state", "u8"), ("waker", "u8"), ("note", "u8"), ("stack", "i8")),
    ]
)


class Waits(NamedTuple):
    """rows: of WAIT; stacks: what their `stack` counts."""

    rows: NDArray[np.void]
    stacks: Ragged

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Waits:
        """Some of them."""
        return Waits(self.rows[chosen], self.stacks)


class Pairing:
    """Finds the waits of one recording. newest: the time of the last mark; running: how long threads did not wait."""

    def __init__(self) -> None:
        self._kept = Marks.none()
        self.newest = 0
        self.running = RunningTime()

    def known_until(self, bound: int, more: Marks) -> Waits:
        """More marks, and all with a time up to `bound` are here: the waits that ended by then."""
        if len(more.rows):
            self.newest = max(self.newest, int(more.rows["time"].max()))
        marks = self._kept.with_more(more)
        rows = marks.rows[np.lexsort((marks.rows["kind"], marks.rows["time"], marks.rows["tid"]))]
        is_later = rows["time"] > np.uint64(bound)
        later, rows = rows[is_later], rows[~is_later]
        self.running.see(rows)
        runs = _ThreadRuns(rows)
        ends = np.flatnonzero((rows["kind"] == IN) & (rows["tid"] != 0))
        found = runs.waits(ends, rows["time"][ends], marks.stacks)
        left = Marks(np.concatenate([rows[runs.unfinished()], later]), marks.stacks)
        self._kept = left.take(np.ones(len(left.rows), bool))
        return found

    def rest(self) -> Waits:
        """No more marks come: the waits of threads that have not come back, as long as they have lasted."""
        marks, self._kept = self._kept, Marks.none()
        rows = marks.rows[np.lexsort((marks.rows["kind"], marks.rows["time"], marks.rows["tid"]))]
        last = np.flatnonzero(np.append(rows["tid"][1:] != rows["tid"][:-1], True)) if len(rows) else np.zeros(0, np.int64)
        last = last[rows["tid"][last] != 0]
        return _ThreadRuns(rows).waits(last, np.full(len(last), self.newest, np.uint64), marks.stacks)


class _ThreadRuns:
    """Marks in order of thread and time; a run begins after a thread has come back, and ends when it comes back again."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        self._rows = rows
        self._position = np.arange(len(rows))
        kind, tid = rows["kind"], rows["tid"]
        begins = np.ones(len(rows), bool)
        begins[1:] = (tid[1:] != tid[:-1]) | (kind[:-1] == IN)
        self._begin = self._last(begins)
        self._out, self._stack, self._woken, self._end = (self._last(kind == one) for one in (OUT, STACK, WOKEN, END))

    def _last(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each mark the last one up to it that is chosen, -1 for none."""
        found: NDArray[np.int64] = np.maximum.accumulate(np.where(chosen, self._position, -1))
        return found

    def waits(self, ends: NDArray[np.int64], times: NDArray[np.uint64], stacks: Ragged) -> Waits:
        """The waits of the runs that these marks end."""
        begin, out = self._begin[ends], self._out[ends]
        waited = (out >= begin) & (self._end[ends] < begin)
        ends, times, begin, out = ends[waited], times[waited], begin[waited], out[waited]
        rows = self._rows
        stack, woken = self._stack[out], self._woken[ends]
        has_stack = stack >= begin
        source = rows[np.where(has_stack, stack, out)]
        was_woken = woken > np.where(has_stack, stack, out)
        waking = np.where(was_woken, rows["detail"][woken], np.uint64(0))
        left = rows[out]
        found = np.zeros(len(out), WAIT)
        for name in ("pid", "tid", "cpu"):
            found[name] = left[name]
        found["end"], found["duration"] = times, times - np.minimum(left["time"], times)
        found["state"], found["stack"] = source["detail"], np.where(has_stack, source["stack"], -1)
        found["waker"], found["note"] = waking & _WHO, waking >> np.uint64(NOTE_SHIFT)
        return Waits(found[~np.isin(found["state"], DEAD)], stacks)

    def unfinished(self) -> NDArray[np.bool_]:
        """Which marks may belong to waits that end later."""
        rows = self._rows
        if not len(rows):
            return np.zeros(0, bool)
        tid, kind = rows["tid"], rows["kind"]
        last = np.append(tid[1:] != tid[:-1], True)
        end_of_thread = np.flatnonzero(last)[np.cumsum(last) - last]  # for each mark the last one of its thread
        in_last_run = (self._begin[end_of_thread] <= self._position) & (kind[end_of_thread] != IN)
        first = self._begin[end_of_thread]
        left = (self._out[end_of_thread] >= first) | (self._stack[end_of_thread] >= first)
        ended = self._end[end_of_thread] >= first
        # of threads that have ended only that matters, until they have left for good; wakings matter where somebody waits
        wanted = np.where(ended, (kind == END) & (self._out[end_of_thread] < self._end[end_of_thread]), left)
        keeps: NDArray[np.bool_] = in_last_run & wanted & (tid != 0)
        return keeps
