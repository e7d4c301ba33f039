"""Delays between readiness and a CPU, by the rules of perf sched latency."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.scheduling.run_queue import (
    CAME,
    LEFT_BLOCKED,
    LEFT_READY,
    MIGRATED,
    RAN,
    WOKEN,
    QueueTransitions,
    count_wakeups,
    run_queue_delays,
    sorted_by_thread,
    thread_order,
)


def transitions(*rows: tuple[int, int, int]) -> QueueTransitions:
    """Return a table of (tid, kind, time), in order."""
    tid, kind, time = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return QueueTransitions(tid, kind.astype(np.uint8), time, np.arange(len(rows)))


def delays(*rows: tuple[int, int, int], one_cpu: bool = False) -> list[tuple[int, int, int]]:
    queue_delays = run_queue_delays(sorted_by_thread(transitions(*rows)), one_cpu=one_cpu)
    return list(zip(queue_delays.tid.tolist(), queue_delays.begin.tolist(), queue_delays.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, LEFT_BLOCKED, 10), (1, WOKEN, 30), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, LEFT_READY, 10), (1, CAME, 35)], [(1, 10, 35)]),
        ([(1, LEFT_READY, 10), (1, WOKEN, 20), (1, CAME, 35)], [(1, 10, 35)]),
        ([(1, LEFT_BLOCKED, 10), (1, WOKEN, 20), (1, WOKEN, 30), (1, CAME, 35)], [(1, 20, 35)]),
        ([(1, LEFT_BLOCKED, 10), (1, CAME, 35)], []),
        ([(1, CAME, 35)], [(1, 35, 35)]),
        ([(1, WOKEN, 30), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, RAN, 30), (1, WOKEN, 32), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, CAME, 5), (1, WOKEN, 6), (1, CAME, 9)], [(1, 5, 5)]),
        ([(1, LEFT_BLOCKED, 1), (1, CAME, 5), (1, WOKEN, 6), (1, CAME, 9)], [(1, 6, 9)]),
    ],
)
def test_a_delay_begins_when_the_thread_becomes_ready(rows, expected):
    assert delays(*rows) == expected


def test_threads_do_not_mix():
    rows = [(2, LEFT_BLOCKED, 1), (1, LEFT_READY, 2), (2, WOKEN, 3), (1, CAME, 4), (2, CAME, 7)]
    assert delays(*rows) == [(1, 2, 4), (2, 3, 7)]


def test_on_one_cpu_a_migration_restarts_the_wait():
    rows = [(1, LEFT_READY, 10), (1, MIGRATED, 20), (1, CAME, 35)]
    assert delays(*rows, one_cpu=True) == [(1, 20, 35)]


def test_clocks_that_go_back_give_no_negative_delay():
    assert delays((1, LEFT_BLOCKED, 10), (1, WOKEN, 40), (1, CAME, 35)) == [(1, 35, 35)]


def test_wakeups_of_sleeping_threads_are_counted():
    rows = transitions((1, LEFT_BLOCKED, 1), (1, WOKEN, 2), (1, WOKEN, 3), (1, CAME, 4), (1, WOKEN, 5), (2, WOKEN, 6))
    assert count_wakeups(sorted_by_thread(rows)) == 2
    assert count_wakeups(sorted_by_thread(rows), one_cpu=True) == 4


def test_no_transitions_have_no_delays():
    none = np.zeros(0, np.int64)
    assert len(run_queue_delays(QueueTransitions(none, none.astype(np.uint8), none, none)).tid) == 0


@pytest.mark.parametrize("tids", [[5, 3, 5, 3], [5, -1, 5, -1], [1 << 30, 2, 1 << 30, 2]])
@pytest.mark.parametrize("orders", [[7, 2, 0, 5], [1 << 31, 2, 0, 5]])
def test_rows_are_sorted_by_thread_then_by_order(tids, orders):
    rows = thread_order(np.array(tids), np.array(orders)).tolist()
    keys = [(tids[row] & 0xFFFFFFFF, orders[row]) for row in rows]
    assert keys == sorted(keys)
    assert sorted(rows) == [0, 1, 2, 3]
