"""A begin belongs to the end that follows it."""

from __future__ import annotations

import numpy as np

from perfpy.scheduling.event_pairs import numbers_of_keys, pair_events


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
