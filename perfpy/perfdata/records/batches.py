"""The second pass over a file: the samples as columns, in order of delivery.

A chunk's samples are yielded as soon as no sample that is still to be read
comes before them; the others wait for the next chunk. So memory holds a chunk
and the samples out of order, not the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from perfpy.abi.columns import Columns, rows_where
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery.order import delivery_order
from perfpy.perfdata.records.record_index import NO_KEY
from perfpy.plurals import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Index
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery.keys import KeyedSamples
    from perfpy.perfdata.records.event_table import EventTable
    from perfpy.perfdata.records.side_band import ChunkRead


class Batch(NamedTuple):
    """A batch of samples, in order of delivery.

    Attributes:
        columns: name -> array (perfpy.abi.samples.decoding).
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
    for layout, group_rows in zip(layouts.values(), np.split(order, borders), strict=False):
        parts.append(layout.decode(data, starts[group_rows], fields, late=late))
        positions.append(group_rows)
    if not parts:
        return Columns(0), known_rows
    return Columns.concat(parts).take(np.argsort(np.concatenate(positions), kind="stable")), known_rows
