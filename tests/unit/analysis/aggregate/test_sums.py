"""Sums by group, exact beyond what a float can hold."""

import numpy as np

from perfpy.analysis.aggregate.sums import GroupSums, sum_by


def test_sums_beyond_53_bits_are_exact():
    big = (1 << 60) + 1
    assert sum_by(np.array([1, 0, 1]), np.array([big, 7, big], np.uint64), 3).tolist() == [7, 2 * big, 0]


def test_running_sums_grow_with_their_groups():
    sums = GroupSums()
    sums.add(np.array([0, 1, 1]), np.array([5, 6, 7]), 2)
    sums.add(np.array([3]), np.array([1]), 100)
    sums.add(np.array([1, 3]), None, 100)
    assert sums.totals(5).tolist() == [5, 14, 0, 2, 0]


def test_sums_beyond_64_bits_overflow_in_silence():
    wrapped = np.array([-(1 << 63), 5, -(1 << 62), -3], np.int64)  # sums of damaged counts
    assert sum_by(np.array([0, 0, 1, 1]), wrapped, 2).tolist() == [-(1 << 63) + 5, -(1 << 62) - 3]
    assert sum_by(np.zeros(4096, np.int64), np.full(4096, -(1 << 62), np.int64), 1).tolist() == [0]


def test_equal_values_are_counted():
    groups = np.array([0, 2, 2], np.int32)
    assert sum_by(groups, np.full(3, 250_000, np.uint64), 3).tolist() == [250_000, 0, 500_000]
    assert sum_by(groups, np.full(3, (1 << 60) + 1, np.uint64), 3).tolist() == [(1 << 60) + 1, 0, (1 << 61) + 2]
    assert sum_by(groups, np.full(3, -2, np.int64), 3).tolist() == [-2, 0, -4]
