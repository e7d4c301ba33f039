"""Selected fields of several tracepoints as columns, read in one pass over the samples.

`read_tracepoints` takes only the fields that a command needs, in offset, from the buffer that the file was read into: raw data are never
copied. If there was no first pass over the recording before, both happen in one. Samples are read in the order of the file and sorted once
at the end. Rows come in order of delivery; `order` is the position among all samples, by which rows of several tracepoints can be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, Slices, rows_where
from perfpy.abi.flags import PerfType
from perfpy.perfdata.records.delivery.sample_order import OrderCollector
from perfpy.perfdata.records.raw_data import raw_in_place, raw_of_column
from perfpy.perfdata.tracepoints.field_columns import bytes_at, field_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.samples.decoding import SampleLayout
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery.keys import KeyedSamples
    from perfpy.perfdata.records.delivery.sample_order import SampleOrder
    from perfpy.perfdata.records.raw_data import RawData
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoints.event_format import TraceField

TASK_COLUMNS: Final = ("pid", "tid", "cpu")
_HALF: Final = 4
_LONGEST_TEXT: Final = 64
_INT32_END: Final = 1 << 31


class TracepointRows(NamedTuple):
    """The samples of one tracepoint, in order of delivery.

    Attributes:
        order: int64[n], positions among all samples of the source.
        key: uint64[n], delivery keys.
        time: int64[n], nanoseconds.
        pid, tid, cpu: int32[n], of the sample; zeros if they were not asked for.
        fields: a column for each requested field that the tracepoint has: int32[n] for integers of up to 32 bits, int64[n] and uint64[n]
            for longer ones and unsigned ones of 32 bits, bytes for texts.
        chains: callchains, if they were asked for.
    """

    order: NDArray[np.int64]
    key: NDArray[np.uint64]
    time: NDArray[np.int64]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    fields: dict[str, Any]
    chains: Ragged | None = None

    def take(self, chosen: NDArray[Any]) -> TracepointRows:
        """Select rows by mask or index."""
        fields = {name: column.take(chosen) if isinstance(column, Ragged) else column[chosen] for name, column in self.fields.items()}
        chains = None if self.chains is None else self.chains.take(chosen)
        columns = [column[chosen] for column in self[:6]]
        return TracepointRows._make([*columns, fields, chains])

    def with_numbers(self, names: Iterable[str]) -> TracepointRows:
        """Return the rows with an integer column for each name: zeros where the recorded format has no number of that name."""
        fields = dict(self.fields)
        for name in names:
            column = fields.get(name)
            if not (isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu"):
                fields[name] = np.zeros(len(self.order), np.int32)
        return self._replace(fields=fields)


def tracepoints_of(source: SampleSource) -> dict[str, FileEvent]:
    """Return the tracepoints of a source that have a format, by name ("sched:sched_switch")."""
    if source.tracing is None:
        return {}
    formats = source.tracing.formats
    return {
        ":".join(event.tracepoint): event
        for event in source.events
        if event.tracepoint and event.attr.type == PerfType.TRACEPOINT and event.attr.config in formats
    }


def read_tracepoints(
    source: SampleSource,
    fields_of: Mapping[str, Sequence[str]],
    *,
    with_chains: Collection[str] = (),
    columns: Collection[str] = TASK_COLUMNS,
) -> dict[str, TracepointRows]:
    """Read tracepoints as columns.

    Args:
        source: the samples.
        fields_of: the fields of each tracepoint. Tracepoints that the source lacks are absent from the result.
        with_chains: the tracepoints whose callchains are kept.
        columns: which of pid, tid and cpu are read.
    """
    if source.tracing is None:
        return {}
    readers = _readers(source, fields_of, with_chains, columns)
    if any(reader.has_chains for reader in readers) and any(event.attr.defer_callchain for event in source.events):
        _ = source.sample_counts  # the first pass finds the deferred parts of callchains
    parts: dict[str, list[_EventPart]] = {reader.name: [] for reader in readers}
    collector = OrderCollector()
    for samples in source.sample_chunks():
        for reader in readers:
            if part := reader.part(source, samples, collector.count):
                parts[reader.name].append(part)
        collector.add(samples)
    order = collector.order(source.settled_keys)
    tables = {name: _joined(parts.pop(name), list(fields_of[name]), with_chains=name in with_chains) for name in list(parts)}
    return _in_order(tables, order)


def _readers(
    source: SampleSource, fields_of: Mapping[str, Sequence[str]], with_chains: Collection[str], columns: Collection[str]
) -> list[_FieldReader]:
    """Return a reader for each event whose tracepoint is read; one tracepoint may be recorded by several events."""
    present = tracepoints_of(source)
    readers = []
    for event in source.events:
        name = ":".join(event.tracepoint) if event.tracepoint else ""
        if name in fields_of and name in present and source.tracing is not None:
            form = source.tracing.formats[event.attr.config]
            fields = [field for one in fields_of[name] if (field := form.field(one))]
            layout = source.layouts[event.index]
            readers.append(_FieldReader(name, event.index, layout, fields, source.tracing.endian, tuple(columns), name in with_chains))
    return readers


class _EventPart(NamedTuple):
    """The rows of one event in one chunk, or all rows of one tracepoint in the order of the source; see TracepointRows.

    Attributes:
        arrival: int32[n] or int64[n], positions among all samples.
    """

    arrival: NDArray[np.integer[Any]]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    fields: dict[str, Any]
    chains: Ragged | None


class _FieldReader(NamedTuple):
    """The requested fields and columns of one event."""

    name: str
    event: int
    layout: SampleLayout
    fields: list[TraceField]
    endian: str
    columns: tuple[str, ...]
    has_chains: bool

    def part(self, source: SampleSource, samples: KeyedSamples, count: int) -> _EventPart | None:
        """Return the event's rows of a chunk; None if there are none. count: the samples before the chunk."""
        rows = rows_where(samples.events == self.event)
        if not len(rows) or self.layout.word_of("tid") is None:
            return None
        chunk = samples.chunk.rows(rows)
        raw = raw_in_place(chunk, self.layout) if not self.has_chains else None
        if raw is None:
            return self._decoded_part(source, samples.rows(rows), rows, count)
        pid, tid, cpu = (self._task_column(chunk, name) for name in TASK_COLUMNS)
        return _EventPart(_arrivals(rows, count), pid, tid, cpu, self._columns(raw), None)

    def _task_column(self, chunk: Chunk, name: str) -> NDArray[np.int32]:
        offset = self.layout.half_of(name) if name in self.columns else None
        if offset is None:
            return _zeros(len(chunk))
        return chunk.column("u4", offset).astype(np.uint32, copy=False).view(np.int32)

    def _columns(self, raw: RawData) -> dict[str, Any]:
        """Return the fields of some rows; see TracepointRows."""
        copied: Ragged | None = None
        columns = {}
        for field in self.fields:
            if raw.has(field):
                columns[field.name] = raw.numbers(field)
            else:
                copied = raw.gather() if copied is None else copied
                columns[field.name] = _other_column(field, copied, self.endian)
        return columns

    def _decoded_part(self, source: SampleSource, samples: KeyedSamples, rows: NDArray[np.intp], count: int) -> _EventPart | None:
        """Return the rows of samples whose raw data have no fixed position, or some of which are damaged."""
        names = {*self.columns, "tid", "time", "raw", *(("callchain",) if self.has_chains else ())}
        batch = source.decode_samples(samples, names)
        columns = batch.columns
        if len(batch.key) < len(rows):
            damaged = self.layout.decode(samples.chunk.data, samples.chunk.starts, names, late=True).damaged
            rows = rows if damaged is None else rows[~damaged]
        if "raw" not in columns or not len(rows):
            return None
        chains = None
        if self.has_chains:
            chains = _gathered(columns["callchain"]) if "callchain" in columns else Ragged.empty(len(rows), np.uint64)
        raw = raw_of_column(columns["raw"], self.endian)
        if raw is None:
            copied = _gathered(columns["raw"])
            fields = {field.name: _other_column(field, copied, self.endian) for field in self.fields}
        else:
            fields = self._columns(raw)
        pid, tid, cpu = (columns[name] if name in self.columns and name in columns else _zeros(len(rows)) for name in TASK_COLUMNS)
        return _EventPart(_arrivals(rows, count), pid, tid, cpu, fields, chains)


def _other_column(field: TraceField, raw: Ragged, endian: str) -> Any:
    """Return a field that is no aligned number of 32 or 64 bits; see TracepointRows."""
    if field.is_string and not field.is_dynamic and 0 < field.size <= _LONGEST_TEXT:
        return bytes_at(raw, field.offset, field.size).copy().view(f"S{field.size}").ravel()
    column = field_column(field, raw, endian)
    if field.is_array or field.is_dynamic or field.size not in (1, 2, _HALF) or column.ndim != 1:
        return column
    return column.astype(np.int32 if field.size < _HALF or field.is_signed else np.int64)


def _arrivals(rows: NDArray[np.intp], count: int) -> NDArray[np.integer[Any]]:
    """Return the positions of rows of a chunk among all samples, as 32-bit numbers if they fit."""
    positions = rows + count
    return positions.astype(np.int32) if int(positions[-1]) < _INT32_END else positions


def _zeros(count: int) -> NDArray[np.int32]:
    """Return zeros that need no memory."""
    return np.broadcast_to(np.int32(0), count)


def _gathered(rows: Ragged | Slices) -> Ragged:
    return rows.gather() if isinstance(rows, Slices) else rows


def _joined(parts: list[_EventPart], fields: Iterable[str], *, with_chains: bool) -> _EventPart:
    """Return the rows of one tracepoint in the order of the source. Frees the parts, one column after the other."""
    if not parts:
        some = np.zeros(0, np.int32)
        chains = Ragged.empty(0, np.uint64) if with_chains else None
        return _EventPart(some, some, some, some, dict.fromkeys(fields, some), chains)
    if len(parts) == 1:
        return parts[0]
    arrival, pid, tid, cpu = (_joined_column([part[number] for part in parts]) for number in range(4))
    chains = None if parts[0].chains is None else Ragged.concat([part.chains for part in parts if part.chains is not None])
    of_parts = [part.fields for part in parts]
    parts.clear()
    read = {name: _joined_column([part.pop(name) for part in of_parts]) for name in list(of_parts[0])}
    return _EventPart(arrival, pid, tid, cpu, read, chains)


def _joined_column(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], Ragged):
        return Ragged.concat(columns)
    if columns[0].strides == (0,):
        return _zeros(sum(map(len, columns)))
    return np.concatenate(columns)


def _in_order(tables: dict[str, _EventPart], order: SampleOrder) -> dict[str, TracepointRows]:
    """Return the tables in order of delivery. Empties `tables`, so that of one table only there are two copies in memory."""
    table_rows = _TableRows.of(list(tables.values()), order)
    rows = {}
    for number, name in enumerate(list(tables), 1):
        _, pid, tid, cpu, fields, chains = tables.pop(name)
        positions = rows_where(table_rows.table == number)
        key = order.key[positions]
        time = key.view(np.int64) if np.may_share_memory(order.key, order.time) else order.time[positions]
        of_table = table_rows.row[positions]
        if bool((of_table[1:] > of_table[:-1]).all()):
            rows[name] = TracepointRows(positions, key, time, pid, tid, cpu, fields, chains)
            continue
        for field in fields:
            fields[field] = _taken(fields[field], of_table)
        chains = None if chains is None else chains.take(of_table)
        pid, tid, cpu = (_taken(column, of_table) for column in (pid, tid, cpu))
        rows[name] = TracepointRows(positions, key, time, pid, tid, cpu, fields, chains)
    return rows


class _TableRows(NamedTuple):
    """The table and the row in it of each sample, in order of delivery; table 0: none."""

    table: NDArray[Any]
    row: NDArray[Any]

    @classmethod
    def of(cls, tables: Sequence[_EventPart], order: SampleOrder) -> _TableRows:
        """Return the tables and rows of these tables, the first of which is number 1."""
        count = len(order.key)
        table = np.zeros(count, np.min_scalar_type(len(tables)))
        row = np.zeros(count, np.int32 if count < _INT32_END else np.int64)
        for number, part in enumerate(tables, 1):
            table[part.arrival] = number
            row[part.arrival] = np.arange(len(part.arrival))
        return cls(table, row) if order.arrival is None else cls(table.take(order.arrival), row.take(order.arrival))


def _taken(column: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Return rows of a column."""
    if isinstance(column, Ragged):
        return column.take(rows)
    return _zeros(len(rows)) if column.ndim == 1 and column.strides == (0,) else column[rows]
