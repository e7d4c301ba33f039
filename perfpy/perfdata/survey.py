"""The first pass over a file: everything but the samples, and what the second pass must know.

What enters: keyed chunks. What leaves: Survey: the side-band in order of
delivery, counts by type and event, and how far each chunk's samples may be
delivered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.abi import records, user_records
from perfpy.abi.flags import RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.keyed import KeyedChunk


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
    (0 without); floors: for each chunk the lowest key of the samples that come
    in later chunks.
    """

    types: Counter[int] = field(default_factory=Counter)
    events: Counter[int] = field(default_factory=Counter)
    first: int = 0
    last: int = 0
    later_keys: list[int] = field(default_factory=list)
    raw: list[_Raw] = field(default_factory=list)


def survey(chunks: Iterable[KeyedChunk], table: EventTable) -> Survey:
    """Go once over all records."""
    found = Survey()
    lowest: list[int] = []
    for keyed in chunks:
        found.types.update(_counted(keyed.chunk.types))
        _keep_side_band(keyed, table, found.raw)
        lowest.append(_see_samples(keyed, found))
    found.later_keys = _lowest_behind(lowest)
    found.raw.sort(key=lambda raw: (raw.key, raw.time))
    return found


_NO_SAMPLES = 1 << 64


def _see_samples(keyed: KeyedChunk, found: Survey) -> int:
    """Count a chunk's samples; returns the lowest of their keys."""
    if not len(keyed.samples):
        return _NO_SAMPLES
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


def _lowest_behind(lowest: list[int]) -> list[int]:
    """For each chunk the lowest key in the chunks behind it."""
    behind = []
    least = _NO_SAMPLES
    for key in reversed(lowest):
        behind.append(least)
        least = min(least, key)
    return behind[::-1]


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
