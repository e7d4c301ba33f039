"""Waits for locks: each begin is paired with the next end of the same thread and lock."""

from __future__ import annotations

import numpy as np

from perfpy.scheduling.contention import LockEvents, pair_contentions


def events(*rows: tuple[int, int, int]) -> LockEvents:
    """Return events of (tid, lock, order)."""
    tid, lock, order = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return LockEvents(np.array(tid, np.int64), np.array(lock, np.uint64), np.array(order, np.int64))


def pairs(begins: LockEvents, ends: LockEvents) -> list[tuple[int, int]]:
    matches = pair_contentions(begins, ends)
    return list(zip(matches.begin.tolist(), matches.end.tolist(), strict=True))


def test_a_wait_lasts_until_the_next_end():
    assert pairs(events((1, 7, 0), (1, 7, 2)), events((1, 7, 1), (1, 7, 3))) == [(0, 0), (1, 1)]


def test_threads_and_locks_do_not_mix():
    assert pairs(events((1, 7, 0), (2, 7, 1), (1, 8, 2)), events((2, 7, 3), (1, 8, 4), (1, 7, 5))) == [(0, 2), (1, 0), (2, 1)]


def test_of_nested_begins_the_first_counts():
    assert pairs(events((1, 7, 0), (1, 7, 1)), events((1, 7, 2))) == [(0, 0)]


def test_a_wait_without_end_is_kept():
    assert pairs(events((1, 7, 0)), events()) == [(0, -1)]


def test_an_end_without_begin_is_left_out():
    assert pairs(events((1, 7, 5)), events((1, 7, 1), (1, 8, 6))) == [(0, -1)]


def test_no_events_have_no_waits():
    assert pairs(events(), events()) == []
    assert pairs(events(), events((1, 7, 1))) == []
