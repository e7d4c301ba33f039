"""The recorded load as events of tasks. The expected lines are perf 6.12's, of the same file."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.analysis.scheduler import read_events
from perfpy.cli import run
from perfpy.tools.sched.replay import RUN, SLEEP, WAKE, ReplayPlan, make_replay_plan, plan_lines
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SWITCH, _WAKING = "sched:sched_switch", "sched:sched_waking"
_PERFS_LINES = """\
nr_run_events:        4
nr_sleep_events:      8
nr_wakeup_events:     2
target-less wakeups:  1
multi-target wakeups: 1
task      0 (           <unknown>:        10), nr_events: 7
task      1 (                  bb:        11), nr_events: 7
task      2 (                  aa:        12), nr_events: 1
task      3 (                  cc:        13), nr_events: 1
------------------------------------------------------------
""".splitlines()


def recording(*, last: int = 10**9 + 9500) -> bytes:
    """Return a file in which task 10 wakes task 11 twice, and task 11 wakes task 10 while that runs. last: the time of the last switch."""
    built = EventRecording([_SWITCH, _WAKING], comms={10: "aa", 11: "bb"})
    built.event(_WAKING, 10**9, b"bb", 11, 120, 0, tid=10)
    built.event(_WAKING, 10**9 + 1000, b"bb", 11, 120, 0, tid=10)
    built.event(_WAKING, 10**9 + 2000, b"aa", 10, 120, 0, tid=11, cpu=1)
    built.event(_SWITCH, 10**9 + 3000, b"aa", 10, 120, 1, b"bb", 11, 120, tid=10)
    built.event(_SWITCH, 10**9 + 5000, b"bb", 11, 120, 1, b"aa", 12, 120, tid=11)
    built.event(_WAKING, 10**9 + 6000, b"aa", 10, 120, 0, tid=11)
    built.event(_SWITCH, 10**9 + 9000, b"bb", 11, 120, 0, b"aa", 10, 120, tid=11, cpu=1)
    built.event(_SWITCH, last, b"aa", 10, 120, 0, b"cc", 13, 120, tid=10, cpu=1)
    return built.file()


@pytest.fixture
def plan() -> Iterator[ReplayPlan]:
    with tempfile.TemporaryFile() as file:
        file.write(recording())
        file.seek(0)
        with perfpy.open(file) as opened:
            yield make_replay_plan(read_events(opened.data, comms=True, woken_comms=True), opened.data)


def test_the_numbers_are_perfs(plan: ReplayPlan) -> None:
    assert list(plan_lines(plan)) == _PERFS_LINES


def test_runs_have_the_time_since_the_last_switch_of_the_cpu(plan: ReplayPlan) -> None:
    runs = [task.values[task.kinds == RUN].tolist() for task in plan.tasks]
    assert runs == [[0, 500], [2000, 0], [], []]


def test_a_wakeup_ends_the_sleep_before_it_once(plan: ReplayPlan) -> None:
    first, second = plan.tasks[:2]
    assert plan.wakeup_count == 2
    assert first.values[first.kinds == WAKE].tolist() == [0, -1]
    assert second.values[second.kinds == SLEEP].tolist() == [0, -1, -1]
    assert second.values[second.kinds == WAKE].tolist() == [-1, 1]


def test_the_load_is_repeated_by_threads(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording())
    assert run(["sched", "replay", "-r", "2", "-i", str(path)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[4:-2] == _PERFS_LINES
    assert [line.split()[:2] for line in lines[-2:]] == [["#1", ":"], ["#2", ":"]]


def test_a_clock_that_jumped_by_hours_is_refused(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording(last=10**9 + 2 * 3600 * 10**9))
    assert run(["sched", "replay", "-r", "0", "-i", str(path)]) == 255
    assert b"2 hours of CPU time" in capfdbinary.readouterr().err
