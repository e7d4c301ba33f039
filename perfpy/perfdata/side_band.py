"""The records that are no samples, in order of delivery.

What enters: keyed chunks. What leaves: RawRecords, and SideBand, which decodes
them as it is iterated. Records of the types that may come as often as samples
(BULK) are read again from the file each time; all others the survey keeps.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi import records, user_records
from perfpy.abi.flags import RecordType, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.keyed import KeyedChunk

#: types that are not kept in memory
BULK: Final = frozenset(
    map(int, (RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.CALLCHAIN_DEFERRED, RecordType.FINISHED_ROUND)),
)
#: all known types but these
KEPT: Final = frozenset(names_of(RecordType)) - BULK
_ON_REQUEST: Final = frozenset((int(RecordType.FINISHED_ROUND),))  # of interest to those who ask for it only


class SideRecord(NamedTuple):
    """A record that is no sample.

    record: a value of perfpy.abi.records or user_records; key: samples with a
    key not below it are delivered after it; offset: in the file.
    """

    record: Any
    key: int
    offset: int


class RawRecord(NamedTuple):
    """A record before it is decoded. event: index of the event it belongs to; body: what follows its header."""

    key: int
    time: int
    offset: int
    type: int
    misc: int
    event: int
    body: bytes


def delivered_at(raw: RawRecord) -> tuple[int, int, int]:
    """What records are sorted by (stably: of one compressed record all come from the same offset)."""
    return raw.key, raw.time, raw.offset


class Turn(NamedTuple):
    """stream: whose next chunk is read now; later: the lowest key of any record of interest that is read after that."""

    stream: int
    later: int


def raw_records(keyed: KeyedChunk, table: EventTable, rows: Any) -> Iterator[RawRecord]:
    """The records at the given rows of a chunk, none of which is a sample."""
    if not len(rows):
        return
    chunk = keyed.chunk.rows(rows)
    events = table.of_side_band(chunk).tolist() if table.events else [0] * len(rows)
    columns = (keyed.keys[rows], keyed.times[rows], chunk.offsets)
    unpack = records.HEADER[table.endian].unpack_from
    for row, (event, key, time, offset) in enumerate(zip(events, *(column.tolist() for column in columns), strict=True)):
        record = chunk.record(row)
        kind, misc, _ = unpack(record)
        yield RawRecord(key, time, offset, kind, misc, event, record[8:])


def records_of_types(
    streams: Sequence[Iterator[KeyedChunk]], turns: Iterable[Turn], table: EventTable, types: Collection[int]
) -> Iterator[RawRecord]:
    """All records of some types, in order of delivery; only those that are out of order are held in memory."""
    waiting: list[RawRecord] = []
    for stream, later in turns:
        keyed = next(streams[stream])
        waiting += raw_records(keyed, table, np.flatnonzero(np.isin(keyed.chunk.types, list(types))))
        waiting.sort(key=delivered_at)
        ready = next((i for i, record in enumerate(waiting) if record.key >= later), len(waiting))
        yield from waiting[:ready]
        del waiting[:ready]
    yield from waiting


class SideBand:
    """The records of a file that are no samples, in order of delivery; decoded anew at each iteration.

    kept: records in order; bulk: makes an iterator over others, in order, to
    be merged with them; types: only these are given out (None: all but
    FINISHED_ROUND).
    """

    def __init__(
        self,
        kept: Sequence[RawRecord],
        bulk: Callable[[Collection[int]], Iterator[RawRecord]],
        table: EventTable,
        warn: Callable[[str], None],
        types: Collection[int] | None,
    ) -> None:
        self._kept = kept
        self._bulk = bulk
        self._table = table
        self._warn = warn
        self._types = None if types is None else frozenset(map(int, types))

    def __iter__(self) -> Iterator[SideRecord]:
        for raw in self._raw():
            try:
                yield SideRecord(self._decode(raw), raw.key, raw.offset)
            except ValueError as error:
                self._warn(f"offset {raw.offset:#x}: {error}; left out")

    def _raw(self) -> Iterator[RawRecord]:
        wanted_bulk = BULK - _ON_REQUEST if self._types is None else BULK & self._types
        kept = self._kept if self._types is None else (raw for raw in self._kept if raw.type in self._types)
        return merge(kept, self._bulk(wanted_bulk), key=delivered_at) if wanted_bulk else iter(kept)

    def _decode(self, raw: RawRecord) -> Any:
        if raw.type >= RecordType.HEADER_ATTR:
            return user_records.decode(raw.type, raw.misc, raw.body, self._table.endian)
        return records.decode(raw.type, raw.misc, raw.body, self._table.trailer(raw.event), self._table.endian)
