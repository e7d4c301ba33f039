"""Pair transitions of threads to intervals off the CPU.

Transitions arrive in pieces, with the time up to which they are complete; Intervals that ended by then are returned.

A thread may leave one CPU and resume on another, whose ring buffer was read before, so that an interval's end can arrive before its
begin. Transitions are therefore sorted by time. Those newer than the complete part wait for the next piece, as do threads that are
still off the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import DEAD
from perfpy.scheduling.transitions import END, IN, NOTE_SHIFT, OUT, STACK, WOKEN, Transitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged


_WHO: Final = np.uint64((1 << NOTE_SHIFT) - 1)

#: one interval that a thread spent off the CPU
INTERVAL: Final = np.dtype(
    [
        ("pid", "i4"),
        ("tid", "i4"),
        ("cpu", "i4"),  # the CPU that the thread left
        ("end", "u8"),  # when it came back, nanoseconds
        ("duration", "u8"),  # nanoseconds
        ("state", "u8"),  # the letter of its state, as in /proc/PID/stat (perfpy.abi.perfpy_encodings)
        ("waker", "u8"),  # the thread that woke it; 0: unknown
        ("note", "u8"),  # WOKEN_BY_THREAD, WOKEN_BY_INTERRUPT (perfpy.abi.perfpy_encodings); 0: unknown
        ("stack", "i8"),  # index of its callchain in Intervals.stacks; -1: none
    ]
)


class Intervals(NamedTuple):
    """Intervals off the CPU, with the callchains of those that have one."""

    rows: NDArray[np.void]  #: INTERVAL[n]
    stacks: Ragged  #: callchains, by the column `stack` of the rows

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Intervals:
        """Select rows by mask or index."""
        return Intervals(self.rows[chosen], self.stacks)


class IntervalPairing:
    """Pairs the transitions of one recording to intervals, and sums the time between them.

    sums_running: whether to sum the time of each thread on a CPU, which takes memory for each thread.
    """

    def __init__(self, *, sums_running: bool = True) -> None:
        self._sums_running = sums_running
        self._pending = Transitions.none()
        self.newest = 0  #: the time of the newest transition
        self.running = RunningTime()  #: how long each thread was on a CPU

    def take_ended(self, bound: int, more: Transitions) -> Intervals:
        """Return the intervals that ended by a time.

        Args:
            bound: the time up to which transitions are complete with these.
            more: transitions that were not there before.
        """
        if len(more.rows):
            self.newest = max(self.newest, int(more.rows["time"].max()))
        transitions = self._pending.with_more(more)
        rows = transitions.rows[np.lexsort((transitions.rows["kind"], transitions.rows["time"], transitions.rows["tid"]))]
        is_later = rows["time"] > np.uint64(bound)
        later, rows = rows[is_later], rows[~is_later]
        if self._sums_running:
            self.running.add(rows)
        runs = _ThreadRuns(rows)
        ends = np.flatnonzero((rows["kind"] == IN) & (rows["tid"] != 0))
        intervals = runs.intervals(ends, rows["time"][ends], transitions.stacks)
        left = Transitions(np.concatenate([rows[runs.unfinished()], later]), transitions.stacks)
        self._pending = left.take(np.ones(len(left.rows), bool))
        return intervals

    def take_unfinished(self) -> Intervals:
        """Return the intervals of threads that have not come back, up to the newest transition. No more transitions may follow."""
        intervals = self.unfinished(self.newest)
        self._pending = Transitions.none()
        return intervals

    def unfinished(self, until: int) -> Intervals:
        """Return the intervals of threads that had not come back at a time, up to it. It must not be before that of take_ended()."""
        rows, stacks = self._pending
        rows = rows[rows["time"] <= np.uint64(until)]
        rows = rows[np.lexsort((rows["kind"], rows["time"], rows["tid"]))]
        last = np.flatnonzero(np.append(rows["tid"][1:] != rows["tid"][:-1], True)) if len(rows) else np.zeros(0, np.int64)
        last = last[rows["tid"][last] != 0]
        return _ThreadRuns(rows).intervals(last, np.full(len(last), until, np.uint64), stacks)

    def waiting_threads(self) -> NDArray[np.int32]:
        """Return the threads that have not come back, or have ended and not left their CPU."""
        threads: NDArray[np.int32] = distinct(self._pending.rows["tid"])
        return threads

    def forget(self, threads: NDArray[np.int32]) -> None:
        """Drop the transitions of threads: they do not exist any more, and their ends were lost."""
        self._pending = self._pending.take(~np.isin(self._pending.rows["tid"], threads))


class _ThreadRuns:
    """Transitions sorted by thread and time, in runs: from one return of a thread to a CPU to the next."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        self._rows = rows
        self._position = np.arange(len(rows))
        kind, tid = rows["kind"], rows["tid"]
        begins = np.ones(len(rows), bool)
        begins[1:] = (tid[1:] != tid[:-1]) | (kind[:-1] == IN)
        self._begin = self._last(begins)
        self._out, self._stack, self._woken, self._end = (self._last(kind == one) for one in (OUT, STACK, WOKEN, END))

    def _last(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the index of the last chosen transition up to each one; -1: none."""
        positions: NDArray[np.int64] = np.maximum.accumulate(np.where(chosen, self._position, -1))
        return positions

    def intervals(self, ends: NDArray[np.int64], times: NDArray[np.uint64], stacks: Ragged) -> Intervals:
        """Return the intervals of the runs that these transitions end."""
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
        intervals = np.zeros(len(out), INTERVAL)
        for name in ("pid", "tid", "cpu"):
            intervals[name] = left[name]
        intervals["end"], intervals["duration"] = times, times - np.minimum(left["time"], times)
        intervals["state"], intervals["stack"] = source["detail"], np.where(has_stack, source["stack"], -1)
        intervals["waker"], intervals["note"] = waking & _WHO, waking >> np.uint64(NOTE_SHIFT)
        return Intervals(intervals[~np.isin(intervals["state"], DEAD)], stacks)

    def unfinished(self) -> NDArray[np.bool_]:
        """Tell which transitions may belong to intervals that end later."""
        rows = self._rows
        if not len(rows):
            return np.zeros(0, bool)
        tid, kind = rows["tid"], rows["kind"]
        last = np.append(tid[1:] != tid[:-1], True)
        end_of_thread = np.flatnonzero(last)[np.cumsum(last) - last]  # of each transition: the last one of its thread
        in_last_run = (self._begin[end_of_thread] <= self._position) & (kind[end_of_thread] != IN)
        first = self._begin[end_of_thread]
        left = (self._out[end_of_thread] >= first) | (self._stack[end_of_thread] >= first)
        ended = self._end[end_of_thread] >= first
        # of an ended thread only the end matters, until it leaves its CPU; wakings matter if the thread is off its CPU
        is_unfinished = np.where(ended, (kind == END) & (self._out[end_of_thread] < self._end[end_of_thread]), left)
        keeps: NDArray[np.bool_] = in_last_run & is_unfinished & (tid != 0)
        return keeps


# The time that each thread was on a CPU, and the number of running threads at any time, from transitions.

_MOST_THREADS: Final = 1 << 20


def count_running(kinds: Sequence[int], cpus: int) -> NDArray[np.int32]:
    """Return how many threads ran before the first transition and after each one: int32[n + 1].

    The definition is that of perf since 6.15: one thread runs at first, whose switch to the CPU was before the recording; each
    switch adds or takes one, and so does an exit, after which no switch is recorded. At least one runs, at most one on each CPU.

    Args:
        kinds: IN, OUT or END of each transition, sorted by time.
        cpus: the number of CPUs.
    """
    changes = np.where(np.array([IN, *kinds]) == IN, 1, -1)
    running: NDArray[np.int32] = np.clip(np.cumsum(changes), 1, cpus).astype(np.int32)
    return running


class RunningTime:
    """The time that each thread of one recording was on a CPU."""

    def __init__(self) -> None:
        self.first = 0  #: when the recording began; 0: not known yet
        self._since: dict[int, int] = {}  # tid -> when it came to the CPU where it still is
        self._total: dict[int, tuple[int, int]] = {}  # tid -> pid, ns

    def add(self, rows: NDArray[np.void]) -> None:
        """Add transitions (TRANSITION[n]), sorted by thread and time."""
        rows = rows[np.isin(rows["kind"], (OUT, IN, END)) & (rows["tid"] > 0)]
        if not len(rows):
            return
        tid, time, is_out = rows["tid"], rows["time"].astype(np.int64), rows["kind"] != IN
        begins = np.append(True, tid[1:] != tid[:-1])
        ran = np.zeros(len(rows), np.int64)
        ran[1:] = np.where(is_out[1:] & ~is_out[:-1] & ~begins[1:], time[1:] - time[:-1], 0)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1
        totals = np.add.reduceat(ran, first)
        for index, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            number = int(tid[begin])
            since = self._since.pop(number, None if number in self._total else self.first)
            more = int(time[begin]) - since if is_out[begin] and since is not None else 0
            if not is_out[end]:
                self._since[number] = int(time[end])
            if number in self._total or len(self._total) < _MOST_THREADS:
                pid, total = self._total.get(number, (0, 0))
                self._total[number] = max(pid, int(rows["pid"][begin : end + 1].max())), total + int(totals[index]) + max(more, 0)

    def totals(self, newest: int) -> dict[int, tuple[int, int]]:
        """Return the process and the nanoseconds of each thread. No more transitions may follow.

        Args:
            newest: the end of the recording.
        """
        for tid, since in self._since.items():
            if tid in self._total:
                pid, total = self._total[tid]
                self._total[tid] = pid, total + max(newest - since, 0)
        self._since.clear()
        return self._total
