"""The records of a piece that tell of waits: read into Transitions (perfpy.scheduling), left out of the file.

What enters: the records of a piece with their events and times, and the callchains of switches.
What leaves: the samples of waits that take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import RecordType
from perfpy.capture.off_cpu.waits import WaitSamples
from perfpy.scheduling.transitions import (
    Transitions,
    are_switches,
    end_transitions,
    stack_transitions,
    switch_transitions,
    woken_transitions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.samples import SampleLayout
    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.chunk import Chunk

_FIELDS = ("pid", "tid", "time", "cpu", "raw")


class PieceWaits:
    """Reads the pieces of one recording. events: in the order that the plan counts; own: the pid whose waits are nobody's business."""

    def __init__(self, plan: WaitPlan, events: Sequence[FileEvent], layouts: Sequence[SampleLayout], own: int) -> None:
        self._plan = plan
        self._layouts = layouts
        self._own = own
        self._samples = WaitSamples(plan, events[plan.time].ids[0] if events[plan.time].ids else 0)
        self.notes = self._samples.notes
        self.rest = self._samples.rest

    def left_out(self, sample_events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which samples are not for the file."""
        found: NDArray[np.bool_] = np.isin(sample_events, self._plan.hidden)
        return found

    def switches_of(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which records, given with their events, are SWITCH records that nobody but us asked for."""
        found: NDArray[np.bool_] = are_switches(chunk.types) & (events == self._plan.time)
        return found

    def of_piece(
        self,
        samples: Chunk,
        sample_events: NDArray[np.int32],
        side_band: Chunk,
        side_events: NDArray[np.int32],
        side_times: NDArray[np.uint64],
        chains: Ragged | None,
        newest: int,
        oldest: int,
    ) -> bytes:
        """The samples that come with a piece, whose records are of these times. chains: of its switches, where they were unwound."""
        transitions = self._stacks(samples.rows(np.flatnonzero(sample_events == self._plan.switches)), chains)
        parts = [
            switch_transitions(*_some(side_band, side_times, self.switches_of(side_band, side_events))),
            end_transitions(*_some(side_band, side_times, side_band.types == RecordType.EXIT)),
        ]
        if self._plan.woken is not None:
            wakings = samples.rows(np.flatnonzero(sample_events == self._plan.wakings))
            if len(wakings):
                decoded = self._layouts[self._plan.wakings].decode(wakings.data, wakings.starts, _FIELDS)
                parts.append(woken_transitions(decoded, self._plan.woken))
        rows = np.concatenate(parts)
        transitions = transitions.with_more(Transitions(rows[rows["pid"] != self._own], Ragged.empty(0, np.uint64)))
        return self._samples.of_piece(transitions, newest, oldest)

    def _stacks(self, switches: Chunk, chains: Ragged | None) -> Transitions:
        if not len(switches):
            return Transitions.none()
        columns = self._layouts[self._plan.switches].decode(switches.data, switches.starts, {*_FIELDS, "callchain"})
        return stack_transitions(columns, columns["callchain"] if chains is None else chains, self._plan.state)


def _some(chunk: Chunk, times: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> tuple[Chunk, NDArray[np.uint64]]:
    rows = np.flatnonzero(chosen)
    return chunk.rows(rows), times[rows]
