"""Selected fields of several tracepoints as columns, read in one pass over the samples.

`read_tracepoints` takes only the fields that a command needs, in place, from the buffer that the file was read into: raw data are never
copied. Samples are read in the order of the file and sorted once at the end. Rows come in order of delivery; `order` is the position among
all these rows, by which the rows of several tracepoints can be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, rows_where
from perfpy.abi.flags import PerfType
from perfpy.perfdata.records.delivery.order import delivery_order
from perfpy.perfdata.tracepoints.field_columns import bytes_at, field_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import StoredBatch
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoints.event_format import TraceField

TASK_COLUMNS: Final = ("pid", "tid", "cpu")
_HALF: Final = 4
_LONGEST_TEXT: Final = 64


class TracepointRows(NamedTuple):
    """The samples of one tracepoint, in order of delivery.

    Attributes:
        order: int64[n], positions among the rows of all tracepoints that were read.
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
    present = tracepoints_of(source)
    readers = {}
    for event in source.events:  # one tracepoint may be recorded by several events
        name = ":".join(event.tracepoint) if event.tracepoint else ""
        if name in fields_of and name in present:
            form = source.tracing.formats[event.attr.config]
            fields = [field for one in fields_of[name] if (field := form.field(one))]
            readers[event.index] = _FieldReader(name, fields, source.tracing.endian, name in with_chains)
    parts: dict[str, list[_EventPart]] = {reader.name: [] for reader in readers.values()}
    names = {*columns, "tid", "time", "raw", *(("callchain",) if set(with_chains) & set(parts) else ())}
    count = 0
    for batch in source.stored_batches(names):
        key = source.settled_keys(batch)
        for index, reader in readers.items():
            if part := reader.part(batch, key, index, count, columns):
                parts[reader.name].append(part)
        count += len(batch.event)
    tables = {name: _joined(parts.pop(name), list(fields_of[name]), with_chains=name in with_chains) for name in list(parts)}
    return _in_order(tables)


class _EventPart(NamedTuple):
    """The rows of one event in one batch, or all rows of one tracepoint in the order of the file; see TracepointRows.

    Attributes:
        arrival: int64[n], positions in the file.
        stored: uint64[n], keys by which rows are sorted.
    """

    arrival: NDArray[np.int64]
    stored: NDArray[np.uint64]
    key: NDArray[np.uint64]
    time: NDArray[np.int64]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    fields: dict[str, Any]
    chains: Ragged | None


class _FieldReader(NamedTuple):
    """The requested fields of one event."""

    name: str
    fields: list[TraceField]
    endian: str
    has_chains: bool

    def part(self, batch: StoredBatch, key: NDArray[np.uint64], index: int, count: int, names: Collection[str]) -> _EventPart | None:
        """Return the event's rows of a batch; None if there are none.

        Args:
            batch: in the order of the file.
            key: settled delivery keys.
            index: of the event.
            count: the samples before the batch.
            names: which of pid, tid and cpu to read.
        """
        columns = batch.columns
        if "raw" not in columns or "tid" not in columns:
            return None
        rows = rows_where(batch.event == index)
        if not len(rows):
            return None
        raw = columns["raw"].take(rows)
        stored, time = batch.key[rows], batch.time[rows].view(np.int64)
        same = key is batch.key
        pid, tid, cpu = (_task_column(columns, name, rows, fields=name in names) for name in TASK_COLUMNS)
        chains = None
        if self.has_chains:
            chains = _gathered(columns["callchain"].take(rows)) if "callchain" in columns else Ragged.empty(len(rows), np.uint64)
        words = _Words(raw)
        fields = {field.name: self._column(field, words, raw) for field in self.fields}
        return _EventPart(count + rows.astype(np.int64), stored, stored if same else key[rows], time, pid, tid, cpu, fields, chains)

    def _column(self, field: TraceField, words: _Words, raw: Ragged | Slices) -> Any:
        """Return a field of some rows; see TracepointRows."""
        if not field.is_array and not field.is_dynamic and field.size in (_HALF, 2 * _HALF) and words.fits and not field.offset % _HALF:
            return words.numbers(field, self.endian)
        copied = _gathered(raw)
        if field.is_string and not field.is_dynamic and 0 < field.size <= _LONGEST_TEXT:
            return bytes_at(copied, field.offset, field.size).copy().view(f"S{field.size}").ravel()
        column = field_column(field, copied, self.endian)
        if field.is_array or field.is_dynamic or field.size not in (1, 2, _HALF) or column.ndim != 1:
            return column
        return column.astype(np.int32 if field.size < _HALF or field.is_signed else np.int64)


class _Words:
    """Raw data as 32-bit words, which is how the kernel aligns it."""

    def __init__(self, raw: Ragged | Slices) -> None:
        if isinstance(raw, Slices):
            self._words, self._begins, self._lengths = raw.words, raw.starts, raw.lengths
        else:
            self._words, self._begins, self._lengths = raw.values, raw.offsets[:-1], raw.lengths
        self._words = self._words[: len(self._words) & -_HALF]
        self.fits = self._words.itemsize == 1 and not int(np.bitwise_or.reduce(self._begins, initial=0)) & (_HALF - 1)

    def numbers(self, field: TraceField, endian: str) -> NDArray[Any]:
        """Return a number of each row; 0 where the row is too short."""
        is_inside = self._lengths >= field.offset + field.size
        index = (self._begins + field.offset) >> 2
        if not is_inside.all():
            if not len(self._words):
                return np.zeros(len(index), np.int32)
            index = np.where(is_inside, index, 0)
        words = self._words.view(f"{endian}u4")
        index = np.minimum(index, len(words) - 1)
        if field.size == _HALF:
            column = words.take(index).astype(np.uint32, copy=False)
            values = column.view(np.int32) if field.is_signed else column.astype(np.int64)
        else:
            following = np.minimum(index + 1, len(words) - 1)
            low, high = (index, following) if endian == "<" else (following, index)
            unsigned = words.take(low).astype(np.uint64) | words.take(high).astype(np.uint64) << np.uint64(32)
            values = unsigned.view(np.int64) if field.is_signed else unsigned
        numbers: NDArray[Any] = values if is_inside.all() else np.where(is_inside, values, values.dtype.type(0))
        return numbers


def _task_column(columns: Columns, name: str, rows: NDArray[np.intp], *, fields: bool) -> NDArray[np.int32]:
    if not fields or name not in columns:
        return np.broadcast_to(np.int32(0), len(rows))
    column: NDArray[np.int32] = columns[name][rows]
    return column


def _gathered(rows: Ragged | Slices) -> Ragged:
    return rows.gather() if isinstance(rows, Slices) else rows


def _joined(parts: Sequence[_EventPart], fields: Iterable[str], *, with_chains: bool) -> _EventPart:
    """Return the rows of one tracepoint in the order of the file."""
    if not parts:
        none = np.zeros(0, np.int64)
        some, keys = none.astype(np.int32), none.astype(np.uint64)
        chains = Ragged.empty(0, np.uint64) if with_chains else None
        return _EventPart(none, keys, keys, none, some, some, some, dict.fromkeys(fields, some), chains)
    if len(parts) == 1:
        return parts[0]
    stored = np.concatenate([part.stored for part in parts])
    key = stored if all(part.key is part.stored for part in parts) else np.concatenate([part.key for part in parts])
    time = np.concatenate([part.time for part in parts])
    if bool((time == stored.view(np.int64)).all()):
        time = stored.view(np.int64)
    columns = [_joined_column([part[number] for part in parts]) for number in (4, 5, 6)]
    read = {name: _joined_column([part.fields[name] for part in parts]) for name in parts[0].fields}
    chains = None if parts[0].chains is None else Ragged.concat([part.chains for part in parts if part.chains is not None])
    return _EventPart(np.concatenate([part.arrival for part in parts]), stored, key, time, columns[0], columns[1], columns[2], read, chains)


def _joined_column(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], Ragged):
        return Ragged.concat(columns)
    if columns[0].strides == (0,):  # zeros that need no memory
        return np.broadcast_to(np.int32(0), sum(map(len, columns)))
    return np.concatenate(columns)


def _in_order(tables: dict[str, _EventPart]) -> dict[str, TracepointRows]:
    """Return the tables in order of delivery. Empties `tables`, so that of one table only there are two copies in memory."""
    orders = _orders([table for table in tables.values() if len(table.arrival)])
    rows = {}
    for name in list(tables):
        arrival, _, key, time, pid, tid, cpu, fields, chains = tables.pop(name)
        order = orders.pop(0) if len(arrival) else arrival
        unsorted = TracepointRows(order, key, time, pid, tid, cpu, fields, chains)
        is_sorted = not len(order) or bool((order[1:] > order[:-1]).all())
        rows[name] = unsorted if is_sorted else unsorted.take(np.argsort(order, kind="stable"))
    return rows


def _orders(tables: Sequence[_EventPart]) -> list[NDArray[np.int64]]:
    """Return for each table the position of its rows among those of all tables, in order of delivery."""
    if not tables:
        return []
    by_arrival = np.argsort(np.concatenate([table.arrival for table in tables]), kind="stable")
    keys = np.concatenate([table.stored for table in tables])[by_arrival]
    same = all(np.may_share_memory(table.time, table.stored) for table in tables)
    times = keys if same else np.concatenate([table.time for table in tables]).view(np.uint64)[by_arrival]
    delivered = delivery_order(keys, times)
    del keys, times
    rows = by_arrival if delivered is None else by_arrival[delivered]
    del by_arrival, delivered
    positions = np.empty(len(rows), np.int64)
    positions[rows] = np.arange(len(rows))
    return np.split(positions, np.cumsum([len(table.arrival) for table in tables])[:-1])
