"""`perfpy kwork`: the tables of interrupts, softirqs and work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.cli import run
from perfpy.perfdata.tracepoint_rows import TracepointRows
from perfpy.tools.kwork.cpu_usage import measure_usage
from perfpy.tools.kwork.works import (
    ENTRY,
    EXIT,
    IRQ,
    RAISE,
    SOFTIRQ,
    WorkEvents,
    find_intervals,
    make_history,
    make_rows,
    page_lines,
    sorted_rows,
    total_of,
)
from tests.builders.kernel_events import recording_of_work
from tests.builders.terminals import on_terminal
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


# Tests of `perfpy kwork`: names, filters and refusals.


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A recording of work."""
    file = tmp_path / "perf.data"
    file.write_bytes(recording_of_work())
    return str(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report -s avg", "-s avg: unknown sort key; expected runtime, max, count"),
        ("-k disk report", "-k disk: unknown kind of work; expected irq, softirq, workqueue, sched"),
        ("report -C x", "-C 'x': 'x' is neither a CPU nor a range of CPUs such as 0-3"),
        ("-k irq top", "kwork top needs switches; add sched to -k"),
        ("report -b", "needs perf's BPF programs"),
    ],
)
def test_a_wrong_line_is_refused(line, message, path, capsys):
    assert run(["kwork", *line.split(), "-i", path]) == 129
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("action", "kinds"), [("report", "irq,softirq,workqueue"), ("top", "irq,softirq,workqueue,sched")])
def test_a_recording_without_the_tracepoints_is_refused_with_the_line_that_records_them(action, kinds, tmp_path, capsys):
    file = tmp_path / "perf.data"
    file.write_bytes(EventRecording(["kmem:kfree"]).event("kmem:kfree", 10**9, 1, 2).file())
    assert run(["kwork", action, "-i", str(file)]) == 129
    assert f"perfpy kwork -k {kinds} record -- COMMAND" in capsys.readouterr().err


def test_options_before_the_action_keep_their_meaning(path, capsys):
    """In timehist itself, -k is the kernel's image."""
    assert run(["kwork", "-k", "softirq", "timehist", "-i", path]) == 0
    output = capsys.readouterr().out
    assert "(s)RCU:9" in output
    assert "eth0" not in output


def test_a_hostile_handler_cannot_control_a_terminal(tmp_path):
    recording = EventRecording(["irq:irq_handler_entry", "irq:irq_handler_exit"])
    recording.event("irq:irq_handler_entry", 10**9, 5, b"\x1b]0;x\x07a\nb").event("irq:irq_handler_exit", 10**9 + 5, 5, 1)
    file = tmp_path / "perf.data"
    file.write_bytes(recording.file())
    terminal = on_terminal("--no-pager", "kwork", "report", "-i", str(file), columns=200)
    assert "\x1b]0;" not in terminal.text
    assert "^[]0;x^Ga^Jb:5" in terminal.text


# Tests of the run time of tasks, and of the interrupts that are taken from it.


def switches_of(rows: Sequence[tuple[int, int, int, int]]) -> TracepointRows:
    """Return switches from rows of time, CPU, previous and next thread."""
    time, cpu, before, after = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    count = len(rows)
    fields = {
        "prev_pid": before, "next_pid": after,
        "prev_comm": np.array([b"t%d" % tid for tid in before], "S16"), "next_comm": np.array([b"t%d" % tid for tid in after], "S16"),
    }  # fmt: skip
    zeros = np.zeros(count, np.int32)
    return TracepointRows(np.arange(count), np.zeros(count, np.uint64), time, zeros, zeros, cpu.astype(np.int32), fields)


def interrupts_of(rows: Sequence[tuple[int, int, int]]) -> WorkEvents:
    """Return interrupts on CPU 0 from rows of begin, end and interrupted thread."""
    time = np.array([time for begin, end, _ in rows for time in (begin, end)], np.int64)
    tid = np.array([tid for _, _, tid in rows for _ in range(2)], np.int64)
    zeros, words = np.zeros(len(time), np.int64), np.zeros(len(time), np.uint64)
    phase = np.array([ENTRY, EXIT] * len(rows), np.int64)
    return WorkEvents(zeros, phase, zeros, tid, words, words, np.full(len(time), "", object), time, words)


RUNS = [(0, 0, 0, 1), (100, 0, 1, 2), (150, 0, 2, 0), (200, 0, 0, 1)]


def test_the_share_of_a_task_is_the_sum_over_the_cpus():
    usage = measure_usage(switches_of([*RUNS, (300, 1, 0, 1), (310, 1, 1, 0), (340, 1, 0, 5)]), {})
    tasks = {(task.tid, task.cpu): task for task in usage.tasks}
    assert (tasks[1, 1].runtime, tasks[1, 1].share, tasks[1, 1].comm) == (110, 5000 + 2500, "t1")
    assert (tasks[0, 0].runtime, tasks[0, 1].runtime) == (50, 30)
    assert (usage.total, usage.idle, usage.load) == (240, 80, {0: 7500, 1: 2500})


def test_interrupts_are_taken_from_the_task_that_they_interrupt():
    usage = measure_usage(switches_of(RUNS), {IRQ: interrupts_of([(10, 30, 1)]), SOFTIRQ: interrupts_of([(160, 170, 0)])})
    assert {task.tid: task.runtime for task in usage.tasks} == {1: 80, 2: 50, 0: 40}
    assert (usage.interrupts, usage.idle) == ({IRQ: 20, SOFTIRQ: 10}, 40)


def test_a_task_keeps_its_time_if_interrupts_took_more():
    usage = measure_usage(switches_of(RUNS), {IRQ: interrupts_of([(110, 130, 2), (160, 190, 2)])})
    assert {task.tid: task.runtime for task in usage.tasks} == {1: 100, 2: 50, 0: 50}
    assert usage.interrupts[IRQ] == 0


def test_interrupts_before_the_first_switch_of_a_task_do_not_count():
    usage = measure_usage(switches_of(RUNS), {IRQ: interrupts_of([(50, 60, 2), (110, 120, 2), (20, 30, 77)])})
    assert usage.interrupts[IRQ] == 10


def test_times_that_go_back_give_no_negative_run_times():
    usage = measure_usage(switches_of([(100, 0, 0, 1), (50, 0, 1, 2), (10, 0, 2, 0)]), {IRQ: interrupts_of([(90, 10, 1)])})
    assert (usage.tasks, usage.total) == ([], 0)


def test_a_task_has_its_first_name_on_the_highest_cpu_also_if_only_other_switches_count():
    switches = switches_of([*RUNS, (300, 1, 0, 1), (310, 1, 1, 0)])
    switches.fields["next_comm"][4] = b"first"
    usage = measure_usage(switches, {}, selected=switches.cpu == 0)
    assert [(task.tid, task.comm, task.runtime) for task in usage.tasks] == [(1, "first", 100), (2, "t2", 50), (0, "t0", 50)]
    assert [task.tid for task in measure_usage(switches, {}, "t1", switches.cpu == 0).tasks] == [1]


def test_a_recorded_format_may_lack_the_names():
    switches = switches_of(RUNS)
    del switches.fields["prev_comm"], switches.fields["next_comm"]
    assert {task.comm for task in measure_usage(switches, {}).tasks} == {""}


# Tests of run times and delays of kernel work.


_PHASES = {"R": RAISE, "E": ENTRY, "X": EXIT}


def events_of(text: str, times: Sequence[int] | None = None, numbers: Sequence[int] | None = None) -> WorkEvents:
    """Return events of one CPU and kind: a letter for each, R, E or X."""
    count = len(text)
    zeros, words = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    return WorkEvents(
        kind=zeros, phase=np.array([_PHASES[letter] for letter in text], np.int64), cpu=zeros, tid=zeros,
        number=np.array(numbers or [0] * count, np.uint64), function=words, name=np.full(count, "", object),
        time=np.array(times or range(count), np.int64), key=words,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "runs", "skipped"),
    [
        ("REX", [(1, 2)], (0, 0, 0)),
        ("REEX", [(2, 3)], (0, 1, 0)),
        ("EXX", [(0, 1)], (0, 0, 1)),
        ("XEXE", [(1, 2)], (0, 1, 1)),
        ("", [], (0, 0, 0)),
    ],
)
def test_a_run_is_an_entry_with_the_exit_that_follows(text, runs, skipped):
    events = events_of(text)
    intervals = find_intervals(events, events.work_numbers(), ENTRY, EXIT)
    assert list(zip(intervals.begin.tolist(), intervals.end.tolist(), strict=True)) == runs
    assert intervals.skipped == skipped


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("", 0), ("R", 0), ("E", 1), ("EX" * 200, 1), ("E" * 200, 1), ("X" * 128, 1), ("X" * 129, 2), ("X" * 127 + "EX", 1),
        ("X" * 127 + "EE", 2),
    ],
)  # fmt: skip
def test_pages_are_of_the_most_events_kept_at_once(text, pages):
    events = events_of(text)
    assert list(page_lines(events, events.work_numbers(), ENTRY, EXIT)) == [f"  INFO: use {pages} atom pages"]


def test_a_verbose_report_ends_with_the_pages(path, capsys):
    assert run(["kwork", "-v", "report", "-i", path]) == 0
    assert capsys.readouterr().out.endswith("  INFO: use 1 atom pages\n\n")


def test_a_delay_begins_at_the_last_request():
    events = events_of("RRXEX", times=[0, 10, 15, 30, 40])
    intervals = find_intervals(events, events.work_numbers(), RAISE, ENTRY)
    assert (intervals.begin.tolist(), intervals.end.tolist(), intervals.skipped) == ([1], [3], (1, 0, 0))


def test_the_history_has_a_delay_only_for_the_entry_after_a_request():
    events = events_of("REEXEX", times=[0, 1, 3, 6, 10, 15])
    history = make_history(events, events.work_numbers())
    assert (history.begin.tolist(), history.end.tolist(), history.delay.tolist()) == ([2, 4], [3, 5], [-1, -1])
    complete = events_of("REX", times=[0, 7, 9])
    assert make_history(complete, complete.work_numbers()).delay.tolist() == [7]


def test_times_that_go_back_give_no_negative_durations():
    events = events_of("REX", times=[30, 20, 10])
    work = events.work_numbers()
    (row,) = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert (row.total, row.longest) == (0, 0)
    assert make_history(events, work).delay.tolist() == [0]


def test_equal_rows_stand_in_the_order_of_the_highest_number():
    events = events_of("EXEXEX", numbers=[3, 3, 9, 9, 1, 1])
    work = events.work_numbers()
    rows = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert [row.number for row in sorted_rows(rows, ["runtime"])] == [9, 3, 1]


def test_the_longest_run_is_the_first_of_equal_ones():
    events = events_of("EXEXEX", times=[0, 5, 10, 19, 20, 29])
    work = events.work_numbers()
    (row,) = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert (row.intervals, row.total, row.longest, row.begin, row.end, row.average) == (3, 23, 9, 10, 19, 7)


def test_the_time_between_times_far_apart_does_not_overflow():
    events = events_of("REX", times=[-(1 << 62) - 1, 0, 1 << 62])
    assert total_of([], events).span == (1 << 63) + 1
