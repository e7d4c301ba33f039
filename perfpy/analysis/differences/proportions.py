"""Test whether a row's share differs between two recordings by more than sampling noise.

The test is Fisher's exact one on the 2x2 table (on the row or not, before or
after). It uses sample *counts*: what is random is where samples fall, and the
period is only each sample's weight. It is exact because most rows of
a profile have a handful of samples, for which the normal approximation marks far
too many; above some thousand samples both agree, and the
approximation is used.

A table has hundreds of rows, and one in twenty of them would be marked by
chance. The level is therefore divided by the number of tests, so that
without any change at most 5 of 100 tables have a mark. Only tests
that can be significant at all count (Tarone 1990):
a row with three samples cannot, however they fall, and must not reduce
the power for the others.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: the probability that a table without any change has a mark
LEVEL: Final = 0.05
#: samples on a row from which on the normal approximation is used
_MANY: Final = 4000
# probabilities that differ by less are equal except for rounding
_SAME: Final = 1 + 1e-7


class Chance(NamedTuple):
    """p: the probability that sampling alone shows this difference, or a larger one; least: the smallest possible p for these samples."""

    p: float
    least: float


@cache
def chance(before: int, n: int, after: int, m: int) -> Chance:
    """Return the two-sided probability of `before` of n and `after` of m samples if both have one share."""
    together = before + after
    if not together or not n or not m or together == n + m:
        return Chance(1.0, 1.0)
    if together > _MANY:
        return Chance(_normal(before, n, after, m), 0.0)
    low = max(0, together - m)
    return _two_sided(_hypergeometric(low, min(together, n), together, n, m), before - low)


def _two_sided(odds: NDArray[np.float64], count: int) -> Chance:
    """Sum the outcomes at most as probable as the observed one; and the least probable ones."""
    own = odds[count] * _SAME
    least = odds.min() * _SAME
    return Chance(min(1.0, float(odds[odds <= own].sum())), min(1.0, float(odds[odds <= least].sum())))


@cache
def amount_chance(before: int, after: int, share: float) -> Chance:
    """Return the two-sided probability of `before` among all samples, if each is from before with probability `share`.

    The test compares amounts, not parts of a whole: `share` follows from what a sample
    stands for in each recording, 1/2 if that is equal. (Przyborowski and Wilenski 1940: two Poisson counts.)
    """
    together = before + after
    if not together or not 0 < share < 1:
        return Chance(1.0, 1.0)
    if together > _MANY:
        deviation = math.sqrt(together * share * (1 - share))
        return Chance(math.erfc(abs(before - together * share) / deviation / math.sqrt(2)), 0.0)
    x = np.arange(together, dtype=np.float64)
    odds = _odds(np.log(together - x) - np.log(x + 1) + math.log(share / (1 - share)))
    return _two_sided(odds, before)


def _hypergeometric(low: int, high: int, together: int, n: int, m: int) -> NDArray[np.float64]:
    """Return the probabilities that low ... high of the samples are among the n, from the ratios of neighbours."""
    x = np.arange(low, high, dtype=np.float64)
    ratios = np.log(together - x) + np.log(n - x) - np.log(x + 1) - np.log(m - together + x + 1)
    return _odds(ratios)


def _odds(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities from the logarithms of the ratios of neighbours."""
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    odds: NDArray[np.float64] = np.exp(logs - logs.max())
    odds /= odds.sum()
    return odds


def _normal(before: int, n: int, after: int, m: int) -> float:
    share = (before + after) / (n + m)
    deviation = math.sqrt(share * (1 - share) * (1 / n + 1 / m))
    return math.erfc(abs(before / n - after / m) / deviation / math.sqrt(2))


def number_of_tests(chances: Sequence[Chance], level: float = LEVEL) -> int:
    """Return the divisor of the level: the number of tests that can be significant at the divided level."""
    least = np.sort(np.array([each.least for each in chances]))
    for divisor in range(1, len(least) + 1):
        if np.searchsorted(least, level / divisor, side="right") <= divisor:
            return divisor
    return max(len(least), 1)


def correct_for_many_tests(chances: Sequence[Chance], level: float = LEVEL) -> list[float]:
    """Return for each test the probability that a table without changes shows as much in any row; 1 if it cannot be significant."""
    tests = number_of_tests(chances, level)
    return [min(1.0, each.p * tests) if each.least <= level / tests else 1.0 for each in chances]
