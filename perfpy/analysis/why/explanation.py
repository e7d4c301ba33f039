"""The explanation of where the time of processes went: the target's processes, the times of each thread, the critical path as a tree,
and the causes in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.activities import Activities, make_activities
from perfpy.analysis.why.cause_groups import CauseGroups
from perfpy.analysis.why.causes import CauseTree
from perfpy.analysis.why.events import numbers_of, read_names, read_why_events
from perfpy.analysis.why.kinds import COLUMNS, KINDS
from perfpy.analysis.why.launches import find_launches
from perfpy.analysis.why.lock_names import chains_of_locks, name_locks
from perfpy.analysis.why.polls import explain_polls
from perfpy.analysis.why.tasks import (
    RecordedTasks,
    StartedCommand,
    commands_of,
    family_of,
    named_threads,
    read_tasks,
    recorders_of,
    with_exec,
    workloads_of,
)
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer

    Int64 = NDArray[np.int64]

_NO_PROCESS: Final = "{path}: no process {wanted} in this recording; its processes: {names}"
_NOT_RUN: Final = "{path}: {comm} ({pid}) did not run in this recording: it waited all the time, or was stopped"
_NO_COMMAND: Final = "{path}: the recording has no switch of {name} ({pid}), {lost:,} events lost; record again on a less busy machine"
_IDLE: Final = (
    reasons.EVENTS,
    reasons.NETWORK,
    reasons.SLEEP,
    reasons.JOIN,
    reasons.CONDITION,
    reasons.SIGNAL,
    reasons.OTHER,
    reasons.PIPE,
)


class ThreadTimes(NamedTuple):
    """The times of one thread.

    Attributes:
        tid, pid, comm: of the thread.
        wall: nanoseconds from its begin to its end.
        columns: nanoseconds in each column of perfpy.analysis.why.kinds.COLUMNS.
    """

    tid: int
    pid: int
    comm: str
    wall: int
    columns: dict[str, int]


class Explanation:
    """The explanation of the time of processes.

    Attributes:
        activities: of all threads of the recording.
        tasks: processes and names.
        path: the critical path: the time of `main`, and what happened while it waited.
        waits: the time of all threads of the processes, and what happened while they waited.
        main: the thread whose time is explained.
        elapsed: its time, nanoseconds.
        threads: of the processes, those with the longest times first.
        lost: the number of events that the kernel lost.
        recorders: the threads of the program that recorded.
    """

    recorders: frozenset[int] = frozenset()

    def __init__(self, activities: Activities, tasks: RecordedTasks, family: set[int], main: int, lost: int = 0) -> None:
        self.activities, self.tasks, self.main, self.lost = activities, tasks, main, lost
        self._execs = {pid: time for pid, _, time in reversed(tasks.execs)}
        segments = activities.segments
        self._comms: list[str] = []
        comm_of = self._comm_numbers(segments.tid)
        self._launches = find_launches(activities, tasks)
        self.threads = self._thread_times(family)
        begin, end = self._span(main)
        self.elapsed = end - begin
        self.path = self._explained(comm_of, [(main, begin, end)])
        self.waits = self._explained(comm_of, [(thread.tid, *self._span(thread.tid)) for thread in self.threads])

    def _explained(self, comm_of: Int64, windows: Sequence[tuple[int, int, int]]) -> CauseGroups:
        tree = CauseTree(self.activities, comm_of, self._launches)
        tree.explain(*(np.array(column, np.int64) for column in zip(*windows, strict=True)))
        return CauseGroups(tree, self._comms, self.activities.meanings)

    def runner(self, groups: CauseGroups, nodes: Iterable[int]) -> tuple[int, int]:
        """Return the thread that ran longest while others waited for its CPU, and that time; (-1, 0) for none.

        The program that recorded counts only if it ran for most of the time: it is not there without the measurement.
        """
        totals = groups.all_of("runners", nodes)
        others = {tid: time for tid, time in totals.items() if tid not in self.recorders}
        if others and 2 * sum(others.values()) >= sum(totals.values()):
            totals = others
        return max(totals.items(), key=lambda item: (item[1], -item[0])) if totals else (-1, 0)

    def comm(self, tid: int) -> str:
        """Return the last name of a thread."""
        return self.tasks.comm_of.get(tid, f":{tid}")

    def _comm_numbers(self, tid: Int64) -> Int64:
        numbers: dict[str, int] = {}
        distinct, which = np.unique(tid, return_inverse=True)
        of_tid = [numbers.setdefault(self.comm(one), len(numbers)) for one in distinct.tolist()]
        self._comms = list(numbers)
        return np.array(of_tid, np.int64)[which.ravel()] if len(distinct) else tid

    def _span(self, main: int) -> tuple[int, int]:
        """Return the begin and the end of a thread: from its last exec, or else its first segment, to its last one."""
        segments = self.activities.segments
        first, last = np.searchsorted(segments.tid, [main, main + 1]).tolist()
        if first == last:
            return 0, 0
        executed = self._execs.get(main, 0)
        begin, end = int(segments.begin[first]), int(segments.end[last - 1])
        return (max(executed, begin) if executed < end else begin), end

    def _thread_times(self, family: set[int]) -> list[ThreadTimes]:
        activities, segments = self.activities, self.activities.segments
        tids = np.array([tid for tid in np.unique(segments.tid).tolist() if self.tasks.pid_of.get(tid, tid) in family], np.int64)
        rows = np.flatnonzero(np.isin(segments.tid, tids))
        index = np.searchsorted(tids, segments.tid[rows])
        length = (segments.end - segments.begin)[rows]
        totals = np.zeros((len(tids), KINDS), np.int64)
        np.add.at(totals, (index, activities.kind[rows]), length)
        return self._rows(tids.tolist(), totals)

    def _rows(self, tids: Sequence[int], totals: Int64) -> list[ThreadTimes]:
        rows = []
        for tid, times in zip(tids, totals.tolist(), strict=True):
            columns = {name: sum(times[kind] for kind in kinds) for name, kinds in COLUMNS.items()}
            rows.append(ThreadTimes(tid, self.tasks.pid_of.get(tid, tid), self.comm(tid), sum(times), columns))
        return sorted(rows, key=lambda row: (-row.wall, row.tid))


def explain(source: SampleSource, symbolizer: Symbolizer, pids: Sequence[int] = (), started: StartedCommand | None = None) -> Explanation:
    """Return the explanation of a recording. Raises UsageError if it lacks the events, or the process.

    Args:
        source: the samples.
        symbolizer: of the recording.
        pids: the processes; without any, those of the recorded command, or else of the busiest process.
        started: the command, if the recorder is this process.
    """
    events = read_why_events(source)
    switches = events.switches
    pairs = np.unique(switches.tid.astype(np.int64) << 32 | switches.pid.astype(np.int64))
    tasks = read_tasks(source, {pair >> 32: pair & 0xFFFFFFFF for pair in pairs.tolist()})
    lost = sum(side.record.lost for side in source.side_band({RecordType.LOST, RecordType.LOST_SAMPLES}))
    machine = str(source.features.get("arch") or "x86_64")
    present = set(np.unique(np.concatenate([numbers_of(switches, "prev_pid"), numbers_of(switches, "next_pid")])).tolist()) - {0}
    started = started or (None if pids else _recorded_command(source, tasks, present))
    target_pids = list(pids) or ([started.pid] if started is not None and started.pid else [])
    if target_pids:
        family = family_of(target_pids, tasks)
        tids = [tid for tid in present if tasks.pid_of.get(tid, tid) in family]
        activities = explain_polls(make_activities(events, symbolizer, machine, tids), events, tasks, machine)
    else:
        activities = explain_polls(make_activities(events, symbolizer, machine), events, tasks, machine)
        target_pids = [_busiest(activities, tasks)]
        family = family_of(target_pids, tasks)
    if not any(tasks.pid_of.get(tid, tid) in family for tid in present):
        if started is not None and lost and not pids:
            raise UsageError(_NO_COMMAND.format(path=source.path, name=started.comm, pid=started.pid, lost=lost))
        raise _without_switches(source, target_pids, tasks)
    if started is not None and started.pid:
        tasks = with_exec(tasks, started, _start_of(activities, started))
    recorder = started.recorder if started is not None else 0
    explanation = Explanation(activities, tasks, family, _main_thread(activities, tasks, target_pids[0], family), lost)
    explanation.recorders = recorders_of(tasks, recorder or tasks.parent_of.get(target_pids[0], 0), family)
    chains = chains_of_locks(activities.lock, activities.chain, activities.meanings.chains)
    explanation.path.lock_names = explanation.waits.lock_names = name_locks(chains, symbolizer)
    return explanation


def _without_switches(source: SampleSource, pids: Sequence[int], tasks: RecordedTasks) -> UsageError:
    """Return the error of processes that have no switches."""
    still = [pid for pid in pids if pid in tasks.comm_of]
    if still:
        return UsageError(_NOT_RUN.format(path=source.path, comm=tasks.comm_of[still[0]], pid=still[0]))
    names = ", ".join(sorted({tasks.comm_of.get(pid, "") for pid in tasks.pid_of.values()} - {""})[:10]) or "none"
    return UsageError(_NO_PROCESS.format(path=source.path, wanted=",".join(map(str, pids)), names=names))


def _recorded_command(source: SampleSource, tasks: RecordedTasks, present: Collection[int]) -> StartedCommand | None:
    """Return the command of a recording: the first process of its name that executed a program, or else ran; None without a command."""
    names = commands_of([str(word) for word in source.features.get("cmdline") or ()])
    pids = [pid for pid in workloads_of(names, tasks) if pid in present]
    if pids:
        return StartedCommand(tasks.parent_of.get(pids[0], 0), pids[0], tasks.comm_of.get(pids[0], ""))
    tids, comms = read_names(source) if names else (np.zeros(0, np.int64), np.zeros(0, "S16"))
    return next(iter(named_threads(tids, comms, names, tasks)), None)


def _start_of(activities: Activities, started: StartedCommand) -> int:
    """Return the time at which the recorder let the command begin; 0 if it is unknown."""
    segments = activities.segments
    held = np.flatnonzero((segments.tid == started.pid) & (activities.waker == started.recorder) & (activities.waker > 0))
    return int(segments.end[held[0]]) if len(held) else 0


def _busiest(activities: Activities, tasks: RecordedTasks) -> int:
    """Return the process with the longest times that are no idle waits."""
    segments = activities.segments
    counted = ~np.isin(activities.kind, _IDLE)
    pids = np.array([tasks.pid_of.get(tid, tid) for tid in segments.tid.tolist()], np.int64)
    users = counted & (activities.function >= -1) & (pids > 0)
    distinct, which = np.unique(pids[users], return_inverse=True)
    if not len(distinct):
        return 0
    totals = np.bincount(which.ravel(), (segments.end - segments.begin)[users])
    return int(distinct[int(np.argmax(totals))])


def _main_thread(activities: Activities, tasks: RecordedTasks, pid: int, family: set[int]) -> int:
    """Return the thread that is explained: the first one of the process, or the busiest if that one only waits for work."""
    segments = activities.segments
    length = segments.end - segments.begin
    own = segments.tid == pid
    whole = int(length[own].sum())
    idle = int(length[own & np.isin(activities.kind, _IDLE) & (activities.waker < 0)].sum())
    if whole and idle < whole * 0.8:
        return pid
    tids = np.array([tid for tid in np.unique(segments.tid).tolist() if tasks.pid_of.get(tid, tid) in family], np.int64)
    busy = [int(length[(segments.tid == tid) & ~np.isin(activities.kind, _IDLE)].sum()) for tid in tids.tolist()[:1000]]
    return int(tids[int(np.argmax(busy))]) if busy and max(busy) > whole - idle else pid
