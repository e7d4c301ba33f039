"""How long threads ran, by the transitions of their switches."""

from __future__ import annotations

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.sample_id import IdLayout
from perfpy.capture.off_cpu.sources import TIME_ATTR
from perfpy.capture.off_cpu.wait_samples import read_records
from perfpy.scheduling.running import RunningTime, count_running
from perfpy.scheduling.transitions import END, IN, OUT, TRANSITION


def ran(*pieces: list[tuple[int, int, int]], first: int = 100, newest: int = 1000) -> dict[int, int]:
    """Threads and their ns, of pieces of (tid, time, kind)."""
    running = RunningTime()
    running.first = first
    for piece in pieces:
        rows = np.zeros(len(piece), TRANSITION)
        for row, (tid, time, kind) in zip(rows, sorted(piece), strict=True):
            row["tid"], row["pid"], row["time"], row["kind"] = tid, 7 if kind == OUT else -1, time, kind
        running.add(rows)
    data = read_records(running.totals(newest), newest, 55)
    time_of = {}
    for offset in range(0, len(data), 72):
        record = records.decode(RecordType.READ, 0, data[offset + 8 : offset + 72], IdLayout.of(TIME_ATTR, NATIVE_ENDIAN), NATIVE_ENDIAN)
        assert isinstance(record, records.Read)
        value, ident, _ = np.frombuffer(record.values, np.uint64).tolist()
        assert record.sample_id is not None
        assert (ident, record.sample_id.time, record.sample_id.tid) == (55, newest, record.tid)
        assert record.pid in (0, 7)  # a thread that comes to a CPU is told without its process where that has ended
        time_of[record.tid] = value
    return time_of


def test_a_thread_runs_from_switch_in_to_switch_out():
    assert ran([(1, 200, IN), (1, 250, OUT), (1, 300, IN), (1, 301, OUT)]) == {1: 51}


def test_a_thread_that_first_leaves_ran_from_the_beginning():
    assert ran([(1, 250, OUT), (1, 300, IN), (1, 310, OUT)]) == {1: 160}


def test_a_thread_that_does_not_leave_ran_to_the_end():
    assert ran([(1, 200, IN)]) == {1: 800}


def test_a_run_can_span_two_pieces():
    assert ran([(1, 200, IN), (2, 210, IN), (2, 215, OUT)], [(1, 260, OUT), (2, 300, IN)], [(2, 310, OUT)]) == {1: 60, 2: 15}


def test_exit_ends_a_run():
    assert ran([(1, 200, IN), (1, 240, END)]) == {1: 40}
    assert ran([(1, 200, IN), (1, 240, END), (1, 241, OUT)]) == {1: 40}


def test_runs_with_lost_transitions_are_not_counted():
    """Twice in a row the same: what lies between is not known."""
    assert ran([(1, 200, IN), (1, 210, OUT), (1, 400, OUT), (1, 500, IN), (1, 600, IN), (1, 610, OUT)]) == {1: 20}


def test_the_idle_task_is_not_counted():
    assert ran([(0, 200, IN), (0, 300, OUT), (-1, 200, IN), (-1, 300, OUT)]) == {}


def test_one_thread_runs_at_first_and_each_switch_adds_or_takes_one():
    assert count_running([IN, IN, OUT, END], cpus=8).tolist() == [1, 2, 3, 2, 1]


def test_no_more_threads_run_than_there_are_cpus_and_at_least_one_does():
    assert count_running([IN, IN, IN], cpus=2).tolist() == [1, 2, 2, 2]
    assert count_running([OUT, OUT], cpus=2).tolist() == [1, 1, 1]
