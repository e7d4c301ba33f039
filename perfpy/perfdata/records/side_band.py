"""The records other than samples, in order of delivery.

Records of types that may be as frequent as samples
(BULK) are read from the file each time; the index keeps all others.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.task_columns import TASK_TYPES, RawColumns, decode_tasks, number_columns
from perfpy.perfdata.records.delivery import RawRecord, RawRecords, delivered_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from perfpy.abi.task_columns import NumberColumns, TaskRecords
    from perfpy.perfdata.records.delivery import EventTable, OrderedChunk

#: types not kept in memory
BULK: Final = frozenset((RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.CALLCHAIN_DEFERRED, RecordType.FINISHED_ROUND))
_FIRST_USER_TYPE: Final = RecordType.HEADER_ATTR
_ON_REQUEST: Final = frozenset((RecordType.FINISHED_ROUND,))  # delivered on request only


class SideRecord(NamedTuple):
    """A record other than a sample.

    Attributes:
        record: a value of perfpy.abi.records or user_records.
        key: samples with a key not below it are delivered after it.
        offset: in the file.
    """

    record: Any
    key: int
    offset: int


class ChunkRead(NamedTuple):
    """One step of the order to read chunks in.

    Attributes:
        stream: the stream whose next chunk is read.
        later: the lowest key of the relevant records read after it.
    """

    stream: int
    later: int


def records_of_types(streams: Sequence[Iterator[OrderedChunk]], reads: Iterable[ChunkRead], types: Collection[int]) -> Iterator[RawRecord]:
    """Yield all records of some types, in order of delivery; only those out of order are held in memory."""
    waiting: list[RawRecord] = []
    for stream, later in reads:
        ordered = next(streams[stream], None)
        if ordered is None:  # the file was truncated since the first pass
            break
        waiting += RawRecords.of_chunk(ordered, np.isin(ordered.chunk.types[ordered.chunk.others], list(types)))
        waiting.sort(key=delivered_at)
        ready = next((i for i, record in enumerate(waiting) if record.key >= later), len(waiting))
        yield from waiting[:ready]
        del waiting[:ready]
    yield from waiting


class SideBand:
    """The records of a file other than samples, in order of delivery; decoded anew by each iteration.

    Args:
        kept: records in memory, in order.
        bulk: returns an iterator over records of other types, in order, to be merged with them.
        table: the events.
        warn: called with one line for each damaged record.
        types: the types to deliver; None for all but FINISHED_ROUND.
    """

    def __init__(
        self,
        records: RawRecords,
        bulk: Callable[[Collection[int]], Iterator[RawRecord]],
        table: EventTable,
        warn: Callable[[str], None],
        types: Collection[int] | None,
    ) -> None:
        self._records = records
        self._bulk = bulk
        self._table = table
        self._warn = warn
        self._types = None if types is None else frozenset(map(int, types))

    def __iter__(self) -> Iterator[SideRecord]:
        for raw in self.raw():
            record = self._decode(raw)
            if record is not None:
                yield SideRecord(record, raw.key, raw.offset)

    def _decode(self, raw: RawRecord) -> Any:
        """Decode a record; return None, with a warning, if it is damaged."""
        table = self._table
        try:
            if raw.type < _FIRST_USER_TYPE:
                return records.decode(raw.type, raw.misc, raw.body, table.trailer(raw.event), table.endian)
            from perfpy.abi import perf_records  # a report has no need of these

            return perf_records.decode(raw.type, raw.misc, raw.body, table.endian)
        except ValueError as error:
            self._warn(f"at offset {raw.offset:#x}: {error}; skipped")
            return None

    def tasks(self) -> TaskRecords:
        """Return the records of tasks and their mappings, as columns."""
        types = TASK_TYPES if self._types is None else TASK_TYPES & self._types
        records = self._records.of_types(types)
        rows = records.rows
        trailer = np.array([layout.size for layout in self._table.trailers] or [0])[np.maximum(rows["event"], 0)]
        raw = RawColumns(rows["type"], rows["misc"], rows["start"], rows["size"].astype(np.int64), trailer, records.bodies)
        too_short = raw.too_short
        if too_short.any():
            for damaged in RawRecords(rows[too_short], records.bodies):
                self._decode(damaged)  # which warns
            rows, raw = rows[~too_short], raw.rows(~too_short)
        return decode_tasks(raw, rows["key"], self._table.endian)

    def task_numbers(self) -> NumberColumns:
        """Return the threads that the records of tasks and mappings name, as columns."""
        types = (TASK_TYPES if self._types is None else TASK_TYPES & self._types) - {RecordType.KSYMBOL}
        records = self._records.of_types(types)
        rows = records.rows
        sizes = rows["size"].astype(np.int64)
        raw = RawColumns(rows["type"], rows["misc"], rows["start"], sizes, np.zeros(len(rows), np.int64), records.bodies)
        return number_columns(raw, rows["key"], self._table.endian)

    def raw(self) -> Iterator[RawRecord]:
        """Return the records before they are decoded."""
        bulk_types = BULK - _ON_REQUEST if self._types is None else BULK & self._types
        records = self._records if self._types is None else self._records.of_types(self._types)
        return merge(records, self._bulk(bulk_types), key=delivered_at) if bulk_types else iter(records)
