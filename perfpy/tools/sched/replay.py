"""`perfpy sched replay`: repeat the recorded load with threads."""

from __future__ import annotations

import hashlib
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.framing import text
from perfpy.abi.task_columns import task_numbers
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import PerfError
from perfpy.scheduling.switch_times import previous_of, thread_order
from perfpy.symbols.interning import first_rows, number_values
from perfpy.tools.sched.options import open_sched
from perfpy.untrusted.text import indented, one_line_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.scheduler import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.tools.sched.options import ReplayOptions


def run(options: ReplayOptions) -> int:
    """Repeat the recorded load: runs, sleeps and wakeups of each task."""
    from perfpy.analysis.scheduler import read_events

    with open_sched(options) as recording:
        options.dump(recording)
        events = read_events(recording.data, runtimes=False, comms=True)
        plan = make_replay_plan(events, recording.data)
        del events
        print_lines(calibration_lines(calibrate()))
        print_lines(plan_lines(plan))
        _repeat(plan, options.repeat)
    return 0


def _repeat(plan: ReplayPlan, repeat: int) -> None:
    """Repeat the load, and print a line each time. repeat: 0 for no end."""
    loads = [TaskLoad(task.kinds.tolist(), task.values.tolist()) for task in plan.tasks]
    average: Repetition | None = None
    for number in range(1, repeat + 1) if repeat else count(1):
        repetition = replay_once(loads, plan.wakeup_count)
        weight = max(repeat, 1)  # perf weights the average by the number of repetitions
        if average is None:
            average = repetition
        else:
            wall, cpu = (((weight - 1) * old + new) / weight for old, new in zip(average, repetition, strict=True))
            average = Repetition(wall, cpu)
        print_lines([repetition_line(number, repetition, average)])


_IDLE_COMM: Final = b"swapper"
_UNKNOWN: Final = b"<unknown>"  # of a task that first appears as a waker
_COMM_OFFSET: Final = 8  # of the name in a COMM record
_MOST_RECORDS: Final = 1 << 40  # makes their numbers negative: lower than those of samples
# kinds of events
RUN: Final = 0  #: the task runs for `value` nanoseconds
SLEEP: Final = 1  #: the task waits for the wakeup number `value`; -1: it does not wait
WAKE: Final = 2  #: the task ends the sleep that waits for the wakeup number `value`; -1: it ends none


class ReplayTask(NamedTuple):
    """A task of the recording.

    Attributes:
        tid: its number.
        comm: the name at its first mention.
        kinds: uint8[n], of its events.
        values: int64[n], see the kinds.
    """

    tid: int
    comm: bytes
    kinds: NDArray[np.uint8]
    values: NDArray[np.int64]


class ReplayPlan(NamedTuple):
    """The tasks by first mention, and the numbers of their events.

    Attributes:
        tasks: all tasks of the recording.
        runs, sleeps: the numbers of events.
        wakeups: of sleeping tasks.
        targetless: wakeups of tasks that did not sleep.
        repeated: wakeups of tasks that were woken before.
        wakeup_count: the number of sleeps that wait.
    """

    tasks: list[ReplayTask]
    runs: int
    sleeps: int
    wakeups: int
    targetless: int
    repeated: int
    wakeup_count: int


class _Mention(NamedTuple):
    """The first mention of a task: by a sample, or by a fork."""

    key: int
    order: int
    tid: int
    comm: bytes


def make_replay_plan(events: SchedEvents, source: SampleSource) -> ReplayPlan:
    """Return the load of a recording. events: with the names in switches and wakeups.

    A task runs, sleeps and wakes other tasks. Each switch ends a run of the thread that leaves and begins a sleep; a sleep lasts until the
    first wakeup of the task, or not at all if nothing woke the task. Every task begins asleep. The rules and counts are perf 6.12's,
    learnt from its output.
    """
    switches, wakeups = events.switches, events.wakeups
    mentions = _mentions(events, source)
    rank = {mention.tid: number for number, mention in enumerate(mentions)}
    prev, waker = (_ranks(tid, rank) for tid in (switches.fields["prev_pid"], wakeups.tid))
    wakee = _ranks(wakeups.fields["pid"], rank)
    before = previous_of(switches.cpu)
    ran = np.where(before >= 0, np.maximum(switches.time - switches.time[before], 0), 0)
    count, woken = len(prev), len(waker)
    task = np.concatenate([np.arange(len(mentions)), prev, prev, waker])
    kind = np.repeat(np.array([SLEEP, RUN, SLEEP, WAKE], np.uint8), [len(mentions), count, count, woken])
    value = np.full(len(task), -1, np.int64)
    value[len(mentions) : len(mentions) + count] = ran
    order = np.concatenate([np.arange(-len(mentions), 0), 2 * switches.order, 2 * switches.order + 1, 2 * wakeups.order])
    rows = thread_order(task, order + len(mentions))
    links = _link(task[rows], kind[rows], order[rows], wakee, 2 * wakeups.order)
    linked = value[rows]
    linked[links.sleep] = np.arange(len(links.sleep))
    value[rows] = linked
    value[len(task) - woken :][links.wakeup] = np.arange(len(links.wakeup))
    return ReplayPlan(
        tasks=_tasks(mentions, task[rows], kind[rows], value[rows]),
        runs=count,
        sleeps=count + len(mentions),
        wakeups=woken - links.targetless - links.repeated,
        targetless=links.targetless,
        repeated=links.repeated,
        wakeup_count=len(links.sleep),
    )


class _Links(NamedTuple):
    """Sleeps, as rows of the sorted events, and the wakeups that end them, as rows of the wakeups."""

    sleep: NDArray[np.int64]
    wakeup: NDArray[np.int64]
    targetless: int
    repeated: int


def _link(
    task: NDArray[np.int64], kind: NDArray[np.uint8], order: NDArray[np.int64], wakee: NDArray[np.int64], woken_at: NDArray[np.int64]
) -> _Links:
    """Return which sleep each wakeup ends: the last event of its target, if that is a sleep that nothing ended yet.

    Args:
        task, kind, order: of the sorted events.
        wakee, woken_at: the targets and the order of the wakeups.
    """
    lowest = int(order.min(initial=0))
    top = max(int(order.max(initial=0)), int(woken_at.max(initial=0))) - lowest + 2
    last = np.searchsorted(task * top + order - lowest, wakee * top + woken_at - lowest) - 1
    has_target = kind[last] == SLEEP if len(last) else np.zeros(0, bool)
    wakeups = np.flatnonzero(has_target)
    first = wakeups[first_rows(last[wakeups])]
    return _Links(last[first], first, len(last) - len(wakeups), len(wakeups) - len(first))


def _tasks(mentions: list[_Mention], task: NDArray[np.int64], kind: NDArray[np.uint8], value: NDArray[np.int64]) -> list[ReplayTask]:
    borders = np.searchsorted(task, np.arange(len(mentions) + 1)).tolist()
    slices = zip(mentions, borders[:-1], borders[1:], strict=True)
    return [ReplayTask(one.tid, one.comm, kind[begin:end], value[begin:end]) for one, begin, end in slices]


def _ranks(tid: NDArray[Any], rank: dict[int, int]) -> NDArray[np.int64]:
    """Return the numbers of tasks by tid."""
    tids, numbers = number_values(tid)
    return np.array([rank[one] for one in tids.tolist()], np.int64)[numbers]


def _mentions(events: SchedEvents, source: SampleSource) -> list[_Mention]:
    """Return the first mention of each task, in order."""
    first: dict[int, _Mention] = {}
    for mention in sorted([*_sample_mentions(events), *_forks(source)]):
        first.setdefault(mention.tid, mention)
    return list(first.values())


def _sample_mentions(events: SchedEvents) -> Iterator[_Mention]:
    """Yield the first mention of each task in each role: it leaves, comes, wakes, is woken."""
    switches, wakeups = events.switches, events.wakeups
    for rows, tid, comm, later in (
        (switches, switches.fields["prev_pid"], switches.fields.get("prev_comm"), 0),
        (switches, switches.fields["next_pid"], switches.fields.get("next_comm"), 1),
        (wakeups, wakeups.tid, None, 0),
        (wakeups, wakeups.fields["pid"], wakeups.fields.get("comm"), 1),
    ):
        for row in first_rows(tid).tolist():
            name = _UNKNOWN if comm is None else bytes(comm[row])
            yield _Mention(int(rows.key[row]), 2 * int(rows.order[row]) + later, int(tid[row]), name)


def _forks(source: SampleSource) -> Iterator[_Mention]:
    """Yield the parent and the child of each fork; the child has the parent's name at that moment."""
    comms: dict[int, bytes] = {0: _IDLE_COMM}
    for number, raw in enumerate(source.side_band({RecordType.FORK, RecordType.COMM}).raw(), -_MOST_RECORDS):
        numbers = task_numbers(raw.type, raw.body, source.endian)
        if numbers is None:
            continue
        if raw.type == RecordType.COMM:
            comms[numbers.tid] = text(raw.body[_COMM_OFFSET:]).encode("utf-8", "surrogateescape")
            continue
        comms.pop(numbers.tid, None)  # the number of an earlier thread
        if numbers.ptid in comms:
            comms[numbers.tid] = comms[numbers.ptid]
        for later, tid in enumerate((numbers.ptid, numbers.tid)):
            yield _Mention(raw.key, 2 * number + later, tid, comms.get(tid, b":%d" % tid))  # records precede samples of the same key


MOST_THREADS: Final = 4096
LONGEST: Final = 3600  #: seconds of CPU time of all tasks; more are the result of a clock that jumped
_TRIALS: Final = 10
_TEST: Final = 1_000_000  # nanoseconds
_SHORT_SLEEP: Final = 10_000  # nanoseconds
_STACK: Final = 256 << 10  # bytes of a thread
_LARGE, _SMALL = bytes(1 << 16), bytes(1 << 12)  # some 100 and 10 microseconds of hashing
_LONG: Final = 500_000  # nanoseconds


class TaskLoad(NamedTuple):
    """The events of one task: its kinds and values (perfpy.tools.sched.replay)."""

    kinds: Sequence[int]
    values: Sequence[int]


def calibrate() -> Calibration:
    """Measure the precision of runs and sleeps."""
    run = min(_elapsed(lambda: None) for _ in range(_TRIALS))
    sleep = min(_elapsed(lambda: time.sleep(_SHORT_SLEEP / 1e9)) for _ in range(_TRIALS)) - _SHORT_SLEEP
    return Calibration(run, max(sleep, 0), _elapsed(lambda: _run(_TEST)), _elapsed(lambda: time.sleep(_TEST / 1e9)))


def _elapsed(function: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - begin


def replay_once(loads: Sequence[TaskLoad], wakeup_count: int) -> Repetition:
    """Repeat the load once. Raises PerfError if there are too many tasks for threads, or too much CPU time.

    A run takes as much CPU time as the recorded one. It computes hashes, for which Python releases its lock, so that threads run on all
    CPUs.

    Args:
        loads: the tasks. Those without runs and wakeups get no thread.
        wakeup_count: the number of sleeps that wait.
    """
    total = sum(value for load in loads for kind, value in zip(load.kinds, load.values, strict=True) if kind == RUN)
    if total > LONGEST * 10**9:
        hours = total / 3.6e12
        raise PerfError(f"sched replay: the load has {hours:.3g} hours of CPU time; at most {LONGEST // 3600} are replayed; record less")
    active = [load for load in loads if any(kind != SLEEP for kind in load.kinds)]
    if len(active) > MOST_THREADS:
        raise PerfError(f"sched replay: the recording has {len(active)} active tasks; at most {MOST_THREADS} are replayed; record less")
    wakeups = [threading.Lock() for _ in range(wakeup_count)]
    for lock in wakeups:
        lock.acquire()
    gate = threading.Lock()
    gate.acquire()
    size = threading.stack_size(_STACK)
    try:
        threads = [threading.Thread(target=_replay_task, args=(load, wakeups, gate), daemon=True) for load in active]
        for thread in threads:
            thread.start()
    except RuntimeError:
        raise PerfError("sched replay: the system refuses more threads; raise the limit (ulimit -u), or record less") from None
    finally:
        threading.stack_size(size)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    gate.release()
    for thread in threads:
        thread.join()
    return Repetition(time.perf_counter_ns() - begin, time.process_time_ns() - cpu)


def _replay_task(load: TaskLoad, wakeups: Sequence[threading.Lock], gate: threading.Lock) -> None:
    with gate:  # the threads start one after the other as soon as all exist
        pass
    for kind, value in zip(load.kinds, load.values, strict=True):
        if kind == RUN:
            _run(value)
        elif value >= 0:
            lock = wakeups[value]
            if kind == SLEEP:
                lock.acquire()
            else:
                lock.release()


def _run(nanoseconds: int) -> None:
    """Use CPU time."""
    clock = time.thread_time_ns
    end = clock() + nanoseconds
    while (remaining := end - clock()) > 0:
        hashlib.sha256(_LARGE if remaining > _LONG else _SMALL)


_RULE: Final = "-" * 60


class Calibration(NamedTuple):
    """The precision of runs and sleeps, in nanoseconds.

    Attributes:
        run_overhead: of reading the clock.
        sleep_overhead: of the shortest sleep.
        run_test, sleep_test: the time that a run and a sleep of one millisecond took.
    """

    run_overhead: int
    sleep_overhead: int
    run_test: int
    sleep_test: int


class Repetition(NamedTuple):
    """The time and CPU time of one repetition, in nanoseconds."""

    wall: float
    cpu: float


def calibration_lines(calibration: Calibration) -> Iterator[str]:
    """Yield the lines about the precision of runs and sleeps."""
    yield f"run measurement overhead: {calibration.run_overhead} nsecs"
    yield f"sleep measurement overhead: {calibration.sleep_overhead} nsecs"
    yield f"the run test took {calibration.run_test} nsecs"
    yield f"the sleep test took {calibration.sleep_test} nsecs"


def plan_lines(plan: ReplayPlan) -> Iterator[str]:
    """Yield the numbers of events, and a line for each task. The text is perf 6.12's, byte for byte."""
    yield f"nr_run_events:        {plan.runs}"
    yield f"nr_sleep_events:      {plan.sleeps}"
    yield f"nr_wakeup_events:     {plan.wakeups}"
    if plan.targetless:
        yield f"target-less wakeups:  {plan.targetless}"
    if plan.repeated:
        yield f"multi-target wakeups: {plan.repeated}"
    for number, task in enumerate(plan.tasks):
        comm = one_line_bytes(task.comm).decode("utf-8", "surrogateescape")
        yield f"task {number:6d} ({indented(comm, 20)}:{task.tid:10d}), nr_events: {len(task.kinds)}"
    yield _RULE


def repetition_line(number: int, repetition: Repetition, average: Repetition) -> str:
    """Return the line of one repetition. average: the running average."""
    cpu = f"{repetition.cpu / 1e6:.2f} / {average.cpu / 1e6:.2f}"
    return f"#{number:<3d}: {repetition.wall / 1e6:.3f}, ravg: {average.wall / 1e6:.2f}, cpu: {cpu}"
