"""Which samples are printed: by time, cpu, task, symbol and file.

What enters: the lists of the options -C, -c, --pid, --tid, -S, --dsos, --time.
What leaves: a mask over the rows of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfpy.views.script.field_text import times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """What to keep; None: no condition. symbols also holds start addresses as "0x..."."""

    times: TimeRanges | None = None
    cpus: frozenset[int] | None = None
    comms: frozenset[str] | None = None
    pids: frozenset[int] | None = None
    tids: frozenset[int] | None = None
    symbols: frozenset[str] | None = None
    dsos: frozenset[str] | None = None
    address_range: int = 0

    @property
    def is_open(self) -> bool:
        """Whether everything is kept."""
        return all(condition is None for condition in (self.times, self.cpus, self.comms, self.pids, self.tids, self.symbols, self.dsos))

    def mask(self, batch: Batch, events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer) -> NDArray[np.bool_]:
        """Which rows are kept. events: those that batch.event counts."""
        kept = self.early_mask(batch, events)
        pid, tid = self._column(batch, "pid"), self._column(batch, "tid")
        if self.pids is not None:
            kept &= np.isin(pid, list(self.pids))
        if self.tids is not None:
            kept &= np.isin(tid, list(self.tids))
        if self.comms is not None:
            comms = timeline.comm_ids(tid, batch.key)
            wanted = np.array([comm in self.comms for comm in timeline.comms])
            kept &= wanted[comms]
        if self.symbols is not None or self.dsos is not None:
            kept &= self._of_locations(batch, pid, symbolizer)
        return kept

    def early_mask(self, batch: Batch, events: Sequence[FileEvent]) -> NDArray[np.bool_]:
        """Which rows are kept as far as times and CPUs tell: of those perf looks up what they are of."""
        kept = np.ones(len(batch), bool)
        if self.times is not None:
            kept &= self.times.mask(times(batch, events))
        if self.cpus is not None:
            kept &= np.isin(self._column(batch, "cpu"), [*self.cpus, -1])
        return kept

    @staticmethod
    def _column(batch: Batch, name: str) -> NDArray[np.int32]:
        """A column of all samples, whatever their event."""
        found: NDArray[np.int32] | None = batch.columns.get(name)
        return np.full(len(batch), -1, np.int32) if found is None else found

    def _of_locations(self, batch: Batch, pid: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.bool_]:
        rows = len(batch)
        ips = batch.columns.get("ip", np.zeros(rows, np.uint64))
        ids = symbolizer.frame_ids(pid, ips, batch.key, batch.columns["cpumode"])
        frames = symbolizer.resolve()
        kept = np.ones(rows, bool)
        if self.dsos is not None:
            names = [dso.short_name in self.dsos or dso.long_name in self.dsos or dso.name in self.dsos for dso in symbolizer.dsos]
            kept &= np.array([*names, False])[frames.dso[ids]]
        if self.symbols is not None:
            known = [self._wants(symbolizer, symbol) for symbol in range(len(symbolizer.symbols))]
            kept &= np.array([*known, False])[frames.symbol[ids]] | self._near(frames.address[ids])
        return kept

    def _wants(self, symbolizer: Symbolizer, symbol: int) -> bool:
        assert self.symbols is not None
        return symbolizer.symbols.name(symbol) in self.symbols

    def _near(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which addresses are one of those given as hexadecimal numbers, or within the range behind it."""
        assert self.symbols is not None
        near = np.zeros(len(addresses), bool)
        for text in self.symbols:
            if text.startswith("0x"):
                start = int(text, 16)
                near |= (addresses >= np.uint64(start)) & (addresses <= np.uint64(start + self.address_range))
        return near
