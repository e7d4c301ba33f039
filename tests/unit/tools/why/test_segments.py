"""The time of each thread, divided into running, ready and blocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.tools.why.segments import BLOCKED, READY, RUNNING, SegmentIndex, SwitchColumns, WakeupColumns, make_segments

if TYPE_CHECKING:
    from collections.abc import Sequence

READY_STATE, SLEEP, DEAD = 0, 1, 0x20


def segments(
    switches: list[tuple[int, ...]], wakeups: Sequence[tuple[int, ...]] = (), begin: int = 0, end: int = 100
) -> dict[int, list[tuple[int, int, int]]]:
    """Return thread -> (kind, begin, end). Switches: (order, time, cpu, prev, state, next); wakeups: (order, time, thread, is new)."""
    order, time, cpu, prev, state, following = (np.array(column, np.int64) for column in zip(*switches, strict=True))
    rows = [np.array(column, np.int64) for column in zip(*wakeups, strict=True)] or [np.zeros(0, np.int64)] * 4
    segments_of = make_segments(
        SwitchColumns(time, order, cpu, prev, following, state), WakeupColumns(rows[1], rows[0], rows[2], rows[3] > 0), begin, end
    )
    table: dict[int, list[tuple[int, int, int]]] = {}
    for tid, first, last, kind in zip(*(column.tolist() for column in segments_of[:4]), strict=True):
        table.setdefault(tid, []).append((kind, first, last))
    return table


def test_a_wait_ends_with_the_wakeup_and_the_thread_is_ready_until_it_runs():
    segments_of = segments([(1, 10, 0, 5, SLEEP, 0), (3, 40, 0, 0, READY_STATE, 5), (4, 60, 0, 5, DEAD, 0)], [(2, 30, 5, 0)])
    assert segments_of == {5: [(RUNNING, 0, 10), (BLOCKED, 10, 30), (READY, 30, 40), (RUNNING, 40, 60)]}


def test_a_preempted_thread_is_ready():
    segments_of = segments([(1, 10, 0, 5, READY_STATE, 6), (2, 30, 0, 6, SLEEP, 5)])
    assert segments_of[5] == [(RUNNING, 0, 10), (READY, 10, 30), (RUNNING, 30, 100)]


def test_only_the_first_wakeup_of_a_blocked_thread_counts():
    segments_of = segments(
        [(1, 10, 0, 5, SLEEP, 0), (5, 50, 0, 0, READY_STATE, 5)], [(0, 5, 5, 0), (2, 20, 5, 0), (3, 30, 5, 0), (6, 60, 5, 0)]
    )
    assert segments_of[5] == [(BLOCKED, 0, 5), (READY, 5, 10), (BLOCKED, 10, 20), (READY, 20, 50), (RUNNING, 50, 100)]


def test_a_new_thread_begins_with_its_first_wakeup():
    segments_of = segments([(2, 40, 1, 0, READY_STATE, 7), (3, 60, 1, 7, DEAD, 0)], [(1, 30, 7, 1)])
    assert segments_of == {7: [(READY, 30, 40), (RUNNING, 40, 60)]}


def test_a_number_that_a_second_thread_gets_does_not_join_both():
    segments_of = segments([(1, 10, 0, 7, DEAD, 0), (3, 40, 1, 0, READY_STATE, 7)], [(2, 30, 7, 1)])
    assert segments_of[7] == [(RUNNING, 0, 10), (READY, 30, 40), (RUNNING, 40, 100)]


def test_without_wakeups_a_wait_lasts_until_the_thread_runs():
    assert segments([(1, 10, 0, 5, SLEEP, 0), (2, 40, 0, 0, READY_STATE, 5)])[5][1:] == [(BLOCKED, 10, 40), (RUNNING, 40, 100)]


def test_times_that_go_back_make_no_negative_durations():
    segments_of = segments([(1, 50, 0, 5, SLEEP, 0), (3, 20, 0, 0, READY_STATE, 5), (4, 90, 0, 5, SLEEP, 0)], [(2, 10, 5, 0)])
    assert all(first <= last for rows in segments_of.values() for _, first, last in rows)


def test_the_idle_thread_has_no_segments():
    assert 0 not in segments([(1, 10, 0, 5, SLEEP, 0), (2, 40, 0, 0, READY_STATE, 5)])


def test_the_index_finds_the_segments_of_a_window():
    group, begin, end = np.array([1, 1, 1, 2]), np.array([0, 10, 20, 5]), np.array([10, 20, 30, 50])
    index = SegmentIndex(group, begin, end)
    first, count = index.overlapping(np.array([1, 2, 3]), np.array([12, 6, 0]), np.array([25, 7, 99]))
    spans = [set(range(start, start + length)) for start, length in zip(first.tolist(), count.tolist(), strict=True)]
    assert {1, 2} <= spans[0] <= {0, 1, 2}
    assert spans[1] == {3}
    assert spans[2] == set()


def test_the_index_holds_many_threads_over_long_times():
    threads = 50_000
    group = np.repeat(np.arange(threads), 2)
    begin = np.tile(np.array([0, 10**15]), threads)
    index = SegmentIndex(group, begin, begin + 10**15)
    first, count = index.overlapping(np.array([threads - 1]), np.array([10**15 + 5]), np.array([10**15 + 6]))
    assert 2 * threads - 1 in range(int(first[0]), int(first[0] + count[0]))
