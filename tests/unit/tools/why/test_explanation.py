"""Waits are followed from thread to thread, and their times add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.system_calls import numbers_by_name
from perfpy.analysis.verdict import waits as reasons
from perfpy.perfdata.tracepoint_rows import TracepointRows
from perfpy.tools.why import causes
from perfpy.tools.why.causes import ROOT
from perfpy.tools.why.explanation import explain_polls
from perfpy.tools.why.tasks import (
    RUNNING,
    SPINNING,
    CpuSamples,
    RecordedTasks,
    StartedCommand,
    WhyEvents,
    commands_of,
    family_of,
    named_threads,
    recorders_of,
    with_exec,
    workloads_of,
)
from tests.builders.waiting_threads import Part, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.tools.why.activities import Activities
    from perfpy.tools.why.explanation import Explanation


EXECS = [(10, "make", 1), (20, "app", 2), (30, "app", 3), (20, "sh", 4)]
TASKS = RecordedTasks({}, {10: 1, 20: 10, 30: 7, 31: 30, 32: 31}, EXECS, {})


def test_the_command_is_the_first_process_that_executed_a_program_of_its_name():
    assert commands_of(["perfpy", "record", "--", "/usr/bin/app", "make"]) == {"app"}
    assert commands_of(["perf", "record", "-a", "make"]) == {"record", "-a", "make"}
    assert workloads_of({"app"}, TASKS) == [20, 30]
    assert workloads_of({"record", "-a", "make"}, TASKS) == [10]
    assert workloads_of(set(), TASKS) == []


def test_a_command_without_exec_is_found_by_its_name_on_a_cpu():
    """Of several, the child of perf or perfpy."""
    tasks = RecordedTasks({31: 30}, {20: 10, 30: 7}, [], {7: "perfpy", 20: "bash", 30: "perfpy"})
    comm = np.array([b"app", b"bash", b"app", b"app"], "S16")
    assert named_threads(np.array([20, 20, 31, 30]), comm, {"app"}, tasks) == [StartedCommand(7, 30, "app"), StartedCommand(10, 20, "app")]
    assert named_threads(np.array([20]), np.array([b"bash"], "S16"), {"app"}, tasks) == []


def test_names_are_cut_as_the_kernel_cuts_them():
    """After 15 bytes, also within a character."""
    (name,) = commands_of(["perf", "record", "--", "./" + 10 * "\u00fc"])
    comm = 10 * "\u00fc".encode()
    assert name.encode(errors="surrogateescape") == comm[:15]
    empty = RecordedTasks({}, {}, [], {})
    assert named_threads(np.array([5]), np.array([comm[:15]], "S16"), {name}, empty) == [StartedCommand(0, 5, name)]
    assert named_threads(np.array([5]), np.array([comm[:16]], "S16"), {name, "app\0"}, empty) == []


def test_a_lost_exec_is_replaced():
    tasks = RecordedTasks({}, {30: 7}, [(20, "sh", 5)], {7: "perfpy", 20: "sh", 30: "perfpy"})
    started = StartedCommand(7, 30, "./a-long-name-of-a-program")
    named = with_exec(tasks, started, 9)
    assert named.execs == [(20, "sh", 5), (30, "a-long-name-of-", 9)]
    assert named.comm_of == {7: "perfpy", 20: "sh", 30: "a-long-name-of-"}
    assert with_exec(tasks, started._replace(pid=20), 9) is tasks


def test_a_family_is_a_process_with_all_its_descendants():
    assert family_of([30], TASKS) == {30, 31, 32}


MUTEX = 0x1000


def tree(explanation: Explanation, nodes: Sequence[int] = (ROOT,)) -> list[tuple[Any, ...]]:
    """Return (kind, comm, time, children) of the critical path."""
    groups = explanation.path
    return [(one.kind, one.comm, one.time, tree(explanation, one.nodes)) for one in groups.children(nodes)]


def test_a_wait_is_explained_by_its_wakers_activity():
    explanation = explained(
        [
            Part(1, 0, 10),
            Part(1, 10, 100, reasons.LOCK, "hold", 2, "hold", MUTEX),
            Part(2, 0, 30),
            Part(2, 30, 90, reasons.DISK, "flush"),
            Part(2, 90, 200),
        ]
    )
    running: tuple[Any, ...] = (RUNNING, "t2", 30, [])
    assert tree(explanation) == [(reasons.LOCK, "t1", 90, [(reasons.DISK, "t2", 60, []), running]), (RUNNING, "t1", 10, [])]


def test_the_wakers_activity_before_the_wait_does_not_count():
    explanation = explained([Part(1, 0, 90), Part(1, 90, 100, reasons.PIPE, "", 2), Part(2, 0, 95, reasons.SLEEP), Part(2, 95, 100)])
    assert tree(explanation)[1] == (reasons.PIPE, "t1", 10, [(reasons.SLEEP, "t2", 5, []), (RUNNING, "t2", 5, [])])


def test_waits_for_the_same_lock_one_after_the_other_are_one():
    parts = [
        Part(1, 0, 100, reasons.LOCK, "f", 2, "f", MUTEX),
        Part(2, 0, 50, reasons.LOCK, "f", 3, "f", MUTEX),
        Part(2, 50, 100),
        Part(3, 0, 50),
    ]
    explanation = explained(parts, comms={1: "w", 2: "w", 3: "w"})
    assert tree(explanation) == [(reasons.LOCK, "w", 100, [(RUNNING, "w", 100, [])])]


def test_the_end_of_a_thread_is_replaced_by_its_activity():
    explanation = explained([Part(1, 0, 100, reasons.JOIN, "main", 2), Part(2, 0, 70, reasons.SLEEP, "nap"), Part(2, 70, 95)])
    assert [(one.kind, one.time) for one in explanation.path.causes()] == [(reasons.SLEEP, 70), (RUNNING, 25), (reasons.JOIN, 5)]


def test_samples_divide_running_from_spinning():
    samples = [(1, time, "spin" if time < 30 else "work", time < 30) for time in range(0, 100, 10)]
    explanation = explained([Part(1, 0, 100)], samples=samples)
    assert tree(explanation) == [(RUNNING, "t1", 70, []), (SPINNING, "t1", 30, [])]


def test_threads_that_ran_on_the_cpu_meanwhile_are_named():
    explanation = explained([Part(1, 0, 60, reasons.CPU, cpu=3), Part(1, 60, 100, cpu=3), Part(2, 0, 60, cpu=3), Part(9, 0, 60, cpu=2)])
    ready = explanation.path.children([ROOT])[0]
    assert (ready.kind, explanation.path.largest("runners", ready.nodes)) == (reasons.CPU, (2, 60))


def test_waits_in_a_circle_end():
    parts = [Part(tid, 0, 100, reasons.PIPE, "", 3 - tid) for tid in (1, 2)]
    explanation = explained(parts)
    assert explanation.path.tree.total == 100
    assert len(explanation.path.tree.labels) <= causes.DEEPEST


def test_omitted_causes_are_counted(monkeypatch):
    monkeypatch.setattr(causes, "MOST_PIECES", 3)
    parts = [Part(1, 10 * turn, 10 * turn + 10, reasons.PIPE, "", 2) for turn in range(10)] + [Part(2, 0, 100)]
    explanation = explained(parts)
    assert explanation.path.tree.cut == 100


def test_the_times_of_a_thread_are_divided_by_column():
    explanation = explained([Part(1, 0, 10), Part(1, 10, 40, reasons.CPU), Part(1, 40, 100, reasons.FILE_LOCK)])
    (thread,) = explanation.threads
    assert {name: time for name, time in thread.columns.items() if time} == {"running": 10, "runnable": 30, "lock": 60}
    assert thread.wall == 100


def test_many_threads_that_wait_for_one_are_bounded():
    count = 2000
    parts = [Part(1, 0, 100, reasons.JOIN, "", 2)]
    parts += [Part(tid, 0, 100, reasons.LOCK, "f", 1, "f", tid) for tid in range(2, count)]
    explanation = explained(parts)
    assert explanation.waits.tree.total == 100 * (count - 1)
    assert np.isfinite(explanation.waits.tree.cut)


def test_the_recorder_is_named_as_cause_only_if_it_ran_most_of_the_time():
    """Thread 1 waits 9 us for the CPU, on which the recorder (50) and another program (60) ran."""

    def runner(recorder: int) -> tuple[int, int]:
        parts = [Part(1, 0, 1000), Part(1, 1000, 10_000, reasons.CPU), Part(1, 10_000, 11_000)]
        parts += [Part(50, 1000, 1000 + recorder), Part(60, 1000 + recorder, 10_000)]
        explanation = explained(parts, comms={1: "main", 50: "perfpy", 60: "other"})
        explanation.recorders = frozenset({50})
        (cause,) = [one for one in explanation.path.children([ROOT]) if one.kind == reasons.CPU]
        return explanation.runner(explanation.path, cause.nodes)

    assert runner(4000) == (60, 5000)
    assert runner(5000) == (50, 5000)


def test_the_recorder_and_its_helpers_are_known_by_their_parent():
    tasks = RecordedTasks({7: 7, 8: 8, 9: 9, 10: 9}, {8: 7, 9: 7}, [], {7: "perfpy", 8: "sh", 9: "python3"})
    assert recorders_of(tasks, 7, {8}) == {7, 9, 10}
    assert recorders_of(tasks._replace(comm_of={7: "bash"}), 7, {8}) == frozenset()
    assert recorders_of(tasks, 0, {8}) == frozenset()


# A parent that sleeps between two looks for the end of a child waits for that child.


WNOHANG = 1
TASKS_OF_POLLS = RecordedTasks({}, {2: 1, 3: 1, 4: 2}, [], {})


def waiting(poll: int, *process: int, name: str = "wait4", options: int = WNOHANG) -> tuple[int, str, tuple[int, ...]]:
    """Return a call at a time that looks for a process."""
    return poll, name, (*(process or (-1,)), 0, options) if name == "wait4" else (*process, 0, options)


def polled(calls: Sequence[tuple[int, str, tuple[int, ...]]], *, kind: int = reasons.SLEEP, children: Sequence[Part] = ()) -> list[int]:
    """Return the wakers of two sleeps, 10 to 50 and 60 to 100, of thread 1 among its calls; -1 for a sleep that is not a poll."""
    parts = [Part(1, 0, 10), Part(1, 10, 50, kind, waker=9), Part(1, 50, 60), Part(1, 60, 100, kind, waker=9), Part(1, 100, 110)]
    children = children or [Part(2, 0, 100), Part(3, 0, 70)]
    return wakers(explained([*parts, *children], programs={part.tid: 1 for part in children}).activities, calls)


def wakers(activities: Activities, calls: Sequence[tuple[int, str, tuple[int, ...]]]) -> list[int]:
    numbers = numbers_by_name("x86_64")
    none = np.zeros(0, np.int64)
    count = len(calls)
    arguments = np.zeros((count, 6), np.uint64)
    for row, (_, _, values) in enumerate(calls):
        arguments[row, : len(values)] = np.array(values, np.int64).view(np.uint64)
    own, zeros = np.ones(count, np.int32), np.zeros(count, np.int32)
    fields = {"id": np.array([numbers[name] for _, name, _ in calls], np.int64), "args": arguments}
    times = np.array([time for time, _, _ in calls], np.int64)
    rows = TracepointRows(np.arange(count), times.astype(np.uint64), times, own, own, zeros, fields, None)
    samples = CpuSamples(none, none, none, none.astype(np.uint64), Ragged.empty(0, np.uint64))
    events = WhyEvents(rows, rows, none.astype(bool), rows, samples)
    result = explain_polls(activities, events, TASKS_OF_POLLS, "x86_64")
    sleeps = np.flatnonzero((result.segments.tid == 1) & (result.kind != activities.kind))
    assert np.all(result.kind[sleeps] == reasons.CHILD)
    return [waker if waker != 9 else -1 for waker in result.waker[[1, 3]].tolist()]


SLEEP = "clock_nanosleep"
ROUND = [waiting(5, 2), (10, SLEEP, (1, 0)), waiting(55, 2), (60, SLEEP, (1, 0)), waiting(105, 2)]


def test_sleeps_between_looks_for_a_child_are_ended_by_it():
    assert polled(ROUND) == [2, 2]


def test_the_call_that_sleeps_need_not_be_recorded():
    assert polled([call for call in ROUND if call[1] != SLEEP]) == [2, 2]


def test_a_look_for_any_child_waits_for_the_one_that_ends_first():
    calls = [waiting(5), (10, SLEEP, ()), waiting(55), (60, SLEEP, ()), waiting(105)]
    assert polled(calls) == [3, 3]
    assert polled(calls, children=[Part(2, 0, 100), Part(3, 0, 55)]) == [3, 2]
    assert polled(calls, children=[Part(2, 0, 100), Part(3, 55, 70)]) == [2, 3]


def test_waitid_looks_for_a_process_or_for_any_child():
    one = [waiting(time, 1, 2, name="waitid") for time in (5, 55, 105)]
    every = [waiting(time, 0, 0, name="waitid") for time in (5, 55, 105)]
    assert polled(one) == [2, 2]
    assert polled(every) == [3, 3]


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([waiting(5, 2, options=0), *ROUND[1:2], waiting(55, 2, options=0)], id="a call that waits"),
        pytest.param(ROUND[:2], id="one look before"),
        pytest.param([*ROUND[1:2], (55, "futex", ())], id="no look"),
        pytest.param([waiting(5, 4), *ROUND[1:2], waiting(55, 4)], id="a grandchild, and no child lived"),
        pytest.param([], id="no calls"),
    ],
)
def test_other_sleeps_stay(calls):
    assert polled(calls, children=[Part(2, 200, 300)]) == [-1, -1]


def test_event_loops_that_look_for_any_child_only_wait_for_events():
    calls = [waiting(5), (10, "poll", ()), waiting(55), (60, "poll", ()), waiting(105)]
    assert polled(calls, kind=reasons.EVENTS) == [-1, -1]
    assert polled(ROUND, kind=reasons.EVENTS) == [2, 2]
