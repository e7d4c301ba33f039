"""Two sets of runs, counter by counter: how much B differs from A, and whether that means anything.

What enters: two `Runs`, live or from files. What leaves: a `Comparison` of
`ComparedCount`s in the order of the counters, elapsed time first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.counts.significance import RelativeChange, Spread, compare, spread
from perfpy.counts.spread import fences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ELAPSED: Final = "elapsed"
_NS_PER_S: Final = 1e9
#: fewer runs than this say nothing about outliers
_RUNS_FOR_FENCES: Final = 5


class Runs:
    """All runs of one side.

    name: the command, or the file; amounts: counter -> (unit, one amount a
    run). A counter that a run could not count is not among the amounts.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.amounts: dict[str, tuple[str, list[float]]] = {}
        self.uncounted: dict[str, str] = {}

    def add(self, elapsed_ns: int, amounts: Mapping[str, tuple[str, float]]) -> None:
        """One more run; amounts: counter -> (unit, amount)."""
        for counter, (unit, amount) in {ELAPSED: ("s", elapsed_ns / _NS_PER_S), **amounts}.items():
            self.amounts.setdefault(counter, (unit, []))[1].append(amount)

    def cannot_count(self, counter: str, why: str) -> None:
        """A counter without an amount, and why."""
        self.uncounted[counter] = why

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(self.amounts[ELAPSED][1]) if ELAPSED in self.amounts else 0


class ComparedCount(NamedTuple):
    """One counter on both sides. outliers: the runs (from 0) of A and of B that lie far outside the others."""

    name: str
    unit: str
    a_values: Sequence[float]
    b_values: Sequence[float]
    a: Spread
    b: Spread
    change: RelativeChange
    a_outliers: Sequence[int]
    b_outliers: Sequence[int]


class Comparison(NamedTuple):
    """counts: what both sides counted; uncounted: counter -> why it is missing; confidence: of the intervals, 0 to 1."""

    a_name: str
    b_name: str
    counts: Sequence[ComparedCount]
    uncounted: Mapping[str, str]
    confidence: float


def compare_runs(a: Runs, b: Runs, confidence: float = 0.95) -> Comparison:
    """Compare what both sides have counted. Raises ValueError when a side has no runs."""
    if not a.count or not b.count:
        raise ValueError(f"{(b if a.count else a).name}: no run to compare")
    counts = []
    for name, (unit, a_values) in a.amounts.items():
        if name not in b.amounts:
            continue
        b_values = b.amounts[name][1]
        counts.append(
            ComparedCount(
                name,
                unit,
                a_values,
                b_values,
                spread(a_values, confidence),
                spread(b_values, confidence),
                compare(a_values, b_values, confidence),
                outliers(a_values),
                outliers(b_values),
            )
        )
    missing = dict.fromkeys(a.amounts.keys() ^ b.amounts.keys(), "only one side counted it")
    return Comparison(a.name, b.name, counts, {**missing, **a.uncounted, **b.uncounted}, confidence)


def outliers(values: Sequence[float]) -> list[int]:
    """The runs that lie far outside the others; none where there are too few to tell."""
    return fences(values).outside(values) if len(values) >= _RUNS_FOR_FENCES else []
