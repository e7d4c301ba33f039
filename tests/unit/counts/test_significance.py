"""Tests and intervals agree with tables, with each other, and with chance."""

from __future__ import annotations

import random

import pytest

from perfpy.counts.comparison import Runs, compare_runs
from perfpy.counts.significance import compare, mann_whitney, spread, student_quantile


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (19, 2.093), (30, 2.042)])
def test_students_table(freedom: int, expected: float) -> None:
    """The 97.5 % column of every statistics book."""
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        ([19, 22, 16, 29, 24], [20, 11, 17, 12], 1 / 9),  # a textbook's example
        ([1, 1, 1], [1, 1, 1], 1.0),
    ],
)
def test_mann_whitney_exact(a: list[float], b: list[float], p: float) -> None:
    """The exact distribution for few runs."""
    assert mann_whitney(a, b) == pytest.approx(p)
    assert mann_whitney(b, a) == pytest.approx(p)


def test_the_interval_excludes_zero_exactly_when_the_test_is_significant() -> None:
    """Test and interval never contradict each other."""
    chance = random.Random(5)
    for _ in range(200):
        a = [chance.gauss(10, 1) for _ in range(8)]
        b = [chance.gauss(10.8, 1) for _ in range(9)]
        change = compare(a, b)
        assert change.low is not None
        assert change.high is not None
        assert change.significant == (change.low > 0 or change.high < 0)


def test_equal_programs_rarely_look_different() -> None:
    """Skewed times of one and the same program: at most about 5 in 100 false alarms."""
    chance = random.Random(1)
    alarms = sum(
        compare([chance.lognormvariate(0, 0.5) for _ in range(15)], [chance.lognormvariate(0, 0.5) for _ in range(15)]).significant
        for _ in range(300)
    )
    assert alarms <= 24


def test_a_change_is_estimated_as_a_ratio() -> None:
    """10 % more is 10 % more, whatever the scale."""
    a = [100.0 + i for i in range(12)]
    change = compare(a, [1.1 * value for value in a])
    assert change.estimate == pytest.approx(0.1, abs=0.02)
    assert change.significant


def test_too_few_runs_say_so() -> None:
    """Three against three can never be significant at 5 %."""
    change = compare([1, 2, 3], [10, 20, 30])
    assert not change.enough
    assert not change.significant


def test_zeros_do_not_break_the_estimate() -> None:
    """Counts of zero have no ratio, but a difference."""
    assert compare([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]).estimate is None
    assert compare([2, 0, 2, 2, 2], [4, 4, 4, 4, 4]).estimate == pytest.approx(1.0)


def test_spread_has_students_interval() -> None:
    """Mean, deviation and the mean's interval."""
    side = spread([9.0, 10.0, 11.0])
    assert (side.mean, side.deviation) == (10.0, 1.0)
    assert side.high == pytest.approx(10 + 4.303 / 3**0.5, abs=1e-3)


def test_only_what_both_sides_counted_is_compared() -> None:
    """A counter of one side alone is named, not compared."""
    a, b = Runs("a"), Runs("b")
    for run in range(5):
        a.add(10**9 + run, {"cs": ("", 5.0), "only": ("", 1.0)})
        b.add(10**9 + run, {"cs": ("", 6.0)})
    comparison = compare_runs(a, b)
    assert [count.name for count in comparison.counts] == ["elapsed", "cs"]
    assert comparison.uncounted == {"only": "only one side counted it"}
    with pytest.raises(ValueError, match="no run"):
        compare_runs(a, Runs("empty"))
