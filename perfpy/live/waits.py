"""Waits of threads, including waits that have not ended yet: `perfpy top --off-cpu`.

`record --off-cpu` writes a wait when it ends. A live view counts in each interval the part of every wait that lies in it, so that
what everybody waits for now has rows while they wait.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, NATIVE_ENDIAN
from perfpy.capture.off_cpu.piece_waits import PieceWaits
from perfpy.capture.off_cpu.sources import TIME_ATTR
from perfpy.capture.off_cpu.wait_samples import records, sum_short_waits
from perfpy.kernel.thread_states import read_wait
from perfpy.perfdata.records.event_table import EventTable
from perfpy.scheduling.intervals import IntervalPairing, Intervals
from perfpy.scheduling.transitions import OUT, STACK, TRANSITION, Transitions, has_user_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.delivery.keys import OrderedChunk


_CHECK_EVERY: Final = 10_000_000_000  # nanoseconds
_WITHOUT_WORK: Final = (ord("S"), ord("I"))  # states of kernel threads


class LiveWaits:
    """Turns the switches of each interval into samples of the event `offcpu-time`.

    Args:
        plan: the events that were opened for waits.
        events: all events, as samples refer to them; that of waits gets the attr of its samples.
        own: the process whose waits are dropped, -1 for none.
    """

    def __init__(self, plan: WaitPlan, events: Sequence[FileEvent], own: int) -> None:
        self._plan = plan
        self._own = own
        event = events[plan.time]
        event.attr = TIME_ATTR.copy(inherit=event.attr.inherit, disabled=event.attr.disabled)
        self._pieces = PieceWaits(plan, events, EventTable(events, NATIVE_ENDIAN).layouts, own)
        self._ident = events[plan.time].ids[0] if events[plan.time].ids else 0
        self._pairing = IntervalPairing(sums_running=False)
        self._counted_until = 0
        self._check_at = 0  # nanoseconds
        self._missing: set[int] = set()  # waiting threads that did not exist at the last check

    def begin(self, threads: Iterable[tuple[int, int]], now: int) -> None:
        """Learn what threads wait for already. threads: process and thread of each; now: nanoseconds."""
        self._counted_until = now
        self._pairing.take_ended(now, waiting_threads(threads, now, self._own))

    def of_interval(self, ordered: OrderedChunk, until: int) -> bytes:
        """Return the samples of an interval, as records.

        Args:
            ordered: the records since the last call.
            until: nanoseconds; all records up to this time have been there.
        """
        chunk, events = ordered.chunk, ordered.keyed_samples.events
        side_band = chunk.rows(chunk.others)
        arguments = ordered.keyed_samples.chunk, events, side_band, ordered.other_events, ordered.times[chunk.others]
        ended = self._pairing.take_ended(until, self._pieces.transitions(*arguments, None))
        begin, self._counted_until = self._counted_until, until
        if until >= self._check_at:
            self._check_at = until + _CHECK_EVERY
            self._forget_missing()
        parts = (without_idle(clip(waits, begin)) for waits in (ended, self._pairing.unfinished(until)))
        return b"".join(records(sum_short_waits(waits, self._plan.threshold), self._ident) for waits in parts if len(waits.rows))

    def _forget_missing(self) -> None:
        """Forget threads whose ends were lost: they did not exist at the last check, either, so that no record of them follows."""
        waiting = self._pairing.waiting_threads().tolist()
        missing = {tid for tid in waiting if tid and not os.path.exists(f"/proc/{tid}")}
        self._pairing.forget(np.array(sorted(missing & self._missing), np.int32))
        self._missing = missing


def waiting_threads(threads: Iterable[tuple[int, int]], now: int, own: int) -> Transitions:
    """Return the transitions of threads that are off the CPU now, as if each left it at this moment: by their states in /proc."""
    waiting = [(pid, tid, *read_wait(pid, tid)) for pid, tid in threads if pid != own]
    waiting = [row for row in waiting if len(row[2]) == 1 and row[2] not in "RXZ"]
    rows = np.zeros(2 * len(waiting), TRANSITION)
    rows["time"], rows["cpu"], rows["stack"] = now, -1, -1
    for number, (pid, tid, letter, _) in enumerate(waiting):
        pair = rows[2 * number : 2 * number + 2]
        pair["pid"], pair["tid"], pair["detail"], pair["kind"] = pid, tid, ord(letter), (STACK, OUT)
    rows["stack"][::2] = np.arange(len(waiting))
    chains = [[np.uint64(CONTEXT_USER), np.uint64(address)] if address else [] for *_, address in waiting]
    offsets = np.cumsum([0, *map(len, chains)]).astype(np.int64)
    return Transitions(rows, Ragged(np.array([value for chain in chains for value in chain], np.uint64), offsets))


def without_idle(waits: Intervals) -> Intervals:
    """Return the waits without those of kernel threads that sleep: they wait for work."""
    stack, state = waits.rows["stack"], waits.rows["state"]
    in_user = np.append(has_user_part(waits.stacks), True)[stack]  # -1: without a stack
    return waits.take(in_user | ~np.isin(state, _WITHOUT_WORK))


def clip(waits: Intervals, begin: int) -> Intervals:
    """Return the waits without what lies before a time."""
    rows = waits.rows.copy()
    rows["duration"] = np.minimum(rows["duration"], rows["end"] - np.minimum(rows["end"], np.uint64(begin)))
    return Intervals(rows[rows["duration"] > 0], waits.stacks)
