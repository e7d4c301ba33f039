"""Which samples a report or script is about: perf's filter options.

What enters: the options' values. What leaves: masks over batches. Some filters
take samples out (CPUs, time); the others mark them, so that they still count
in totals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from perfpy.analysis.places import Places
    from perfpy.analysis.sources import SampleView


@dataclass(frozen=True)
class Selection:
    """None means everything.

    comms, pids, tids, dsos, symbols: marked unless among them; symbol_part: marked
    unless the symbol's name contains it. cpus: taken out unless among them;
    times: (start, end) in ns, taken out unless within one of them (end included).
    """

    comms: tuple[str, ...] | None = None
    pids: tuple[int, ...] | None = None
    tids: tuple[int, ...] | None = None
    dsos: tuple[str, ...] | None = None
    symbols: tuple[str, ...] | None = None
    symbol_part: str | None = None
    cpus: tuple[int, ...] | None = None
    times: tuple[tuple[int, int], ...] | None = None

    @property
    def by_place(self) -> bool:
        """Whether symbols are needed to decide."""
        return self.dsos is not None or self.symbols is not None or self.symbol_part is not None

    @property
    def by_task(self) -> bool:
        return self.comms is not None or self.pids is not None or self.tids is not None

    def fields(self) -> set[str]:
        """The sample columns that are needed."""
        needed: set[str] = set()
        if self.by_task:
            needed |= {"pid", "tid"}
        if self.cpus is not None:
            needed.add("cpu")
        if self.times is not None:
            needed.add("time")
        return needed

    def keep(self, samples: SampleView) -> NDArray[np.bool_] | None:
        """Which samples stay; None for all."""
        kept: NDArray[np.bool_] | None = None
        if self.cpus is not None:
            kept = np.isin(samples.column("cpu"), self.cpus)
        if self.times is not None:
            time = samples.column("time").astype(np.uint64)
            within = np.zeros(len(samples), np.bool_)
            for start, end in self.times:
                within |= (time >= np.uint64(start)) & (time <= np.uint64(end))
            kept = within if kept is None else kept & within
        return kept

    def mark(self, samples: SampleView) -> NDArray[np.bool_] | None:
        """Which samples their task excludes; None for none."""
        if not self.by_task:
            return None
        marked = np.zeros(len(samples), np.bool_)
        if self.comms is not None:
            comms = samples.timeline.comm_ids(samples.column("tid"), samples.key)
            allowed = [number for number, comm in enumerate(samples.timeline.comms) if comm in self.comms]
            marked |= ~np.isin(comms, allowed)
        if self.pids is not None:
            marked |= ~np.isin(samples.column("pid"), self.pids)
        if self.tids is not None:
            marked |= ~np.isin(samples.column("tid"), self.tids)
        return marked

    def mark_frames(self, places: Places) -> NDArray[np.bool_]:
        """Which frames their DSO or symbol excludes."""
        marked = np.zeros(len(places.ip), np.bool_)
        if self.dsos is not None:
            allowed = [number for number, dso in enumerate(places.dsos) if {dso.short_name, dso.long_name, dso.name} & set(self.dsos)]
            marked |= ~np.isin(places.dso, allowed)
        if self.symbols is not None:
            names = self.symbols
            marked |= ~_frames_named(places, lambda name: name in names)
        if self.symbol_part is not None:
            part = self.symbol_part
            marked |= ~_frames_named(places, lambda name: part in name)
        return marked


def _frames_named(places: Places, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which frames have a symbol whose name passes."""
    passing = np.array([test(places.symbols.name(number)) for number in range(len(places.symbols))] + [False], np.bool_)
    return passing[places.symbol]
