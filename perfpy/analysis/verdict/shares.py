"""Intervals of confidence of shares of samples."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_DEVIATIONS: Final = 2.576  # of a normal distribution: 99 % lie within


class Interval(NamedTuple):
    """The lowest and the highest share, from 0 to 1, that agree with the samples."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Half of the distance between both."""
        return (self.high - self.low) / 2


def interval(share: float, samples: float) -> Interval:
    """Return the 99 % interval of Wilson (1927) of a share in independent samples.

    >>> interval(0.5, 100)
    Interval(low=0.3752..., high=0.6247...)
    """
    if samples <= 0:
        return Interval(0.0, 1.0)
    square = _DEVIATIONS**2 / samples
    centre = (share + square / 2) / (1 + square)
    reach = _DEVIATIONS / (1 + square) * math.sqrt(share * (1 - share) / samples + square / (4 * samples))
    return Interval(max(centre - reach, 0.0), min(centre + reach, 1.0))
