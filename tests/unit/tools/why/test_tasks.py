"""Recordings with many threads, jumping clocks and missing events are explained, within bounds."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.errors import UsageError
from perfpy.tools.why.explanation import explain
from perfpy.tools.why.tasks import StartedCommand
from perfpy.tools.why.text import why_lines
from tests.builders.many_threads import recording_of_switches
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from perfpy.tools.why.explanation import Explanation


def explained(data: bytes, *pids: int, started: StartedCommand | None = None) -> Explanation:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            return explain(recording.data, recording.symbolizer(), pids, started)


def test_the_thread_that_woke_another_one_is_followed():
    explanation = explained(recording_of_switches(3, 30), 101)
    cause = explanation.path.causes()[0]
    assert explanation.path.largest("wakers", cause.nodes)[0] == 100


def test_times_of_threads_add_up():
    explanation = explained(recording_of_switches(5, 60, one_process=True), 100)
    assert len(explanation.threads) == 5
    assert all(sum(thread.columns.values()) == thread.wall for thread in explanation.threads)


@pytest.mark.parametrize("time_of", [lambda turn: 10**10 + (turn * 1000 if turn % 7 else -turn * 10**6), lambda turn: turn << 52])
def test_clocks_that_jump_make_no_negative_times(time_of):
    explanation = explained(recording_of_switches(5, 200, time_of=time_of, one_process=True), 100)
    assert all(value >= 0 for thread in explanation.threads for value in thread.columns.values())
    assert all(cause.time >= 0 for cause in explanation.path.causes())


def test_without_wakeups_waits_have_no_waker():
    explanation = explained(recording_of_switches(3, 30, with_wakeups=False), 101)
    assert explanation.path.largest("wakers", explanation.path.causes()[0].nodes) == (-1, 0)


def test_a_process_that_did_not_run_is_named():
    """As one that is stopped, or waits all the time."""
    with pytest.raises(UsageError, match=r"task-104 \(104\) did not run in this recording: it waited all the time, or was stopped"):
        explained(recording_of_switches(5, 2, named=True), 104)


def test_three_thousand_threads_of_one_process_take_little_time():
    data = recording_of_switches(3_000, 6_000, one_process=True)
    begin = time.process_time()
    explanation = explained(data, 100)
    lines = list(why_lines(explanation))
    assert time.process_time() - begin < 5
    assert len(explanation.threads) == 3_000
    assert len(lines) < 100


def test_the_started_command_is_explained_also_if_its_exec_was_lost():
    """Its time begins when the recorder, which is thread 100 here, lets it begin."""
    explanation = explained(recording_of_switches(3, 30), started=StartedCommand(100, 101, "./program"))
    assert (explanation.main, explanation.comm(101)) == (101, "program")
    assert explanation.elapsed < explained(recording_of_switches(3, 30), 101).elapsed


def test_a_recorded_command_without_exec_is_found_by_its_name_in_switches():
    explanation = explained(recording_of_switches(4, 30, commands=("sh", "other", "program")))
    assert (explanation.main, explanation.comm(102)) == (102, "program")


def test_a_command_whose_switches_were_all_lost_is_named():
    data = recording_of_switches(3, 30, lost=5)
    with pytest.raises(UsageError, match=r"no switch of program \(999\), 5 events lost; record again on a less busy machine"):
        explained(data, started=StartedCommand(100, 999, "./program"))


def test_a_recording_without_switches_is_refused_with_the_line_to_type():
    with pytest.raises(UsageError, match="perfpy why -o FILE -- COMMAND"):
        explained(simple_recording().file())


def test_a_process_that_was_not_recorded_is_refused():
    with pytest.raises(UsageError, match="no process 99999 in this recording"):
        explained(recording_of_switches(3, 30), 99999)
