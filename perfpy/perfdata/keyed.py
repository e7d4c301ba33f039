"""Chunks of records with what ordering them needs: event, time and key of each.

What enters: the chunks of a RecordStream. What leaves: KeyedChunks. Both
passes over a file (the survey and the batches of samples) go through here, so
that both see the same keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.perfdata.event_table import UNKNOWN_EVENT
from perfpy.perfdata.ordering import Rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.chunk import Chunk
    from perfpy.perfdata.event_table import EventTable


_NO_ROUNDS: Final = np.zeros(0, np.int64)


class KeyedChunk(NamedTuple):
    """chunk; keys and times (0: none): one per record; samples: indexes of the SAMPLE records; events: of each of those."""

    chunk: Chunk
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    samples: NDArray[np.intp]
    events: NDArray[np.int32]


def keyed_chunks(chunks: Iterable[Chunk], table: EventTable, *, by_time: bool, in_rounds: bool = True) -> Iterator[KeyedChunk]:
    """The chunks with keys.

    by_time: False for files that are delivered as they stand: the keys number
    the records; in_rounds: False where the FINISHED_ROUND records are to be
    ignored: all records are delivered in order of time.
    """
    rounds = Rounds()
    number = 1
    for chunk in chunks:
        samples, events, times = _times(chunk, table)
        if by_time:
            ends = np.flatnonzero(chunk.types == RecordType.FINISHED_ROUND) if in_rounds else _NO_ROUNDS
            keys = rounds.keys(times, ends)
        else:
            keys = np.arange(number, number + len(times), dtype=np.uint64)
            number += len(times)
        yield KeyedChunk(chunk, keys, times, samples, events)


def _times(chunk: Chunk, table: EventTable) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.uint64]]:
    """(indexes of the samples, the event of each of them, the time of each record)."""
    if not table.events:
        samples = np.flatnonzero(chunk.types == RecordType.SAMPLE)
        return samples, np.full(len(samples), UNKNOWN_EVENT, np.int32), np.zeros(len(chunk.starts), np.uint64)
    # all records are looked at as if they were samples: that is faster than picking these out, for they are nearly all
    events = table.of_samples(chunk)
    times = table.sample_times(chunk, events)
    others = np.flatnonzero(chunk.types != RecordType.SAMPLE)
    if not len(others):
        return np.arange(len(times)), events, times
    times[others] = 0
    others = others[chunk.types[others] < RecordType.HEADER_ATTR]
    if len(others):
        side_band = chunk.rows(others)
        times[others] = table.side_band_times(side_band, table.of_side_band(side_band))
    samples = np.flatnonzero(chunk.types == RecordType.SAMPLE)
    return samples, events[samples], times
