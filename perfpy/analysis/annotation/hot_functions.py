"""The functions of a report, and where in them the samples are.

What enters: a Report whose samples are folded by address (ReportOptions.by_address). What leaves: HotFunctions, for each
histogram, in the order of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.report.layout import Wanted
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.samples.locations import Locations

#: what the rows of such a report are by
BY_FUNCTION = Wanted(sort="dso,symbol")


class Hits(NamedTuple):
    """The samples of one event in one function.

    offset: where they are, from the function's beginning, in order; samples, period: how many and how much, before each
    offset and after the last, added up. of_all_samples, of_all_periods: of the event, or where functions were asked for by name
    (perf's annotate reads nothing else then) of these.
    """

    offset: NDArray[np.int64]
    samples: NDArray[np.int64]
    period: NDArray[np.int64]
    of_all_samples: int
    of_all_periods: int

    @property
    def total_samples(self) -> int:
        """How many there are in the function."""
        return int(self.samples[-1])

    @property
    def total_period(self) -> int:
        """How much there is in the function."""
        return int(self.period[-1])

    def between(self, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many samples, and how much, from each bound up to the next: one less than there are bounds."""
        rows = np.searchsorted(self.offset, bounds)
        return np.diff(self.samples[rows]), np.diff(self.period[rows])


class HotFunction(NamedTuple):
    """A row of a report that is a function. symbol: its number; percent: its share of the event; hits: of each event of the group."""

    symbol: int
    percent: float
    hits: list[Hits]


def hot_functions(report: Report, histogram: Histogram) -> Iterator[HotFunction]:
    """The functions of a table that its filters leave; rows without a function are left out."""
    known = histogram.locations
    entries = histogram.shown()
    symbols = known.symbol[histogram.entries.location[entries] >> ROLE_BITS]
    shares = histogram.percents("period", entries)
    found = [_Samples.of(report, histogram, member) for member in range(len(histogram.events))]
    for symbol, share in zip(symbols.tolist(), shares.tolist(), strict=True):
        if symbol >= 0:
            yield HotFunction(symbol, share, [samples.within(symbol) for samples in found])


class _Samples:
    """The addresses of one event, those of a function together."""

    def __init__(
        self,
        symbol: NDArray[np.int64],
        offset: NDArray[np.int64],
        samples: NDArray[np.int64],
        period: NDArray[np.int64],
        of_all: tuple[int, int],
    ) -> None:
        order = np.lexsort((offset, symbol))
        self._symbol, self._offset = symbol[order], offset[order]
        self._samples, self._period = samples[order], period[order]
        self._of_all = of_all

    @classmethod
    def of(cls, report: Report, histogram: Histogram, member: int) -> _Samples:
        """Those of one member of a table's group."""
        folded, known = report.folded, histogram.locations
        rows = np.flatnonzero((folded.event == histogram.events[member].event.index) & ~folded.filtered)
        frames = folded.dimensions["frame"][rows]
        symbol = known.symbol[frames].astype(np.int64)
        start = known.symbol_bounds(symbol)[0]
        offset = (known.address[frames] - start).astype(np.int64)
        samples, period = folded.count[rows], folded.period[rows]
        counted = _are_named(report.options.sample_filter.symbols, symbol, known)
        return cls(symbol, offset, samples, period, (int(samples[counted].sum()), int(period[counted].sum())))

    def within(self, symbol: int) -> Hits:
        """Those in a function."""
        first, last = np.searchsorted(self._symbol, [symbol, symbol + 1]).tolist()
        offset, which = np.unique(self._offset[first:last], return_inverse=True)
        columns = (sum_by(which.ravel(), values[first:last], len(offset)) for values in (self._samples, self._period))
        samples, period = (np.concatenate([np.zeros(1, np.int64), np.cumsum(column)]) for column in columns)
        return Hits(offset, samples, period, *self._of_all)


def _are_named(names: Collection[str] | None, symbol: NDArray[np.int64], known: Locations) -> NDArray[np.bool_]:
    """Which samples are in functions of these names; None: all."""
    if names is None:
        return np.ones(len(symbol), np.bool_)
    named = [number for number in range(len(known.symbols)) if known.symbols.name(number) in names]
    return np.isin(symbol, named)
