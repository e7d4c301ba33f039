"""Pairs of events, intervals, and the times between context switches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.perfpy_encodings import LIKE_OTHERS, READY, UNKNOWN_STATE, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.abi.records import IdLayout
from perfpy.capture.off_cpu_events import TIME_ATTR
from perfpy.capture.unwinding.switches_to_waits import read_records, with_stacks_of_others
from perfpy.scheduling.intervals import INTERVAL, IntervalPairing, Intervals, RunningTime, count_running
from perfpy.scheduling.segments import LockEvents, numbers_of_keys, pair_contentions, pair_events
from perfpy.scheduling.switch_times import (
    CAME,
    LEFT_BLOCKED,
    LEFT_READY,
    MIGRATED,
    RAN,
    Events,
    QueueStates,
    QueueTransitions,
    SwitchRuns,
    SwitchTimes,
    previous_of,
    sorted_by_thread,
    thread_order,
)
from perfpy.scheduling.switch_times import WOKEN as WOKEN_THREAD
from perfpy.scheduling.transitions import END, IN, NOTE_SHIFT, OUT, STACK, TRANSITION, WOKEN, Transitions, without_switches

# A begin belongs to the end that follows it.


def pairs(begins: list[tuple[int, int]], ends: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of rows, and the number of open begins; rows: (key, order)."""
    columns = [np.array([row[number] for row in rows], np.int64) for rows in (begins, ends) for number in (0, 1)]
    matches = pair_events(*columns)
    return sorted(zip(matches.begin.tolist(), matches.end.tolist(), strict=True)), matches.open_count


def test_begins_and_ends_of_the_same_key_are_paired():
    assert pairs([(1, 0), (2, 1), (1, 4)], [(2, 2), (1, 3), (1, 5)]) == ([(0, 1), (1, 0), (2, 2)], 0)


def test_a_begin_without_end_is_open():
    assert pairs([(1, 0), (1, 2)], [(1, 3)]) == ([(1, 0)], 1)


def test_an_end_without_begin_is_left_out():
    assert pairs([(1, 5)], [(1, 2), (1, 6), (1, 7)]) == ([(0, 1)], 0)


def test_nothing_gives_nothing():
    assert pairs([], []) == ([], 0)
    assert pairs([(1, 0)], []) == ([], 1)


def test_equal_rows_get_equal_numbers():
    numbers = numbers_of_keys(np.array([5, 5, 7, 5]), np.array([1 << 60, 2, 1 << 60, 1 << 60])).tolist()
    assert numbers[0] == numbers[3]
    assert len(set(numbers)) == 3


# Waits for locks: each begin is paired with the next end of the same thread and lock.


def events(*rows: tuple[int, int, int]) -> LockEvents:
    """Return events of (tid, lock, order)."""
    tid, lock, order = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return LockEvents(np.array(tid, np.int64), np.array(lock, np.uint64), np.array(order, np.int64))


def pairs_of_contention(begins: LockEvents, ends: LockEvents) -> list[tuple[int, int]]:
    matches = pair_contentions(begins, ends)
    return list(zip(matches.begin.tolist(), matches.end.tolist(), strict=True))


def test_a_wait_lasts_until_the_next_end():
    assert pairs_of_contention(events((1, 7, 0), (1, 7, 2)), events((1, 7, 1), (1, 7, 3))) == [(0, 0), (1, 1)]


def test_threads_and_locks_do_not_mix():
    assert pairs_of_contention(events((1, 7, 0), (2, 7, 1), (1, 8, 2)), events((2, 7, 3), (1, 8, 4), (1, 7, 5))) == [(0, 2), (1, 0), (2, 1)]


def test_of_nested_begins_the_first_counts():
    assert pairs_of_contention(events((1, 7, 0), (1, 7, 1)), events((1, 7, 2))) == [(0, 0)]


def test_a_wait_without_end_is_kept():
    assert pairs_of_contention(events((1, 7, 0)), events()) == [(0, -1)]


def test_an_end_without_begin_is_left_out_of_contention():
    assert pairs_of_contention(events((1, 7, 5)), events((1, 7, 1), (1, 8, 6))) == [(0, -1)]


def test_no_events_have_no_waits():
    assert pairs_of_contention(events(), events()) == []
    assert pairs_of_contention(events(), events((1, 7, 1))) == []


# Transitions of threads become waits, whatever piece they come in and whatever is missing.


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


def test_waits_without_a_stack_have_that_of_similar_ones_of_their_thread():
    """Each example stands for as many others; a wait of another length, thread or kind is unlike it."""
    short, long, other = (11, 1_000), (11, 1_000_000), (12, 1_000)
    given = [(*short, ASLEEP, 0), (*short, ASLEEP, 1), *[(*short, UNKNOWN_STATE, -1)] * 4]
    given += [(*long, UNKNOWN_STATE, -1), (*other, UNKNOWN_STATE, -1), (*short, READY, -1)]
    rows = np.zeros(len(given), INTERVAL)
    for row, (tid, duration, state, stack) in zip(rows, given, strict=True):
        row["tid"], row["duration"], row["state"], row["stack"] = tid, duration, state, stack
    stacks = Ragged(np.array([5, 6, 7], np.uint64), np.array([0, 1, 3]))
    none = Intervals(np.zeros(0, INTERVAL), Ragged.empty(0, np.uint64))
    waits, examples = with_stacks_of_others(Intervals(rows, stacks), none)
    assert waits.rows["stack"].tolist() == [0, 1, 0, 0, 1, 1, -1, -1, -1]
    assert waits.rows["state"][2:6].tolist() == [ASLEEP] * 4
    assert waits.rows["note"].tolist() == [0, 0, *[LIKE_OTHERS] * 4, 0, 0, 0]
    assert waits.rows["duration"].sum() == rows["duration"].sum()
    later, kept = with_stacks_of_others(Intervals(rows[2:4], Ragged.empty(0, np.uint64)), examples)
    assert [later.stacks[row].tolist() for row in later.rows["stack"]] == [[5], [6, 7]], "an example of the piece before"
    assert len(kept.rows) == 2
    assert (with_stacks_of_others(Intervals(rows[6:], stacks), none)[0].rows["stack"] < 0).all()


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


# Times around switches, by the rules of perf sched timehist.


def switch_events(*rows: tuple[int, int, int]) -> Events:
    """Return events of (thread, time, order)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return Events(*(np.array(list(column), np.int64) for column in columns))


def times(switches, cpus, *, ready=(), wakeups=(), migrations=()) -> SwitchTimes:
    is_ready = np.array([index in ready for index in range(len(cpus))], bool)
    return SwitchRuns(
        switch_events(*switches), np.array(cpus, np.int64), is_ready, switch_events(*wakeups), switch_events(*migrations)
    ).times()


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


@pytest.mark.parametrize("seed", range(20))
def test_windows_with_the_rows_that_are_kept_have_the_times_of_the_whole(seed: int) -> None:
    """Random events of five threads on three CPUs, so also impossible ones, cut at random places."""
    random = np.random.default_rng(seed)
    kind, thread, cpu = random.integers(0, 3, 300), random.integers(0, 5, 300), random.integers(0, 3, 300)
    is_ready, time = random.random(300) < 0.3, 1000 + np.cumsum(random.integers(0, 9, 300))

    def runs_of(rows: list[int]) -> tuple[SwitchRuns, list[Any]]:
        order = np.array(rows)
        parts = [order[kind[order] == number] for number in range(3)]
        events = [Events(thread[part], time[part], np.searchsorted(order, part)) for part in parts]
        runs = SwitchRuns(events[0], cpu[parts[0]], is_ready[parts[0]], *events[1:])
        return runs, [part[kept] for part, kept in zip(parts, runs.rows_to_keep(), strict=True)]

    whole = runs_of(list(range(300)))[0].times()
    cuts = sorted(random.choice(299, 6, replace=False) + 1)
    kept: list[int] = []
    times = []
    for begin, end in zip([0, *cuts], [*cuts, 300], strict=True):
        runs, rows = runs_of([*kept, *range(begin, end)])
        times.append([column[sum(kind[kept] == 0) :] for column in runs.times()[:4]])
        kept = sorted(np.concatenate(rows).tolist())
    for column, parts in zip(whole[:4], zip(*times, strict=True), strict=True):
        assert np.concatenate(parts).tolist() == column.tolist()


# Delays between readiness and a CPU, by the rules of perf sched latency.


def switch_transitions(*rows: tuple[int, int, int]) -> QueueTransitions:
    """Return a table of (tid, kind, time), in order."""
    tid, kind, time = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return QueueTransitions(tid, kind.astype(np.uint8), time, np.arange(len(rows)))


def delays(*rows: tuple[int, int, int], one_cpu: bool = False) -> list[tuple[int, int, int]]:
    queue_delays = QueueStates(sorted_by_thread(switch_transitions(*rows)), one_cpu=one_cpu).delays()
    return list(zip(queue_delays.tid.tolist(), queue_delays.begin.tolist(), queue_delays.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, LEFT_BLOCKED, 10), (1, WOKEN_THREAD, 30), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, LEFT_READY, 10), (1, CAME, 35)], [(1, 10, 35)]),
        ([(1, LEFT_READY, 10), (1, WOKEN_THREAD, 20), (1, CAME, 35)], [(1, 10, 35)]),
        ([(1, LEFT_BLOCKED, 10), (1, WOKEN_THREAD, 20), (1, WOKEN_THREAD, 30), (1, CAME, 35)], [(1, 20, 35)]),
        ([(1, LEFT_BLOCKED, 10), (1, CAME, 35)], []),
        ([(1, CAME, 35)], [(1, 35, 35)]),
        ([(1, WOKEN_THREAD, 30), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, RAN, 30), (1, WOKEN_THREAD, 32), (1, CAME, 35)], [(1, 30, 35)]),
        ([(1, CAME, 5), (1, WOKEN_THREAD, 6), (1, CAME, 9)], [(1, 5, 5)]),
        ([(1, LEFT_BLOCKED, 1), (1, CAME, 5), (1, WOKEN_THREAD, 6), (1, CAME, 9)], [(1, 6, 9)]),
    ],
)
def test_a_delay_begins_when_the_thread_becomes_ready(rows, expected):
    assert delays(*rows) == expected


def test_threads_do_not_mix():
    rows = [(2, LEFT_BLOCKED, 1), (1, LEFT_READY, 2), (2, WOKEN_THREAD, 3), (1, CAME, 4), (2, CAME, 7)]
    assert delays(*rows) == [(1, 2, 4), (2, 3, 7)]


def test_on_one_cpu_a_migration_restarts_the_wait():
    rows = [(1, LEFT_READY, 10), (1, MIGRATED, 20), (1, CAME, 35)]
    assert delays(*rows, one_cpu=True) == [(1, 20, 35)]


def test_clocks_that_go_back_give_no_negative_delay():
    assert delays((1, LEFT_BLOCKED, 10), (1, WOKEN_THREAD, 40), (1, CAME, 35)) == [(1, 35, 35)]


def test_wakeups_of_sleeping_threads_are_counted():
    rows = switch_transitions(
        (1, LEFT_BLOCKED, 1), (1, WOKEN_THREAD, 2), (1, WOKEN_THREAD, 3), (1, CAME, 4), (1, WOKEN_THREAD, 5), (2, WOKEN_THREAD, 6)
    )
    assert QueueStates(sorted_by_thread(rows)).wakeup_count() == 2
    assert QueueStates(sorted_by_thread(rows), one_cpu=True).wakeup_count() == 4


def test_no_transitions_have_no_delays():
    none = np.zeros(0, np.int64)
    assert len(QueueStates(QueueTransitions(none, none.astype(np.uint8), none, none)).delays().tid) == 0


@pytest.mark.parametrize("one_cpu", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_windows_give_the_delays_of_the_whole(seed, one_cpu):
    random = np.random.default_rng(seed)
    count, size = 90, random.integers(1, 12)
    kinds = [LEFT_READY, LEFT_BLOCKED, WOKEN_THREAD, CAME, *((MIGRATED,) if one_cpu else ())]
    tids, chosen = random.integers(1, 5, count).tolist(), random.choice(kinds, count).tolist()
    if seed % 2:  # accounted time matters for the first transition of a thread
        chosen = [RAN if tid not in tids[:row] else kind for row, (tid, kind) in enumerate(zip(tids, chosen, strict=True))]
    rows = list(zip(tids, chosen, range(count), strict=True))
    whole = QueueStates(sorted_by_thread(switch_transitions(*rows)), one_cpu=one_cpu)
    found: list[tuple[int, int, int]] = []
    kept: list[tuple[int, int, int]] = []
    wakeups = 0
    for begin in range(0, count, size):
        window = [*kept, *rows[begin : begin + size]]
        transitions = sorted_by_thread(switch_transitions(*window))
        states = QueueStates(transitions, one_cpu=one_cpu, is_new=transitions.order >= len(kept))
        of_window = states.delays()
        found += zip(of_window.tid.tolist(), of_window.begin.tolist(), of_window.end.tolist(), strict=True)
        wakeups += states.wakeup_count()
        kept = list(zip(*(column.tolist() for column in transitions.take(states.rows_to_keep())[:3]), strict=True))
    assert sorted(found) == delays(*rows, one_cpu=one_cpu)
    assert wakeups == whole.wakeup_count()
    assert len(kept) <= 4 * 6


@pytest.mark.parametrize("tids", [[5, 3, 5, 3], [5, -1, 5, -1], [1 << 30, 2, 1 << 30, 2]])
@pytest.mark.parametrize("orders", [[7, 2, 0, 5], [1 << 31, 2, 0, 5]])
def test_rows_are_sorted_by_thread_then_by_order(tids, orders):
    rows = thread_order(np.array(tids), np.array(orders)).tolist()
    keys = [(tids[row] & 0xFFFFFFFF, orders[row]) for row in rows]
    assert keys == sorted(keys)
    assert sorted(rows) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("tid", "cpu", "came", "begins"),
    [
        (2, 0, 2_500, 1_000),  # the switch counts for the thread that comes
        (1, 0, 2_500, 2_500),  # it waited, and nobody ran
        (2, 1, 2_500, 2_500),  # on another CPU
        (2, 0, 90_000, 90_000),  # the CPU was idle, or another thread ran
    ],
)
def test_a_thread_runs_from_the_end_of_the_one_before_it(tid: int, cpu: int, came: int, begins: int) -> None:
    rows = np.zeros(2, TRANSITION)
    rows["tid"], rows["cpu"], rows["time"], rows["kind"] = (1, tid), (0, cpu), (1_000, came), (OUT, IN)
    assert without_switches(rows).tolist() == [1_000, begins]
    assert without_switches(rows[::-1]).tolist() == [begins, 1_000]
