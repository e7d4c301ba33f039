"""Transitions of threads become waits, whatever piece they come in and whatever is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.recorded_marks import READY, UNKNOWN_STATE, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.abi.records import IdLayout
from perfpy.capture.off_cpu import TIME_ATTR
from perfpy.capture.unwinding.waits import read_records
from perfpy.scheduling.intervals import IntervalPairing, Intervals, RunningTime, count_running
from perfpy.scheduling.transitions import END, IN, NOTE_SHIFT, OUT, STACK, TRANSITION, WOKEN, Transitions

NEVER = (1 << 64) - 1
ASLEEP = ord("S")


def transitions(*given: tuple[int, int, int, int]) -> Transitions:
    """(thread, time, kind, detail); the stack of a STACK mark is (thread, time)."""
    rows = np.zeros(len(given), TRANSITION)
    stacks: list[Any] = []
    for number, (tid, time, kind, detail) in enumerate(given):
        rows[number] = (tid, tid // 10 * 10, time, kind, tid % 2, detail, len(stacks) if kind == STACK else -1)
        if kind == STACK:
            stacks.append(np.array([tid, time], np.uint64))
    offsets = np.arange(len(stacks) + 1) * 2
    return Transitions(rows, Ragged(np.concatenate([np.zeros(0, np.uint64), *stacks]), offsets))


def seen(waits: Intervals) -> list[tuple[int, int, int, str, list[int]]]:
    """Thread, end, duration, state and stack of each, in order of time."""
    results = []
    for row in np.sort(waits.rows, order="end"):
        stack = waits.stacks[int(row["stack"])].tolist() if row["stack"] >= 0 else []
        results.append((int(row["tid"]), int(row["end"]), int(row["duration"]), chr(int(row["state"])), stack))
    return results


def test_an_interval_lasts_from_out_to_in_with_the_stack_of_out():
    pairing = IntervalPairing()
    take_ended = pairing.take_ended(NEVER, transitions((11, 99, STACK, ASLEEP), (11, 100, OUT, UNKNOWN_STATE), (11, 350, IN, 0)))
    assert seen(take_ended) == [(11, 350, 250, "S", [11, 99])]


def test_intervals_of_threads_are_separate():
    both = transitions((11, 100, OUT, READY), (12, 110, OUT, READY), (12, 120, IN, 0), (11, 200, IN, 0))
    assert [(tid, duration) for tid, _, duration, _, _ in seen(IntervalPairing().take_ended(NEVER, both))] == [(12, 10), (11, 100)]


@pytest.mark.parametrize("cut", range(1, 7))
def test_the_partition_into_pieces_does_not_matter(cut):
    arguments = [
        (11, 99, STACK, ASLEEP),
        (11, 100, OUT, 0),
        (11, 350, IN, 0),
        (11, 400, STACK, ASLEEP),
        (11, 401, OUT, 0),
        (11, 500, IN, 0),
    ]
    pairing = IntervalPairing()
    results = []
    for piece in (arguments[:cut], arguments[cut:], []):
        bound = max([time for _, time, _, _ in piece], default=NEVER)
        results += seen(pairing.take_ended(bound, transitions(*piece)))
    assert results == [(11, 350, 250, "S", [11, 99]), (11, 500, 99, "S", [11, 400])]


def test_an_end_read_before_its_begin_is_paired():
    pairing = IntervalPairing()
    assert not seen(pairing.take_ended(0, transitions((11, 350, IN, 0))))
    assert seen(pairing.take_ended(350, transitions((11, 300, OUT, READY), (11, 400, OUT, READY)))) == [(11, 350, 50, "R", [])]


def test_a_thread_that_never_left_has_no_interval():
    assert not seen(IntervalPairing().take_ended(NEVER, transitions((11, 350, IN, 0), (11, 360, WOKEN, 7))))


def test_the_last_wakeup_of_an_interval_has_its_waker():
    by = WOKEN_BY_THREAD << NOTE_SHIFT
    rows_in = transitions((11, 50, WOKEN, by | 3), (11, 99, STACK, ASLEEP), (11, 100, OUT, 0), (11, 200, WOKEN, by | 77), (11, 210, IN, 0))
    (row,) = IntervalPairing().take_ended(NEVER, rows_in).rows
    assert (row["waker"], row["note"]) == (77, WOKEN_BY_THREAD)


def test_a_wakeup_before_out_belongs_to_an_earlier_interval():
    rows_in = transitions((11, 50, WOKEN, WOKEN_BY_INTERRUPT << NOTE_SHIFT), (11, 99, STACK, ASLEEP), (11, 100, OUT, 0), (11, 210, IN, 0))
    (row,) = IntervalPairing().take_ended(NEVER, rows_in).rows
    assert (row["waker"], row["note"]) == (0, 0)


def test_an_ended_thread_has_no_interval_and_its_tid_starts_afresh():
    pairing = IntervalPairing()
    ended = transitions((11, 100, END, 0), (11, 101, STACK, ord("X")), (11, 102, OUT, 0))
    assert not seen(pairing.take_ended(200, ended))
    assert not seen(pairing.take_ended(NEVER, transitions((11, 9000, IN, 0))))
    assert not seen(pairing.take_unfinished())


def test_unfinished_intervals_last_to_the_end():
    pairing = IntervalPairing()
    pairing.take_ended(NEVER, transitions((11, 99, STACK, ord("D")), (11, 100, OUT, 0), (12, 400, IN, 0)))
    assert seen(pairing.take_unfinished()) == [(11, 400, 300, "D", [11, 99])]
    assert not seen(pairing.take_unfinished())


def test_the_idle_task_does_not_wait():
    assert not seen(IntervalPairing().take_ended(NEVER, transitions((0, 100, OUT, READY), (0, 200, IN, 0))))


def test_wakeups_of_unrecorded_threads_are_dropped():
    pairing = IntervalPairing()
    pairing.take_ended(NEVER, transitions(*((5, time, WOKEN, 7) for time in range(100))))
    assert not len(pairing._pending.rows)


def test_unfinished_waits_are_reported_at_any_time_and_end_later():
    pairing = IntervalPairing(sums_running=False)
    assert not seen(pairing.take_ended(200, transitions((11, 99, STACK, ASLEEP), (11, 100, OUT, 0), (12, 250, OUT, READY))))
    for until in (200, 230):  # nothing is taken away
        assert seen(pairing.unfinished(until)) == [(11, until, until - 100, "S", [11, 99])]
    assert seen(pairing.take_ended(300, transitions((11, 280, IN, 0)))) == [(11, 280, 180, "S", [11, 99])]
    assert seen(pairing.unfinished(300)) == [(12, 300, 50, "R", [])]
    assert pairing.running.totals(300) == {}


# How long threads ran, by the transitions of their switches.


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
