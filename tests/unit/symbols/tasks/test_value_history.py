"""Who has which value when: by rank, and by delivery key."""

from __future__ import annotations

import numpy as np

from perfpy.symbols.tasks.value_history import DeliveredValues, ValueHistory


def test_a_value_holds_from_its_rank_until_the_next_value_of_its_owner() -> None:
    history = ValueHistory([5, 6, 5], [1, 2, 4], [10, 20, 30])
    owner, rank = np.array([5, 5, 5, 6, 6, 7], np.uint32), np.array([0, 1, 4, 1, 9, 9])
    assert history.find(owner, rank, -1).tolist() == [-1, 10, 30, -1, 20, -1]


def test_of_equal_moments_the_last_row_counts() -> None:
    assert ValueHistory([5, 5], [1, 1], [10, 20]).find(np.array([5]), np.array([1]), 0).tolist() == [20]
    assert DeliveredValues([5, 5], [7, 7], [10, 20]).find(np.array([5]), np.array([7], np.uint64), 0).tolist() == [20]


def test_keys_may_be_any_64_bit_numbers() -> None:
    late = (1 << 64) - 2
    history = DeliveredValues([5, 0xFFFFFFFF], [1 << 40, late], [10, 20])
    owner, key = np.array([5, 5, -1, -1], np.int32), np.array([(1 << 40) - 1, late, late - 1, late + 1], np.uint64)
    assert history.find(owner, key, 0).tolist() == [0, 10, 0, 20]


def test_without_any_row_all_have_the_default() -> None:
    assert DeliveredValues((), (), ()).find(np.array([5]), np.array([1], np.uint64), 3).tolist() == [3]


def test_many_rows_are_found_like_single_ones() -> None:
    random = np.random.default_rng(32)
    owners, keys = random.integers(0, 40, 300), np.sort(random.integers(1, 1000, 300)).astype(np.uint64)
    history = DeliveredValues(owners, keys, np.arange(300))
    searched_owners = random.integers(-1, 45, 5000)
    searched_keys = np.sort(random.integers(0, 1100, 5000)).astype(np.uint64)
    many = history.find(searched_owners, searched_keys, -1)
    singles = [history.find(searched_owners[row : row + 1], searched_keys[row : row + 1], -1)[0] for row in range(0, 5000, 7)]
    assert many[::7].tolist() == singles
