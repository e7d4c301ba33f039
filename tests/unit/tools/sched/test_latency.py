"""The table of sched latency: one blank at least before the first bar."""

from __future__ import annotations

from perfpy.analysis.scheduler import Problems, TaskDelays
from perfpy.tools.sched.latency import latency_lines, problem_lines

ROW = TaskDelays("kworker/1:1H-kblockd", 58, 1, 7_000, 1, 17_000, 17_000, 6_044_520_250_000, 6_044_520_267_000)


def test_long_names_keep_a_blank():
    line = list(latency_lines([ROW], []))[4]
    assert line.startswith("  kworker/1:1H-kblockd:58 |      0.007 ms |        1 | avg:   0.017 ms |")


def test_idle_threads_and_rows_without_delay_are_hidden():
    hidden = [ROW._replace(comm="swapper"), ROW._replace(delays=0)]
    assert len(list(latency_lines(hidden, []))) == len(list(latency_lines([], [])))


def test_lost_records_and_wrong_switches_are_reported():
    lines = problem_lines(Problems(wrong_switches=2, wakeups=200, lost=10, chunks=1, records=1000))
    assert lines == [
        "  INFO: 1.000% lost events (10 out of 1000, in 1 chunks)",
        "  INFO: 1.000% context switch bugs (2 out of 200) (due to lost events?)",
    ]
