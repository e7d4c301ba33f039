"""Compare two sets of runs counter by counter, and judge each difference.

A verdict needs three things: chance does not explain the difference (over all counters together), the difference is large enough to
matter, and the medians agree with it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.counts.aggregation import deviation, fences, mean, median, standard_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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


# Tell whether B differs from A: the Mann-Whitney test and its confidence interval. Times and counts of programs are skewed and have
# outliers, because a disturbance only ever adds. A test on means assumes a normal distribution: it reports differences that do not exist
# and misses some that do. Ranks are robust. The Hodges-Lehmann interval comes from the same test, so it excludes zero exactly when the
# test calls the change significant.

#: with at most this many pairs of runs, the exact distribution is computed
_EXACT_PAIRS: Final = 900
_BISECTIONS: Final = 60
_POWER: Final = 0.8
_RUNS_FOR_NOISE: Final = 4
_LEAST_EDGE: Final = 1e-3  # probability above one half; less would take a million runs
_MOST_RUNS: Final = 100


class Spread(NamedTuple):
    """The runs of one side: mean, standard deviation, the mean's confidence interval, and the median."""

    runs: int
    mean: float
    deviation: float
    low: float
    high: float
    median: float


class RelativeChange(NamedTuple):
    """The change from A to B.

    Attributes:
        estimate, low, high: relative to A (0.1 means that B has 10 % more); None if A is zero
        p: two-sided probability
        significant: whether p is below 1 - confidence
        enough: whether the number of runs allows a significant result
    """

    estimate: float | None
    low: float | None
    high: float | None
    p: float
    significant: bool
    enough: bool


def spread(values: Sequence[float], confidence: float = 0.95) -> Spread:
    """Return a side's mean with Student's interval. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values")
    middle = mean(values)
    reach = student_quantile((1 + confidence) / 2, len(values) - 1) * standard_error(values) if len(values) > 1 else 0.0
    return Spread(len(values), middle, deviation(values), middle - reach, middle + reach, median(values))


def compare(a: Sequence[float], b: Sequence[float], confidence: float = 0.95, *, of: int = 1) -> RelativeChange:
    """Compare B with A. Raises ValueError if one of them is empty.

    `of` is the number of simultaneous comparisons. Of twenty counters, one differs by chance at a probability of 5 %. Each comparison
    therefore gets its part of that probability (Bonferroni), and all intervals together hold with `confidence`.
    """
    if not a or not b:
        raise ValueError("no values to compare")
    alpha = (1 - confidence) / of
    p = min(1.0, mann_whitney(a, b) * of)
    cut = _interval_cut(len(a), len(b), alpha)
    estimate, low, high = _relative_shift(a, b, cut)
    return RelativeChange(estimate, low, high, p, p < 1 - confidence, cut > 0)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided probability that two samples of one population differ this much in their ranks."""
    ranks, tie_sizes = _ranks([*a, *b])
    n, m = len(a), len(b)
    u = sum(ranks[:n]) - n * (n + 1) / 2
    u = min(u, n * m - u)
    if not tie_sizes and n * m <= _EXACT_PAIRS:
        counts = _u_counts(n, m)
        return min(1.0, 2 * sum(counts[: int(u) + 1]) / math.comb(n + m, n))
    total = n + m
    tied = sum(count**3 - count for count in tie_sizes)
    variance = n * m / 12 * (total + 1 - tied / (total * (total - 1))) if total > 1 else 0.0
    if variance <= 0:
        return 1.0
    z = max(0.0, (n * m / 2 - u - 0.5)) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def runs_to_see(change: float, a: Sequence[float], b: Sequence[float], confidence: float = 0.95, *, of: int = 1) -> int | None:
    """Return how many runs of each side detect a change of this size (0.05: 5 %) in four of five cases; None if unknown.

    Noether's formula (Sample size determination for some common nonparametric tests, 1987) needs the probability that a run of the
    changed program exceeds one of the other. It is estimated over all pairs of the given runs, each at its own distance from its side's
    median, which accounts for long tails and disturbed runs.
    """
    if min(*a, *b) <= 0 or min(len(a), len(b)) < _RUNS_FOR_NOISE:
        return None
    noise = sorted(offset for side in (a, b) for offset in _offsets(side))
    shift = math.log1p(change)
    lower = sum(bisect_left(noise, offset + shift) for offset in noise) - len(noise)  # no run is compared with itself
    same_or_lower = sum(bisect_right(noise, offset + shift) for offset in noise) - len(noise)
    above = (lower + same_or_lower) / 2 / (len(noise) * (len(noise) - 1))
    alpha = (1 - confidence) / of
    reach = normal_quantile(1 - alpha / 2) + normal_quantile(_POWER)
    least = next(runs for runs in range(2, _MOST_RUNS) if _interval_cut(runs, runs, alpha))
    return max(least, math.ceil(reach**2 / (6 * max(above - 0.5, _LEAST_EDGE) ** 2)))


def _offsets(side: Sequence[float]) -> list[float]:
    """Return the distances of runs from their median as logarithms, widened because the median comes from the same runs."""
    logs = [math.log(value) for value in side]
    middle, wider = median(logs), math.sqrt(len(logs) / (len(logs) - 1))
    return [(value - middle) * wider for value in logs]


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t for a probability of 0.5 to 1 and `freedom` >= 1 degrees."""
    return _quantile(lambda t: student_cdf(t, freedom), probability)


def normal_quantile(probability: float) -> float:
    """Return the quantile of the normal distribution for a probability of 0.5 to 1."""
    return _quantile(lambda z: 1 - math.erfc(z / math.sqrt(2)) / 2, probability)


def _quantile(distribution: Callable[[float], float], probability: float) -> float:
    low, high = 0.0, 1e4
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if distribution(middle) < probability:
            low = middle
        else:
            high = middle
    return low


def student_cdf(t: float, freedom: int) -> float:
    """Return the distribution function by the finite series for integer degrees of freedom (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = (cosine if odd else 1.0) if freedom > 1 else 0.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return 0.5 + inside / 2


def _ranks(values: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return each value's rank from 1, where ties share their mean rank, and the size of each tie."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    tie_sizes = []
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for position in order[start:end]:
            ranks[position] = (start + end + 1) / 2
        if end - start > 1:
            tie_sizes.append(end - start)
        start = end
    return ranks, tie_sizes


@lru_cache(maxsize=16)  # all counters of a comparison have the same numbers of runs
def _u_counts(n: int, m: int) -> list[int]:
    """Return the number of arrangements of n and m runs with U = 0, 1, 2, ... (coefficients of a Gaussian binomial)."""
    size = n * m + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, n + 1):
        for u in range(size - 1, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, size):
            counts[u] += counts[u - i]
    return counts


def _interval_cut(n: int, m: int, alpha: float) -> int:
    """Return how many ordered pairwise differences to drop at each end; 0 if even all of them cannot reach significance."""
    if n * m <= _EXACT_PAIRS:
        allowed = alpha / 2 * math.comb(n + m, n)
        reached, cut = 0, 0
        for count in _u_counts(n, m):
            reached += count
            if reached > allowed:
                break
            cut += 1
        return cut
    z = normal_quantile(1 - alpha / 2)
    return max(0, math.floor(n * m / 2 - z * math.sqrt(n * m * (n + m + 1) / 12)))


def _relative_shift(a: Sequence[float], b: Sequence[float], cut: int) -> tuple[float | None, float | None, float | None]:
    """Return the median of all pairwise differences and its interval, relative to A; as ratios unless a value is zero."""
    if min(*a, *b) > 0:
        logs_a, logs_b = [math.log(x) for x in a], [math.log(y) for y in b]
        middle, low, high = _shift(logs_a, logs_b, cut)
        return math.expm1(middle), math.expm1(low), math.expm1(high)
    whole = median(a)
    if not whole:
        return None, None, None
    middle, low, high = _shift(a, b, cut)
    return middle / abs(whole), low / abs(whole), high / abs(whole)


def _shift(a: Sequence[float], b: Sequence[float], cut: int) -> tuple[float, float, float]:
    differences = sorted(y - x for x in a for y in b)
    edge = max(cut - 1, 0)
    return median(differences), differences[edge], differences[-1 - edge]
