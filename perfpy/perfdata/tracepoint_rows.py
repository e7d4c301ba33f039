"""Selected fields of several tracepoints as columns, read in one pass over the samples.

`read_tracepoints` decodes only the fields that a command needs, so that a million events cost two numbers a field. Rows come in order of
delivery; `order` is the position among all wanted rows, by which the rows of several tracepoints can be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, rows_where
from perfpy.abi.flags import PerfType
from perfpy.perfdata.tracepoints.field_columns import bytes_at, field_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoints.event_format import TraceField

_COLUMNS: Final = ("pid", "tid", "time", "cpu")
_HALF: Final = 4
_LONGEST_TEXT: Final = 64


class TracepointRows(NamedTuple):
    """The samples of one tracepoint, in order of delivery.

    Attributes:
        order: int64[n], positions among the rows of all tracepoints that were read.
        key: uint64[n], delivery keys.
        time: int64[n], nanoseconds.
        pid, tid, cpu: int32[n], of the sample.
        fields: a column for each wanted field that the tracepoint has.
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
    source: SampleSource, wanted: Mapping[str, Sequence[str]], *, with_chains: Collection[str] = ()
) -> dict[str, TracepointRows]:
    """Read tracepoints as columns.

    Args:
        source: the samples.
        wanted: the fields of each tracepoint. Tracepoints that the source lacks are absent from the result.
        with_chains: the tracepoints whose callchains are kept.
    """
    if source.tracing is None:
        return {}
    present = tracepoints_of(source)
    readers = {}
    for event in source.events:  # one tracepoint may be recorded by several events
        name = ":".join(event.tracepoint) if event.tracepoint else ""
        if name in wanted and name in present:
            form = source.tracing.formats[event.attr.config]
            readers[event.index] = _FieldReader(name, [field for one in wanted[name] if (field := form.field(one))], source.tracing.endian)
    parts: dict[str, list[TracepointRows]] = {reader.name: [] for reader in readers.values()}
    fields = {*_COLUMNS, "raw", *(("callchain",) if set(with_chains) & set(parts) else ())}
    count = 0
    for batch in source.batches(fields):
        count = _add_batch(batch, readers, parts, with_chains, count)
    return {name: _concatenated(rows, list(wanted[name])) for name, rows in parts.items()}


def _add_batch(
    batch: Batch, readers: Mapping[int, _FieldReader], parts: Mapping[str, list[TracepointRows]], with_chains: Collection[str], count: int
) -> int:
    """Append the wanted rows of a batch; return the number of rows until now, wanted or not."""
    columns = batch.columns
    if "raw" in columns and "tid" in columns:
        raw = columns["raw"]
        words = _Words(raw)
        for index, reader in readers.items():
            rows = rows_where(batch.event == index)
            if not len(rows):
                continue
            none = np.zeros(len(rows), np.int32)
            pid, tid, cpu = (columns[name][rows] if name in columns else none for name in ("pid", "tid", "cpu"))
            time = columns["time"][rows].astype(np.int64) if "time" in columns else np.zeros(len(rows), np.int64)
            chains = None
            if reader.name in with_chains:
                chains = columns["callchain"].take(rows) if "callchain" in columns else Ragged.empty(len(rows), np.uint64)
            read = {field.name: reader.column(field, words, raw, rows) for field in reader.fields}
            parts[reader.name].append(TracepointRows(count + rows.astype(np.int64), batch.key[rows], time, pid, tid, cpu, read, chains))
    return count + len(batch)


class _FieldReader(NamedTuple):
    """The wanted fields of one event."""

    name: str
    fields: list[TraceField]
    endian: str

    def column(self, field: TraceField, words: _Words, raw: Ragged, rows: NDArray[np.intp]) -> Any:
        """Return a field of some rows.

        Integers come as int64 (unsigned 64-bit ones as uint64), texts of fixed size as bytes (S16), other fields as in trace_columns.
        """
        if field.is_string and not field.is_dynamic and 0 < field.size <= _LONGEST_TEXT:
            return bytes_at(raw.take(rows), field.offset, field.size).copy().view(f"S{field.size}").ravel()
        if field.is_array or field.is_dynamic or field.size not in (1, 2, 4, 8):
            return field_column(field, raw.take(rows), self.endian)
        if words.fits and field.size in (4, 8) and not field.offset % _HALF:
            return words.numbers(field, rows, self.endian)
        column = field_column(field, raw.take(rows), self.endian)
        return column if field.size == 8 and not field.is_signed else column.astype(np.int64)


class _Words:
    """Raw data as 32-bit words, which is how the kernel aligns it."""

    def __init__(self, raw: Ragged) -> None:
        self._raw = raw
        self.fits = len(raw.values) % _HALF == 0 and not (raw.offsets & (_HALF - 1)).any()

    def numbers(self, field: TraceField, rows: NDArray[np.intp], endian: str) -> NDArray[Any]:
        """Return a number of each row; 0 where the row is too short."""
        raw = self._raw
        begin = raw.offsets[:-1][rows]
        is_inside = begin + field.offset + field.size <= raw.offsets[1:][rows]
        index = (begin + field.offset) >> 2
        if not is_inside.all():
            if not len(raw.values):
                return np.zeros(len(rows), np.int64)
            index = np.where(is_inside, index, 0)
        if field.size == _HALF:
            values = raw.values.view(f"{endian}{'i' if field.is_signed else 'u'}4")[index].astype(np.int64)
        else:
            halves = raw.values.view(f"{endian}u4")
            last = np.minimum(index + 1, len(halves) - 1)
            low, high = (halves[index], halves[last]) if endian == "<" else (halves[last], halves[index])
            unsigned = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
            values = unsigned.view(np.int64) if field.is_signed else unsigned
        numbers: NDArray[Any] = values if is_inside.all() else np.where(is_inside, values, values.dtype.type(0))
        return numbers


def _concatenated(parts: Sequence[TracepointRows], fields: Iterable[str]) -> TracepointRows:
    if not parts:
        none = np.zeros(0, np.int64)
        some = none.astype(np.int32)
        return TracepointRows(none, none.astype(np.uint64), none, some, some, some, dict.fromkeys(fields, none))
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in parts), strict=True)]
    read = {name: _joined([part.fields[name] for part in parts]) for name in parts[0].fields}
    chains = None if parts[0].chains is None else Ragged.concat([part.chains for part in parts if part.chains is not None])
    rows = TracepointRows._make([*columns, read, chains])
    if (np.diff(rows.order) < 0).any():
        return rows.take(np.argsort(rows.order, kind="stable"))
    return rows


def _joined(columns: Sequence[Any]) -> Any:
    return Ragged.concat(columns) if isinstance(columns[0], Ragged) else np.concatenate(columns)
