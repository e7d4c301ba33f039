"""Tests of the run time of tasks, and of the interrupts that are taken from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.perfdata.tracepoint_rows import TracepointRows
from perfpy.tools.kwork.cpu_usage import measure_usage
from perfpy.tools.kwork.works import ENTRY, EXIT, IRQ, SOFTIRQ, WorkEvents

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def test_a_recorded_format_may_lack_the_names():
    switches = switches_of(RUNS)
    del switches.fields["prev_comm"], switches.fields["next_comm"]
    assert {task.comm for task in measure_usage(switches, {}).tasks} == {""}
