"""The waits of a recording, piece by piece: what the records say of them, as samples of `offcpu-time`.

What enters: the records of each piece that tell of waits. What leaves: SAMPLE records that end the piece in
their stead, and at the end how long each thread ran. A piece gets the waits that ended up to the end of the one
before it: what the rings held of that time is known then, and the samples keep the order
of rounds (FINISHED_ROUND), as they are no older than the last round but one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.capture.off_cpu.wait_samples import added_up, read_records, records
from perfpy.scheduling.intervals import IntervalPairing, Intervals
from perfpy.scheduling.transitions import Transitions, has_user_part

if TYPE_CHECKING:
    from perfpy.capture.off_cpu.sources import WaitPlan

_NEVER = (1 << 64) - 1
_WORTH_TELLING = 0.01  # the share of the time without a stack


class WaitShares(NamedTuple):
    """How much time off the CPU was found, in ns; how much of it without a stack."""

    total: int = 0
    without_stack: int = 0


class WaitSamples:
    """Makes the samples. ident: the id of the event."""

    def __init__(self, plan: WaitPlan, ident: int) -> None:
        self._plan = plan
        self._ident = ident
        self._pairing = IntervalPairing()
        self._bound = 0
        self._of_kernel = np.zeros(0, np.int32)  # threads that have no user space
        self._shares = WaitShares()

    def of_piece(self, transitions: Transitions, newest: int, oldest: int = 0) -> bytes:
        """The samples that come with a piece. newest, oldest: the latest and the earliest time of its records."""
        self._pairing.running.first = self._pairing.running.first or oldest
        bound, self._bound = self._bound, max(self._bound, newest)
        return self._written(self._pairing.take_ended(bound, transitions))

    def rest(self) -> bytes:
        """No more pieces: the samples of all other waits."""
        ended = self._written(self._pairing.take_ended(_NEVER, Transitions.none()))
        self._pairing.newest = max(self._pairing.newest, self._bound)
        waits = ended + self._written(self._pairing.take_unfinished())
        newest = self._pairing.newest
        return waits + read_records(self._pairing.running.totals(newest), newest, self._ident)

    def notes(self) -> list[str]:
        """What the user ought to know."""
        total, without = self._shares
        if self._plan.switches < 0 or without <= _WORTH_TELLING * total:
            return []
        return [f"note: {without / total:.0%} of the time off the CPU has no stack: it is in the right thread, under [unknown]"]

    def _written(self, waits: Intervals) -> bytes:
        if self._plan.without_kernel and self._plan.switches >= 0:
            waits = self._without_kernel(waits)
        duration, stack = waits.rows["duration"], waits.rows["stack"]
        self._shares = WaitShares(self._shares.total + int(duration.sum()), self._shares.without_stack + int(duration[stack < 0].sum()))
        return records(added_up(waits, self._plan.threshold), self._ident)

    def _without_kernel(self, waits: Intervals) -> Intervals:
        """Less the threads that never run in user space: they wait for work, all day long."""
        tid, stack = waits.rows["tid"], waits.rows["stack"]
        in_user = np.append(has_user_part(waits.stacks), False)[stack]
        of_kernel = (stack >= 0) & ~in_user
        self._of_kernel = np.setdiff1d(np.union1d(self._of_kernel, tid[of_kernel]), tid[in_user]).astype(np.int32)
        return waits.take(~(of_kernel | ((stack < 0) & np.isin(tid, self._of_kernel))))
