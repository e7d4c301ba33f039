"""Times around switches, by the rules of perf sched timehist."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.scheduling.switch_times import (
    CAME,
    LEFT_BLOCKED,
    LEFT_READY,
    MIGRATED,
    RAN,
    WOKEN,
    Events,
    QueueTransitions,
    SwitchTimes,
    count_wakeups,
    previous_of,
    run_queue_delays,
    sorted_by_thread,
    switch_times,
    thread_order,
)


def events(*rows: tuple[int, int, int]) -> Events:
    """Return events of (thread, time, order)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return Events(*(np.array(list(column), np.int64) for column in columns))


def times(switches, cpus, *, ready=(), wakeups=(), migrations=()) -> SwitchTimes:
    is_ready = np.array([index in ready for index in range(len(cpus))], bool)
    return switch_times(events(*switches), np.array(cpus, np.int64), is_ready, events(*wakeups), events(*migrations))


def test_previous_of_a_group():
    assert previous_of(np.array([5, 7, 5, 5, 7])).tolist() == [-1, -1, 0, 2, 1]


def test_a_thread_ran_since_the_last_switch_on_its_cpu():
    assert times([(1, 100, 0), (2, 130, 1), (1, 150, 2)], [0, 1, 0]).ran.tolist() == [0, 0, 50]


def test_the_delay_lasts_from_the_first_wakeup_to_the_cpu():
    switch_times = times([(1, 100, 0), (2, 140, 3), (1, 170, 4)], [0, 0, 0], wakeups=[(1, 110, 1), (1, 120, 2)])
    assert switch_times.delay.tolist() == [0, 0, 30]
    assert switch_times.waited.tolist() == [0, 0, 40]


def test_a_preempted_thread_is_ready_at_once():
    assert times([(1, 100, 0), (2, 140, 1), (1, 170, 2)], [0, 0, 0], ready=[0]).delay.tolist() == [0, 0, 40]


def test_the_last_migration_before_the_cpu_counts():
    switch_times = times([(1, 100, 0), (2, 140, 4), (1, 170, 5)], [0, 0, 0], wakeups=[(1, 110, 1)], migrations=[(1, 120, 2), (1, 130, 3)])
    assert switch_times.before_migration.tolist() == [0, 0, 20]


def test_a_wakeup_after_the_thread_came_gives_no_delay():
    assert times([(1, 100, 0), (2, 140, 1), (1, 170, 3)], [0, 0, 0], wakeups=[(1, 150, 2)]).delay.tolist() == [0, 0, 0]


def test_clocks_that_go_back_give_no_negative_times():
    switch_times = times([(1, 500, 0), (2, 140, 1), (1, 100, 2)], [0, 0, 0], ready=[0])
    assert min(switch_times.ran.min(), switch_times.delay.min(), switch_times.waited.min()) >= 0


# Delays between readiness and a CPU, by the rules of perf sched latency.


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
