"""Tests of the verdict on programs that were run in turns."""

from __future__ import annotations

import pytest

from perfpy.counts.comparison import Runs, compare_runs
from perfpy.views.verdict.comparisons import comparison_verdict

MILLISECOND = 1_000_000


def verdict(a: list[int], b: list[int], *, cpu_a: list[int] | None = None, cpu_b: list[int] | None = None) -> str:
    """Return the sentence on runs of these milliseconds of elapsed time, and of CPU time."""
    sides = []
    for name, elapsed, cpu in (("a", a, cpu_a), ("b", b, cpu_b)):
        runs = Runs(name)
        for number, time in enumerate(elapsed):
            runs.add(time * MILLISECOND, {"task-clock": ("msec", float((cpu or elapsed)[number]))})
        sides.append(runs)
    (sentence,) = comparison_verdict(compare_runs(sides[0], sides[1]))
    return sentence.text


def test_a_difference_has_its_interval() -> None:
    slow, fast = [*range(100, 110)], [*range(90, 100)]
    text = verdict(slow, fast)
    assert text.startswith("B takes 10 % less time than A (")
    assert " %) and uses 10 % less CPU time (" in text
    assert text.endswith(" %), with 95 % confidence.")


def test_significant_changes_precede_uncertain_ones() -> None:
    noise = [100, 180, 90, 130, 210, 95, 160, 110, 140, 120]
    text = verdict(noise, noise[::-1], cpu_a=[*range(100, 110)], cpu_b=[*range(110, 120)])
    assert text.startswith("B uses 10 % more CPU time than A (")
    assert "; elapsed time: cannot tell (" in text
    assert text.endswith(" runs would, for a change of 5 %).")


def test_a_difference_that_is_too_small_to_matter() -> None:
    a = [100_000 + number for number in range(12)]
    assert verdict(a, [time + 20 for time in a]) == "B differs from A by less than 1 % in elapsed time and CPU time."


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs(runs: int) -> None:
    assert verdict([100] * runs, [200] * runs) == f"Elapsed time and CPU time: cannot tell from {runs} and {runs} runs."
