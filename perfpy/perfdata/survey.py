"""The first pass over a file: everything but the samples, and what the second pass must know.

What enters: keyed chunks. What leaves: Survey: the side-band in order of
delivery, counts by type and event, and how far each chunk's samples may be
delivered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi import records, user_records
from perfpy.abi.flags import RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.keyed import KeyedChunk


NO_SAMPLES: Final = 1 << 64  # higher than any key


class Turn(NamedTuple):
    """stream: whose next chunk is read now; later: the lowest key of any sample that is read after that."""

    stream: int
    later: int


class SideRecord(NamedTuple):
    """A record that is no sample.

    record: a value of perfpy.abi.records or user_records; key: samples with a
    key not below it are delivered after it; offset: in the file.
    """

    record: Any
    key: int
    offset: int


class _Raw(NamedTuple):
    key: int
    time: int
    type: int
    misc: int
    event: int
    offset: int
    body: bytes


@dataclass
class Survey:
    """What the first pass found.

    types: record type -> count; events: samples of each event; unknown: samples
    of no known event; first, last: the earliest and latest time of a sample
    (0 without); turns: how the chunks are to be read for the samples.
    """

    types: Counter[int] = field(default_factory=Counter)
    events: Counter[int] = field(default_factory=Counter)
    first: int = 0
    last: int = 0
    turns: list[Turn] = field(default_factory=list)
    raw: list[_Raw] = field(default_factory=list)


def survey(streams: Iterable[Iterable[KeyedChunk]], table: EventTable) -> Survey:
    """Go once over all records of all streams."""
    found = Survey()
    lowest: list[list[int]] = []
    for stream in streams:
        lowest.append([])
        for keyed in stream:
            found.types.update(_counted(keyed.chunk.types))
            _keep_side_band(keyed, table, found.raw)
            lowest[-1].append(_see_samples(keyed, found))
    found.turns = _turns(lowest)
    found.raw.sort(key=lambda raw: (raw.key, raw.time))
    return found


def _see_samples(keyed: KeyedChunk, found: Survey) -> int:
    """Count a chunk's samples; returns the lowest of their keys."""
    if not len(keyed.samples):
        return NO_SAMPLES
    found.events.update(_counted(keyed.events))
    times = keyed.times[keyed.samples]
    latest, earliest = int(times.max()), int(times.min())
    if latest and not earliest:
        earliest = int(times[times > 0].min())
    if latest:
        found.first = min(found.first, earliest) if found.first else earliest
        found.last = max(found.last, latest)
    return int(keyed.keys[keyed.samples].min())


def _counted(values: NDArray[Any]) -> dict[int, int]:
    """value -> how often; nearly all are the same in most chunks."""
    first = values[:1]
    rest = values[values != first]
    numbers, counts = np.unique(rest, return_counts=True)
    found = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    if len(values) > len(rest):
        found[int(first[0])] = len(values) - len(rest)
    return found


def _turns(lowest: list[list[int]]) -> list[Turn]:
    """Which stream's next chunk to read, one after the other: always the one with the earliest samples, here or behind it."""
    behind = [_lowest_from(keys) for keys in lowest]
    order = sorted((key, stream, chunk) for stream, keys in enumerate(behind) for chunk, key in enumerate(keys[:-1]))
    places = [0] * len(lowest)
    turns = []
    for _, stream, _ in order:
        places[stream] += 1
        turns.append(Turn(stream, min(keys[place] for keys, place in zip(behind, places, strict=True))))
    return turns


def _lowest_from(lowest: list[int]) -> list[int]:
    """For each chunk the lowest key in it or behind it; one more value, for the end."""
    found = [NO_SAMPLES]
    for key in reversed(lowest):
        found.append(min(found[-1], key))
    return found[::-1]


def _keep_side_band(keyed: KeyedChunk, table: EventTable, kept: list[_Raw]) -> None:
    types = keyed.chunk.types
    others = np.flatnonzero((types != RecordType.SAMPLE) & (types != RecordType.FINISHED_ROUND))
    if not len(others):
        return
    chunk = keyed.chunk.rows(others)
    events = table.of_side_band(chunk).tolist() if table.events else [0] * len(others)
    columns = (keyed.keys[others], keyed.times[others], chunk.offsets)
    unpack = records.HEADER[table.endian].unpack_from
    for row, (event, key, time, offset) in enumerate(zip(events, *(column.tolist() for column in columns), strict=True)):
        record = chunk.record(row)
        kind, misc, _ = unpack(record)
        kept.append(_Raw(key, time, kind, misc, event, offset, record[8:]))


def decode_side_band(raw: Iterable[_Raw], table: EventTable, warn: Callable[[str], None]) -> list[SideRecord]:
    """The values of raw records; those that are damaged are left out with a warning."""
    decoded = []
    for key, _, kind, misc, event, offset, body in raw:
        try:
            record: Any
            if kind >= RecordType.HEADER_ATTR:
                record = user_records.decode(kind, misc, body, table.endian)
            else:
                record = records.decode(kind, misc, body, table.trailer(event), table.endian)
        except ValueError as error:
            warn(f"offset {offset:#x}: {error}; left out")
            continue
        decoded.append(SideRecord(record, key, offset))
    return decoded
