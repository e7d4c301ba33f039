"""The second pass over a file: the samples as columns, in order of delivery.

A chunk's samples are yielded as soon as no sample that is still to be read
comes before them; the others wait for the next chunk. So memory holds a chunk
and the samples out of order, not the file.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from perfpy.abi.columns import Columns, Ragged, are_among, count_each, pieces, rows_where
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.errors import plural
from perfpy.perfdata.records.delivery import BULK, ChunkRead, RawRecords, delivery_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray

    from perfpy.abi.columns import Index
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.delivery import EventTable, KeyedSamples, OrderedChunk
    from perfpy.perfdata.records.stream import Chunk


class Batch(NamedTuple):
    """A batch of samples, in order of delivery.

    Attributes:
        columns: name -> array (perfpy.abi.sample_decoding).
        event: int32[n], indexes into PerfData.events.
        key: uint64[n], delivery keys.
        offset: int64[n], offsets of the records in the file.
    """

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.event)

    def take(self, rows: Index) -> Batch:
        """Select samples by indexes, mask or slice."""
        return Batch(self.columns.take(rows), self.event[rows], self.key[rows], self.offset[rows])


class StoredBatch(NamedTuple):
    """A batch of samples in the order of the file: Batch with `time`, uint64[n], nanoseconds, 0 for none."""

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def take(self, rows: Index) -> StoredBatch:
        """Select samples by indexes, mask or slice."""
        return StoredBatch(self.columns.take(rows), self.event[rows], self.key[rows], self.time[rows], self.offset[rows])

    @classmethod
    def concat(cls, parts: list[StoredBatch]) -> StoredBatch:
        """Concatenate batches."""
        if len(parts) == 1:
            return parts[0]
        arrays = (np.concatenate([part[i] for part in parts]) for i in range(1, 5))
        return cls(Columns.concat([part.columns for part in parts]), *arrays)

    def sort(self) -> StoredBatch:
        """Sort the samples by order of delivery."""
        order = delivery_order(self.key, self.time)
        return self if order is None else self.take(order)


class FurtherColumns(Protocol):
    """A source of columns computed from others. It sees all samples while their bytes are in memory."""

    @property
    def fields(self) -> Collection[str]:
        """The columns that it computes from."""

    def extend(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """Return the columns of some samples with the computed ones; key: their delivery keys."""


#: decoded samples, with Slices among their columns, -> samples
Change: TypeAlias = "Callable[[StoredBatch], StoredBatch]"


class SampleDecoder(NamedTuple):
    """The decoding of a chunk's samples.

    Attributes:
        table: the events and layouts of samples.
        fields: the columns to decode; None for all.
        warn: called for skipped samples.
        change: applied to the samples of each chunk.
    """

    table: EventTable
    fields: Collection[str] | None
    warn: Callable[[str], None]
    change: Change | None = None

    def decode_in_buffer(self, samples: KeyedSamples) -> StoredBatch:
        """Decode samples with callchains, raw data and user stacks as Slices, valid until the next chunk is read."""
        decoded_samples = decode_chunk(samples, self.table, self.fields, self.warn, late=True)
        return decoded_samples if self.change is None else self.change(decoded_samples)

    def decode(self, samples: KeyedSamples) -> StoredBatch:
        """Decode samples without references to the chunk's buffer."""
        if self.change is None:
            return decode_chunk(samples, self.table, self.fields, self.warn)
        changed = self.decode_in_buffer(samples)
        return changed._replace(columns=changed.columns.gather())


def ordered_batches(streams: Sequence[Iterator[KeyedSamples]], reads: Iterable[ChunkRead], decoder: SampleDecoder) -> Iterator[Batch]:
    """Yield all samples of all streams in order of delivery. reads: the order to read the streams' chunks in."""
    waiting: list[StoredBatch] = []
    lowest = NO_KEY  # the lowest waiting key
    for stream, later in reads:
        chunk_samples = next(streams[stream], None)  # None: the file was truncated since the first pass
        if chunk_samples and len(chunk_samples.keys):
            waiting.append(decoder.decode(chunk_samples))
            lowest = min(lowest, int(chunk_samples.keys.min()))
        if lowest >= later or not waiting:
            continue
        # Waiting samples are sorted and were read first: samples with equal keys keep their order.
        samples = StoredBatch.concat(waiting).sort()
        count = len(samples.key) if later == NO_KEY else int(samples.key.searchsorted(np.uint64(later)))
        waiting = [samples.take(slice(count, None))] if count < len(samples.key) else []
        lowest = int(samples.key[count]) if waiting else NO_KEY
        if count:
            ready = samples.take(slice(count)) if waiting else samples
            yield Batch(ready.columns, ready.event, ready.key, ready.offset)


def stored_batches(streams: Sequence[Iterator[KeyedSamples]], reads: Iterable[ChunkRead], decoder: SampleDecoder) -> Iterator[StoredBatch]:
    """Yield the samples of each chunk in the order of the file, a batch per read.

    Columns of callchains, raw data and user stacks are Slices: valid until the next batch.
    """
    for stream, _ in reads:
        if chunk_samples := next(streams[stream], None):  # None: the file was truncated since the first pass
            yield decoder.decode_in_buffer(chunk_samples)


def decode_chunk(
    samples: KeyedSamples, table: EventTable, fields: Collection[str] | None, warn: Callable[[str], None], *, late: bool = False
) -> StoredBatch:
    """Decode the samples of a chunk. Skip, with a warning, samples of unknown events and those too short for their event."""
    chunk = samples.chunk
    columns, rows = _decode_by_layout(chunk, samples.events, table, fields, late=late)
    batch = StoredBatch(columns, samples.events, samples.keys, samples.times, chunk.offsets)
    if rows is not None:
        batch = StoredBatch(columns, batch.event[rows], batch.key[rows], batch.time[rows], batch.offset[rows])
        skipped = len(chunk) - len(rows)
        warn(f"at offset {int(chunk.offsets[0]):#x} and after: skipped {skipped} {plural(skipped, 'sample')} of unknown events")
    if columns.damaged is not None and columns.damaged.any():
        bad = int(batch.offset[columns.damaged.argmax()])
        short = int(columns.damaged.sum())
        warn(f"at offset {bad:#x}: skipped {short} {plural(short, 'sample')} shorter than the event's layout")
        batch = batch.take(~columns.damaged)
    batch.columns.damaged = None
    return batch


def _decode_by_layout(
    chunk: Chunk, events: NDArray[np.int32], table: EventTable, fields: Collection[str] | None, *, late: bool
) -> tuple[Columns, NDArray[np.intp] | None]:
    """Return the columns, and the rows they are of (None: all): decode each layout's samples at once, then restore the order."""
    known_rows = rows_where(events >= 0) if len(events) and int(events.min()) < 0 else None
    if known_rows is not None:
        chunk, events = chunk.rows(known_rows), events[known_rows]
    data, starts = chunk.data, chunk.starts
    present = rows_where(np.bincount(events)).tolist() if len(table.events) > 1 else [0] if len(events) else []
    layouts = {id(table.layouts[event]): table.layouts[event] for event in present}
    if len(layouts) == 1:
        (layout,) = layouts.values()
        return layout.decode(data, chunk.begins, fields, late=late), known_rows
    parts, positions = [], []
    number_of = {key: number for number, key in enumerate(layouts)}
    layout_of = np.array([number_of.get(id(layout), -1) for layout in table.layouts])[events]
    order = np.argsort(layout_of, kind="stable")
    borders = np.searchsorted(layout_of[order], np.arange(1, len(layouts)))
    for layout, group_rows in zip(layouts.values(), pieces(order, borders), strict=False):
        parts.append(layout.decode(data, starts[group_rows], fields, late=late))
        positions.append(group_rows)
    if not parts:
        return Columns(0), known_rows
    return Columns.concat(parts).take(np.argsort(np.concatenate(positions), kind="stable")), known_rows


# Expand samples that carry counter readings (SAMPLE_READ) as perf does: one row per reading. The row is of the event with the reading's
# id; its period is the counter's advance since the id's previous reading. Readings without advance, or with unknown ids, give no row.
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


# The first pass over a file: index everything but the samples, and the order in which later passes read the chunks.

NO_KEY: Final = 1 << 64  # higher than any key


class RecordIndex(NamedTuple):
    """The result of the first pass.

    Attributes:
        type_counts: record type -> count.
        sample_counts: samples of each event (-1: of unknown events).
        first, last: the earliest and latest time of a sample, nanoseconds (0 without samples).
        raw: the kept side-band, in order of delivery.
        chunk_reads, bulk_reads: the order to read chunks in, for samples and for the other side-band.
        highest: the highest key of the samples in each chunk of each stream (-1: none).
    """

    type_counts: Counter[int]
    sample_counts: Counter[int]
    first: int
    last: int
    raw: RawRecords
    chunk_reads: list[ChunkRead]
    bulk_reads: list[ChunkRead]
    highest: list[list[int]]


class RecordIndexer:
    """A builder of the index, which gets all records of all streams once."""

    def __init__(self, streams: int) -> None:
        self._types: Counter[int] = Counter()
        self._events: Counter[int] = Counter()
        self._first = self._last = 0
        self._raw: list[RawRecords] = []
        # of the samples, and of the side-band that is not kept, in each chunk of each stream
        self._lowest: list[list[int]] = [[] for _ in range(streams)]
        self._lowest_bulk: list[list[int]] = [[] for _ in range(streams)]
        self._highest: list[list[int]] = [[] for _ in range(streams)]

    def add(self, stream: int, ordered: OrderedChunk) -> None:
        """Add the next chunk of a stream."""
        if len(ordered.rows):
            self._types[int(RecordType.SAMPLE)] += len(ordered.rows)
        self._types.update(count_each(ordered.chunk.types[ordered.chunk.others]))
        lowest, highest = self._add_samples(ordered)
        self._lowest[stream].append(lowest)
        self._highest[stream].append(highest)
        self._lowest_bulk[stream].append(_keep_side_band(ordered, self._raw))

    @property
    def side_band_count(self) -> int:
        """The number of kept side-band records so far."""
        return sum(map(len, self._raw))

    def side_band(self) -> RawRecords:
        """Return the kept side-band so far, in order of delivery."""
        self._raw = [RawRecords.concat(self._raw)]
        return self._raw[0].in_order()

    def index(self, unpacked: Iterable[Counter[int]]) -> RecordIndex:
        """Return the index. unpacked: the number of compressed records of each type in each stream, which add() never gets."""
        for types in unpacked:
            self._types.update(types)
        raw = RawRecords.concat(self._raw).in_order()
        reads = _read_order(self._lowest), _read_order(self._lowest_bulk)
        return RecordIndex(self._types, self._events, self._first, self._last, raw, *reads, self._highest)

    def _add_samples(self, ordered: OrderedChunk) -> tuple[int, int]:
        """Count a chunk's samples; return the lowest and the highest of their keys."""
        if not len(ordered.rows):
            return NO_KEY, -1
        self._events.update(count_each(ordered.events))
        samples = ordered.keyed_samples
        times, keys = samples.times, samples.keys
        latest, earliest = int(times.max()), int(times.min())
        if latest and not earliest:
            earliest = int(times[times > 0].min())
        if latest:
            self._first = min(self._first, earliest) if self._first else earliest
            self._last = max(self._last, latest)
        return int(keys.min()), int(keys.max())


def _keep_side_band(ordered: OrderedChunk, raw: list[RawRecords]) -> int:
    """Keep a chunk's side-band; return the lowest key of the records that are not kept."""
    types, others = ordered.chunk.types, ordered.chunk.others
    if not len(others):
        return NO_KEY
    is_bulk = are_among(types[others], np.array(sorted(BULK)))
    raw.append(RawRecords.of_chunk(ordered, ~is_bulk))
    bulk = others[is_bulk]
    return int(ordered.keys[bulk].min()) if len(bulk) else NO_KEY


def _read_order(lowest: list[list[int]]) -> list[ChunkRead]:
    """Return the order to read chunks in: always the stream with the earliest records, in this chunk or later.

    lowest: for each stream the lowest relevant key in each of its chunks.
    """
    lowest_from = [_lowest_from(keys) for keys in lowest]
    order = sorted((key, stream, chunk) for stream, keys in enumerate(lowest_from) for chunk, key in enumerate(keys[:-1]))
    positions = [0] * len(lowest)
    reads = []
    for _, stream, _ in order:
        positions[stream] += 1
        reads.append(ChunkRead(stream, min(keys[position] for keys, position in zip(lowest_from, positions, strict=True))))
    return reads


def _lowest_from(lowest: list[int]) -> list[int]:
    """Return the lowest key in each chunk or after it, and one more value for the end."""
    minimums = [NO_KEY]
    for key in reversed(lowest):
        minimums.append(min(minimums[-1], key))
    return minimums[::-1]
