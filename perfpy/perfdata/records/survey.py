"""The first pass over a file: everything but the samples, and what later passes must know.

What enters: keyed chunks. What leaves: Survey: the side-band in order of
delivery, counts by type and event, and how the chunks are to be read so that
samples come in order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.perfdata.records.side_band import BULK, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery_keys import OrderedChunk

NO_KEY: Final = 1 << 64  # higher than any key


class Survey:
    """What the first pass found.

    types: record type -> count; events: samples of each event (-1: of no known
    one); first, last: the earliest and latest time of a sample (0 without);
    raw: the side-band that is kept, in order of delivery; turns, bulk_turns:
    how the chunks are to be read for the samples and for the rest of the
    side-band.
    """

    def __init__(self) -> None:
        self.types: Counter[int] = Counter()
        self.events: Counter[int] = Counter()
        self.first = 0
        self.last = 0
        self.raw = RawRecords.joined([])
        self.turns: list[Turn] = []
        self.bulk_turns: list[Turn] = []


def survey(streams: Iterable[Iterable[OrderedChunk]]) -> Survey:
    """Go once over all records of all streams."""
    found = Survey()
    samples: list[list[int]] = []
    bulk: list[list[int]] = []
    raw: list[RawRecords] = []
    for stream in streams:
        samples.append([])
        bulk.append([])
        for ordered in stream:
            found.types.update(_counted(ordered.chunk.types))
            samples[-1].append(_see_samples(ordered, found))
            bulk[-1].append(_see_side_band(ordered, raw))
    found.turns, found.bulk_turns = _turns(samples), _turns(bulk)
    found.raw = RawRecords.joined(raw).in_order()
    return found


def _see_samples(ordered: OrderedChunk, found: Survey) -> int:
    """Count a chunk's samples; returns the lowest of their keys."""
    if not len(ordered.rows):
        return NO_KEY
    found.events.update(_counted(ordered.events))
    times = ordered.times.take(ordered.rows)
    latest, earliest = int(times.max()), int(times.min())
    if latest and not earliest:
        earliest = int(times[times > 0].min())
    if latest:
        found.first = min(found.first, earliest) if found.first else earliest
        found.last = max(found.last, latest)
    return int(ordered.keys.take(ordered.rows).min())


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
