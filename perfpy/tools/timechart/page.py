"""The page of a timechart: a lane for each CPU and each task, and a table of what the tasks did.

The intervals are not those of perf's chart. A task that left its CPU without an event ends where the next one came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.errors import plural
from perfpy.perfdata.tracepoint_rows import read_tracepoints
from perfpy.scheduling.segments import BLOCKED, READY, SwitchColumns, WakeupColumns, make_segments
from perfpy.tools.timechart.task_history import SWITCH, UNINTERRUPTIBLE, WAKEUP
from perfpy.untrusted.text import visible
from perfpy.views.page.lanes import LaneCalls, Lanes, LaneStory, LaneTable, page_of_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.views.page.lanes import MergedCalls

    Int64 = NDArray[np.int64]

_NEW: Final = "sched:sched_wakeup_new"
_NUMBERS: Final = {SWITCH: ("prev_pid", "next_pid", "prev_state"), WAKEUP: ("pid",), _NEW: ("pid",)}
_GROUPS: Final = (("runs", "runs"), ("waits for a CPU", "ready"), ("waits (disk sleep)", "waits"))
_RUNS, _WAITS, _BLOCKS = range(3)
_STATES: Final = ("waits for a CPU", "waits (disk sleep)")
_COLUMNS: Final = (
    *(("Ran", "duration"), ("Of the CPUs' time", "percent"), ("Runs", "whole"), ("Longest run", "duration")),
    *(("Waited for a CPU", "duration"), ("Longest wait for a CPU", "duration"), ("Waited (disk sleep)", "duration")),
)
_NO_THREAD: Final = -2  # the numbers of CPUs' lanes begin here and decrease
_MOST_CPUS: Final = 1024  # lanes of CPUs that ran nothing


class _Intervals(NamedTuple):
    """What tasks did: int64[n] each.

    Attributes:
        tid: the task.
        name: the index of its name.
        kind: _RUNS, _WAITS or _BLOCKS.
        begin, end: nanoseconds.
        cpu: where it ran, or came to after it waited; -1: unknown.
    """

    tid: Int64
    name: Int64
    kind: Int64
    begin: Int64
    end: Int64
    cpu: Int64

    def take(self, rows: Int64) -> _Intervals:
        """Select rows by index."""
        return _Intervals._make(column[rows] for column in self)

    def lane_calls(self, lane: Int64, bar: Int64, text: Int64) -> LaneCalls:
        """Return the intervals as bars in lanes, in order of time."""
        order = np.argsort(self.begin, kind="stable")
        begin, length = self.begin[order], (self.end - self.begin)[order]
        return LaneCalls(begin, length, lane[order], bar[order], np.zeros(len(order), np.bool_), text[order])


def task_page(source: SampleSource, cpus: int, title: str, is_chosen: Callable[[str, int], bool] | None = None) -> str:
    """Return the page; "" if the recording has no switches.

    Args:
        source: the samples.
        cpus: of the machine.
        title: the recording.
        is_chosen: whether a task, by name and number, has a lane; None for all, the busiest first.
    """
    rows = {name: table.with_numbers(_NUMBERS[name]) for name, table in read_tracepoints(source, _FIELDS).items()}
    if SWITCH not in rows or not len(rows[SWITCH].time):
        return ""
    names, name_of_run = _names(rows[SWITCH])
    first, last = (int(one) for one in (min(table.time[0] for table in rows.values()), max(table.time[-1] for table in rows.values())))
    intervals = _intervals(rows, name_of_run, first, last)
    lanes = Lanes()
    texts = _texts(lanes, intervals, names)
    present = sorted({*range(min(cpus, _MOST_CPUS)), *np.unique(rows[SWITCH].cpu).tolist()})
    lane_of_cpu = np.array([lanes.lane(_NO_THREAD, _NO_THREAD - cpu, f"CPU {cpu}") for cpu in present], np.int64)
    runs = rows_where(intervals.kind == _RUNS)
    of_cpus = intervals.take(runs)
    calls = [of_cpus.lane_calls(lane_of_cpu[np.searchsorted(present, of_cpus.cpu)], of_cpus.name, texts[runs])]
    tids, lane_of_tid = _task_lanes(lanes, intervals, names, is_chosen)
    shown = rows_where(np.isin(intervals.tid, tids[lane_of_tid >= 0]))
    of_tasks = intervals.take(shown)
    bar = np.where(of_tasks.kind == _RUNS, of_tasks.name, len(names) + of_tasks.kind - _WAITS)
    calls.append(of_tasks.lane_calls(lane_of_tid[np.searchsorted(tids, of_tasks.tid)], bar, texts[shown]))
    lanes.add(LaneCalls.concat(calls))  # at once: texts get other numbers when calls are merged
    cpu_time = max((last - first) * len(present), 1)
    table, order = _table(intervals, len(names), cpu_time)
    position = {one: index for index, one in enumerate([*order, len(names), len(names) + 1])}

    def tell(_calls: LaneCalls, _merged: MergedCalls) -> LaneStory:
        busy = int((of_cpus.end - of_cpus.begin).sum()) / cpu_time
        headline: list[str | int] = [f"{len(present):,} {plural(len(present), 'CPU')}, {100 * busy:.0f} % busy for ", last - first]
        if order:
            together = f", the sum over {len(present):,} CPUs" if len(present) > 1 else ""
            headline += [f"; most time in {names[order[0]]}, ", int(table.rows[0][0]), together]
        bars = [*((names[one], _RUNS) for one in order), *zip(_STATES, (_WAITS, _BLOCKS), strict=True)]
        return LaneStory(title, headline, "interval", _GROUPS, bars, table, [])

    return page_of_lanes(lanes, position.__getitem__, tell)


_FIELDS: Final = {**_NUMBERS, SWITCH: (*_NUMBERS[SWITCH], "next_comm")}


def _names(switches: TracepointRows) -> tuple[list[str], Int64]:
    """Return the names of tasks, and the index of the name of the task that comes with each switch."""
    comms = switches.fields.get("next_comm")
    texts = np.char.add(b":", switches.fields["next_pid"].astype("S20"))
    if isinstance(comms, np.ndarray) and comms.ndim == 1 and comms.dtype.kind == "S":
        texts = np.where(comms == b"", texts, comms)
    different, which = np.unique(texts, return_inverse=True)
    names = [visible(comm.decode("utf-8", "surrogateescape")) for comm in different.tolist()]
    return names, which.ravel().astype(np.int64)


def _intervals(rows: dict[str, TracepointRows], name_of_run: Int64, first: int, last: int) -> _Intervals:
    """Return the intervals of all tasks but the idle ones."""
    switches = rows[SWITCH]
    prev, following, state = (switches.fields[name].astype(np.int64) for name in _NUMBERS[SWITCH])
    cpu = switches.cpu.astype(np.int64)
    order = np.lexsort((switches.order, cpu))
    end = np.append(switches.time[order][1:], last)
    is_last = np.append(np.diff(cpu[order]) != 0, True)
    end[is_last] = last
    runs = _Intervals(following[order], name_of_run[order], np.full(len(order), _RUNS), switches.time[order], end, cpu[order])
    runs = runs.take(rows_where(runs.tid > 0))
    wakeups = [rows[name] for name in (WAKEUP, _NEW) if name in rows]
    time, position, woken = (
        np.concatenate([np.zeros(0, np.int64), *parts])
        for parts in ([one.time for one in wakeups], [one.order for one in wakeups], [one.fields["pid"] for one in wakeups])
    )
    is_new = np.repeat([name == _NEW for name in (WAKEUP, _NEW) if name in rows], [len(one.time) for one in wakeups])
    by_order = np.argsort(position, kind="stable")
    segments = make_segments(
        SwitchColumns(switches.time, switches.order, cpu, prev, following, state),
        WakeupColumns(time[by_order], position[by_order], woken[by_order], is_new.astype(np.bool_)[by_order]),
        first,
        last,
    )
    left = np.where(segments.departure >= 0, state[segments.departure], 0)
    is_wait = (segments.kind == READY) & ((segments.departure >= 0) | (segments.wakeup >= 0))  # not before a task's first event
    waits = segments.take(rows_where(is_wait | ((segments.kind == BLOCKED) & (left & UNINTERRUPTIBLE != 0))))
    kind = np.where(waits.kind == READY, _WAITS, _BLOCKS)
    names = _last_names(runs, waits.tid)
    others = _Intervals(waits.tid, names, kind, waits.begin, waits.end, waits.cpu)
    return _Intervals(*map(np.concatenate, zip(runs, others, strict=True))).take(rows_where(np.append(runs.tid > 0, names >= 0)))


def _last_names(runs: _Intervals, tids: Int64) -> Int64:
    """Return the index of the last name of each task; -1 for tasks that did not run."""
    order = np.lexsort((runs.begin, runs.tid))
    found = np.searchsorted(runs.tid[order], tids, side="right") - 1
    inside = np.maximum(found, 0)
    known = (found >= 0) & (runs.tid[order][inside] == tids) if len(order) else np.zeros(len(tids), np.bool_)
    return np.where(known, runs.name[order][inside], -1) if len(order) else np.full(len(tids), -1)


def _task_lanes(lanes: Lanes, intervals: _Intervals, names: list[str], is_chosen: Callable[[str, int], bool] | None) -> tuple[Int64, Int64]:
    """Make the lanes of tasks, the busiest first. Return the tasks in order of their numbers, and the lane of each one; -1: none."""
    tids, which = np.unique(intervals.tid, return_inverse=True)
    which = which.ravel()
    length = np.where(intervals.kind == _RUNS, intervals.end - intervals.begin, 0)
    ran = np.zeros(len(tids), np.int64)
    np.add.at(ran, which, length)
    comms = [names[name] for name in _last_names(intervals.take(rows_where(intervals.kind == _RUNS)), tids).tolist()]
    lane = np.full(len(tids), -1, np.int64)
    for index in np.argsort(-ran, kind="stable").tolist():
        tid = int(tids[index])
        if is_chosen is None or is_chosen(comms[index], tid):
            lane[index] = lanes.lane(tid, tid, comms[index])
    return tids, lane


def _texts(lanes: Lanes, intervals: _Intervals, names: list[str]) -> Int64:
    """Return the index of the details of each interval."""
    verbs = {_RUNS: "runs on", _WAITS: "waits for a CPU, then runs on", _BLOCKS: "waits (disk sleep), then woken on"}
    keys = np.stack([intervals.tid, intervals.name, intervals.kind, intervals.cpu], axis=1)
    different, which = np.unique(keys, axis=0, return_inverse=True)
    texts = []
    for tid, name, kind, cpu in different.tolist():
        text = f"{names[name]} ({tid}) {verbs[kind]} {f'CPU {cpu}' if cpu >= 0 else 'an unknown CPU'}"
        texts.append(lanes.text(text.encode("utf-8", "surrogateescape")))
    return np.array(texts, np.int64)[which.ravel()] if texts else np.zeros(0, np.int64)


def _table(intervals: _Intervals, count: int, cpu_time: int) -> tuple[LaneTable, list[int]]:
    """Return the totals of the tasks of each name, the busiest first, and the names in this order."""
    length = intervals.end - intervals.begin
    totals, longest = np.zeros((3, count), np.int64), np.zeros((3, count), np.int64)
    for kind in range(len(totals)):
        chosen = intervals.kind == kind
        np.add.at(totals[kind], intervals.name[chosen], length[chosen])
        np.maximum.at(longest[kind], intervals.name[chosen], length[chosen])
    runs = np.bincount(intervals.name[intervals.kind == _RUNS], minlength=count)
    order = np.argsort(-totals[_RUNS], kind="stable")
    order = order[runs[order] > 0]
    columns = (totals[_RUNS], totals[_RUNS] / cpu_time, runs, longest[_RUNS], totals[_WAITS], longest[_WAITS], totals[_BLOCKS])
    return LaneTable("Task", _COLUMNS, [[column[one].item() for column in columns] for one in order.tolist()]), order.tolist()
