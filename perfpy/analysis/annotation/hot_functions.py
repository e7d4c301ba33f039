"""The functions of a report, with the addresses of their samples. The report must be folded by address (ReportOptions.by_address)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.samples.locations import Locations

#: the sort keys of such a report
BY_FUNCTION = ColumnOptions(sort="dso,symbol")


class Hits(NamedTuple):
    """The samples of one event in one function.

    Attributes:
        offset: int64[n], from the function's start, ascending.
        samples, period: int64[n + 1], cumulative, before each offset and after the last.
        of_all_samples, of_all_periods: totals of the event, or of the functions selected by name
            (perf annotate reads nothing else then).
    """

    offset: NDArray[np.int64]
    samples: NDArray[np.int64]
    period: NDArray[np.int64]
    of_all_samples: int
    of_all_periods: int

    @property
    def total_samples(self) -> int:
        """The number of samples in the function."""
        return int(self.samples[-1])

    @property
    def total_period(self) -> int:
        """The period of the function."""
        return int(self.period[-1])

    def between(self, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the samples and the period from each bound up to the next: one less than bounds."""
        rows = np.searchsorted(self.offset, bounds)
        return np.diff(self.samples[rows]), np.diff(self.period[rows])


class HotFunction(NamedTuple):
    """A row of a report that is a function.

    Attributes:
        symbol: its number.
        percent: its share of the event.
        hits: of each event of the group.
    """

    symbol: int
    percent: float
    hits: list[Hits]


def hot_functions(report: Report, histogram: Histogram, percent_limit: float = 0.0) -> Iterator[HotFunction]:
    """Yield the functions of a table after filters; rows without a function or below a share of the event are skipped."""
    location_table = histogram.locations
    entries = histogram.visible_entries()
    shares = histogram.percents("period", entries)
    is_hot = shares >= percent_limit
    entries, shares = entries[is_hot], shares[is_hot]
    symbols = location_table.symbol[histogram.entries.location[entries] >> ROLE_BITS]
    members = [_Samples.of(report, histogram, member) for member in range(len(histogram.events))]
    for symbol, share in zip(symbols.tolist(), shares.tolist(), strict=True):
        if symbol >= 0:
            yield HotFunction(symbol, share, [samples.within(symbol) for samples in members])


class _Samples:
    """The addresses of one event's samples, grouped by function."""

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
        """Return the addresses of one member of a table's group."""
        folded, location_table = report.folded, histogram.locations
        rows = np.flatnonzero((folded.event == histogram.events[member].event.index) & ~folded.filtered)
        frames = folded.dimensions["frame"][rows]
        symbol = location_table.symbol[frames].astype(np.int64)
        start = location_table.symbol_bounds(symbol)[0]
        offset = (location_table.address[frames] - start).astype(np.int64)
        samples, period = folded.count[rows], folded.period[rows]
        counted = _are_named(report.options.sample_filter.symbols, symbol, location_table)
        return cls(symbol, offset, samples, period, (int(samples[counted].sum()), int(period[counted].sum())))

    def within(self, symbol: int) -> Hits:
        """Return the samples in a function."""
        first, last = np.searchsorted(self._symbol, [symbol, symbol + 1]).tolist()
        offset, inverse = np.unique(self._offset[first:last], return_inverse=True)
        columns = (sum_by(inverse.ravel(), values[first:last], len(offset)) for values in (self._samples, self._period))
        samples, period = (np.concatenate([np.zeros(1, np.int64), np.cumsum(column)]) for column in columns)
        return Hits(offset, samples, period, *self._of_all)


def _are_named(names: Collection[str] | None, symbol: NDArray[np.int64], location_table: Locations) -> NDArray[np.bool_]:
    """Return a mask of the samples in functions of these names; None for all."""
    if names is None:
        return np.ones(len(symbol), np.bool_)
    symbols = [number for number in range(len(location_table.symbols)) if location_table.symbols.name(number) in names]
    return np.isin(symbol, symbols)
