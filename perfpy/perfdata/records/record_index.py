"""The first pass over a file: index everything but the samples, and the order in which later passes read the chunks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import count_each
from perfpy.abi.flags import RecordType
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.perfdata.records.side_band import BULK, ChunkRead

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.perfdata.records.delivery.keys import OrderedChunk

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
    is_bulk = np.isin(types[others], list(BULK))
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
