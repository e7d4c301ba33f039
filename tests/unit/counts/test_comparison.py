"""What a comparison of two programs says, as values."""

from __future__ import annotations

import pytest

from perfpy.counts.comparison import Comparison, Runs, compare_runs


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
