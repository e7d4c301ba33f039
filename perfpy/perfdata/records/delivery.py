"""Assign an event, a time and a delivery key to each record.

All passes over a file (the first pass, the batches of samples) use this module, so that all get the same keys.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from perfpy.abi import records
from perfpy.abi.columns import are_among, rows_but, rows_where, slices_index
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass
from perfpy.abi.records import NO_ID, IdLayout
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.task_columns import TASK_TYPES, RawColumns, decode_tasks, number_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.task_columns import NumberColumns, TaskRecords
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.stream import Chunk


_FEW: Final = 64  # a chunk has few other records if at most one in 64 is no sample
_NO_ROUNDS: Final = np.zeros(0, np.int64)


class KeyedSamples(NamedTuple):
    """The samples of a chunk, with the event, key and time (0: none) of each.

    floor: all samples of later chunks have higher keys; 0 if that is unknown.
    """

    chunk: Chunk
    events: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    floor: int = 0

    def rows(self, index: NDArray[np.intp]) -> KeyedSamples:
        """Select samples."""
        return KeyedSamples(self.chunk.rows(index), self.events[index], self.keys[index], self.times[index], self.floor)


@dataclass(eq=False, repr=False)
class OrderedChunk:
    """The records of a chunk, with their keys, times and events.

    Attributes:
        chunk: the records.
        keys: of each record.
        times: of each record, 0 for none.
        rows: the rows of the samples.
        samples: the samples.
        events: of each sample.
        other_events: of each of chunk.others; 0 for records that are not the kernel's.
        floor: see KeyedSamples.
    """

    chunk: Chunk
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    rows: NDArray[np.intp]
    samples: Chunk
    events: NDArray[np.int32]
    other_events: NDArray[np.int32]
    floor: int = 0

    @cached_property
    def keyed_samples(self) -> KeyedSamples:
        """The samples with their keys and times."""
        if self.samples is self.chunk:
            return KeyedSamples(self.samples, self.events, self.keys, self.times, self.floor)
        return KeyedSamples(self.samples, self.events, self.keys.take(self.rows), self.times.take(self.rows), self.floor)


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
        return self._orders[number].copy()

    def order_chunk(self, chunk: Chunk, number: int, order: Rounds | Numbers) -> OrderedChunk:
        """Return a chunk with keys. order: the state after the chunk before; number: the chunk's."""
        others = chunk.others
        rows = rows_but(len(chunk), others)
        samples = chunk.rows(rows) if len(others) else chunk
        events = self._events(samples)
        other_events = np.zeros(len(others), np.int32)
        times = self._times(chunk, rows, samples, events, other_events)
        rounds = rows_where(chunk.types == RecordType.FINISHED_ROUND) if self._in_rounds and len(others) else _NO_ROUNDS
        keys = order.keys(times, rounds)
        ordered = OrderedChunk(chunk, keys, times, rows, samples, events, other_events, order.floor)
        if number + 1 == len(self._orders):
            self._orders.append(order.copy())
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
        return KeyedSamples(samples, events, times, times, self._orders[number + 1].floor)

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


def _layout_of_chunk(ordered: OrderedChunk) -> _ChunkLayout | None:
    """Return the layout of a chunk, or None if its samples must be searched again."""
    count, others, samples = len(ordered.chunk), ordered.chunk.others, ordered.keyed_samples
    if len(others) * _FEW > count or not len(samples.events) or not np.array_equal(samples.keys, samples.times):
        return None
    lowest, highest = int(samples.events.min()), int(samples.events.max())
    return _ChunkLayout(count, others.astype(np.int32), lowest if lowest == highest else None)


# The order in which perf delivers records, as one key per record. The rule (tools/perf/util/ordered-events.c): a record with a time stamp
# waits in a queue; each FINISHED_ROUND delivers, in order of time, the records not later than the latest time before the previous
# FINISHED_ROUND; a record without a time stamp is delivered when it is read; the end of the file delivers the rest.
#
# So the records delivered before a record is read have times up to a limit, the `floor`; a record with an earlier time is late and
# follows all of them. Sorting by (key, time, offset in the file) gives the order of delivery.

_ONE: Final = np.uint64(1)
_LATEST: Final = np.uint64((1 << 64) - 1)


class Numbers:
    """Keys for files delivered in their own order: numbers, from 1 on."""

    floor: Final = 0

    def __init__(self) -> None:
        self._next = 1

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of the next records."""
        first = self._next
        self._next += len(times)
        return np.arange(first, self._next, dtype=np.uint64)

    def copy(self) -> Numbers:
        """Return the state as it is now."""
        copied = Numbers()
        copied._next = self._next
        return copied


class Rounds:
    """The rounds of one file, followed from its first record to its last."""

    def __init__(self) -> None:
        self._floor = np.uint64(0)  # everything up to this time has been delivered
        self._limit = np.uint64(0)  # the next FINISHED_ROUND delivers up to this time
        self._latest = np.uint64(0)  # the latest time so far

    @property
    def floor(self) -> int:
        """The time up to which all records have been delivered: the keys of the next ones are higher; 0: none."""
        return int(self._floor)

    def copy(self) -> Rounds:
        """Return the state as it is now."""
        copied = Rounds()
        copied._floor, copied._limit, copied._latest = self._floor, self._limit, self._latest
        return copied

    def keys(self, times: NDArray[np.uint64], rounds: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of the next records.

        A record without time gets the key of its floor: records delivered before have lower keys.

        Args:
            times: uint64[n], nanoseconds, 0 for none.
            rounds: the rows of the FINISHED_ROUND records.
        """
        if not len(times):
            return times
        begins = np.append(0, rounds)  # the first record at each floor
        # A FINISHED_ROUND has no time: as the first record it also stands for the empty range before it.
        latest = np.maximum.accumulate(np.append(self._latest, np.maximum.reduceat(times, begins)).astype(np.uint64))
        delivered = np.append(np.array([self._floor, self._limit], np.uint64), latest[1:-1])[: len(begins)]
        floors: NDArray[np.uint64] = np.maximum.accumulate(delivered)
        if len(begins) > 1:
            self._floor, self._limit = floors[-1], latest[-2]
        self._latest = latest[-1]
        lowest_each = np.where(floors, np.minimum(floors, _LATEST - _ONE) + _ONE, floors)
        return np.maximum(times, lowest_each if len(floors) == 1 else np.repeat(lowest_each, np.diff(begins, append=len(times))))


def delivery_order(keys: NDArray[np.uint64], times: NDArray[np.uint64]) -> NDArray[np.intp] | None:
    """Return the indexes that sort records from file order to order of delivery, or None if they are sorted."""
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return None
    late = keys != times
    if late.any():
        return np.lexsort((times, keys))
    if bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")


class EqualTimes:
    """The offsets of a recording's side-band records, by key."""

    def __init__(self, key: NDArray[np.uint64], time: NDArray[np.uint64], offset: NDArray[np.int64]) -> None:
        """Keep the columns of records in order of delivery. Records without time, and late ones, precede all samples of their key."""
        on_time = time == key
        self._keys, self._offsets = key[on_time], offset[on_time]

    def settle(self, key: NDArray[np.uint64], offset: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of samples, lowered by one for a sample that comes before all records of its key in the file.

        A record applies to the samples with keys not below its own: so not to these.
        """
        if not len(key):
            return key
        first, last = int(self._keys.searchsorted(key.min(), "left")), int(self._keys.searchsorted(key.max(), "right"))
        if first == last:
            return key
        keys = self._keys[first:last]
        index = keys.searchsorted(key, "left")
        tied = np.flatnonzero(keys.take(index, mode="clip") == key)
        before = tied[offset[tied] < self._offsets[first:last][index[tied]]]
        if not len(before):
            return key
        settled = key.copy()
        settled[before] -= np.uint64(1)
        return settled


# Split a recording into spans whose samples are delivered one span after the other, and can be read independently.
class Span(NamedTuple):
    """The samples with keys from `lower` on and below `upper`: all of them are in the chunks from `first` to before `end`."""

    first: int
    end: int
    lower: int
    upper: int

    def select(self, samples: KeyedSamples) -> KeyedSamples:
        """Select the samples of this span."""
        mask = samples.keys >= np.uint64(self.lower)
        if self.upper >> 64 == 0:
            mask &= samples.keys < np.uint64(self.upper)
        return samples if mask.all() else samples.rows(rows_where(mask))


def spans_of(later: Sequence[int], highest: Sequence[int]) -> list[Span]:
    """Return the spans of one file, whose samples together are all samples, in order.

    Args:
        later: of each chunk, the lowest key of the samples after it.
        highest: of each chunk, the highest key of its own samples; -1 for none.

    >>> spans_of([5, 9, 1 << 64], [6, 8, 12])[1]
    Span(first=0, end=2, lower=5, upper=9)
    """
    result: list[Span] = []
    first = 0
    for chunk, (lower, upper) in enumerate(pairwise([0, *later])):
        while first < chunk and highest[first] < lower:
            first += 1
        if lower < upper:
            result.append(Span(first, chunk + 1, lower, upper))
    return result


# The event and the time of each record, for thousands of records at once. The id is at a fixed offset in samples (struct sample in
# include/uapi/linux/perf_event.h: IDENTIFIER comes first, ID after IP, TID, TIME and ADDR) and, counted from the end, in the sample_id
# trailer of all other records.

UNKNOWN_EVENT: Final = -1
_NEVER: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_NEARBY: Final = 1 << 12
_TRAILER: Final = (
    SampleType.TID,
    SampleType.TIME,
    SampleType.ID,
    SampleType.STREAM_ID,
    SampleType.CPU,
    SampleType.IDENTIFIER,
)


class EventTable:
    """The events of a file, looked up by the ids in records."""

    def __init__(self, events: Sequence[FileEvent], endian: str) -> None:
        self.events = list(events)
        self.endian = endian
        self._layouts: dict[tuple[int, ...], SampleLayout] = {}
        self.layouts = [self._layout(event.attr) for event in events]
        self.trailers = [IdLayout.of(event.attr, endian) for event in events]
        self._id_words = [layout.word_of("identifier") or layout.word_of("id") for layout in self.layouts]
        self._time_words = [layout.word_of("time") for layout in self.layouts]
        pairs = sorted((ident, event.index) for event in events for ident in event.ids)
        self._ids = np.array([ident for ident, _ in pairs], np.uint64)
        self._indexes = np.array([index for _, index in pairs], np.int32)
        self._near = _nearby(self._ids, self._indexes)

    def _layout(self, attr: EventAttr) -> SampleLayout:
        """Return one layout for all attrs whose samples look the same."""
        key = (
            attr.sample_type,
            attr.read_format,
            attr.branch_sample_type,
            attr.sample_regs_user,
            attr.sample_regs_intr,
        )
        if key not in self._layouts:
            self._layouts[key] = SampleLayout(attr, self.endian)
        return self._layouts[key]

    @property
    def has_event_ids(self) -> bool:
        """Whether the samples have an event id, all at the same offset."""
        if len(self.events) < 2:
            return True
        positions = set(self._id_words)
        return len(positions) == 1 and None not in positions

    def index_of(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the events' indexes by id, UNKNOWN_EVENT for unknown ids. As in perf, id 0 is the first event's."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int32)
        if len(self._near) and len(ids):
            nearby: NDArray[np.int32] = self._near.take(np.minimum(ids - self._ids[0], len(self._near) - 1).view(np.int64))
            if nearby.min() != UNKNOWN_EVENT:
                return nearby
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        searched = np.where(self._ids[positions] == ids, self._indexes[positions], UNKNOWN_EVENT)
        return np.where(ids == 0, 0, searched).astype(np.int32, copy=False)

    def of_samples(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the event of each sample of a chunk of samples."""
        word = self._id_words[0] if len(self.events) > 1 else None
        if word is None:
            return np.zeros(len(chunk.starts), np.int32)
        ids, inside = _words_at(chunk, self.endian, word)
        events = self.index_of(ids)
        return events if inside is None else np.where(inside, events, np.int32(UNKNOWN_EVENT))

    def sample_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the time stamp of each sample of a chunk of samples, or 0 for none."""
        return self._times(chunk, self._time_words, events)

    def of_side_band(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the event of each record of a chunk without samples."""
        first = self.events[0].attr
        from_end = _words_from_end(first.sample_type, SampleType.IDENTIFIER) or _words_from_end(first.sample_type, SampleType.ID)
        if len(self.events) == 1 or not first.sample_id_all or not from_end:
            return np.zeros(len(chunk.starts), np.int32)
        return self.index_of(_words_at(chunk, self.endian, (chunk.sizes >> 3).astype(np.int64) - from_end)[0])

    def side_band_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the time stamp of each record of a chunk without samples, or 0 for none."""
        from_end = [_words_from_end(e.attr.sample_type, SampleType.TIME) if e.attr.sample_id_all else None for e in self.events]
        return self._times(chunk, [None if words is None else -words for words in from_end], events, (chunk.sizes >> 3).astype(np.int64))

    def _times(
        self, chunk: Chunk, words: Sequence[int | None], events: NDArray[np.int32], base: NDArray[np.int64] | int = 0
    ) -> NDArray[np.uint64]:
        """Return the word at `base` plus the event's entry in `words`, or 0 beyond the record's end, and for the "no time" mark."""
        if all(word is None for word in words):
            return np.zeros(len(chunk.starts), np.uint64)
        if len(set(words)) == 1:
            times, inside = _words_at(chunk, self.endian, base + int(words[0] or 0))
        else:
            times, inside = _words_at(chunk, self.endian, base + np.array([word or 0 for word in words], np.int64)[events])
            has_time = np.array([word is not None for word in words])[events]
            inside = has_time if inside is None else inside & has_time
        if inside is not None:
            times = np.where(inside, times, np.uint64(0))
        if len(times) and times.max() == _NEVER:
            times[times == _NEVER] = 0
        return times

    def trailer(self, event: int) -> IdLayout:
        """Return the layout of the sample_id trailer of an event's records."""
        return self.trailers[max(event, 0)] if self.trailers else NO_ID

    @property
    def has_times(self) -> bool:
        """Whether any event's records have time stamps."""
        return any(event.attr.sample_type & SampleType.TIME for event in self.events)


def _nearby(ids: NDArray[np.uint64], indexes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a table from id minus the lowest id to index, with one more entry for all other ids; empty if the ids lie too far apart."""
    lowest, highest = (int(ids[0]), int(ids[-1])) if len(ids) else (0, 0)
    if not lowest or highest - lowest >= _NEARBY:
        return np.zeros(0, np.int32)
    table = np.full(highest - lowest + 2, UNKNOWN_EVENT, np.int32)
    table[(ids - ids[0]).view(np.int64)[::-1]] = indexes[::-1]  # in reverse, so that the first of several events with one id wins
    return table


def _words_at(chunk: Chunk, endian: str, words: NDArray[np.int64] | int) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
    """Return a word of each record, counted from its start, and whether it lies inside of the record (None: all do)."""
    if isinstance(words, int) and len(chunk) and int(chunk.sizes.min()) >> 3 > words:
        return chunk.column("u8", words << 3).astype(np.uint64, copy=False), None
    inside = (chunk.sizes >> 3) > words
    if not isinstance(words, int):
        inside &= words > 0
    all_inside = bool(inside.all())
    data = chunk.data[: len(chunk.data) & ~7].view(endian + "u8")
    if all_inside:
        return data.take((chunk.starts >> 3) + words).astype(np.uint64, copy=False), None
    positions = np.where(inside, (chunk.starts >> 3) + words, 0)
    return data.take(positions).astype(np.uint64, copy=False), inside


def _words_from_end(sample_type: int, field: int) -> int | None:
    """Return the number of words from a sample_id trailer's field to the record's end."""
    if not sample_type & field:
        return None
    return sum(1 for bit in _TRAILER[_TRAILER.index(field) :] if sample_type & bit)


# Records before they are decoded, as one array and one bytes object: system-wide recordings have very many of them.

_HEADER_SIZE: Final = HEADER["<"].size
_AT_ONCE: Final = 4096  # records decoded together
_ROW: Final = np.dtype(
    [("key", "u8"), ("time", "u8"), ("offset", "i8"), ("type", "u4"), ("misc", "u2"), ("event", "i4"), ("size", "u2"), ("start", "i8")]
)


class RawRecord(NamedTuple):
    """One record before it is decoded.

    Attributes:
        key: its delivery key.
        time: nanoseconds, 0 for none.
        offset: in the file.
        type: its record type.
        misc: the header's misc bits.
        event: index of its event.
        body: the bytes after the header.
    """

    key: int
    time: int
    offset: int
    type: int
    misc: int
    event: int
    body: bytes


def delivered_at(raw: RawRecord) -> tuple[int, int, int]:
    """Return the sort key of order of delivery. The sort is stable: all records of one compressed record have its offset."""
    return raw.key, raw.time, raw.offset


class RawRecords:
    """Raw records, a row each.

    Attributes:
        rows: the fields of RawRecord except the body; `start` and `size` locate that in `bodies`, in bytes. Starts are multiples of 8.
        bodies: the bodies of all records.
    """

    def __init__(self, rows: NDArray[np.void], bodies: bytes) -> None:
        self.rows = rows
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RawRecord]:
        bodies = self.bodies
        for first in range(0, len(self), _AT_ONCE):
            for key, time, offset, kind, misc, event, size, start in self.rows[first : first + _AT_ONCE].tolist():
                yield RawRecord(key, time, offset, kind, misc, event, bodies[start : start + size])

    def of_types(self, types: Collection[int]) -> RawRecords:
        """Select records by type."""
        return RawRecords(self.rows[are_among(self.rows["type"], np.array(sorted(types)))], self.bodies)

    def in_order(self) -> RawRecords:
        """Sort the records by delivered_at."""
        key, time, offset = (np.ascontiguousarray(self.rows[name]) for name in ("key", "time", "offset"))
        if len(offset) and bool((offset[1:] < offset[:-1]).any()):  # several files
            return RawRecords(self.rows[np.lexsort((offset, time, key))], self.bodies)
        order = delivery_order(key, time)
        return self if order is None else RawRecords(self.rows[order], self.bodies)

    def compact(self) -> RawRecords:
        """Return the same records without the bytes of records that were dropped."""
        words = (self.rows["size"].astype(np.int64) + 7) >> 3
        index, offsets = slices_index(self.rows["start"] >> 3, words)
        data = np.frombuffer(self.bodies, np.uint64, len(self.bodies) >> 3)
        rows = self.rows.copy()
        rows["start"] = offsets[:-1] << 3
        return RawRecords(rows, data[index].tobytes())

    @classmethod
    def of_chunk(cls, ordered: OrderedChunk, chosen: NDArray[np.bool_]) -> RawRecords:
        """Return the chosen records of a chunk. chosen: a mask of chunk.others."""
        index = ordered.chunk.others[chosen]
        chunk = ordered.chunk.rows(index)
        rows = np.zeros(len(index), _ROW)
        rows["key"], rows["time"], rows["offset"] = ordered.keys[index], ordered.times[index], chunk.offsets
        rows["type"], rows["misc"] = chunk.types, chunk.miscs
        rows["event"] = ordered.other_events[chosen]
        rows["size"] = chunk.sizes - np.uint16(_HEADER_SIZE)
        bodies, rows["start"] = _bodies(chunk)
        return cls(rows, bodies)

    @classmethod
    def concat(cls, parts: Sequence[RawRecords]) -> RawRecords:
        """Concatenate records."""
        rows = np.concatenate([np.zeros(0, _ROW), *(part.rows for part in parts)])
        before = np.cumsum([0, *(len(part.bodies) for part in parts)])[:-1]
        rows["start"] += np.repeat(before, [len(part) for part in parts])
        return cls(rows, b"".join(part.bodies for part in parts))


def _bodies(chunk: Chunk) -> tuple[bytes, NDArray[np.int64]]:
    """Return the bodies of a chunk's records, each padded to a multiple of 8 bytes, and the start of each."""
    words = (chunk.sizes.astype(np.int64) + 7 >> 3) - 1
    index, offsets = slices_index((chunk.starts >> 3) + 1, words)
    data = chunk.data[: len(chunk.data) & ~7]
    if len(index) and index[-1] >= len(data) >> 3:  # the last record is not the kernel's, whose records are padded
        data = np.concatenate([chunk.data, np.zeros(-len(chunk.data) % 8, np.uint8)])
    return data.view(np.uint64)[index].tobytes(), offsets[:-1] << 3


# The records other than samples, in order of delivery.
#
# Records of types that may be as frequent as samples
# (BULK) are read from the file each time; the index keeps all others.


#: types not kept in memory
BULK: Final = frozenset((RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.CALLCHAIN_DEFERRED, RecordType.FINISHED_ROUND))
_FIRST_USER_TYPE: Final = RecordType.HEADER_ATTR
_ON_REQUEST: Final = frozenset((RecordType.FINISHED_ROUND,))  # delivered on request only


class SideRecord(NamedTuple):
    """A record other than a sample.

    Attributes:
        record: a value of perfpy.abi.records or user_records.
        key: samples with a key not below it are delivered after it.
        offset: in the file.
    """

    record: Any
    key: int
    offset: int


class ChunkRead(NamedTuple):
    """One step of the order to read chunks in.

    Attributes:
        stream: the stream whose next chunk is read.
        later: the lowest key of the relevant records read after it.
    """

    stream: int
    later: int


def records_of_types(streams: Sequence[Iterator[OrderedChunk]], reads: Iterable[ChunkRead], types: Collection[int]) -> Iterator[RawRecord]:
    """Yield all records of some types, in order of delivery; only those out of order are held in memory."""
    waiting: list[RawRecord] = []
    for stream, later in reads:
        ordered = next(streams[stream], None)
        if ordered is None:  # the file was truncated since the first pass
            break
        waiting += RawRecords.of_chunk(ordered, np.isin(ordered.chunk.types[ordered.chunk.others], list(types)))
        waiting.sort(key=delivered_at)
        ready = next((i for i, record in enumerate(waiting) if record.key >= later), len(waiting))
        yield from waiting[:ready]
        del waiting[:ready]
    yield from waiting


class SideBand:
    """The records of a file other than samples, in order of delivery; decoded anew by each iteration.

    Args:
        kept: records in memory, in order.
        bulk: returns an iterator over records of other types, in order, to be merged with them.
        table: the events.
        warn: called with one line for each damaged record.
        types: the types to deliver; None for all but FINISHED_ROUND.
    """

    def __init__(
        self,
        records: RawRecords,
        bulk: Callable[[Collection[int]], Iterator[RawRecord]],
        table: EventTable,
        warn: Callable[[str], None],
        types: Collection[int] | None,
    ) -> None:
        self._records = records
        self._bulk = bulk
        self._table = table
        self._warn = warn
        self._types = None if types is None else frozenset(map(int, types))

    def __iter__(self) -> Iterator[SideRecord]:
        for raw in self.raw():
            record = self.decode(raw)
            if record is not None:
                yield SideRecord(record, raw.key, raw.offset)

    def decode(self, raw: RawRecord) -> Any:
        """Decode a record; return None, with a warning, if it is damaged."""
        table = self._table
        try:
            if raw.type < _FIRST_USER_TYPE:
                return records.decode(raw.type, raw.misc, raw.body, table.trailer(raw.event), table.endian)
            from perfpy.abi import perf_records  # a report has no need of these

            return perf_records.decode(raw.type, raw.misc, raw.body, table.endian)
        except ValueError as error:
            self._warn(f"at offset {raw.offset:#x}: {error}; skipped")
            return None

    def tasks(self) -> TaskRecords:
        """Return the records of tasks and their mappings, as columns."""
        types = TASK_TYPES if self._types is None else TASK_TYPES & self._types
        records = self._records.of_types(types)
        rows = records.rows
        trailer = np.array([layout.size for layout in self._table.trailers] or [0])[np.maximum(rows["event"], 0)]
        raw = RawColumns(rows["type"], rows["misc"], rows["start"], rows["size"].astype(np.int64), trailer, records.bodies)
        too_short = raw.too_short
        if too_short.any():
            for damaged in RawRecords(rows[too_short], records.bodies):
                self.decode(damaged)  # which warns
            rows, raw = rows[~too_short], raw.rows(~too_short)
        return decode_tasks(raw, rows["key"], self._table.endian)

    def task_numbers(self) -> NumberColumns:
        """Return the threads that the records of tasks and mappings name, as columns."""
        types = (TASK_TYPES if self._types is None else TASK_TYPES & self._types) - {RecordType.KSYMBOL}
        records = self._records.of_types(types)
        rows = records.rows
        sizes = rows["size"].astype(np.int64)
        raw = RawColumns(rows["type"], rows["misc"], rows["start"], sizes, np.zeros(len(rows), np.int64), records.bodies)
        return number_columns(raw, rows["key"], rows["time"], self._table.endian)

    def raw(self) -> Iterator[RawRecord]:
        """Return the records before they are decoded."""
        bulk_types = BULK - _ON_REQUEST if self._types is None else BULK & self._types
        records = self._records if self._types is None else self._records.of_types(self._types)
        if not bulk_types:
            return iter(records)
        from heapq import merge  # few commands ask for these types

        return merge(records, self._bulk(bulk_types), key=delivered_at)
