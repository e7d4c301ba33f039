"""Convert the switches of a recording to waits, piece by piece.

Records of switches become Transitions and are dropped from the file. The piece ends with SAMPLE records of `offcpu-time` instead,
and the recording with READ records of each thread's running time. A piece gets the waits that ended before the end of the
previous piece: the ring buffers' data of that time are complete then, and the samples keep the order of rounds
(FINISHED_ROUND), because they are no older than the last round but one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import RecordType
from perfpy.capture.off_cpu.wait_samples import read_records, records, sum_short_waits
from perfpy.scheduling.intervals import IntervalPairing, Intervals
from perfpy.scheduling.transitions import (
    Transitions,
    are_switches,
    end_transitions,
    has_user_part,
    stack_transitions,
    switch_transitions,
    woken_transitions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.samples.decoding import SampleLayout
    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.chunk import Chunk

_NEVER = (1 << 64) - 1
_WORTH_TELLING = 0.01  # share of the time without a stack


class WaitShares(NamedTuple):
    """Time off the CPU in ns, and the part without a stack."""

    total: int = 0
    without_stack: int = 0


class WaitSamples:
    """Writes the samples. ident is the id of the event."""

    def __init__(self, plan: WaitPlan, ident: int) -> None:
        self._plan = plan
        self._ident = ident
        self._pairing = IntervalPairing()
        self._bound = 0
        self._of_kernel = np.zeros(0, np.int32)  # threads without user space
        self._shares = WaitShares()

    def of_piece(self, transitions: Transitions, newest: int, oldest: int = 0) -> bytes:
        """Return the samples to write with a piece. newest and oldest are the latest and earliest time of its records."""
        self._pairing.running.first = self._pairing.running.first or oldest
        bound, self._bound = self._bound, max(self._bound, newest)
        return self._written(self._pairing.take_ended(bound, transitions))

    def rest(self) -> bytes:
        """Return the samples of all remaining waits, after the last piece."""
        ended = self._written(self._pairing.take_ended(_NEVER, Transitions.none()))
        self._pairing.newest = max(self._pairing.newest, self._bound)
        waits = ended + self._written(self._pairing.take_unfinished())
        newest = self._pairing.newest
        return waits + read_records(self._pairing.running.totals(newest), newest, self._ident)

    def notes(self) -> list[str]:
        """Return notes for the user."""
        total, without = self._shares
        if self._plan.switches < 0 or without <= _WORTH_TELLING * total:
            return []
        return [f"note: {without / total:.0%} of the time off the CPU has no stack; it is counted in its thread, as [unknown]"]

    def _written(self, waits: Intervals) -> bytes:
        if self._plan.without_kernel and self._plan.switches >= 0:
            waits = self._without_kernel(waits)
        duration, stack = waits.rows["duration"], waits.rows["stack"]
        self._shares = WaitShares(self._shares.total + int(duration.sum()), self._shares.without_stack + int(duration[stack < 0].sum()))
        return records(sum_short_waits(waits, self._plan.threshold), self._ident)

    def _without_kernel(self, waits: Intervals) -> Intervals:
        """Drop threads that never run in user space: they wait for work most of the time."""
        tid, stack = waits.rows["tid"], waits.rows["stack"]
        in_user = np.append(has_user_part(waits.stacks), False)[stack]
        of_kernel = (stack >= 0) & ~in_user
        self._of_kernel = np.setdiff1d(np.union1d(self._of_kernel, tid[of_kernel]), tid[in_user]).astype(np.int32)
        return waits.take(~(of_kernel | ((stack < 0) & np.isin(tid, self._of_kernel))))


_FIELDS = ("pid", "tid", "time", "cpu", "raw")


class PieceWaits:
    """Reads the pieces of one recording. events are in the plan's order; own is the pid whose waits are dropped."""

    def __init__(self, plan: WaitPlan, events: Sequence[FileEvent], layouts: Sequence[SampleLayout], own: int) -> None:
        self._plan = plan
        self._layouts = layouts
        self._own = own
        self._samples = WaitSamples(plan, events[plan.time].ids[0] if events[plan.time].ids else 0)
        self.notes = self._samples.notes
        self.rest = self._samples.rest

    def are_hidden(self, sample_events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which samples are not for the file."""
        is_hidden: NDArray[np.bool_] = np.isin(sample_events, self._plan.hidden)
        return is_hidden

    def switches_of(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which records, given with their events, are SWITCH records that were requested for waits only."""
        is_switch: NDArray[np.bool_] = are_switches(chunk.types) & (events == self._plan.time)
        return is_switch

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
        """Return the samples to write with a piece. chains are the callchains of its switches if they were unwound."""
        transitions = self.transitions(samples, sample_events, side_band, side_events, side_times, chains)
        return self._samples.of_piece(transitions, newest, oldest)

    def transitions(
        self,
        samples: Chunk,
        sample_events: NDArray[np.int32],
        side_band: Chunk,
        side_events: NDArray[np.int32],
        side_times: NDArray[np.uint64],
        chains: Ragged | None,
    ) -> Transitions:
        """Return the switches, wakeups and exits in a piece."""
        transitions = self._stacks(samples.rows(np.flatnonzero(sample_events == self._plan.switches)), chains)
        parts = [
            switch_transitions(*_chosen_rows(side_band, side_times, self.switches_of(side_band, side_events))),
            end_transitions(*_chosen_rows(side_band, side_times, side_band.types == RecordType.EXIT)),
        ]
        if self._plan.woken is not None:
            wakings = samples.rows(np.flatnonzero(sample_events == self._plan.wakings))
            if len(wakings):
                decoded = self._layouts[self._plan.wakings].decode(wakings.data, wakings.starts, _FIELDS)
                parts.append(woken_transitions(decoded, self._plan.woken))
        rows = np.concatenate(parts)
        return transitions.with_more(Transitions(rows[rows["pid"] != self._own], Ragged.empty(0, np.uint64)))

    def _stacks(self, switches: Chunk, chains: Ragged | None) -> Transitions:
        if not len(switches):
            return Transitions.none()
        columns = self._layouts[self._plan.switches].decode(switches.data, switches.starts, {*_FIELDS, "callchain"})
        return stack_transitions(columns, columns["callchain"] if chains is None else chains, self._plan.state)


def _chosen_rows(chunk: Chunk, times: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> tuple[Chunk, NDArray[np.uint64]]:
    rows = np.flatnonzero(chosen)
    return chunk.rows(rows), times[rows]
