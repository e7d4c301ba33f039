"""An exact test separates changes of shares from noise, corrected for the number of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfpy.analysis.differences.proportions import LEVEL, chance, correct_for_many_tests, number_of_tests


def fisher(a: int, n: int, b: int, m: int) -> float:
    """Sum over all tables with these margins, as in textbooks."""
    ways = {x: math.comb(n, x) * math.comb(m, a + b - x) for x in range(max(0, a + b - m), min(n, a + b) + 1)}
    return sum(w for w in ways.values() if w <= ways[a]) / sum(ways.values())


@pytest.mark.parametrize("table", [(3, 10, 1, 10), (0, 50, 7, 40), (12, 100, 30, 120), (5, 5, 0, 5), (1, 3, 1, 900), (40, 1000, 80, 900)])
def test_the_probability_is_fishers(table: tuple[int, int, int, int]) -> None:
    assert chance(*table).p == pytest.approx(fisher(*table), rel=1e-6)


@pytest.mark.parametrize("table", [(0, 10, 0, 10), (10, 10, 20, 20), (0, 0, 5, 10)])
def test_impossible_differences_have_probability_1(table: tuple[int, int, int, int]) -> None:
    assert chance(*table) == (1.0, 1.0)


def test_many_samples_are_approximated_closely() -> None:
    exact, approximate = chance(1900, 100_000, 2050, 100_000).p, chance(2900, 100_000, 3050, 100_000)
    assert 0.01 < exact < 0.03
    assert 0.03 < approximate.p < 0.07
    assert approximate.least == 0.0


def test_the_least_probability_is_that_of_the_most_uneven_table() -> None:
    probability = chance(2, 10, 2, 10)
    assert probability.least == pytest.approx(fisher(4, 10, 0, 10))
    assert probability.least < probability.p


def test_rows_that_cannot_be_significant_do_not_count() -> None:
    telling, hopeless = chance(100, 1000, 200, 1000), chance(1, 1000, 0, 1000)
    assert hopeless.least > LEVEL
    assert number_of_tests([telling] + [hopeless] * 500) == 1
    assert correct_for_many_tests([telling, hopeless]) == [telling.p, 1.0]
    assert number_of_tests([telling] * 20) == 20


def test_no_rows_are_no_tests() -> None:
    assert correct_for_many_tests([]) == []


def test_two_recordings_of_the_same_thing_seldom_have_a_mark() -> None:
    rng = np.random.default_rng(1)
    odds = rng.dirichlet(np.ones(300) * 0.3)
    marked = 0
    for _ in range(60):
        before, after = rng.multinomial(2000, odds).tolist(), rng.multinomial(2000, odds).tolist()
        result = correct_for_many_tests([chance(a, 2000, b, 2000) for a, b in zip(before, after, strict=True)])
        marked += min(result) < LEVEL
    assert marked <= 7  # 3 expected


def test_a_function_that_doubled_is_marked_among_hundreds() -> None:
    rng = np.random.default_rng(2)
    odds = rng.dirichlet(np.ones(300))
    odds[0] = 0.05
    changed = odds.copy()
    changed[0] = 0.1
    before, after = (rng.multinomial(3000, share / share.sum()).tolist() for share in (odds, changed))
    result = correct_for_many_tests([chance(a, 3000, b, 3000) for a, b in zip(before, after, strict=True)])
    assert result[0] < LEVEL
    assert sum(p < LEVEL for p in result) <= 2
