"""`perfpy why`: the explanation of a wait, its text and the verdict."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.system_calls import numbers_by_name
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.waits import waiting_goroutines
from perfpy.perfdata.kept_files import ObservedFrame, ObservedState
from perfpy.perfdata.tracepoint_rows import TracepointRows
from perfpy.tools.why import causes
from perfpy.tools.why.causes import ROOT
from perfpy.tools.why.explanation import explain_polls
from perfpy.tools.why.json import chrome_trace, wait_chains, why_json
from perfpy.tools.why.tasks import (
    PAGE_FAULT,
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
    workload_of,
)
from perfpy.tools.why.text import thread_table, why_lines
from perfpy.tools.why.verdict import verdict
from perfpy.views.page import marks
from perfpy.views.page.marks import wait_chain_data
from tests.builders.viewers import firefox_profiler
from tests.builders.waiting_threads import Part, explained

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfpy.tools.why.activities import Activities
    from perfpy.tools.why.explanation import Explanation


# Waits are followed from thread to thread, and their times add up.


EXECS = [(10, "make", 1), (20, "app", 2), (30, "app", 3), (20, "sh", 4)]
TASKS = RecordedTasks({}, {10: 1, 20: 10, 30: 7, 31: 30, 32: 31}, EXECS, {})


def test_the_command_is_the_process_of_its_name_that_lived_longest():
    assert commands_of(["perfpy", "record", "--", "/usr/bin/app", "make"]) == {"app"}
    assert commands_of(["perf", "record", "-a", "make"]) == {"record", "-a", "make"}
    seen = {10: 50, 20: 20, 30: 40}
    assert workload_of({"app"}, TASKS, seen) == 30
    assert workload_of({"app"}, TASKS, {20: 39, 30: 40}) == 20
    assert workload_of({"app"}, TASKS, {20: 39}) == 20
    assert workload_of({"record", "-a", "make"}, TASKS, seen) == 10
    assert workload_of(set(), TASKS, seen) is None


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


def test_the_table_of_threads_fits_the_window():
    """Waits with least time are one column; running stays, and the shares of a row still add up to all of its time."""
    kinds = [reasons.CPU, reasons.FILE_LOCK, reasons.PIPE, reasons.SLEEP, reasons.CHILD, reasons.JOIN]
    parts = [Part(1, 0, 10), *(Part(1, 10 + 20 * at, 30 + 20 * at, kind) for at, kind in enumerate(kinds))]
    threads = explained(parts).threads
    for width in (None, 200, 80, 60, 50):
        head, row = thread_table(threads, None, width)
        assert len(head) == len(row) <= (width or 200)
        assert ("other" in head) == (width is not None and width <= 80)
        assert " running" in head
        assert sum(map(float, re.findall(r"([\d.]+) %", row))) == pytest.approx(100, abs=3)


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
        return explanation.runner(explanation.path, cause)

    assert runner(4000) == (60, 5000)
    assert runner(5000) == (50, 5000)


def test_no_thread_is_named_that_used_the_cpu_for_a_part_of_the_wait():
    parts = [Part(1, 0, 1000), Part(1, 1000, 10_000, reasons.CPU), Part(1, 10_000, 11_000)]
    parts += [Part(60 + number, 1000 + 3000 * number, 4000 + 3000 * number) for number in range(3)]
    explanation = explained(parts, comms={1: "main"})
    (cause,) = [one for one in explanation.path.children([ROOT]) if one.kind == reasons.CPU]
    assert explanation.runner(explanation.path, cause) == (-1, 0)
    assert not any(" ran" in line for line in why_lines(explanation))


def test_losses_come_first_and_alone_if_most_events_were_lost():
    explanation = explained([Part(1, 0, 100, reasons.LOCK, "f", 2, "g", 7)])
    whole = verdict(explanation)
    explanation.lost_share = 0.3
    assert verdict(explanation) == ["30 % of the events were lost: some waits are missing or too long; " + LESS, *whole][:3]
    explanation.lost_share = 0.65
    assert verdict(explanation) == ["65 % of the events were lost: what is left does not tell what the threads waited for; " + LESS]
    assert next(why_lines(explanation)).startswith("65 % of the events were lost")


def test_the_recorder_and_its_helpers_are_known_by_their_parent():
    tasks = RecordedTasks({7: 7, 8: 8, 9: 9, 10: 9}, {8: 7, 9: 7}, [], {7: "perfpy", 8: "sh", 9: "python3"})
    assert recorders_of(tasks, 7, {8}) == {7, 9, 10}
    assert recorders_of(tasks._replace(comm_of={7: "bash"}), 7, {8}) == frozenset()
    assert recorders_of(tasks, 0, {8}) == frozenset()


# A parent that sleeps between two looks for the end of a child waits for that child.


LESS = "try perfpy record --off-cpu, which copies fewer stacks."
WNOHANG = 1
POLLING_TASKS = RecordedTasks({}, {2: 1, 3: 1, 4: 2}, [], {})


def waiting(poll: int, *process: int, name: str = "wait4", options: int = WNOHANG) -> tuple[int, str, tuple[int, ...]]:
    """Return a call at a time that looks for a process."""
    return poll, name, (*(process or (-1,)), 0, options) if name == "wait4" else (*process, 0, options)


def polled(
    calls: Sequence[tuple[int, str, tuple[int, ...]]],
    *,
    kind: int = reasons.SLEEP,
    children: Sequence[Part] = (),
    timer: bool = False,
    waker: int = 9,
) -> list[int]:
    """Return the wakers of two sleeps, 10 to 50 and 60 to 100, of thread 1 among its calls; -1 for a sleep that is not a poll."""
    parts = [Part(1, 0, 10), Part(1, 10, 50, kind, waker=waker), Part(1, 50, 60), Part(1, 60, 100, kind, waker=waker), Part(1, 100, 110)]
    children = children or [Part(2, 0, 100), Part(3, 0, 70)]
    activities = explained([*parts, *children], programs={part.tid: 1 for part in children}).activities
    return wakers(activities._replace(by_interrupt=np.full(len(activities.kind), timer)), calls)


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
    result = explain_polls(activities, events, POLLING_TASKS, "x86_64")
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


def test_functions_that_wait_for_a_child_may_sleep_between_looks():
    assert polled(ROUND, kind=reasons.CHILD, timer=True) == [2, 2]
    assert polled(ROUND, kind=reasons.CHILD, waker=-1) == [2, 2], "the timer's wakeup may be unknown"
    assert polled(ROUND, kind=reasons.CHILD) == [-1, -1]


# The states of threads as a Chrome trace.


def trace() -> str:
    """Return the file of two threads."""
    parts = [Part(1, 1000, 3000), Part(1, 3000, 9000, reasons.LOCK, "push", 2, "flush", 0x1000), Part(2, 1000, 9500, reasons.DISK, "flush")]
    return "".join(chrome_trace(explained(parts, comms={1: 'a"b\n', 2: "writer"})))


def events() -> list[dict[str, Any]]:
    traced: list[dict[str, Any]] = json.loads(trace())["traceEvents"]
    return traced


def test_each_segment_is_an_event_in_microseconds():
    complete = [event for event in events() if event["ph"] == "X"]
    assert [(event["tid"], event["name"], event["ts"], event["dur"]) for event in complete] == [
        (1, "running", 0.0, 2.0),
        (1, "lock", 2.0, 6.0),
        (2, "disk", 0.0, 8.5),
    ]
    assert complete[1]["args"] == {"function": "push", "lock": "0x1000", "waker": "writer (2)"}


def test_processes_and_threads_have_their_names():
    names = [(event["name"], event["pid"], event["tid"], event["args"]["name"]) for event in events() if event["ph"] == "M"]
    assert names[0] == ("process_name", 1, 1, 'a"b\n')
    assert sorted(names[1:]) == [("thread_name", 1, 1, 'a"b\n'), ("thread_name", 1, 2, "writer")]


def test_a_wakeup_is_a_flow_from_the_waker():
    flows = [(event["ph"], event["tid"], event["ts"]) for event in events() if event["ph"] in "sf"]
    assert flows == [("s", 2, 8.0), ("f", 1, 8.0)]


def test_a_viewer_opens_the_file_with_its_own_importer(tmp_path: Path):
    """The Firefox Profiler imports Chrome traces; it shows segments as markers of their thread."""
    path = tmp_path / "why.json"
    path.write_text(trace())
    with firefox_profiler(path) as viewer:
        answer = viewer.asked("thread", "markers")
    assert answer["friendlyThreadName"] == 'a"b\n'
    spans = {kind["markerName"]: kind["topMarkers"][0] for kind in answer["byType"] if kind["isInterval"]}
    assert (spans["lock"]["start"], spans["lock"]["duration"]) == pytest.approx((0.002, 0.006))
    assert spans["running"]["duration"] == pytest.approx(0.002)


# The verdict names the cause first.


SECOND = 1_000_000_000


def parts(*rows: tuple[Any, ...]) -> list[Part]:
    """Return parts with times in hundredths of a second."""
    return [Part(tid, begin * SECOND // 100, end * SECOND // 100, *more) for tid, begin, end, *more in rows]


HELD = parts((1, 0, 20), (1, 20, 100, reasons.LOCK, "push", 2, "flush", MUTEX), (2, 0, 95, reasons.DISK, "flush"), (2, 95, 100))


def test_a_lock_is_named_with_its_holder_and_the_holders_wait():
    assert verdict(explained(HELD, comms={1: "app", 2: "writer"})) == [
        "app (1) waits 80 % of 1 s for the mutex 0x1000 in push(), held by writer (2) in flush(), which waits for the disk in flush().",
        "app (1) runs for 20 %.",
    ]


@pytest.mark.parametrize("kind", ["semaphore", "lock"])
def test_who_posts_a_semaphore_need_not_have_held_it(kind: str):
    """CPython makes its locks and conditions of semaphores; only the Python functions tell them apart."""
    assert ", ended by t2 (2) in flush(), which waits for the disk" in verdict(explained(HELD, lock=kind))[0]
    of_python = [part._replace(function="py::push:/srv/app.py:3") if part.tid == 1 else part for part in HELD]
    assert ", held by t2 (2) in flush(), which waits for the disk" in verdict(explained(of_python, lock=kind))[0]


@pytest.mark.parametrize(
    ("function", "notes"), [("_PyEval_EvalFrameDefault", 1), ("py::push:/srv/app.py:3", 0), ("push", 0)], ids=["native", "python", "C"]
)
def test_waits_of_python_without_its_functions_have_a_note(function: str, notes: int):
    explanation = explained(parts((1, 0, 20), (1, 20, 100, reasons.LOCK, function, 2, "", MUTEX), (2, 0, 95)))
    lines = list(why_lines(explanation))
    assert lines.count("note: Python code waits; perfpy why --python names its functions and lines") == notes


def test_processes_have_the_names_of_their_command_lines():
    """Groups of equal causes keep the comm: the workers of a service wait for the same."""
    explanation = explained(HELD)
    explanation.threads = [one._replace(name="shop: worker 1") if one.tid == 1 else one for one in explanation.threads]
    lines = list(why_lines(explanation))
    assert "Where the time of shop: worker 1 (1) went: 1.000 s" in "\n".join(lines)
    assert any(line.startswith("shop: worker 1 (1) ") for line in lines)
    assert any(line.startswith("t2 (2) ") for line in lines)


def test_waits_of_workers_for_locks_of_their_own_are_one_row():
    """With -v each lock has its row, as a lock that two threads wait for always has."""
    own = [(tid, 0, 90, reasons.FUTEX, "take", 1, "put", MUTEX + tid) for tid in (2, 3, 4)]
    shared = [(tid, 0, 40, reasons.FUTEX, "take", 1, "put", MUTEX) for tid in (5, 6)]
    explanation = explained(parts((1, 0, 100), *own, *shared), comms=dict.fromkeys(range(2, 7), "worker"))
    rows = [line.strip() for line in why_lines(explanation) if "worker (" in line and " times" in line]
    assert [row.partition(", ended")[0] for row in rows] == [
        "2.700 s  worker (3 threads) waits for a futex in take(), 3 times",
        "800.0 ms  worker (2 threads) waits for the futex 0x1000 in take(), 2 times",
    ]
    assert sum("0x100" in line for line in why_lines(explanation, stacks=True)) == 4


CONDITION = 0x5040


def rows_of_waits(explanation: Explanation) -> list[str]:
    lines = [line.strip() for line in why_lines(explanation) if " t2 (1 thread) " in line and ", " in line]
    return [line.partition(", ")[0] for line in lines]


def test_the_two_futexes_of_a_condition_variable_are_one_row():
    """glibc's waiters take turns on futexes that are side by side: a recording had two rows with the same text."""
    turns = [(2, at, at + 20, reasons.CONDITION, "take", 1, "put", CONDITION + 4 * (at // 20 % 2)) for at in range(0, 100, 20)]
    explanation = explained(parts((1, 0, 100), *turns), lock="condition")
    explanation.waits.lock_names = dict.fromkeys((CONDITION, CONDITION + 4), "cv")
    assert rows_of_waits(explanation) == ["1.000 s  t2 (1 thread) waits for the condition cv in take()"]
    # of the main thread, too
    explanation = explained(parts(*((1, *turn[1:5], 2, *turn[6:]) for turn in turns), (2, 0, 100)))
    assert [one[:3] for one in tree(explanation)] == [(reasons.CONDITION, "t1", SECOND)]


def test_rows_of_other_locks_and_functions_with_the_same_text_are_told_apart():
    turns = [
        (2, 0, 30, reasons.CONDITION, "take", 1, "put", CONDITION),
        (2, 30, 50, reasons.CONDITION, "take", 1, "put", CONDITION + 48),
        (2, 50, 80, reasons.SLEEP, "void nap<std::vector<int> >(int)"),
        (2, 80, 100, reasons.SLEEP, "void nap<std::vector<char> >(int)"),
    ]
    explanation = explained(parts((1, 0, 100), *turns), lock="condition")
    explanation.waits.lock_names = dict.fromkeys((CONDITION, CONDITION + 48), "cv")
    rows = rows_of_waits(explanation)
    assert len(set(rows)) == 4
    assert "300.0 ms  t2 (1 thread) waits for the condition cv in take() (lock 0x5040)" in rows
    assert "200.0 ms  t2 (1 thread) waits for the condition cv in take() (lock 0x5070)" in rows
    assert sum("vector<char>" in row for row in rows) == 1


def test_a_wait_of_the_main_thread_has_one_sentence():
    sentences = verdict(explained(parts((1, 0, 44, reasons.CPU), (1, 44, 100, reasons.SLEEP, "nap"), (2, 0, 44))))
    assert [sentence.partition(",")[0] for sentence in sentences] == [
        "t1 (1) sleeps 56 % of 1 s in nap().",
        "t1 (1) waits for a CPU for 44 %",
    ]


def test_functions_that_start_programs_are_not_named():
    """A program without symbols runs in code that they call, not in the few functions with names."""
    samples = [(1, time * SECOND // 100, "__libc_start_call_main" if time % 4 else "do_wp_page", False) for time in range(1, 100)]
    assert verdict(explained(parts((1, 0, 100)), samples=samples)) == ["t1 (1) runs 100 % of 1 s."]
    assert verdict(explained(parts((1, 0, 100, reasons.SLEEP, "start_thread")))) == ["t1 (1) sleeps 100 % of 1 s."]


def test_waits_come_before_running_unless_the_program_runs_most_of_the_time():
    half = explained(parts((1, 0, 50), (1, 50, 100, PAGE_FAULT, "load")))
    most = explained(parts((1, 0, 70), (1, 70, 100, PAGE_FAULT, "load")))
    assert "page fault" in verdict(half)[0]
    assert "runs 70 %" in verdict(most)[0]


def test_the_lock_behind_a_wait_for_a_child_comes_first():
    explanation = explained(parts((1, 0, 100, reasons.CHILD, "main", 2), (2, 0, 95, reasons.FILE_LOCK, "update", 3, "update"), (3, 0, 95)))
    assert verdict(explanation)[0].startswith("t2 (2) waits 95 % of 1 s for a file lock in update(), held by t3 (3)")


def test_a_lock_of_other_threads_comes_first_if_the_main_thread_only_sleeps():
    rows = [(1, 0, 100, reasons.SLEEP, "nap"), *((tid, 0, 100, reasons.LOCK, "find", 1, "nap", MUTEX) for tid in (2, 3))]
    explanation = explained(parts(*rows), comms={2: "w", 3: "w"}, lock="rwlock")
    assert (
        verdict(explanation)[0]
        == "w (2 threads) waits 100 % of 2 s for the rwlock 0x1000 in find(), held by t1 (1) in nap(), which sleeps in nap()."
    )


def test_priority_inversion_is_recognized():
    rows = parts(
        (1, 0, 100, reasons.JOIN, "main", 2),
        (2, 0, 100, reasons.LOCK, "push", 3, "flush", MUTEX),
        (3, 0, 95, reasons.CPU),
        (3, 95, 100),
        (4, 0, 95),
    )
    names = {2: "high", 3: "low", 4: "medium"}
    inverted = explained(rows, comms=names, priorities={2: 10, 3: 30, 4: 20})
    assert verdict(inverted)[0].startswith("Priority inversion: high (priority 10) waits for the mutex 0x1000")
    usual = explained(rows, comms=names, priorities={2: 120, 3: 120, 4: 120})
    assert verdict(usual)[0].startswith("high (2) waits")


CHAIN = parts(
    (1, 0, 100, reasons.CHILD, "wait4", 2),
    (2, 0, 99, reasons.EVENTS, "poll", 3),
    (3, 0, 98, reasons.SLEEP, "nap"),
)
NAMES = {1: "sh", 2: "make", 3: "app"}


def test_the_program_that_a_shell_waits_for_comes_first():
    assert verdict(explained(CHAIN, comms=NAMES, programs={2: 1, 3: 2}))[0] == (
        "app (3) sleeps 98 % of 1 s in nap(); sh waits for make, which waits for app."
    )


def test_a_subshell_that_waits_for_a_program_is_no_cause():
    names = {1: "sh", 2: "sh", 3: "app"}
    explanation = explained(CHAIN, comms=names, programs={2: -1, 3: 2})
    assert verdict(explanation)[0] == "app (3) sleeps 98 % of 1 s in nap(); sh waits for app."


def test_a_child_that_goes_on_with_its_parents_program_is_a_part_of_it():
    rows = parts((1, 0, 100, reasons.CHILD, "main", 2), (2, 0, 95))
    explanation = explained(rows, comms={1: "app", 2: "app"}, programs={2: -1})
    assert verdict(explanation)[0].startswith("app (1) waits 100 % of 1 s for a child process in main(), ended by app (2), which runs")


def test_programs_one_after_the_other_are_added_up():
    rows = parts((1, 0, 50, reasons.CHILD, "wait", 2), (1, 50, 100, reasons.CHILD, "wait", 3), (2, 0, 50), (3, 50, 100))
    explanation = explained(rows, comms={1: "make", 2: "cc1", 3: "cc1"}, programs={2: 1, 3: 1})
    assert verdict(explanation) == ["cc1 (2 processes) runs 100 % of 1 s; make waits for cc1."]


def test_many_programs_in_a_row_are_shortened():
    rows = [(tid, 0, 101 - tid, reasons.CHILD, "wait", tid + 1) for tid in range(1, 7)] + [(7, 0, 94, reasons.SLEEP, "nap")]
    text = verdict(explained(parts(*rows), programs={tid: tid - 1 for tid in range(2, 8)}))[0]
    assert text.endswith("; t1 waits for t2, which waits for ..., which waits for t7.")


def test_the_output_of_a_program_that_a_daemon_did_not_start_is_a_cause():
    explanation = explained(parts((1, 0, 100, reasons.PIPE, "read", 2), (2, 0, 95)), programs={2: 9})
    assert verdict(explanation)[0].startswith("t1 (1) waits 100 % of 1 s for a pipe")


def test_spinning_is_named_beside_the_wait_for_a_cpu():
    rows = parts((1, 0, 58, reasons.CPU), (1, 58, 100), (2, 0, 58))
    samples = [(1, (58 + turn) * SECOND // 100, "count", True) for turn in range(42)]
    assert verdict(explained(rows, samples=samples, comms={2: "sibling"})) == [
        "t1 (1) waits 58 % of 1 s for a CPU, while sibling (2) ran, and spins for a spinlock in count() for 42 %."
    ]


def test_spinning_comes_before_running():
    samples = [(1, turn * SECOND // 100, "grab" if turn % 2 else "work", bool(turn % 2)) for turn in range(100)]
    assert verdict(explained(parts((1, 0, 100)), samples=samples))[0] == "t1 (1) spins 50 % of 1 s for a spinlock in grab()."


@pytest.mark.parametrize("name", ["\x1b]0;title\x07", "a\nb", "[red]"])
def test_names_cannot_control_the_terminal(name):
    text = "\n".join(why_lines(explained(HELD, comms={1: name, 2: name}), stacks=True))
    assert "\x1b" not in text
    assert "a\nb" not in text


def test_the_text_has_path_threads_and_waits():
    lines = list(why_lines(explained(HELD, comms={1: "app", 2: "writer"})))
    assert "Where the time of app (1) went: 1.000 s" in lines
    assert any(line.split()[:3] == ["Thread", "time", "running"] for line in lines)
    assert any("waits for the mutex 0x1000 in push(), 1 time, ended by writer (2) in flush()" in line for line in lines)


def test_json_has_the_same_times():
    values = json.loads(why_json(explained(HELD, comms={1: "app", 2: "writer"})))
    lock = values["critical-path"][0]
    assert (lock["kind"], lock["time"], lock["lock"], lock["waker"]["comm"]) == ("lock", 80 * SECOND // 100, "0x1000", "writer")
    assert [one["kind"] for one in lock["during"]] == ["disk", "running"]
    assert values["main"]["time"] == SECOND


def test_a_process_that_did_not_run_has_a_verdict():
    explanation = explained([Part(2, 0, 10, RUNNING)], main=1)
    assert verdict(explanation) == ["The process did not run while it was recorded."]
    assert json.loads(why_json(explanation))["critical-path"] == []


# The turns of threads for the page.


TURNS = [
    Part(1, 0, 10),
    Part(1, 10, 100, reasons.LOCK, "want", 2, "leave", 0x1000),
    Part(2, 0, 60, reasons.DISK, "save"),
    Part(2, 60, 100),
]


def test_the_page_has_each_turn_with_the_thread_that_ended_it():
    chains = wait_chains(explained(TURNS, comms={1: "main", 2: "holder", 3: "other"}))
    assert [name for _, name in chains.threads[:2]] == ["main", "holder"]
    columns = (column.tolist() for column in (chains.thread, chains.begin, chains.end, chains.text, chains.waker))
    rows = [
        (chains.threads[thread][0], begin, end, chains.texts[text], waker) for thread, begin, end, text, waker in zip(*columns, strict=True)
    ]
    number = chains.threads.index((2, "holder"))
    assert rows == [
        (1, 0, 10, "runs", -1),
        (1, 10, 100, "waits for the mutex 0x1000 in want()", number),
        (2, 0, 60, "waits for the disk in save()", -1),
        (2, 60, 100, "runs", -1),
    ]


def test_turns_of_the_page_are_the_longest_and_end_later_than_the_first_sample(monkeypatch: pytest.MonkeyPatch):
    chains = wait_chains(explained(TURNS, comms={1: "main", 2: "holder"}))
    assert wait_chain_data(chains, 0, 1)["rows"]["begin"]["n"] == 4
    assert wait_chain_data(chains, 20, 1)["rows"]["begin"]["n"] == 3
    monkeypatch.setattr(marks, "_MOST_TURNS", 2)
    data = wait_chain_data(chains, 0, 1)
    assert (data["rows"]["begin"]["n"], data["total"]) == (2, 4)


def test_goroutines_tell_what_a_go_program_waits_for():
    """Its threads only run them."""
    explanation = explained(TURNS, comms={1: "main", 2: "holder", 3: "other"})
    state = ObservedState(1, "go", 10, 30, "sync.Mutex.Lock", [ObservedFrame("main.updateIndex", "/srv/index.go", 5)], [])
    explanation.goroutines = waiting_goroutines([state])
    assert verdict(explanation)[-1] == "Three goroutines waited for a lock in main.updateIndex() (index.go:5)."
