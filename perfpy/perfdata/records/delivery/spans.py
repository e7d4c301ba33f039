"""Split a recording into spans whose samples are delivered one span after the other, and can be read independently."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.perfdata.records.delivery.keys import KeyedSamples


class Span(NamedTuple):
    """The samples with keys from `lower` on and below `upper`: all of them are in the chunks from `first` to before `end`."""

    first: int
    end: int
    lower: int
    upper: int

    def select(self, samples: KeyedSamples) -> KeyedSamples:
        """Select the samples of this span."""
        mask = samples.keys >= np.uint64(self.lower)
        if self.upper >> 64 == 0:
            mask &= samples.keys < np.uint64(self.upper)
        return samples if mask.all() else samples.rows(rows_where(mask))


def spans_of(later: Sequence[int], highest: Sequence[int]) -> list[Span]:
    """Return the spans of one file, whose samples together are all samples, in order.

    Args:
        later: of each chunk, the lowest key of the samples after it.
        highest: of each chunk, the highest key of its own samples; -1 for none.

    >>> spans_of([5, 9, 1 << 64], [6, 8, 12])[1]
    Span(first=0, end=2, lower=5, upper=9)
    """
    result: list[Span] = []
    first = 0
    for chunk, (lower, upper) in enumerate(pairwise([0, *later])):
        while first < chunk and highest[first] < lower:
            first += 1
        if lower < upper:
            result.append(Span(first, chunk + 1, lower, upper))
    return result
