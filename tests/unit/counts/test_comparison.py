"""What a comparison of two programs says, as values."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from perfpy.counts.comparison import (
    HIGHER,
    LOWER,
    TOO_FEW,
    TOO_SMALL,
    UNCLEAR,
    Comparison,
    Runs,
    compare,
    compare_runs,
    mann_whitney,
    normal_quantile,
    runs_to_see,
    spread,
    student_quantile,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def comparison(before: float, after: float, *, spread: float = 0.001) -> Comparison:
    """Ten runs of each, whose times and pages lie around these."""
    sides = []
    for name, middle in (("a", before), ("b", after)):
        runs = Runs(name)
        for number in range(10):
            value = middle * (1 + spread * (number - 4.5))
            runs.add(round(value * 1e9), {"instructions": ("", value * 1e6)})
        sides.append(runs)
    sides[1].cannot_count("cycles", "this machine has no such counter")
    return compare_runs(sides[0], sides[1])


def test_slower_by_more_than_a_part() -> None:
    result = comparison(1.0, 1.1)
    assert (result.slower(), result.slower(by=0.05), result.slower(by=0.15), result.faster()) == (True, True, False, False)
    assert (result.higher("instructions", by=0.05), result.lower("instructions")) == (True, False)


def test_faster_is_the_other_way_round() -> None:
    result = comparison(1.1, 1.0)
    assert (result.slower(), result.faster(), result.faster(by=0.05), result.faster(by=0.2)) == (False, True, True, False)


def test_noise_is_neither() -> None:
    result = comparison(1.0, 1.01, spread=0.05)
    assert not result.slower()
    assert not result.faster()


def test_a_counter_that_is_missing_gives_the_reason() -> None:
    result = comparison(1.0, 1.0)
    assert result.counter("elapsed") is result.elapsed
    with pytest.raises(KeyError, match="this machine has no such counter"):
        result.counter("cycles")
    with pytest.raises(KeyError, match="there are elapsed, instructions"):
        result.higher("nothing")


# Tests and intervals agree with tables, with each other, and with chance.


@pytest.mark.parametrize(("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (19, 2.093), (30, 2.042)])
def test_students_table(freedom: int, expected: float) -> None:
    """The 97.5 % column of every statistics book."""
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("probability", "expected"), [(0.5, 0.0), (0.8, 0.841621), (0.975, 1.959964), (0.9995, 3.290527)])
def test_normal_table(probability: float, expected: float) -> None:
    assert normal_quantile(probability) == pytest.approx(expected, abs=1e-6)


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


def test_too_few_runs_are_reported() -> None:
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


def test_only_counters_of_both_sides_are_compared() -> None:
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


def runs_of(name: str, elapsed: list[float], **counters: list[float]) -> Runs:
    runs = Runs(name)
    for number, seconds in enumerate(elapsed):
        runs.add(round(seconds * 1e9), {counter: ("", values[number]) for counter, values in counters.items()})
    return runs


def test_many_counters_of_equal_programs_rarely_cry_wolf() -> None:
    """Six counters each: at most about 5 comparisons in 100 have a verdict where there is none."""
    chance = random.Random(3)

    def side() -> Runs:
        counters = {f"c{number}": [1000 * chance.lognormvariate(0, 0.2) for _ in range(10)] for number in range(5)}
        return runs_of("same", [chance.lognormvariate(0, 0.1) for _ in range(10)], **counters)

    comparisons = [compare_runs(side(), side()) for _ in range(200)]
    assert sum(any(count.verdict in (HIGHER, LOWER) for count in one.counts) for one in comparisons) <= 16


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([100, 101, 100, 101, 100, 101, 100], [102, 103, 102, 103, 102, 103, 102], TOO_SMALL),  # two events more are nothing
        ([1000, 1001, 1002, 1003, 1004, 1005, 1006], [1007, 1008, 1009, 1010, 1011, 1012, 1013], TOO_SMALL),  # below 1 %
        ([1000, 1001, 1002, 1003, 1004, 1005, 1006], [1100, 1101, 1102, 1103, 1104, 1105, 1106], HIGHER),
        ([1100, 1101, 1102, 1103, 1104, 1105, 1106], [1000, 1001, 1002, 1003, 1004, 1005, 1006], LOWER),
        ([1000, 1001, 1002, 1003, 1004, 1005, 1006], [1000, 1003, 1001, 1006, 1002, 1004, 1005], UNCLEAR),
    ],
)
def test_a_verdict_takes_a_difference_that_matters(a: list[float], b: list[float], verdict: str) -> None:
    """Chance excluded, more than a few events, more than 1 %."""
    times = [1.0 + run / 1000 for run in range(7)]
    comparison = compare_runs(runs_of("a", times, cs=a), runs_of("b", times, cs=b))
    assert comparison.counts[1].verdict == verdict


def test_changes_that_matter_have_a_verdict() -> None:
    """A tenth of a percent is enough for who says so."""
    a, b = [1 + run / 1e6 for run in range(8)], [1.002 + run / 1e6 for run in range(8)]
    assert compare_runs(runs_of("a", a), runs_of("b", b)).counts[0].verdict == TOO_SMALL
    assert compare_runs(runs_of("a", a), runs_of("b", b), least_change=0.001).counts[0].verdict == HIGHER
    assert compare_runs(runs_of("a", a[:3]), runs_of("b", b[:3])).counts[0].verdict == TOO_FEW


NOISES: dict[str, Callable[[random.Random], float]] = {
    "bell curve": lambda chance: chance.lognormvariate(0, 0.05),
    "never helped": lambda chance: 1 + chance.expovariate(1 / 0.04),
    "disturbed now and then": lambda chance: chance.lognormvariate(0, 0.03) * (1.5 if chance.random() < 0.08 else 1),
    "two ways to run": lambda chance: chance.lognormvariate(0, 0.01) * (1.06 if chance.random() < 0.3 else 1),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.thorough
def test_the_runs_it_takes_are_enough(noise: Callable[[random.Random], float]) -> None:
    """With as many runs as ten runs of each side say, a change is found four times of five, whatever the noise is like."""
    chance = random.Random(11)

    def side(count: int, factor: float = 1.0) -> list[float]:
        return [factor * noise(chance) for _ in range(count)]

    run_counts = sorted(runs_to_see(0.05, side(10), side(10, 1.02), of=3) or 0 for _ in range(21))
    assert 5 < run_counts[0] <= run_counts[-1] < 80
    result = sum(compare(side(run_counts[10]), side(run_counts[10], 1.05), of=3).significant for _ in range(60))
    assert 48 <= result <= 60


def test_too_few_runs_have_no_verdict() -> None:
    assert runs_to_see(0.05, [1.0], [1.0]) is None
    assert runs_to_see(0.05, [0.0] * 9, [1.0] * 9) is None
