"""Expand samples that carry counter readings (SAMPLE_READ) as perf does: one row per reading.

The row is of the event with the reading's id; its period is the counter's advance since the id's
previous reading. Readings without advance, or with unknown ids, give no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import SampleType
from perfpy.perfdata.records.batches import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent


def carries_readings(event: FileEvent) -> bool:
    """Whether the event's samples carry counter readings."""
    return bool(event.attr.sample_type & SampleType.READ)


def split_readings(batches: Iterable[Batch], events: Sequence[FileEvent]) -> Iterator[Batch]:
    """Yield the batches with one row per reading; unchanged if no event carries readings.

    The batches must have the columns "read" and "period" (if samples have it).
    """
    if not any(carries_readings(event) for event in events):
        yield from batches
        return
    readings = _Readings(events)
    for batch in batches:
        yield readings.expand(batch)


class _Readings:
    """The last reading of every id."""

    def __init__(self, events: Sequence[FileEvent]) -> None:
        self._event_of = {ident: event.index for event in events for ident in event.ids}
        self._carries = np.array([carries_readings(event) for event in events])
        self._last: dict[int, int] = {}

    def expand(self, batch: Batch) -> Batch:
        reads = batch.columns.get("read")
        if not isinstance(reads, Ragged):
            return batch
        rows, events, periods = [], [], []
        carries = self._carries[batch.event].tolist()
        offsets = reads.offsets.tolist()
        ids, values = reads.values["id"].tolist(), reads.values["value"].tolist()
        sample_periods = _periods(batch, len(carries))
        for row, (event, has_readings) in enumerate(zip(batch.event.tolist(), carries, strict=True)):
            if not has_readings:
                rows.append(row)
                events.append(event)
                periods.append(sample_periods[row])
                continue
            for index in range(offsets[row], offsets[row + 1]):
                owner = self._event_of.get(ids[index])
                if owner is None:
                    continue
                period = (values[index] - self._last.get(ids[index], 0)) % (1 << 64)
                self._last[ids[index]] = values[index]
                if period:
                    rows.append(row)
                    events.append(owner)
                    periods.append(period)
        row_index = np.array(rows, np.intp)
        columns = batch.columns.take(row_index)
        columns["period"] = np.array(periods, np.uint64)
        return Batch(columns, np.array(events, np.int32), batch.key[row_index], batch.offset[row_index])


def _periods(batch: Batch, count: int) -> list[int]:
    period: NDArray[Any] | None = batch.columns.get("period")
    return [0] * count if period is None else period.tolist()
