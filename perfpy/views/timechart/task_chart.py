"""The chart of CPUs and tasks: who ran where, who waited for a CPU or for I/O, who woke whom, and how deeply CPUs slept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.timechart.task_times import BLOCKED, RUNNING, WAITING
from perfpy.views.timechart.drawing import Bar, Drawing, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.timechart.power import CpuStates
    from perfpy.analysis.timechart.task_times import TaskTimes

_LEGEND: Final = (
    ("running", "Running"),
    ("idle1", "Idle"),
    ("idle3", "Deep idle"),
    ("waiting", "Waiting for CPU"),
    ("blocked", "Blocked on I/O"),
)
_MOST_BARS: Final = 200_000  # of the file
_DEEP: Final = 2  # idle states from here on
_MOST_CPUS: Final = 4096


class ChartParts(NamedTuple):
    """The contents of the chart.

    Attributes:
        width: pixels.
        tids: the tasks, in order of their rows.
        with_cpus, with_tasks: the rows.
        rank_of_cpu: the order of CPUs; CPUs that are absent come last.
        is_highlighted: whether to highlight a task, by its name and run time (nanoseconds).
    """

    width: int
    tids: Sequence[int]
    with_cpus: bool
    with_tasks: bool
    rank_of_cpu: Mapping[int, int]
    is_highlighted: Callable[[str, int], bool]


def draw_tasks(
    times: TaskTimes, power: tuple[CpuStates, CpuStates], comm_of: Callable[[int], str], parts: ChartParts
) -> tuple[Drawing, int]:
    """Return the chart, and the number of segments that were too thin for it."""
    drawing = Drawing(times.begin, times.end, parts.width, _LEGEND)
    chart = _TaskChart(drawing, times, comm_of, parts)
    if parts.with_cpus:
        chart.add_cpus(*power)
    if parts.with_tasks:
        chart.add_tasks()
    return drawing, chart.left_out


class _TaskChart:
    def __init__(self, drawing: Drawing, times: TaskTimes, comm_of: Callable[[int], str], parts: ChartParts) -> None:
        self._drawing = drawing
        self._times = times
        self._comm_of = comm_of
        self._parts = parts
        segments = times.segments
        self._kind = times.kind
        is_drawn = times.is_known & np.isin(times.kind, (RUNNING, WAITING, BLOCKED))
        self._chosen, self.left_out = _longest(is_drawn, segments.end - segments.begin)
        self._totals = _run_times(times)

    def add_cpus(self, idle: CpuStates, frequency: CpuStates) -> None:
        """Add a row for each CPU."""
        segments, parts = self._times.segments, self._parts
        is_running = self._kind == RUNNING
        cpus = np.unique(np.concatenate([segments.cpu[is_running & (segments.cpu >= 0)], idle.cpu, frequency.cpu]))[:_MOST_CPUS]
        row_of = {}
        for cpu in sorted(cpus.tolist(), key=lambda cpu: (parts.rank_of_cpu.get(cpu, len(cpus)), cpu)):
            row_of[cpu] = self._drawing.add_row()
            self._drawing.add_bar(Bar(row_of[cpu], self._times.begin, self._times.end, "cpu"))
            self._drawing.add_text(row_of[cpu], self._times.begin, f"CPU {cpu}")
        for cpu, begin, end, state in zip(*(column.tolist() for column in idle), strict=True):
            if cpu in row_of:
                kind = "idle1" if state == 1 else "idle2" if state <= _DEEP else "idle3"
                self._drawing.add_bar(Bar(row_of[cpu], begin, end, kind, f"C{state} for {time_text(end - begin)}"))
        if parts.with_tasks:
            rows = np.flatnonzero(self._chosen & is_running & np.isin(segments.cpu, cpus))
            for tid, begin, end, cpu in self._columns(rows):
                self._drawing.add_bar(Bar(row_of[cpu], begin, end, self._running_kind(tid), self._title(tid, "runs", begin, end)))
        self._add_frequencies(frequency, row_of)

    def _add_frequencies(self, frequency: CpuStates, row_of: dict[int, int]) -> None:
        highest = int(frequency.state.max(initial=0))
        for cpu, row in row_of.items():
            own = np.flatnonzero(frequency.cpu == cpu)
            points = zip(frequency.begin[own].tolist(), frequency.state[own].tolist(), strict=True)
            if highest and len(own) > 1:
                self._drawing.add_curve(row, [(time, state / highest) for time, state in points])

    def add_tasks(self) -> None:
        """Add a row for each task, and lines for wakeups between them."""
        segments = self._times.segments
        row_of: dict[int, int] = {}
        for tid in self._parts.tids:
            row_of[tid] = self._drawing.add_row()
            own = np.flatnonzero((segments.tid == tid) & self._times.is_known)
            if not len(own):
                continue
            first, last = int(segments.begin[own[0]]), int(segments.end[own[-1]])
            self._drawing.add_bar(Bar(row_of[tid], first, last, "box"))
            kinds = {
                RUNNING: ("runs", self._running_kind(tid)),
                WAITING: ("waits for a CPU", "waiting"),
                BLOCKED: ("is blocked", "blocked"),
            }
            for row in own[self._chosen[own]].tolist():
                words, kind = kinds[int(self._kind[row])]
                begin, end = int(segments.begin[row]), int(segments.end[row])
                self._drawing.add_bar(Bar(row_of[tid], begin, end, kind, self._title(tid, words, begin, end)))
            self._drawing.add_text(row_of[tid], first, f"{self._comm_of(tid)}:{tid} {time_text(self._totals.get(tid, 0))}")
        wakeups = self._times.wakeups
        known = np.array(self._parts.tids, np.int64)
        both = np.flatnonzero(np.isin(wakeups.woken, known) & np.isin(wakeups.waker, known) & (wakeups.waker != wakeups.woken))[:_MOST_BARS]
        for row in both.tolist():
            self._drawing.add_line((row_of[int(wakeups.waker[row])], row_of[int(wakeups.woken[row])]), int(wakeups.time[row]))

    def _columns(self, rows: NDArray[np.intp]) -> zip[tuple[int, int, int, int]]:
        segments = self._times.segments
        return zip(*(column[rows].tolist() for column in (segments.tid, segments.begin, segments.end, segments.cpu)), strict=True)

    def _running_kind(self, tid: int) -> str:
        return "highlighted" if self._parts.is_highlighted(self._comm_of(tid), self._totals.get(tid, 0)) else "running"

    def _title(self, tid: int, words: str, begin: int, end: int) -> str:
        return f"{tid} {self._comm_of(tid)} {words} {time_text(end - begin)}"


def _longest(is_drawn: NDArray[np.bool_], length: NDArray[np.int64]) -> tuple[NDArray[np.bool_], int]:
    """Return a mask of the longest segments that are drawn, as many as fit, and the number of the others."""
    rows = np.flatnonzero(is_drawn)
    if len(rows) <= _MOST_BARS:
        return is_drawn, 0
    kept = rows[np.argsort(-length[rows], kind="stable")[:_MOST_BARS]]
    chosen = np.zeros(len(is_drawn), bool)
    chosen[kept] = True
    return chosen, len(rows) - len(kept)


def _run_times(times: TaskTimes) -> dict[int, int]:
    """Return the run time of each thread."""
    segments = times.segments
    rows = segments.kind == RUNNING
    tids, which = np.unique(segments.tid[rows], return_inverse=True)
    totals = np.zeros(len(tids), np.int64)
    np.add.at(totals, which.ravel(), (segments.end - segments.begin)[rows])
    return dict(zip(tids.tolist(), totals.tolist(), strict=True))


def busiest(times: TaskTimes, count: int) -> list[int]:
    """Return the threads with the longest run times, in order of their first segment."""
    totals = _run_times(times)
    chosen = sorted(totals, key=lambda tid: -totals[tid])[:count]
    tids, first = np.unique(times.segments.tid, return_index=True)
    begin_of = dict(zip(tids.tolist(), times.segments.begin[first].tolist(), strict=True))
    return sorted(chosen, key=lambda tid: begin_of[tid])
