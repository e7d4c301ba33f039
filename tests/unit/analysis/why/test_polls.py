"""A parent that sleeps between two looks for the end of a child waits for that child."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.system_calls.numbers import numbers_by_name
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.events import CpuSamples, WhyEvents
from perfpy.analysis.why.polls import explain_polls
from perfpy.analysis.why.tasks import RecordedTasks
from perfpy.perfdata.tracepoint_rows import TracepointRows
from tests.builders.waiting_threads import Part, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.why.activities import Activities

WNOHANG = 1
TASKS = RecordedTasks({}, {2: 1, 3: 1, 4: 2}, [], {})


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
    result = explain_polls(activities, events, TASKS, "x86_64")
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
