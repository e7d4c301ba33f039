"""Statistics of repeated runs: mean, deviation, standard error, outliers.

Imports no numpy, because stat must start at once.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0.0 for no values."""
    return sum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1)."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean, which perf stat -r prints after +-."""
    return deviation(values) / math.sqrt(len(values)) if values else 0.0


def relative_error(error: float, of: float) -> float:
    """Return an error in percent of a mean; 0.0 if the mean is 0."""
    return 100.0 * error / of if of else 0.0


def median(values: Sequence[float]) -> float:
    """Return the median. Raises ValueError for no values."""
    return quantile(sorted(values), 0.5)


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0 to 1) of the ordered values lie, interpolated between neighbours."""
    if not ordered:
        raise ValueError("no values")
    position = part * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


class Fences:
    """Tukey's fences: values outside are outliers."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high

    def outside(self, values: Sequence[float]) -> list[int]:
        """Return the positions of the outliers."""
        return [i for i, value in enumerate(values) if not self.low <= value <= self.high]


def fences(values: Sequence[float]) -> Fences:
    """Return fences 1.5 interquartile ranges beyond the quartiles, which assume no shape of the distribution."""
    ordered = sorted(values)
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    reach = 1.5 * (high - low)
    return Fences(low - reach, high + reach)
