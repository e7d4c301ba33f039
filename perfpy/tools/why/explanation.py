"""The explanation of where the time of processes went: the target's processes, the times of each thread, the critical path as a tree,
and the causes in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import pieces
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.system_calls import has_table, numbers_by_name
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.processes import texts_of_names
from perfpy.analysis.verdict.waits import waiting_goroutines
from perfpy.debuginfo.inlined_frames import give_inlined
from perfpy.errors import UsageError
from perfpy.perfdata.kept_files import PROCESSES, STATES, decode_commands, decode_states
from perfpy.scheduling.segments import BLOCKED, SegmentIndex
from perfpy.symbols.variables import name_locks
from perfpy.tools.why.activities import Activities, chains_of_locks, follows_waker, make_activities
from perfpy.tools.why.causes import CauseGroups, CauseTree
from perfpy.tools.why.tasks import (
    COLUMNS,
    KINDS,
    RecordedTasks,
    StartedCommand,
    commands_of,
    family_of,
    named_threads,
    numbers_of,
    read_names,
    read_tasks,
    read_why_events,
    recorders_of,
    with_exec,
    workload_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.verdict.waits import WaitingGoroutines
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.scheduling.segments import Segments
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.why.causes import Cause
    from perfpy.tools.why.tasks import WhyEvents

    Int64 = NDArray[np.int64]


_NO_PROCESS: Final = "{path}: no process {wanted} in this recording; its processes: {names}"
_NOT_RUN: Final = (
    "{path}: {comm} ({pid}) has no context switch in this recording: it ran, waited or was stopped all the time; record longer,"
    " or see where it is with perfpy stacks {pid}"
)
_NO_COMMAND: Final = "{path}: the recording has no switch of {name} ({pid}), {lost:,} events lost; record again on a less busy machine"
#: what idle threads wait for; the first ones tell most about a program
_IDLE: Final = (
    *(reasons.CLIENT, reasons.NETWORK, reasons.EVENTS, reasons.PIPE, reasons.TERMINAL, reasons.MESSAGE, reasons.INPUT, reasons.SIGNAL),
    *(reasons.SLEEP, reasons.BARRIER, reasons.CONDITION, reasons.SEMAPHORE, reasons.QUEUE, reasons.JOIN, reasons.NOTIFICATION),
    reasons.OTHER,
)
_RAN: Final = 0.5  # of a wait for a CPU: a thread that used it for so long is named
_MATTERS: Final = 0.2  # of the time: threads of runtimes that tick wait for a CPU now and then
_TELLS_LITTLE: Final = (reasons.QUEUE, reasons.JOIN)


class ThreadTimes(NamedTuple):
    """The times of one thread.

    Attributes:
        tid, pid, comm: of the thread.
        wall: nanoseconds from its begin to its end.
        columns: nanoseconds in each column of perfpy.tools.why.tasks.COLUMNS.
        name: of the process by its command line, if this is its first thread; "" if that is not recorded.
    """

    tid: int
    pid: int
    comm: str
    wall: int
    columns: dict[str, int]
    name: str = ""

    @property
    def title(self) -> str:
        """Its name and number."""
        return f"{self.name or self.comm} ({self.tid})"


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
        lost_share: their share of all events.
        recorders: the threads of the program that recorded.
        goroutines: of the main thread's process, if that is a Go program: its threads only run them.
    """

    recorders: frozenset[int] = frozenset()
    goroutines: Sequence[WaitingGoroutines] = ()
    lost_share: float = 0.0

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

    def runner(self, groups: CauseGroups, cause: Cause) -> tuple[int, int]:
        """Return the thread that ran for most of the time while others waited for its CPU, and that time; (-1, 0) for none.

        The program that recorded counts only if it ran for most of the time: it is not there without the measurement.
        """
        totals = groups.all_of("runners", cause.nodes)
        others = {tid: time for tid, time in totals.items() if tid not in self.recorders}
        if others and 2 * sum(others.values()) >= sum(totals.values()):
            totals = others
        longest = max(totals.items(), key=lambda item: (item[1], -item[0])) if totals else (-1, 0)
        return longest if longest[1] >= _RAN * cause.time else (-1, 0)

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
        threads = []
        for tid, times in zip(tids.tolist(), totals.tolist(), strict=True):
            columns = {name: sum(times[kind] for kind in kinds) for name, kinds in COLUMNS.items()}
            threads.append(ThreadTimes(tid, self.tasks.pid_of.get(tid, tid), self.comm(tid), sum(times), columns))
        return sorted(threads, key=lambda thread: (-thread.wall, thread.tid))


def _lost_events(source: SampleSource) -> int:
    """Return the number of lost events: since Linux 6.1 lost records (of any kind) and lost samples are counted, mostly the same."""
    return max(sum(int(side.record.lost) for side in source.side_band({kind})) for kind in (RecordType.LOST, RecordType.LOST_SAMPLES))


def explain(source: SampleSource, symbolizer: Symbolizer, pids: Sequence[int] = (), started: StartedCommand | None = None) -> Explanation:
    """Return the explanation of a recording. Raises UsageError if it lacks the events, or the process.

    Args:
        source: the samples.
        symbolizer: of the recording.
        pids: the processes; without any, those of the recorded command, or else of the busiest process.
        started: the command, if the recorder is this process.
    """
    if symbolizer.inliner is None:
        give_inlined(symbolizer, unwound=source.has(SampleType.STACK_USER))
    events = read_why_events(source)
    switches = events.switches
    pairs = np.unique(switches.tid.astype(np.int64) << 32 | switches.pid.astype(np.int64))
    tasks = read_tasks(source, {pair >> 32: pair & 0xFFFFFFFF for pair in pairs.tolist()})
    lost = _lost_events(source)
    machine = str(source.features.get("arch") or "x86_64")
    present = set(np.unique(np.concatenate([numbers_of(switches, "prev_pid"), numbers_of(switches, "next_pid")])).tolist()) - {0}
    started = started or (None if pids else _recorded_command(source, tasks, switches))
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
    files, process = getattr(source, "kept_files", None), tasks.pid_of.get(explanation.main, explanation.main)  # of a file only
    states = decode_states(files.get(STATES)) if files is not None and STATES in files else []
    commands = decode_commands(files.get(PROCESSES)) if files is not None and PROCESSES in files else []
    names = texts_of_names(commands, of_services=True)
    explanation.threads = [one._replace(name=names.get(one.tid, "")) for one in explanation.threads]
    explanation.goroutines = waiting_goroutines(state for state in states if state.kind == "go" and state.pid == process)
    explanation.lost_share = lost / (lost + source.sample_counts.total()) if lost else 0.0
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


def _recorded_command(source: SampleSource, tasks: RecordedTasks, switches: TracepointRows) -> StartedCommand | None:
    """Return the command of a recording: the process of its name that executed a program, or else ran; None without a command."""
    names = commands_of([str(word) for word in source.features.get("cmdline") or ()])
    backwards = np.concatenate([numbers_of(switches, "next_pid"), numbers_of(switches, "prev_pid")])[::-1]
    seen, rows = np.unique(backwards, return_index=True)
    pid = workload_of(names, tasks, dict(zip(seen.tolist(), np.tile(switches.time, 2)[::-1][rows].tolist(), strict=True)))
    if pid is not None:
        return StartedCommand(tasks.parent_of.get(pid, 0), pid, tasks.comm_of.get(pid, ""))
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
    """Return the thread that is explained: the first one of the process, or the busiest if that one only waits for work.

    If all are idle, it is the first one, or that with the most telling wait if the first one waits for others' work or end.
    """
    segments = activities.segments
    length = segments.end - segments.begin
    own = segments.tid == pid
    whole = int(length[own].sum())
    idle = int(length[own & np.isin(activities.kind, _IDLE) & (activities.waker < 0)].sum())
    if whole and idle < whole * 0.8:
        return pid
    tids = np.array([tid for tid in np.unique(segments.tid).tolist() if tasks.pid_of.get(tid, tid) in family], np.int64)
    busy = [int(length[(segments.tid == tid) & ~np.isin(activities.kind, _IDLE)].sum()) for tid in tids.tolist()[:1000]]
    if busy and max(busy) > max(whole - idle, whole * _MATTERS):
        return int(tids[int(np.argmax(busy))])
    if not np.isin(activities.kind[own], _TELLS_LITTLE).any():
        return pid
    longest = [(activities.kind[segments.tid == tid], length[segments.tid == tid]) for tid in tids.tolist()[:1000]]
    kinds = [int(kind[int(np.argmax(times))]) for kind, times in longest]
    return int(tids[min(range(len(kinds)), key=lambda number: _IDLE.index(kinds[number]) if kinds[number] in _IDLE else len(_IDLE))])


#: how programs wait for programs that they started: for their end, their output, or a signal of their end
LAUNCH_KINDS: Final = (reasons.CHILD, reasons.PIPE, reasons.NETWORK, reasons.EVENTS, reasons.SIGNAL, reasons.INPUT, reasons.OTHER)
_MOST: Final = 64  # generations of processes


def find_launches(activities: Activities, tasks: RecordedTasks) -> NDArray[np.bool_]:
    """Return which segments are waits that end by a program that the waiting process, or a child of it, started.

    Such a wait, of a shell for make or of make for a compiler, is no cause. What the started program does, or waits for, is.
    """
    segments = activities.segments
    rows = np.flatnonzero(follows_waker(activities.segments, activities.waker) & np.isin(activities.kind, LAUNCH_KINDS))
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


_NONE: Final = -1
_ANY: Final = 0  # any child
_WNOHANG: Final = 1
_P_PID: Final = 1  # waitid(): the second argument is a process
_ARGUMENTS: Final = 4
_YOUNGER: Final = 8  # children that are looked at for one that lived during a sleep
#: kinds of sleeps; those for events count only if one child is polled for: servers look for all children once in a while. Functions that
#: sleep and look, such as Python's Popen.wait(), may be known to wait for a child already.
_KINDS: Final = (reasons.SLEEP, reasons.EVENTS, reasons.CHILD)


def explain_polls(activities: Activities, events: WhyEvents, tasks: RecordedTasks, machine: str) -> Activities:
    """Return the activities with the sleeps of polling parents as waits that the children end.

    A parent polls by wait4(WNOHANG) in a loop, as Python's subprocess.wait(timeout) does. Such a sleep is a wait for the child, which
    explains it. It lies between two system calls that look for ended children.

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
    is_sleep = (activities.kind != reasons.CHILD) | activities.by_interrupt | (activities.waker <= 0)
    sleeps = np.flatnonzero((segments.kind == BLOCKED) & np.isin(activities.kind, _KINDS) & is_sleep)
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
    is_poll = (before >= 0) & (after >= 0) & ((activities.kind[sleeps] != reasons.EVENTS) | (after != _ANY))
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
    for parent, some in zip(distinct.tolist(), pieces(order, starts[1:]), strict=True):
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
