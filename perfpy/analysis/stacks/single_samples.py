"""Single samples as columns, for recordings of any length: above a limit, samples that differ only in time are merged.

They are merged within ticks whose length grows, so that memory does not grow with the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.samples.row_hashes import combine_columns
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView

_FINEST: Final = 1000  # ns
_COARSER: Final = 2
_TYPES: Final = {
    "row": np.int32,
    "pid": np.int32,
    "tid": np.int32,
    "time": np.int64,
    "cpu": np.int32,
    "weight": np.int64,
    "samples": np.int32,
    "site": np.int32,
}


class SampleColumns(NamedTuple):
    """Samples, one entry each, or one for several merged ones; weight: their sum; samples: their number; site: row in another fold."""

    row: NDArray[np.int32]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    time: NDArray[np.int64]
    cpu: NDArray[np.int32]
    weight: NDArray[np.int64]
    samples: NDArray[np.int32]
    site: NDArray[np.int32]

    def take(self, rows: NDArray[Any]) -> SampleColumns:
        """Select samples."""
        return SampleColumns(*(column[rows] for column in self))

    def within(self, tick: int, begin: int) -> SampleColumns:
        """Merge equal samples within each tick, at its begin; ticks are counted from `begin`."""
        ticks = (self.time - begin) // tick
        ids, first = IdTable().ids_and_new(combine_columns([self.row, self.site, self.pid, self.tid, self.cpu, ticks]))
        weight, samples = sum_by(ids, self.weight, len(first)), sum_by(ids, self.samples, len(first))
        merged = self.take(first)
        return merged._replace(time=begin + ticks[first] * tick, weight=weight, samples=samples.astype(np.int32))


class SingleSamples:
    """A collection of single samples."""

    def __init__(self, most: int = 0) -> None:
        """Begin; most: the number of samples from which on they are merged; 0: never."""
        self._most, self._limit = most, 2 * most
        self._begin()
        self._tick = _FINEST

    def _begin(self) -> None:
        self._columns = {name: Growing(dtype) for name, dtype in _TYPES.items()}
        self._settled = 0  # samples with rows; those after them have groups of samples instead

    def add(self, kinds: NDArray[np.int32], samples: SampleView, weight: NDArray[Any], sites: NDArray[np.int32] | None = None) -> None:
        """Add a batch. kinds, sites: groups of samples of two folds, which get their rows by settle()."""
        columns = {name: samples.column(name) for name in ("pid", "tid", "time", "cpu")}
        columns |= {"row": kinds, "weight": weight, "samples": np.ones(len(kinds), np.int32)}
        columns["site"] = np.zeros(len(kinds), np.int32) if sites is None else sites
        for name, column in self._columns.items():
            column.append(columns[name])

    def settle(self, row_of_kind: NDArray[np.int32], site_of_kind: NDArray[np.int32] | None = None) -> None:
        """Replace the groups of the last batches by rows. site_of_kind: of the fold for sites."""
        for name, rows in (("row", row_of_kind), ("site", site_of_kind)):
            if rows is not None:
                column = self._columns[name].values[self._settled :]
                column[:] = rows[column]
        self._settled = len(self._columns["row"].values)
        if 0 < self._limit < self._settled:
            self._merge()

    def _merge(self) -> None:
        """Merge samples until they are few, or nothing distinguishes them in time."""
        merged = self.columns()
        begin, last = int(merged.time.min()), int(merged.time.max())
        spacing = (last - begin) // self._most  # shorter ticks would have one sample each
        self._tick = max(self._tick, _FINEST << (spacing // _FINEST).bit_length())
        while len(merged.row) > self._most and self._tick <= last - begin:
            merged = merged.within(self._tick, begin)
            self._tick *= _COARSER
        self._begin()
        for name, column in self._columns.items():
            column.append(getattr(merged, name))
        self._settled = len(merged.row)
        self._limit = 2 * max(self._most, self._settled)

    def columns(self) -> SampleColumns:
        """Return all samples, in order of time."""
        return SampleColumns(*(column.values for column in self._columns.values()))
