"""A begin belongs to the end that follows it."""

from __future__ import annotations

import numpy as np

from perfpy.scheduling.event_pairs import LockEvents, numbers_of_keys, pair_contentions, pair_events


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
