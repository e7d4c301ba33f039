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

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.keyed import KeyedChunk

_NOT_KEPT = (RecordType.SAMPLE, RecordType.FINISHED_ROUND)


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
        types, counts = np.unique(keyed.chunk.types, return_counts=True)
        found.types.update(dict(zip(types.tolist(), counts.tolist(), strict=True)))
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
    events, counts = np.unique(keyed.events, return_counts=True)
    found.events.update(dict(zip(events.tolist(), counts.tolist(), strict=True)))
    all_samples = len(keyed.samples) == len(keyed.keys)
    times = keyed.times if all_samples else keyed.times[keyed.samples]
    keys = keyed.keys if all_samples else keyed.keys[keyed.samples]
    timed = times if times.all() else times[times > 0]
    if len(timed):
        earliest = int(timed.min())
        found.first = min(found.first, earliest) if found.first else earliest
        found.last = max(found.last, int(timed.max()))
    return int(keys.min())


def _lowest_behind(lowest: list[int]) -> list[int]:
    """For each chunk the lowest key in the chunks behind it."""
    behind = []
    least = _NO_SAMPLES
    for key in reversed(lowest):
        behind.append(least)
        least = min(least, key)
    return behind[::-1]


def _keep_side_band(keyed: KeyedChunk, table: EventTable, kept: list[_Raw]) -> None:
    chunk = keyed.chunk
    others = np.flatnonzero(~np.isin(chunk.types, _NOT_KEPT))
    if not len(others):
        return
    view = chunk.data.data
    header = records.HEADER[table.endian]
    events = _side_events(keyed, table, others)
    columns = (chunk.starts[others], keyed.keys[others], keyed.times[others], chunk.offsets[others])
    for event, start, key, time, offset in zip(events, *(column.tolist() for column in columns), strict=True):
        kind, misc, size = header.unpack_from(view, start)
        kept.append(_Raw(key, time, kind, misc, event, offset, bytes(view[start + 8 : start + size])))


def _side_events(keyed: KeyedChunk, table: EventTable, others: Any) -> list[int]:
    if len(table.events) < 2:
        return [0] * len(others)
    data = keyed.chunk.data[: len(keyed.chunk.data) & ~7]
    starts = keyed.chunk.starts[others]
    ends = (starts >> 3) + (data.view(table.endian + "u2")[(starts >> 1) + 3] >> 3)
    events: list[int] = table.of_side_band(data.view(table.endian + "u8"), ends).tolist()
    return events


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
