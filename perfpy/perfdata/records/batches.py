"""The second pass over a file: the samples as columns, in order of delivery.

What enters: keyed chunks and what the survey found. What leaves: Batches.
A chunk's samples are given out as soon as nothing that could come before them
is left to be read; the rest waits for the next chunk. So memory holds a chunk
and what is out of order, not the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from perfpy.abi.columns import Columns, rows_where
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery_order import delivery_order
from perfpy.perfdata.records.survey import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Index
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery_keys import KeyedSamples
    from perfpy.perfdata.records.event_table import EventTable
    from perfpy.perfdata.records.side_band import Turn


class Batch(NamedTuple):
    """Some samples, in order of delivery.

    columns: name -> array (perfpy.abi.samples); event: int32, index into
    PerfData.events; key: uint64, the order of delivery as a number; offset:
    int64, where each sample's record is in the file.
    """

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.event)


class StoredBatch(NamedTuple):
    """Some samples, in the order of the file: as Batch, and time: uint64, ns (0: none)."""

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def take(self, rows: Index) -> StoredBatch:
        """The given samples (indexes, mask or slice), in that order."""
        return StoredBatch(self.columns.take(rows), self.event[rows], self.key[rows], self.time[rows], self.offset[rows])

    @classmethod
    def concat(cls, parts: list[StoredBatch]) -> StoredBatch:
        """The samples of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        arrays = (np.concatenate([part[i] for part in parts]) for i in range(1, 5))
        return cls(Columns.concat([part.columns for part in parts]), *arrays)

    def ordered(self) -> StoredBatch:
        """The samples in order of delivery."""
        order = delivery_order(self.key, self.time)
        return self if order is None else self.take(order)


class FurtherColumns(Protocol):
    """What makes columns of others: it is shown all samples while their bytes are in memory."""

    @property
    def fields(self) -> Collection[str]:
        """The columns that it is made of."""

    def extended(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """The columns of some samples with what is made of them; key: the delivery keys."""


#: samples as decoded, some of whose columns are Slices, -> samples
Change: TypeAlias = "Callable[[StoredBatch], StoredBatch]"


class SampleDecoder(NamedTuple):
    """How the samples of a chunk are decoded.

    fields: the columns wanted (None: all); warn: told what is left out;
    change: what is done with the samples of each chunk.
    """

    table: EventTable
    fields: Collection[str] | None
    warn: Callable[[str], None]
    change: Change | None = None

    def in_buffer(self, samples: KeyedSamples) -> StoredBatch:
        """Samples whose callchains and user stacks are Slices, valid until the next chunk is read."""
        found = decoded(samples, self.table, self.fields, self.warn, late=True)
        return found if self.change is None else self.change(found)

    def kept(self, samples: KeyedSamples) -> StoredBatch:
        """Samples that can wait."""
        if self.change is None:
            return decoded(samples, self.table, self.fields, self.warn)
        changed = self.in_buffer(samples)
        return changed._replace(columns=changed.columns.gathered())


def ordered_batches(streams: Sequence[Iterator[KeyedSamples]], turns: Iterable[Turn], decoder: SampleDecoder) -> Iterator[Batch]:
    """All samples of all streams, sorted as perf delivers them. turns: whose chunk comes next, as the survey found it."""
    waiting: list[StoredBatch] = []
    lowest = NO_KEY  # the lowest key that waits
    for stream, later in turns:
        found = next(streams[stream], None)  # None: the file has been cut since the survey
        if found and len(found.keys):
            waiting.append(decoder.kept(found))
            lowest = min(lowest, int(found.keys.min()))
        if lowest >= later or not waiting:
            continue
        # what waited is in order and was read first: of samples with equal keys those read first stay first
        samples = StoredBatch.concat(waiting).ordered()
        count = len(samples.key) if later == NO_KEY else int(samples.key.searchsorted(np.uint64(later)))
        waiting = [samples.take(slice(count, None))] if count < len(samples.key) else []
        lowest = int(samples.key[count]) if waiting else NO_KEY
        if count:
            ready = samples.take(slice(count)) if waiting else samples
            yield Batch(ready.columns, ready.event, ready.key, ready.offset)


def stored_batches(streams: Sequence[Iterator[KeyedSamples]], turns: Iterable[Turn], decoder: SampleDecoder) -> Iterator[StoredBatch]:
    """As ordered_batches, without the order: the samples of each chunk as they stand, a batch for every turn.

    Columns of callchains and user stacks are Slices: they must be used before the next batch is asked for.
    """
    for stream, _ in turns:
        if found := next(streams[stream], None):  # None: the file has been cut since the survey
            yield decoder.in_buffer(found)


def decoded(
    samples: KeyedSamples, table: EventTable, fields: Collection[str] | None, warn: Callable[[str], None], *, late: bool = False
) -> StoredBatch:
    """The samples of a chunk; those of no known event or too short for their event are left out with a warning."""
    chunk = samples.chunk
    columns, rows = _decode_by_layout(chunk, samples.events, table, fields, late=late)
    found = StoredBatch(columns, samples.events, samples.keys, samples.times, chunk.offsets)
    if rows is not None:
        found = StoredBatch(columns, found.event[rows], found.key[rows], found.time[rows], found.offset[rows])
        warn(f"offset {int(chunk.offsets[0]):#x} and after: {len(chunk) - len(rows)} samples of unknown events left out")
    if columns.damaged is not None and columns.damaged.any():
        bad = int(found.offset[columns.damaged.argmax()])
        warn(f"offset {bad:#x}: {int(columns.damaged.sum())} samples shorter than their event says, left out")
        found = found.take(~columns.damaged)
    found.columns.damaged = None
    return found


def _decode_by_layout(
    chunk: Chunk, events: NDArray[np.int32], table: EventTable, fields: Collection[str] | None, *, late: bool
) -> tuple[Columns, NDArray[np.intp] | None]:
    """(columns of all samples, or of the rows given): each layout's samples decoded at once, then put back in place."""
    known = rows_where(events >= 0) if len(events) and int(events.min()) < 0 else None
    if known is not None:
        chunk, events = chunk.rows(known), events[known]
    data, starts = chunk.data, chunk.starts
    present = rows_where(np.bincount(events)).tolist() if len(table.events) > 1 else [0] if len(events) else []
    layouts = {id(table.layouts[event]): table.layouts[event] for event in present}
    if len(layouts) == 1:
        (layout,) = layouts.values()
        return layout.decode(data, chunk.begins, fields, late=late), known
    parts, positions = [], []
    number_of = {key: number for number, key in enumerate(layouts)}
    layout_of = np.array([number_of.get(id(layout), -1) for layout in table.layouts])[events]
    order = np.argsort(layout_of, kind="stable")
    borders = np.searchsorted(layout_of[order], np.arange(1, len(layouts)))
    for layout, mine in zip(layouts.values(), np.split(order, borders), strict=False):
        parts.append(layout.decode(data, starts[mine], fields, late=late))
        positions.append(mine)
    if not parts:
        return Columns(0), known
    return Columns.concat(parts).take(np.argsort(np.concatenate(positions), kind="stable")), known
