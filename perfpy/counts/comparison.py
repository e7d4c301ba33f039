"""Compare two sets of runs counter by counter, and judge each difference.

A verdict needs three things: chance does not explain the difference (over all counters together), the difference is large enough to
matter, and the medians agree with it.
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
#: the default for the smallest change that matters, and the largest difference in events that never matters
LEAST_CHANGE: Final = 0.01
FEW_EVENTS: Final = 2
_NS_PER_S: Final = 1e9
#: fewer runs cannot have outliers
_RUNS_FOR_FENCES: Final = 5


class Runs:
    """All runs of one side.

    Attributes:
        name: the command, or the file
        amounts: counter -> (unit, one amount for each run), without counters that a run could not count
        uncounted: counter -> the reason
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.amounts: dict[str, tuple[str, list[float]]] = {}
        self.uncounted: dict[str, str] = {}

    def add(self, elapsed_ns: int, amounts: Mapping[str, tuple[str, float]]) -> None:
        """Add a run. `amounts` maps a counter to (unit, amount)."""
        for counter, (unit, amount) in {ELAPSED: ("s", elapsed_ns / _NS_PER_S), **amounts}.items():
            self.amounts.setdefault(counter, (unit, []))[1].append(amount)

    def cannot_count(self, counter: str, why: str) -> None:
        """Note the reason why a counter has no amount."""
        self.uncounted[counter] = why

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.amounts[ELAPSED][1]) if ELAPSED in self.amounts else 0


class ComparedCount(NamedTuple):
    """One counter on both sides.

    Attributes:
        verdict: one of the constants above
        a_outliers, b_outliers: indexes of runs far outside the others
    """

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
        """Whether the verdict is this one and the difference exceeds `by`, a fraction of A."""
        return self.verdict == verdict and (self.change.estimate is None or abs(self.change.estimate) > by)


class Comparison(NamedTuple):
    """The result of comparing two programs.

    Attributes:
        counts: counters that both sides have
        uncounted: counter -> why it is missing
        confidence: of all intervals together, 0 to 1
        least_change: the smallest change that matters, as a fraction of A

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
        """The elapsed time."""
        return self.counter(ELAPSED)

    def counter(self, name: str) -> ComparedCount:
        """Return one counter. Raises KeyError, with the reason if it could not be counted."""
        for count in self.counts:
            if count.name == name:
                return count
        why = self.uncounted.get(name) or f"there are {', '.join(count.name for count in self.counts)}"
        raise KeyError(f"{name}: {why}")

    def higher(self, name: str, by: float = 0.0) -> bool:
        """Whether B counts more than A, beyond chance and by more than `by`, a fraction of A (0.03 means 3 %)."""
        return self.counter(name).differs(HIGHER, by)

    def lower(self, name: str, by: float = 0.0) -> bool:
        """Whether B counts less than A; see `higher`."""
        return self.counter(name).differs(LOWER, by)

    def slower(self, by: float = 0.0) -> bool:
        """Whether B takes longer than A, beyond chance and by more than `by`, a fraction of A's time."""
        return self.higher(ELAPSED, by)

    def faster(self, by: float = 0.0) -> bool:
        """Whether B takes less time than A; see `slower`."""
        return self.lower(ELAPSED, by)


def compare_runs(a: Runs, b: Runs, confidence: float = 0.95, *, least_change: float = LEAST_CHANGE) -> Comparison:
    """Compare the counters that both sides have. Raises ValueError if a side has no runs."""
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
    """Compare one counter's amounts, one for each run. Raises ValueError if a side has none.

    `of` is the number of counters compared at the same time.
    """
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
    """Return the indexes of runs far outside the others; none if there are too few runs."""
    return fences(values).outside(values) if len(values) >= _RUNS_FOR_FENCES else []
