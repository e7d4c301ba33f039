"""Chunks of records with what ordering them needs: event, time and key of each.

What enters: the chunks of a file. What leaves: OrderedChunks, and KeyedSamples
for passes over the samples only. All passes over a file (the survey, the
batches of samples) go through here, so that all see the same keys.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery_order import Numbers, Rounds
from perfpy.perfdata.records.event_table import UNKNOWN_EVENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.event_table import EventTable

_FEW: Final = 64  # records that are no samples are few where there is at most one of them in so many
_NO_ROUNDS: Final = np.zeros(0, np.int64)


class KeyedSamples(NamedTuple):
    """The samples of a chunk: where they are, and the event, key and time (0: none) of each."""

    chunk: Chunk
    events: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]

    def rows(self, index: NDArray[np.intp]) -> KeyedSamples:
        """Only the given samples."""
        return KeyedSamples(self.chunk.rows(index), self.events[index], self.keys[index], self.times[index])


class OrderedChunk(NamedTuple):
    """Some records, and what each is.

    keys and times (0: none): one per record; rows: which records are SAMPLEs;
    samples: only these; events: of each of these; other_events: of each of
    chunk.others, of which only the kernel's own records have one (0 otherwise).
    """

    chunk: Chunk
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    rows: NDArray[np.intp]
    samples: Chunk
    events: NDArray[np.int32]
    other_events: NDArray[np.int32]

    @property
    def by_themselves(self) -> KeyedSamples:
        """The samples by themselves."""
        if self.samples is self.chunk:
            return KeyedSamples(self.samples, self.events, self.keys, self.times)
        return KeyedSamples(self.samples, self.events, self.keys.take(self.rows), self.times.take(self.rows))


class _Seen(NamedTuple):
    """What is remembered of a chunk, so that its samples are found sooner the next time.

    records: how many it has; others: which of them are no samples, few; event: the one that all samples are of (None: several).
    All samples are delivered at their times.
    """

    records: int
    others: NDArray[np.int32]
    event: int | None


class DeliveryKeys:
    """The keys of one file's records, chunk after chunk.

    by_time: False for files that are delivered as they stand: the keys number
    the records; in_rounds: False where the FINISHED_ROUND records are to be
    ignored: all records are delivered in order of time.
    """

    def __init__(self, table: EventTable, *, by_time: bool, in_rounds: bool) -> None:
        self._table = table
        self._in_rounds = by_time and in_rounds
        self._orders: list[Rounds | Numbers] = [Rounds() if by_time else Numbers()]  # before each chunk that was read
        self._seen: list[_Seen | None] = []  # of each chunk that was read

    def before(self, number: int) -> Rounds | Numbers:
        """How the keys go on at a chunk: the first, or one of which those before have been read at some time."""
        return copy(self._orders[number])

    def ordered(self, chunk: Chunk, number: int, order: Rounds | Numbers) -> OrderedChunk:
        """A chunk with keys. number: of the chunk; order: as the chunk before has left it."""
        others = chunk.others
        rows = np.arange(len(chunk) - len(others)) if _last_of(others, len(chunk)) else rows_where(chunk.types == RecordType.SAMPLE)
        samples = chunk.rows(rows) if len(others) else chunk
        events = self._events(samples)
        other_events = np.zeros(len(others), np.int32)
        times = self._times(chunk, rows, samples, events, other_events)
        rounds = rows_where(chunk.types == RecordType.FINISHED_ROUND) if self._in_rounds and len(others) else _NO_ROUNDS
        keys = order.keys(times, rounds)
        found = OrderedChunk(chunk, keys, times, rows, samples, events, other_events)
        if number + 1 == len(self._orders):
            self._orders.append(copy(order))
            self._seen.append(_seen(found))
        return found

    def samples_again(self, chunk: Chunk, number: int) -> KeyedSamples:
        """The samples of a chunk that was read before. number: of the chunk."""
        seen = self._seen[number] if number < len(self._seen) else None
        if seen is None or seen.records != len(chunk):
            return self.ordered(chunk, number, self.before(number)).by_themselves
        samples = chunk.without(seen.others)
        events = self._events(samples) if seen.event is None else np.full(len(samples), seen.event, np.int32)
        times = self._table.sample_times(samples, events)
        return KeyedSamples(samples, events, times, times)

    def _events(self, samples: Chunk) -> NDArray[np.int32]:
        return self._table.of_samples(samples) if self._table.events else np.full(len(samples), UNKNOWN_EVENT, np.int32)

    def _times(
        self, chunk: Chunk, rows: NDArray[np.intp], samples: Chunk, events: NDArray[np.int32], other_events: NDArray[np.int32]
    ) -> NDArray[np.uint64]:
        """The time of each record; the events of those that are no samples are put into `other_events`."""
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
    """Whether the others, if there are any, stand behind all samples."""
    return not len(others) or int(others[0]) == count - len(others)


def _seen(ordered: OrderedChunk) -> _Seen | None:
    """What is remembered of a chunk: nothing where its samples must be found as at first."""
    count, others, samples = len(ordered.chunk), ordered.chunk.others, ordered.by_themselves
    if len(others) * _FEW > count or not len(samples.events) or not np.array_equal(samples.keys, samples.times):
        return None
    lowest, highest = int(samples.events.min()), int(samples.events.max())
    return _Seen(count, others.astype(np.int32), lowest if lowest == highest else None)
