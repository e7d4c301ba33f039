"""Which samples a report or script is about: perf's filter options.

What enters: the options' values. What leaves: masks over batches. Some filters
take samples out (CPUs, time); the others mark them, so that they still count
in totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.samples.locations import Locations
    from perfpy.analysis.samples.sample_view import SampleView


class TimeFilter(Protocol):
    """Spans of time."""

    def mask(self, times: NDArray[Any]) -> NDArray[Any]:
        """Which times (ns) are within."""


class Selection(NamedTuple):
    """None means everything.

    comms, pids, tids, dsos, symbols, parallelism: marked unless among them; symbol_part: rows
    whose function's name lacks it are not shown. cpus, times: taken out unless among them; switch: taken out while it is off.
    """

    comms: tuple[str, ...] | None = None
    pids: tuple[int, ...] | None = None
    tids: tuple[int, ...] | None = None
    dsos: tuple[str, ...] | None = None
    symbols: tuple[str, ...] | None = None
    symbol_part: str | None = None
    cpus: tuple[int, ...] | None = None
    times: TimeFilter | None = None
    switch: EventSwitch | None = None
    parallelism: tuple[int, ...] | None = None

    @property
    def by_location(self) -> bool:
        """Whether symbols are needed to decide."""
        return self.dsos is not None or self.symbols is not None

    @property
    def by_task(self) -> bool:
        """Whether samples' tasks are needed to decide."""
        return self.comms is not None or self.pids is not None or self.tids is not None

    @property
    def mark_fingerprints(self) -> list[str]:
        """What mark() depends on (perfpy.analysis.samples.fingerprints)."""
        wanted = {"comm": self.comms, "pid": self.pids, "tid": self.tids, "parallelism": self.parallelism}
        return [name for name, values in wanted.items() if values is not None]

    @property
    def mark_fields(self) -> set[str]:
        """The sample columns that mark() needs."""
        return ({"pid", "tid"} if self.by_task else set()) | ({"parallelism"} if self.parallelism is not None else set())

    def fields(self) -> set[str]:
        """The sample columns that are needed."""
        needed = self.mark_fields
        if self.cpus is not None:
            needed.add("cpu")
        if self.times is not None:
            needed.add("time")
        return needed

    def begin(self) -> None:
        """A pass over the samples begins: kept_rows() gets the first ones next."""
        if self.switch is not None:
            self.switch.restart()

    def kept_rows(self, samples: SampleView) -> slice | NDArray[np.int64]:
        """Which samples stay: of known events, on the CPUs and within the times wanted."""
        kept = samples.event >= 0
        if self.times is not None:
            kept = kept & self.times.mask(samples.column("time").astype(np.uint64))
        if self.switch is not None:
            kept = self.switch.mask(samples.event, kept)
        if self.cpus is not None:  # last: what ran on other CPUs switches, too
            kept = kept & np.isin(samples.column("cpu"), self.cpus)
        return slice(None) if kept.all() else np.flatnonzero(kept)

    def mark(self, samples: SampleView) -> NDArray[np.bool_] | None:
        """Which samples their task, or the others that ran, exclude; None for none."""
        if not self.by_task and self.parallelism is None:
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
        if self.parallelism is not None:
            marked |= ~np.isin(samples.column("parallelism"), self.parallelism)
        return marked

    def mark_frames(self, locations: Locations) -> NDArray[np.bool_]:
        """Which frames their DSO or symbol excludes."""
        marked = np.zeros(len(locations.ip), np.bool_)
        if self.dsos is not None:
            allowed = [number for number, dso in enumerate(locations.dsos) if {dso.short_name, dso.long_name, dso.name} & set(self.dsos)]
            marked |= ~np.isin(locations.dso, allowed)
        if self.symbols is not None:
            names = self.symbols
            marked |= ~frames_named(locations, lambda name: name in names)
        return marked


def frames_named(locations: Locations, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which frames have a symbol whose name passes."""
    passing = np.array([test(locations.symbols.name(number)) for number in range(len(locations.symbols))] + [False], np.bool_)
    return passing[locations.symbol]
