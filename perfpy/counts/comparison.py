"""Two sets of runs, counter by counter: how much B differs from A, and whether that means anything.

What enters: two `Runs`, live or from files. What leaves: a `Comparison` of
`ComparedCount`s in the order of the counters, elapsed time first.

A verdict takes three things: chance does not explain the difference (over all
counters together), it is large enough to matter, and the medians say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.counts.significance import RelativeChange, Spread, compare, spread
from perfpy.counts.spread import fences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ELAPSED: Final = "elapsed"
HIGHER: Final = "B is higher"
LOWER: Final = "B is lower"
TOO_SMALL: Final = "too small to matter"
UNCLEAR: Final = "no significant difference"
TOO_FEW: Final = "too few runs to tell"
#: the smallest change that matters unless one says otherwise, and the most events of difference that never do
LEAST_CHANGE: Final = 0.01
FEW_EVENTS: Final = 2
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
    """One counter on both sides. verdict: one of those above; outliers: the runs (from 0) of A and of B far outside the others."""

    name: str
    unit: str
    a_values: Sequence[float]
    b_values: Sequence[float]
    a: Spread
    b: Spread
    change: RelativeChange
    verdict: str
    a_outliers: Sequence[int]
    b_outliers: Sequence[int]

    def differs(self, verdict: str, by: float) -> bool:
        """Whether this is the verdict, and the difference above a part of A."""
        return self.verdict == verdict and (self.change.estimate is None or abs(self.change.estimate) > by)


class Comparison(NamedTuple):
    """counts: what both sides counted; uncounted: counter -> why it is missing.

    confidence: of all intervals together, 0 to 1; least_change: what matters, as a part of A.

    >>> import perfpy
    >>> result = perfpy.compare(["true"], ["sleep", "0.1"], repeat=6)
    >>> result.faster(), min(result.elapsed.a_values) < min(result.elapsed.b_values)
    (False, True)
    """

    a_name: str
    b_name: str
    counts: Sequence[ComparedCount]
    uncounted: Mapping[str, str]
    confidence: float
    least_change: float

    @property
    def elapsed(self) -> ComparedCount:
        """The time that runs took."""
        return self.counter(ELAPSED)

    def counter(self, name: str) -> ComparedCount:
        """One counter. Raises KeyError, with the reason where it could not be counted."""
        for count in self.counts:
            if count.name == name:
                return count
        why = self.uncounted.get(name) or f"there are {', '.join(count.name for count in self.counts)}"
        raise KeyError(f"{name}: {why}")

    def higher(self, name: str, by: float = 0.0) -> bool:
        """Whether B counts more than A, by more than chance and by more than `by` (a part of A: 0.03 is 3 %)."""
        return self.counter(name).differs(HIGHER, by)

    def lower(self, name: str, by: float = 0.0) -> bool:
        """Whether B counts less than A, as for `higher`."""
        return self.counter(name).differs(LOWER, by)

    def slower(self, by: float = 0.0) -> bool:
        """Whether B takes longer than A, by more than chance and by more than `by` (a part of A's time)."""
        return self.higher(ELAPSED, by)

    def faster(self, by: float = 0.0) -> bool:
        """Whether B takes less time than A, as for `slower`."""
        return self.lower(ELAPSED, by)


def compare_runs(a: Runs, b: Runs, confidence: float = 0.95, *, least_change: float = LEAST_CHANGE) -> Comparison:
    """Compare what both sides have counted. Raises ValueError when a side has no runs."""
    if not a.count or not b.count:
        raise ValueError(f"{(b if a.count else a).name}: no run to compare")
    both = [name for name in a.amounts if name in b.amounts]
    counts = []
    for name in both:
        (unit, a_values), (_, b_values) = a.amounts[name], b.amounts[name]
        counts.append(compare_amounts(name, unit, a_values, b_values, confidence, least_change=least_change, of=len(both)))
    missing = dict.fromkeys(a.amounts.keys() ^ b.amounts.keys(), "only one side counted it")
    return Comparison(a.name, b.name, counts, {**missing, **a.uncounted, **b.uncounted}, confidence, least_change)


def compare_amounts(
    name: str,
    unit: str,
    a_values: Sequence[float],
    b_values: Sequence[float],
    confidence: float = 0.95,
    *,
    least_change: float = LEAST_CHANGE,
    of: int = 1,
) -> ComparedCount:
    """Compare one counter's amounts, an amount a run. of: how many counters are compared. Raises ValueError when a side has none."""
    sides = spread(a_values, confidence), spread(b_values, confidence)
    change = compare(a_values, b_values, confidence, of=of)
    verdict = _verdict(change, *sides, unit, least_change)
    return ComparedCount(name, unit, a_values, b_values, *sides, change, verdict, outliers(a_values), outliers(b_values))


def _verdict(change: RelativeChange, a: Spread, b: Spread, unit: str, least_change: float) -> str:
    if not change.enough:
        return TOO_FEW
    higher = (change.estimate or 0.0) > 0 or change.estimate is None
    if not change.significant or (b.median > a.median) != higher:
        return UNCLEAR
    few = not unit and abs(b.median - a.median) <= FEW_EVENTS
    if few or (change.estimate is not None and abs(change.estimate) < least_change):
        return TOO_SMALL
    return HIGHER if higher else LOWER


def outliers(values: Sequence[float]) -> list[int]:
    """The runs that lie far outside the others; none where there are too few to tell."""
    return fences(values).outside(values) if len(values) >= _RUNS_FOR_FENCES else []
