"""Assign an event, a time and a delivery key to each record.

All passes over a file (the first pass, the batches of samples) use this module, so that all get the same keys.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery.order import Numbers, Rounds
from perfpy.perfdata.records.event_table import UNKNOWN_EVENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.event_table import EventTable

_FEW: Final = 64  # a chunk has few other records if at most one in 64 is no sample
_NO_ROUNDS: Final = np.zeros(0, np.int64)


class KeyedSamples(NamedTuple):
    """The samples of a chunk, with the event, key and time (0: none) of each."""

    chunk: Chunk
    events: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]

    def rows(self, index: NDArray[np.intp]) -> KeyedSamples:
        """Select samples."""
        return KeyedSamples(self.chunk.rows(index), self.events[index], self.keys[index], self.times[index])


class OrderedChunk(NamedTuple):
    """The records of a chunk, with their keys, times and events.

    Attributes:
        chunk: the records.
        keys: of each record.
        times: of each record, 0 for none.
        rows: the rows of the samples.
        samples: the samples.
        events: of each sample.
        other_events: of each of chunk.others; 0 for records that are not the kernel's.
    """

    chunk: Chunk
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    rows: NDArray[np.intp]
    samples: Chunk
    events: NDArray[np.int32]
    other_events: NDArray[np.int32]

    @property
    def keyed_samples(self) -> KeyedSamples:
        """The samples with their keys and times."""
        if self.samples is self.chunk:
            return KeyedSamples(self.samples, self.events, self.keys, self.times)
        return KeyedSamples(self.samples, self.events, self.keys.take(self.rows), self.times.take(self.rows))


class _ChunkLayout(NamedTuple):
    """The layout of a chunk that was read before, to find its samples sooner. All its samples have their times as keys.

    Attributes:
        records: the number of records.
        others: the rows of records other than samples.
        event: the event of all samples; None for several.
    """

    records: int
    others: NDArray[np.int32]
    event: int | None


class DeliveryKeys:
    """The keys of one file's records, chunk by chunk.

    Args:
        table: the events.
        by_time: False for files delivered in their own order: the keys number the records.
        in_rounds: False to ignore FINISHED_ROUND records and deliver all records by time.
    """

    def __init__(self, table: EventTable, *, by_time: bool, in_rounds: bool) -> None:
        self._table = table
        self._in_rounds = by_time and in_rounds
        self._orders: list[Rounds | Numbers] = [Rounds() if by_time else Numbers()]  # the state before each chunk read so far
        self._layouts: list[_ChunkLayout | None] = []  # the layout of each chunk read so far

    def before(self, number: int) -> Rounds | Numbers:
        """Return the ordering state before a chunk: the first, or one after chunks that were read already."""
        return copy(self._orders[number])

    def order_chunk(self, chunk: Chunk, number: int, order: Rounds | Numbers) -> OrderedChunk:
        """Return a chunk with keys. order: the state after the chunk before; number: the chunk's."""
        others = chunk.others
        rows = np.arange(len(chunk) - len(others)) if _last_of(others, len(chunk)) else rows_where(chunk.types == RecordType.SAMPLE)
        samples = chunk.rows(rows) if len(others) else chunk
        events = self._events(samples)
        other_events = np.zeros(len(others), np.int32)
        times = self._times(chunk, rows, samples, events, other_events)
        rounds = rows_where(chunk.types == RecordType.FINISHED_ROUND) if self._in_rounds and len(others) else _NO_ROUNDS
        keys = order.keys(times, rounds)
        ordered = OrderedChunk(chunk, keys, times, rows, samples, events, other_events)
        if number + 1 == len(self._orders):
            self._orders.append(copy(order))
            self._layouts.append(_layout_of_chunk(ordered))
        return ordered

    def samples_again(self, chunk: Chunk, number: int) -> KeyedSamples:
        """Return the samples of a chunk that was read before. number: the chunk's."""
        layout = self._layouts[number] if number < len(self._layouts) else None
        if layout is None or layout.records != len(chunk):
            return self.order_chunk(chunk, number, self.before(number)).keyed_samples
        samples = chunk.without(layout.others)
        events = self._events(samples) if layout.event is None else np.full(len(samples), layout.event, np.int32)
        times = self._table.sample_times(samples, events)
        return KeyedSamples(samples, events, times, times)

    def _events(self, samples: Chunk) -> NDArray[np.int32]:
        return self._table.of_samples(samples) if self._table.events else np.full(len(samples), UNKNOWN_EVENT, np.int32)

    def _times(
        self, chunk: Chunk, rows: NDArray[np.intp], samples: Chunk, events: NDArray[np.int32], other_events: NDArray[np.int32]
    ) -> NDArray[np.uint64]:
        """Return the time of each record; write the events of records other than samples to `other_events`."""
        table = self._table
        if not table.events:
            return np.zeros(len(chunk), np.uint64)
        of_samples = table.sample_times(samples, events)
        if samples is chunk:
            return of_samples
        times = np.zeros(len(chunk), np.uint64)
        times[rows] = of_samples
        of_kernel = chunk.types[chunk.others] < RecordType.HEADER_ATTR
        if of_kernel.any():
            others = chunk.others[of_kernel]
            side_band = chunk.rows(others)
            other_events[of_kernel] = table.of_side_band(side_band)
            times[others] = table.side_band_times(side_band, other_events[of_kernel])
        return times


def _last_of(others: NDArray[np.intp], count: int) -> bool:
    """Whether the other records, if any, follow all samples."""
    return not len(others) or int(others[0]) == count - len(others)


def _layout_of_chunk(ordered: OrderedChunk) -> _ChunkLayout | None:
    """Return the layout of a chunk; None if its samples must be searched again."""
    count, others, samples = len(ordered.chunk), ordered.chunk.others, ordered.keyed_samples
    if len(others) * _FEW > count or not len(samples.events) or not np.array_equal(samples.keys, samples.times):
        return None
    lowest, highest = int(samples.events.min()), int(samples.events.max())
    return _ChunkLayout(count, others.astype(np.int32), lowest if lowest == highest else None)
