"""The metric field: metrics of the counts of each group sample, as in perf stat.

A sample's metrics are printed below its last reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.counts.aggregation import EVERYWHERE, CountedEvent, CountRow, count_members
from perfpy.counts.ratios import Neighbours, ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch


def with_metrics(batches: Iterable[Batch], events: Sequence[FileEvent]) -> Iterator[Batch]:
    """Yield the batches with a column "metric": a list of texts for each row."""
    counted = [CountedEvent(event.name, event.attr, unit=event.unit, scale=event.scale or 1.0) for event in events]
    for event, owner in zip(events, counted, strict=True):
        owner.leader = counted[event.leader]
    count_members(counted)
    for batch in batches:
        columns = batch.columns
        column = np.empty(len(batch), object)
        column[:] = [[] for _ in range(len(batch))]
        for first, last in _samples(batch, events):
            rows = [
                CountRow(counted[batch.event[index]], EVERYWHERE, int(columns["period"][index]), 1, 1, 1) for index in range(first, last)
            ]
            column[last - 1] = list(_texts(rows))
        columns["metric"] = column
        yield batch


def _samples(batch: Batch, events: Sequence[FileEvent]) -> Iterator[tuple[int, int]]:
    """Yield the rows of each sample with several readings of a group."""
    leaders = np.array([event.leader for event in events])[batch.event]
    begins = np.flatnonzero((np.diff(batch.offset, prepend=-1) != 0) | (np.diff(leaders, prepend=-1) != 0))
    for first, last in zip(begins.tolist(), [*begins[1:].tolist(), len(batch)], strict=True):
        if last - first > 1:
            yield first, last


def _texts(rows: list[CountRow]) -> Iterator[bytes]:
    near = Neighbours(rows, 0.0)
    for row in rows:
        for ratio in ratios(row, near):
            if ratio.value is not None:
                yield f"{ratio.format % ratio.value} {ratio.unit}".encode()
