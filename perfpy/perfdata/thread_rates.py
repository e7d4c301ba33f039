"""Convert periods of an event to time on the CPU.

The sum over a thread's samples is the time that the thread ran; its samples share it in proportion to their periods.
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
    """Nanoseconds per unit of an event's period, by thread.

    Attributes:
        threads: the threads with a rate.

    Args:
        event: the event's index.
        rates: tid -> ns.
    """

    def __init__(self, event: int, rates: Mapping[int, float]) -> None:
        self._event = event
        self.threads = frozenset(rates)
        self._tids = np.array(sorted(rates), np.int64)
        self._rates = np.array([rates[tid] for tid in sorted(rates)], np.float64)

    def change(self, columns: Columns, events: NDArray[np.int32]) -> None:
        """Convert the event's periods in these columns to ns, in place."""
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
    """Compute the rates of an event.

    A thread without a running time never left the CPU: it ran from its first sample to its last.

    Args:
        event: the event's index.
        batches: all samples, with tid, period and time.
        running: tid -> ns on the CPU.
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
                thread_times = times[position.ravel() == index]
                first, last = ranges.get(tid, (1 << 63, 0))
                ranges[tid] = min(first, int(thread_times.min())), max(last, int(thread_times.max()))
    running_times = {tid: last - first for tid, (first, last) in ranges.items()} | dict(running)
    return ThreadRates(event, {tid: running_times.get(tid, 0) / period for tid, period in periods.items() if period})
