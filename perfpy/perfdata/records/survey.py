"""The first pass over a file: everything but the samples, and what later passes must know.

What enters: keyed chunks. What leaves: Survey: the side-band in order of
delivery, counts by type and event, and how the chunks are to be read so that
samples come in order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.perfdata.records.side_band import BULK, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery_keys import OrderedChunk

NO_KEY: Final = 1 << 64  # higher than any key


class Survey(NamedTuple):
    """What the first pass found.

    types: record type -> count; events: samples of each event (-1: of no known
    one); first, last: the earliest and latest time of a sample (0 without);
    raw: the side-band that is kept, in order of delivery; turns, bulk_turns:
    how the chunks are to be read for the samples and for the rest of the
    side-band; highest: of the samples in each chunk of each stream the highest key (-1: none).
    """

    types: Counter[int]
    events: Counter[int]
    first: int
    last: int
    raw: RawRecords
    turns: list[Turn]
    bulk_turns: list[Turn]
    highest: list[list[int]]


class Surveyor:
    """Sees all records of all streams once. streams: how many there are."""

    def __init__(self, streams: int) -> None:
        self._types: Counter[int] = Counter()
        self._events: Counter[int] = Counter()
        self._first = self._last = 0
        self._raw: list[RawRecords] = []
        # of the samples, and of the side-band that is not kept, in each chunk of each stream
        self._lowest: list[list[int]] = [[] for _ in range(streams)]
        self._lowest_bulk: list[list[int]] = [[] for _ in range(streams)]
        self._highest: list[list[int]] = [[] for _ in range(streams)]

    def see(self, stream: int, ordered: OrderedChunk) -> None:
        """The next chunk of a stream."""
        if len(ordered.rows):
            self._types[int(RecordType.SAMPLE)] += len(ordered.rows)
        self._types.update(_counted(ordered.chunk.types[ordered.chunk.others]))
        lowest, highest = self._see_samples(ordered)
        self._lowest[stream].append(lowest)
        self._highest[stream].append(highest)
        self._lowest_bulk[stream].append(_see_side_band(ordered, self._raw))

    def found(self, unpacked: Iterable[Counter[int]]) -> Survey:
        """All that was seen. unpacked: how many compressed records of each type the streams held, which nobody sees."""
        for types in unpacked:
            self._types.update(types)
        raw = RawRecords.joined(self._raw).in_order()
        turns = _turns(self._lowest), _turns(self._lowest_bulk)
        return Survey(self._types, self._events, self._first, self._last, raw, *turns, self._highest)

    def _see_samples(self, ordered: OrderedChunk) -> tuple[int, int]:
        """Count a chunk's samples; returns the lowest and the highest of their keys."""
        if not len(ordered.rows):
            return NO_KEY, -1
        self._events.update(_counted(ordered.events))
        samples = ordered.by_themselves
        times, keys = samples.times, samples.keys
        latest, earliest = int(times.max()), int(times.min())
        if latest and not earliest:
            earliest = int(times[times > 0].min())
        if latest:
            self._first = min(self._first, earliest) if self._first else earliest
            self._last = max(self._last, latest)
        return int(keys.min()), int(keys.max())


def _see_side_band(ordered: OrderedChunk, raw: list[RawRecords]) -> int:
    """Keep a chunk's side-band; returns the lowest key of what is not kept of it."""
    types, others = ordered.chunk.types, ordered.chunk.others
    if not len(others):
        return NO_KEY
    is_bulk = np.isin(types[others], list(BULK))
    raw.append(RawRecords.of_chunk(ordered, ~is_bulk))
    bulk = others[is_bulk]
    return int(ordered.keys[bulk].min()) if len(bulk) else NO_KEY


def _counted(values: NDArray[Any]) -> dict[int, int]:
    """value -> how often; nearly all are the same in most chunks."""
    first = values[:1]
    others = values != first
    count = len(values) - int(np.count_nonzero(others))
    if count == len(values):
        return {int(first[0]): count} if count else {}
    numbers, counts = np.unique(values[others], return_counts=True)
    return {int(first[0]): count, **dict(zip(numbers.tolist(), counts.tolist(), strict=True))}


def _turns(lowest: list[list[int]]) -> list[Turn]:
    """Which stream's next chunk to read, one after the other: always the one with the earliest records, here or after it.

    lowest: for each stream the lowest key of interest in each of its chunks.
    """
    lowest_from = [_lowest_from(keys) for keys in lowest]
    order = sorted((key, stream, chunk) for stream, keys in enumerate(lowest_from) for chunk, key in enumerate(keys[:-1]))
    positions = [0] * len(lowest)
    turns = []
    for _, stream, _ in order:
        positions[stream] += 1
        turns.append(Turn(stream, min(keys[position] for keys, position in zip(lowest_from, positions, strict=True))))
    return turns


def _lowest_from(lowest: list[int]) -> list[int]:
    """For each chunk the lowest key in it or after it; one more value, for the end."""
    found = [NO_KEY]
    for key in reversed(lowest):
        found.append(min(found[-1], key))
    return found[::-1]
