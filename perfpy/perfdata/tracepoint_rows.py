"""Selected fields of several tracepoints as columns, read in one pass over the samples.

`read_tracepoints` takes only the fields that a command needs, in offset, from the buffer that the file was read into: raw data are never
copied. If there was no first pass over the recording before, both happen in one. Samples are read in the order of the file and sorted once
at the end. Rows come in order of delivery; `order` is the position among all samples, by which rows of several tracepoints can be merged.
"""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, rows_where, slices_index
from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.errors import UsageError
from perfpy.perfdata.records.batches import StoredBatch
from perfpy.perfdata.records.delivery import delivery_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray

    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.perfdata.event_format import EventFormat, TraceField
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery import KeyedSamples
    from perfpy.perfdata.records.stream import Chunk
    from perfpy.perfdata.sample_source import FileSource, SampleSource


#: returns the settled keys of samples (SampleSource.settled_keys)
Settle: TypeAlias = "Callable[[StoredBatch], NDArray[np.uint64]]"

TASK_COLUMNS: Final = ("pid", "tid", "cpu")
_HALF: Final = 4
_ZERO: Final = bytes(_HALF)
_LONGEST_TEXT: Final = 64
_INT32_END: Final = 1 << 31
WINDOW: Final = 1 << 17  #: samples


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

    def take(self, chosen: NDArray[Any] | slice) -> TracepointRows:
        """Select rows by mask, index or slice; a slice refers to these columns."""
        fields = {name: column.take(chosen) if isinstance(column, Ragged) else column[chosen] for name, column in self.fields.items()}
        chains = None if self.chains is None else self.chains.take(chosen)
        columns = [column[chosen] for column in self[:6]]
        return TracepointRows._make([*columns, fields, chains])

    def packed(self) -> list[Any]:
        """Return the columns to send to another process; None stands for a column that unpacked() can make from the others."""
        time = None if np.may_share_memory(self.time, self.key) else self.time
        columns = [None if column.strides == (0,) else column for column in (self.pid, self.tid, self.cpu)]
        return [self.order, self.key, time, *columns, self.fields, self.chains]

    @classmethod
    def unpacked(cls, columns: list[Any]) -> TracepointRows:
        """Return the rows whose packed() columns these are."""
        order, key, time, *of_task, fields, chains = columns
        none = _zeros(len(order))
        of_task = [none if column is None else column for column in of_task]
        return cls._make([order, key, key.view(np.int64) if time is None else time, *of_task, fields, chains])

    def with_numbers(self, names: Iterable[str]) -> TracepointRows:
        """Return the rows with an integer column for each name: zeros where the recorded format has no number of that name."""
        fields = dict(self.fields)
        for name in names:
            column = fields.get(name)
            if not (isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu"):
                fields[name] = _zeros(len(self.order))
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
    collected = _CollectedRows(source, fields_of, with_chains, columns)
    if collected.has_chains and any(event.attr.defer_callchain for event in source.events):
        _ = source.sample_counts  # the first pass finds the deferred parts of callchains
    for samples in source.sample_chunks():
        collected.add(samples)
    return collected.take(source.settled_keys)[1]


def tracepoint_windows(
    source: FileSource,
    fields_of: Mapping[str, Sequence[str]],
    *,
    with_chains: Collection[str] = (),
    columns: Collection[str] = TASK_COLUMNS,
    bare: Collection[str] = (),
    is_settled: bool = False,
    least: Callable[[], int] = lambda: WINDOW,
) -> Iterator[dict[str, TracepointRows]]:
    """Yield tracepoints as columns like read_tracepoints(), window by window in order of delivery.

    Memory does not grow with the recording, and the columns of a window fit into the processor's cache. `order` counts the samples of the
    window. A recording without rounds is one window.

    Args:
        source, fields_of, with_chains, columns: see read_tracepoints.
        bare: the tracepoints without these columns.
        is_settled: whether keys are settled, and the side-band up to the end of each window is known (RecordScans.note_side_band).
        least: returns the number of samples that are read before the next window is taken.
    """
    if source.tracing is None:
        return
    collected = _CollectedRows(source, fields_of, with_chains, columns, bare)
    if collected.has_chains:
        _ = source.sample_counts  # the first pass
    settle = source.settled_keys if is_settled else None
    for samples in source.sample_chunks():
        collected.add(samples)
        if not samples.floor or collected.count < least():
            continue
        if is_settled:
            if collected.count < 2 * source.records.side_band_count:  # few windows, because each may need all of the side-band anew
                continue
            source.records.note_side_band()
        yield collected.take_up_to(samples.floor, settle)
    yield collected.take(settle)[1]


class _CollectedRows:
    """The rows of some tracepoints, collected chunk by chunk. The arguments are those of tracepoint_windows."""

    def __init__(
        self,
        source: SampleSource,
        fields_of: Mapping[str, Sequence[str]],
        with_chains: Collection[str],
        columns: Collection[str],
        bare: Collection[str] = (),
    ) -> None:
        self._source, self._fields_of, self._with_chains = source, fields_of, with_chains
        self._readers = _readers(source, fields_of, with_chains, {name: () if name in bare else tuple(columns) for name in fields_of})
        self._parts: dict[str, list[_EventPart]] = {reader.name: [] for reader in self._readers}
        self._collector = OrderCollector()

    @property
    def has_chains(self) -> bool:
        """Whether callchains are kept."""
        return any(reader.has_chains for reader in self._readers)

    @property
    def count(self) -> int:
        """The number of collected samples, of all events."""
        return self._collector.count

    def add(self, samples: KeyedSamples) -> None:
        """Add the samples of the next chunk."""
        for reader in self._readers:
            if part := reader.part(self._source, samples, self._collector.count):
                self._parts[reader.name].append(part)
        self._collector.add(samples)

    def take(self, settle: Settle | None = None) -> tuple[SampleOrder, dict[str, TracepointRows]]:
        """Return the order of all collected samples and the rows, and forget them. settle: returns the settled keys of a batch."""
        order = self._collector.order(settle)
        return order, self._rows(order)

    def _rows(self, order: SampleOrder) -> dict[str, TracepointRows]:
        """Return the rows in an order, and forget them."""
        tables = {}
        for name, parts in self._parts.items():
            tables[name] = _joined(parts, list(self._fields_of[name]), with_chains=name in self._with_chains)
            parts.clear()
        table_rows = _TableRows.of(list(tables.values()), order)
        rows = {}
        for number, name in enumerate(list(tables), 1):
            _, pid, tid, cpu, fields, chains = tables.pop(name)
            positions = rows_where(table_rows.table == number)
            key = order.key.take(positions)
            time = key.view(np.int64) if np.may_share_memory(order.key, order.time) else order.time.take(positions)
            of_table = table_rows.row.take(positions)
            if not bool((of_table[1:] > of_table[:-1]).all()):
                for field in fields:
                    fields[field] = _taken(fields[field], of_table)
                chains = None if chains is None else chains.take(of_table)
                pid, tid, cpu = (_taken(column, of_table) for column in (pid, tid, cpu))
            rows[name] = TracepointRows(positions, key, time, pid, tid, cpu, fields, chains)
        return rows

    def take_up_to(self, floor: int, settle: Settle | None) -> dict[str, TracepointRows]:
        """Return the rows with keys up to a floor, and keep the others. settle: see take."""
        order, count = self._collector.order_up_to(floor, settle)
        rows = self._rows(order)
        for name, table in rows.items():
            first = int(table.order.searchsorted(count))
            later = table.take(slice(first, None))
            if len(later.order):
                self._parts[name].append(_EventPart(later.order - count, later.pid, later.tid, later.cpu, later.fields, later.chains))
            rows[name] = table.take(slice(0, first))
        return rows


def _readers(
    source: SampleSource, fields_of: Mapping[str, Sequence[str]], with_chains: Collection[str], columns: Mapping[str, tuple[str, ...]]
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
            readers.append(_FieldReader(name, event.index, layout, fields, source.tracing.endian, columns[name], name in with_chains))
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
        """Return the event's rows of a chunk, or None if there are none. count: the samples before the chunk."""
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
    return np.ndarray((count,), np.int32, _ZERO, strides=(0,))


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
    return _zeros(len(rows)) if column.ndim == 1 and column.strides == (0,) else column.take(rows, 0)


# Decode tracepoints' raw data into a column per field. Layout: the format's field lines; a dynamic field holds { u16 offset, u16 length }
# of its data, counted from the record's start (__data_loc) or from the field's own end (__rel_loc).

_NUMBERS: Final = (1, 2, 4, 8)


def trace_columns(form: EventFormat, raw: Ragged, endian: str = "<") -> dict[str, Any]:
    """Return field name -> column, common fields ("common_pid" ...) included.

    Numbers come as integers of the field's size and sign, arrays of numbers as two dimensions, strings
    as an object array of str, other dynamic data as a Ragged of bytes. Values
    beyond a row's end are 0 or empty.

    Args:
        form: the tracepoint's format.
        raw: uint8 rows.
        endian: the recorded machine's.
    """
    return {field.name: field_column(field, raw, endian) for field in (*form.common_fields, *form.fields)}


def field_column(field: TraceField, raw: Ragged, endian: str) -> Any:
    """Return the column of one field; see trace_columns."""
    if field.is_dynamic:
        word = bytes_at(raw, field.offset, 4).view(endian + "u4").ravel().astype(np.int64)
        base = raw.offsets[:-1] + (field.offset + field.size if field.is_relative else 0)
        starts = np.minimum(base + (word & 0xFFFF), raw.offsets[1:])
        data = _rows(raw, starts, np.minimum(starts + (word >> 16), raw.offsets[1:]))
        return _texts(data) if "char" in field.type else data
    if field.is_array:
        size = field.element_size or 1
        if field.is_string or size not in _NUMBERS:
            return _texts(_fixed_bytes(field, raw)) if field.is_string else _fixed_bytes(field, raw)
        count = max(field.size // size, 0)
        return bytes_at(raw, field.offset, count * size).view(_dtype(field, size, endian)).astype(_dtype(field, size, "="))
    if field.size in _NUMBERS:
        return (
            bytes_at(raw, field.offset, field.size).view(_dtype(field, field.size, endian)).ravel().astype(_dtype(field, field.size, "="))
        )
    return _fixed_bytes(field, raw)


def _dtype(field: TraceField, size: int, endian: str) -> np.dtype[Any]:
    return np.dtype(f"{endian}{'i' if field.is_signed else 'u'}{size}")


def bytes_at(raw: Ragged, offset: int, size: int) -> NDArray[np.uint8]:
    """Return (rows, size) bytes from `offset` on in each row, or 0 beyond its end."""
    positions = (raw.offsets[:-1] + offset)[:, None] + np.arange(size)
    inside = positions < raw.offsets[1:, None]
    if not len(raw.values):
        return np.zeros(positions.shape, np.uint8)
    return np.where(inside, raw.values[np.where(inside, positions, 0)], np.uint8(0))


def _fixed_bytes(field: TraceField, raw: Ragged) -> Ragged:
    """Return the bytes of a field at a fixed offset; size 0 means the rest of the row."""
    starts = np.minimum(raw.offsets[:-1] + field.offset, raw.offsets[1:])
    ends = np.minimum(starts + field.size, raw.offsets[1:]) if field.size else raw.offsets[1:]
    return _rows(raw, starts, ends)


def _rows(raw: Ragged, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Ragged:
    index, offsets = slices_index(starts, ends - starts)
    return Ragged(raw.values[index], offsets)


def _texts(data: Ragged) -> NDArray[Any]:
    """Return each row up to its first NUL, as str."""
    whole, offsets = data.values.tobytes(), data.offsets.tolist()
    rows = (whole[start:end].split(b"\0", 1)[0] for start, end in itertools.pairwise(offsets))
    texts = np.empty(len(data), object)
    texts[:] = [row.decode("utf-8", "surrogateescape") for row in rows]
    return texts


# The order of delivery of all samples of a source, collected chunk by chunk while they are read.

_WORD_BITS: Final = 64
_FEW_RUNS: Final = 256  # of ascending keys; up to this number merging the runs is faster than sorting


class SampleOrder(NamedTuple):
    """The samples of a source in order of delivery.

    Attributes:
        arrival: the position of each sample in the order of the source; None if both orders are the same.
        key: uint64[n], settled delivery keys.
        time: int64[n], nanoseconds.
        unsettled: uint64[n], delivery keys.
    """

    arrival: NDArray[np.integer[Any]] | None
    key: NDArray[np.uint64]
    time: NDArray[np.int64]
    unsettled: NDArray[np.uint64]


class OrderCollector:
    """The keys and times of the samples read so far."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []
        self._late: dict[int, NDArray[np.uint64]] = {}  # the times of chunks whose keys differ from them
        self._offsets: list[tuple[NDArray[np.integer[Any]], int | NDArray[np.int64]]] = []
        self.count = 0

    def add(self, samples: KeyedSamples) -> None:
        """Add the samples of the next chunk."""
        chunk = samples.chunk
        if samples.keys is not samples.times and not np.array_equal(samples.keys, samples.times):
            self._late[len(self._keys)] = samples.times
        self._keys.append(samples.keys)
        self._offsets.append((chunk.starts.astype(np.uint32), chunk.shift))  # a chunk has less than 4 GB
        self.count += len(samples.keys)

    def order_up_to(self, floor: int, settle: Settle | None) -> tuple[SampleOrder, int]:
        """Return the order of all samples, and the number of those with keys up to a floor; forget these. settle: see order."""
        offsets = self._offsets
        order = self.order(settle)
        count = int(order.key.searchsorted(np.uint64(floor), "right"))
        keys, times = order.unsettled[count:].copy(), order.time[count:].view(np.uint64)
        if not np.array_equal(keys, times):
            self._late[0] = times.copy()
        self._keys.append(keys)
        shift: int | NDArray[np.int64] = 0
        if settle is not None:  # with records that are still to be read
            in_file = np.concatenate([starts + np.int64(0) + before for starts, before in offsets])
            shift = in_file[count:] if order.arrival is None else in_file.take(order.arrival[count:])
        self._offsets.append((np.zeros(len(keys), np.uint32), shift))
        self.count = len(keys)
        return order, count

    def order(self, settle: Settle | None = None) -> SampleOrder:
        """Return the order of all samples, and forget them. settle: returns the settled keys of a batch."""
        keys, late, offsets = self._keys, self._late, self._offsets
        self._keys, self._late, self._offsets, self.count = [], {}, [], 0
        times = [late.get(number, key) for number, key in enumerate(keys)]
        settled = (
            keys
            if settle is None
            else [
                settle(StoredBatch(Columns(len(key)), np.zeros(0, np.int32), key, time, starts.astype(np.int64) + shift))
                for key, time, (starts, shift) in zip(keys, times, offsets, strict=True)
            ]
        )
        if keys and not late and all(new is old for new, old in zip(settled, keys, strict=True)):
            del times, settled
            return _order_by_time(keys)
        key, time, final = _joined_order(keys), _joined_order(times), _joined_order(settled)
        rows = delivery_order(key, time)
        if rows is None:
            return SampleOrder(None, final, time.view(np.int64), key)
        return SampleOrder(rows, final[rows], time[rows].view(np.int64), key[rows])


def _joined_order(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.uint64)])


def _order_by_time(parts: list[NDArray[np.uint64]]) -> SampleOrder:
    """Return the order of samples whose keys are their times; empties `parts`. Sorting numbers is faster than sorting indexes."""
    descents = sum(int(np.count_nonzero(part[1:] < part[:-1])) for part in parts)
    filled = [part for part in parts if len(part)]
    descents += sum(int(after[0] < before[-1]) for before, after in pairwise(filled))
    count = sum(map(len, filled))
    lowest = min((int(part.min()) for part in filled), default=0)
    highest = max((int(part.max()) for part in filled), default=0)
    bits = count.bit_length()
    is_narrow = (highest - lowest).bit_length() + bits <= _WORD_BITS
    if not descents or not is_narrow:
        key = _joined_order(parts)
        rows = np.argsort(key, kind="stable") if descents else None
        key = key if rows is None else key[rows]
        return SampleOrder(rows, key, key.view(np.int64), key)
    packed = np.empty(count, np.uint64)
    begin = 0
    for part in filled:
        rows_of_part = packed[begin : begin + len(part)]
        np.subtract(part, np.uint64(lowest), out=rows_of_part)
        rows_of_part <<= np.uint64(bits)
        rows_of_part |= np.arange(begin, begin + len(part), dtype=np.uint64)
        begin += len(part)
    parts.clear()
    filled.clear()
    packed.sort(kind="stable" if descents < _FEW_RUNS else None)
    arrival: NDArray[np.integer[Any]] = (packed & np.uint64((1 << bits) - 1)).astype(np.int32 if count < _INT32_END else np.int64)
    packed >>= np.uint64(bits)
    packed += np.uint64(lowest)
    return SampleOrder(arrival, packed, packed.view(np.int64), packed)


# The raw data of a chunk's samples where they lie in the buffer. Layout: u32 size; char data[size] in a SAMPLE record
# (perfpy.abi.sample_decoding). Raw data begin 4 bytes after a multiple of 8, so the buffer is read as 32-bit words.
class RawData(NamedTuple):
    """Raw data of samples as 32-bit words, valid as long as the buffer.

    Attributes:
        words: uint32, the buffer, in the recording's byte order.
        begins: int64[n], the first word of each sample's raw data.
        shortest: the number of bytes that all samples have at least.
        lengths: uint32[n] or int64[n], bytes.
    """

    words: NDArray[np.uint32]
    begins: NDArray[np.int64]
    shortest: int
    lengths: NDArray[np.integer[Any]]

    def has(self, field: TraceField) -> bool:
        """Whether `numbers` can read the field."""
        is_number = not field.is_array and not field.is_dynamic and field.size in (_HALF, 2 * _HALF)
        return is_number and not field.offset % _HALF

    def numbers(self, field: TraceField) -> NDArray[Any]:
        """Return the field of each sample: int32[n], int64[n] for unsigned and longer ones, uint64[n], or 0 if the data are too short."""
        if field.offset + field.size > self.shortest:
            is_inside = self.lengths >= field.offset + field.size
            some = self._replace(begins=self.begins[is_inside], shortest=field.offset + field.size).numbers(field)
            column = np.zeros(len(self.begins), some.dtype)
            column[is_inside] = some
            return column
        index = self.begins + (field.offset >> 2)
        low = self.words.take(index)
        if field.size == _HALF:
            native = low.astype(np.uint32, copy=False)
            return native.view(np.int32) if field.is_signed else native.astype(np.int64)
        index += 1
        return self._joined(low, self.words.take(index), is_signed=field.is_signed)

    def _joined(self, first: NDArray[np.uint32], second: NDArray[np.uint32], *, is_signed: bool) -> NDArray[Any]:
        """Return 64-bit numbers from their halves in memory order."""
        low, high = (first, second) if self.words.dtype.newbyteorder("<") == self.words.dtype else (second, first)
        numbers: NDArray[np.uint64] = high.astype(np.uint64)
        numbers <<= np.uint64(32)
        numbers |= low
        return numbers.view(np.int64) if is_signed else numbers

    def gather(self) -> Ragged:
        """Return a copy of the raw data."""
        return Slices(self.words.view(np.uint8), self.begins << 2, self.lengths.astype(np.int64)).gather()


def raw_in_place(samples: Chunk, layout: SampleLayout) -> RawData | None:
    """Return the raw data of samples of one layout, or None if their position varies, or if a sample is too short for them."""
    word = layout.raw_word
    if word is None or not len(samples) or samples.data.__array_interface__["data"][0] & 7:
        return None
    words = samples.data[: len(samples.data) & ~7].view(samples.endian + "u4")
    sizes = samples.sizes
    if (word + 1) << 3 > int(sizes.min()):
        return None
    begins = (samples.starts >> 2) + 2 * word
    lengths = words.take(begins)
    begins += 1
    shortest, before = int(lengths.min()), (word << 3) + _HALF
    if before + int(lengths.max()) > int(sizes.min()) and bool((lengths > sizes - before).any()):
        return None
    return RawData(words, begins, shortest, lengths)


def raw_of_column(raw: Ragged | Slices, endian: str) -> RawData | None:
    """Return the raw data of a decoded column, or None if they are not aligned to 32-bit words."""
    if isinstance(raw, Slices):
        data, begins, lengths = raw.words, raw.starts, raw.lengths
    else:
        data, begins, lengths = raw.values, raw.offsets[:-1], raw.lengths
    if data.itemsize != 1 or int(np.bitwise_or.reduce(begins, initial=0)) & (_HALF - 1):
        return None
    shortest = int(lengths.min()) if len(lengths) else 0
    return RawData(data[: len(data) & -_HALF].view(endian + "u4"), begins >> 2, shortest, lengths)


# All samples of one tracepoint: their columns, and one column per field of the tracepoint.
def tracepoint_samples(data: PerfData, name: str, batches: Iterable[Batch]) -> tuple[Columns, dict[str, Any]]:
    """Return the samples' columns without the raw one, and the tracepoint's fields as columns.

    Raises UsageError if the recording has no format of the tracepoint.
    """
    event = next((event for event in data.events if event.name == name and event.attr.type == PerfType.TRACEPOINT), None)
    if event is None or data.tracing is None or event.attr.config not in data.tracing.formats:
        names = ", ".join(event.name for event in data.events if event.tracepoint) or "none"
        raise UsageError(f"no tracepoint {name!r} with known fields in {data.path}; its tracepoints: {names}")
    parts = [batch.columns.take(np.flatnonzero(batch.event == event.index)) for batch in batches]
    samples = Columns.concat(parts if any("raw" in part for part in parts) else [*parts, data.records.no_samples()])
    raw = samples.pop("raw", None)
    if raw is None:
        raise UsageError(f"the samples of {name!r} in {data.path} have no raw data, and so no fields")
    return samples, trace_columns(data.tracing.formats[event.attr.config], raw, data.tracing.endian)
