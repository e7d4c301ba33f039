"""Periods of an event as time: what a sample of a thread stands for, by how long that thread ran.

What enters: the samples of an event, and the time on the CPU of each thread. What leaves: columns in which the periods of this event
are ns. The sum over a thread's samples is the time that it ran; among them it is shared as the event's periods are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns


class ThreadRates:
    """ns for a unit of an event's period, by thread. event: its index; rates: tid -> ns; threads: whose rates are known."""

    def __init__(self, event: int, rates: Mapping[int, float]) -> None:
        self._event = event
        self.threads = frozenset(rates)
        self._tids = np.array(sorted(rates), np.int64)
        self._rates = np.array([rates[tid] for tid in sorted(rates)], np.float64)

    def change(self, columns: Columns, events: NDArray[np.int32]) -> None:
        """Turn the periods among the columns into ns."""
        if "period" not in columns or "tid" not in columns or not len(self._tids):
            return
        rows = np.flatnonzero(events == self._event)
        tids = columns["tid"][rows].astype(np.int64)
        position = np.minimum(np.searchsorted(self._tids, tids), len(self._tids) - 1)
        rate = np.where(self._tids[position] == tids, self._rates[position], 0.0)
        periods = columns["period"].copy()
        periods[rows] = np.rint(periods[rows] * rate).astype(np.uint64)
        columns["period"] = periods


def thread_rates(event: int, batches: Iterable[Any], running: Mapping[int, int]) -> ThreadRates:
    """The rates of an event. batches: all samples, with tid, period and time; running: tid -> ns on the CPU.

    A thread of which that is not known never left the CPU: it ran from its first sample to its last.
    """
    periods: Counter[int] = Counter()
    ranges: dict[int, tuple[int, int]] = {}
    for batch in batches:
        rows = np.flatnonzero(batch.event == event)
        tids, position = np.unique(batch.columns["tid"][rows], return_inverse=True)
        totals = np.bincount(position.ravel(), batch.columns["period"][rows].astype(np.float64), len(tids))
        times = batch.columns["time"][rows]
        for index, tid in enumerate(tids.tolist()):
            periods[tid] += int(totals[index])
            if tid not in running:
                mine = times[position.ravel() == index]
                first, last = ranges.get(tid, (1 << 63, 0))
                ranges[tid] = min(first, int(mine.min())), max(last, int(mine.max()))
    known = {tid: last - first for tid, (first, last) in ranges.items()} | dict(running)
    return ThreadRates(event, {tid: known.get(tid, 0) / period for tid, period in periods.items() if period})
