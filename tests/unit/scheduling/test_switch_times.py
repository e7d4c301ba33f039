"""Times around switches, by the rules of perf sched timehist."""

from __future__ import annotations

import numpy as np

from perfpy.scheduling.switch_times import Events, SwitchTimes, previous_of, switch_times


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
