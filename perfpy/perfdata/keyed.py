"""Chunks of records with what ordering them needs: event, time and key of each.

What enters: the chunks of a RecordStream. What leaves: KeyedChunks. Both
passes over a file (the survey and the batches of samples) go through here, so
that both see the same keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.perfdata.ordering import Rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.stream import Chunk


class KeyedChunk(NamedTuple):
    """chunk; keys and times (0: none): one per record; samples: indexes of the SAMPLE records; events: of each of those."""

    chunk: Chunk
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    samples: NDArray[np.intp]
    events: NDArray[np.int32]


def keyed_chunks(chunks: Iterable[Chunk], table: EventTable, *, by_time: bool) -> Iterator[KeyedChunk]:
    """The chunks with keys. by_time: False for files that are delivered as they stand: the keys number the records."""
    rounds = Rounds()
    number = 1
    for chunk in chunks:
        samples = np.flatnonzero(chunk.types == RecordType.SAMPLE)
        events, times = _times(chunk, samples, table)
        if by_time:
            keys = rounds.keys(times, np.flatnonzero(chunk.types == RecordType.FINISHED_ROUND))
        else:
            keys = np.arange(number, number + len(times), dtype=np.uint64)
            number += len(times)
        yield KeyedChunk(chunk, keys, times, samples, events)


def _times(chunk: Chunk, samples: NDArray[np.intp], table: EventTable) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """(event of each sample, time of each record)."""
    times = np.zeros(len(chunk.starts), np.uint64)
    if not table.events:
        return np.full(len(samples), -1, np.int32), times
    data = chunk.data[: len(chunk.data) & ~7]
    words = data.view(table.endian + "u8")
    sizes = data.view(table.endian + "u2")[(chunk.starts >> 1) + 3]
    starts = chunk.starts >> 3
    ends = starts + (sizes >> 3)
    if len(samples) == len(starts):
        events = table.of_samples(words, starts, ends)
        return events, table.sample_times(words, starts, ends, events)
    events = table.of_samples(words, starts[samples], ends[samples])
    times[samples] = table.sample_times(words, starts[samples], ends[samples], events)
    others = np.flatnonzero((chunk.types != RecordType.SAMPLE) & (chunk.types < RecordType.HEADER_ATTR))
    if len(others):
        their_events = table.of_side_band(words, ends[others])
        times[others] = table.side_band_times(words, starts[others], ends[others], their_events)
    return events, times
