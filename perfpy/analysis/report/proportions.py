"""Is a row's share in one recording another than in a second one, or is that the noise of sampling?

What enters: how many of n samples fell on a row before, and how many of m
after. What leaves: probabilities.

The test is Fisher's exact one on the 2x2 table (on the row or not, before or
after). It asks of sample *counts*: what is random is where samples fall, and a
period is only what each of them stands for. It is exact because most rows of
a profile have a handful of samples, where the normal approximation marks far
too much; above some thousand samples both are the same, and the
approximation is taken.

A table has hundreds of rows, and one in twenty of them would be marked by
chance. The level is therefore divided by the number of tests, so that a whole
table in which nothing changed has a mark in at most 5 of 100 cases. Counted
are only the tests that could have come out significant at all (Tarone 1990):
a row with three samples cannot, however they fall, and must not cost the
others their power.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: the probability with which a table without any change has a mark
LEVEL: Final = 0.05
#: from so many samples on a row the normal approximation does
_MANY: Final = 4000
# probabilities that differ by less are equal but for rounding
_SAME: Final = 1 + 1e-7


class Chance(NamedTuple):
    """p: the probability that sampling alone shows as much, or more; least: the smallest p that so many samples could have had."""

    p: float
    least: float


@cache
def chance(before: int, n: int, after: int, m: int) -> Chance:
    """The two-sided probability of `before` of n and `after` of m samples if both have one share."""
    together = before + after
    if not together or not n or not m or together == n + m:
        return Chance(1.0, 1.0)
    if together > _MANY:
        return Chance(_normal(before, n, after, m), 0.0)
    low = max(0, together - m)
    return _two_sided(_hypergeometric(low, min(together, n), together, n, m), before - low)


def _two_sided(odds: NDArray[np.float64], seen: int) -> Chance:
    """What is as improbable as the outcome that was seen, or more so; and the most improbable of all."""
    own = odds[seen] * _SAME
    least = odds.min() * _SAME
    return Chance(min(1.0, float(odds[odds <= own].sum())), min(1.0, float(odds[odds <= least].sum())))


@cache
def amount_chance(before: int, after: int, share: float) -> Chance:
    """The two-sided probability that of all these samples so many are from before, if each is with probability `share`.

    What is asked is whether the amounts are the same, not their parts of a whole: `share` follows from what a sample
    stands for in each recording, 1/2 where that is the same. (Przyborowski and Wilenski 1940: two Poisson counts.)
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
    """The probabilities of low ... high of the samples being among the n: from the ratios of neighbours."""
    x = np.arange(low, high, dtype=np.float64)
    ratios = np.log(together - x) + np.log(n - x) - np.log(x + 1) - np.log(m - together + x + 1)
    return _odds(ratios)


def _odds(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities from the logarithms of the ratios of neighbours."""
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    odds: NDArray[np.float64] = np.exp(logs - logs.max())
    odds /= odds.sum()
    return odds


def _normal(before: int, n: int, after: int, m: int) -> float:
    share = (before + after) / (n + m)
    deviation = math.sqrt(share * (1 - share) * (1 / n + 1 / m))
    return math.erfc(abs(before / n - after / m) / deviation / math.sqrt(2))


def number_of_tests(chances: Sequence[Chance], level: float = LEVEL) -> int:
    """What to divide the level by: the tests that can be significant at the level so divided."""
    least = np.sort(np.array([each.least for each in chances]))
    for divisor in range(1, len(least) + 1):
        if np.searchsorted(least, level / divisor, side="right") <= divisor:
            return divisor
    return max(len(least), 1)


def corrected(chances: Sequence[Chance], level: float = LEVEL) -> list[float]:
    """The probability, for each, that a table without changes shows as much in any row; 1 for what cannot be told."""
    tests = number_of_tests(chances, level)
    return [min(1.0, each.p * tests) if each.least <= level / tests else 1.0 for each in chances]
