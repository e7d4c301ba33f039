"""The samples of a recording, folded: distinct combinations of what the report asks for, with their sums.

What enters: batches of samples. What leaves: `Folded`, one row for each
distinct combination of event, sources, filter mark and callchain, in the order
in which they were first seen. Memory grows with what is distinct, not with the
number of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, MISC_USER
from perfpy.analysis.callchains import ChainTable, frames_of
from perfpy.analysis.sources import SOURCES, RawTable, SampleView, TupleTable
from perfpy.analysis.sums import GroupSums, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MODES = {
    "period_sys": MISC_KERNEL,
    "period_us": MISC_USER,
    "period_guest_sys": MISC_GUEST_KERNEL,
    "period_guest_us": MISC_GUEST_USER,
}
_WEIGHTS = {"weight1": "weight", "weight2": "ins_lat", "weight3": "retire_lat"}


@dataclass
class Folded:
    """Rows of distinct combinations.

    event, filtered, chain (-1: none wanted), tid (of the row's first sample),
    period, count; sources: name -> number of each row; sums: further sums by name.
    """

    event: NDArray[np.int64]
    filtered: NDArray[np.bool_]
    chain: NDArray[np.int64]
    tid: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int64]
    sources: dict[str, NDArray[np.int64]]
    sums: dict[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.event)

    def take(self, rows: NDArray[Any]) -> Folded:
        """Some of the rows."""
        return Folded(
            self.event[rows],
            self.filtered[rows],
            self.chain[rows],
            self.tid[rows],
            self.period[rows],
            self.count[rows],
            {name: values[rows] for name, values in self.sources.items()},
            {name: values[rows] for name, values in self.sums.items()},
        )


class Profile:
    """Folds batches into rows.

    sources: names of SOURCES, or "raw"; sums: names of further sums
    (period_sys ..., weight1 ...); chains: whether callchains are kept.
    """

    def __init__(self, sources: Sequence[str], sums: Sequence[str] = (), *, chains: bool = False) -> None:
        self.sources = list(sources)
        self.raw = RawTable()
        self.chains = ChainTable() if chains else None
        dense = [True, True, *(self._dense(name) for name in self.sources), *([True] if chains else [])]
        self._table = TupleTable(dense)
        self._period, self._count = GroupSums(), GroupSums()
        self._sums = {name: GroupSums() for name in sums}
        self._tids: list[NDArray[np.int64]] = []

    @staticmethod
    def _dense(name: str) -> bool:
        return name == "raw" or SOURCES[name].dense

    def fields(self) -> set[str]:
        """The sample columns that are needed."""
        needed = {"tid", "period"}
        for name in self.sources:
            needed |= {"raw"} if name == "raw" else set(SOURCES[name].fields)
        if self.chains is not None:
            needed |= {"callchain", "pid", "cpumode"}
        for name in self._sums:
            needed.add(_WEIGHTS.get(name, "cpumode"))
        return needed

    def add(self, samples: SampleView, filtered: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
        """Fold one batch and return the row of each sample; `filtered` marks samples that count in totals but are not shown."""
        if not len(samples):
            return np.zeros(0, np.int32)
        mark = np.zeros(len(samples), np.int32) if filtered is None else filtered.astype(np.int32)
        columns = [samples.event, mark, *(self._column(name, samples) for name in self.sources)]
        if self.chains is not None:
            columns.append(self._chain_ids(self.chains, samples))
        ids, new = self._table.ids_and_new(columns)
        size = len(self._table)
        period = samples.period()
        self._period.add(ids, period, size)
        self._count.add(ids, None, size)
        for name, sums in self._sums.items():
            sums.add(ids, self._summand(name, samples, period), size)
        if len(new):
            self._tids.append(samples.column("tid")[new].astype(np.int64))
        return ids

    def _column(self, name: str, samples: SampleView) -> NDArray[Any]:
        return self.raw.ids(samples.payloads()) if name == "raw" else SOURCES[name].read(samples)

    @staticmethod
    def _chain_ids(table: ChainTable, samples: SampleView) -> NDArray[np.int32]:
        pid = samples.column("pid")
        frames, counts = frames_of(samples.ragged("callchain", np.uint64), pid, samples.key, samples.symbolizer)
        return table.add(frames, counts)

    @staticmethod
    def _summand(name: str, samples: SampleView, period: NDArray[np.uint64]) -> NDArray[Any]:
        if name in _WEIGHTS:
            return samples.column(_WEIGHTS[name])
        return np.where(samples.columns["cpumode"] == _MODES[name], period, 0)

    def folded(self) -> Folded:
        """All rows so far."""
        size = len(self._table)
        event, mark, *rest = self._table.columns()
        chain = rest.pop() if self.chains is not None else np.full(size, -1, np.int64)
        return Folded(
            event,
            mark.astype(np.bool_),
            chain,
            np.concatenate(self._tids) if self._tids else np.zeros(0, np.int64),
            self._period.totals(size),
            self._count.totals(size),
            dict(zip(self.sources, rest, strict=True)),
            {name: sums.totals(size) for name, sums in self._sums.items()},
        )

    def samples_of_frames(self) -> NDArray[np.int64]:
        """How many samples hit each frame, by frame id; empty where frames are not among the sources."""
        folded = self.folded()
        frames = folded.sources.get("frame")
        if frames is None or not len(frames):
            return np.zeros(0, np.int64)
        return sum_by(frames, folded.count, int(frames.max()) + 1)
