"""Samples of the tracepoints of system calls as columns.

raw_syscalls:sys_enter has { s64 id; u64 args[6]; } and raw_syscalls:sys_exit { s64 id; s64 ret; }; syscalls:sys_enter_NAME has
{ s32 __syscall_nr; u64 of each argument; } and syscalls:sys_exit_NAME { s32 __syscall_nr; s64 ret; }. Where the fields are is read
from the tracepoints' formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, rows_where
from perfpy.abi.flags import PerfType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Column, Index
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField
    from perfpy.perfdata.tracepoints.tracing_data import Tracing

ENTER: Final = 0  #: a thread calls the kernel
EXIT: Final = 1  #: the call returns
OTHER: Final = 2  #: a sample of another event
UNNUMBERED: Final = 3  #: a return without a number, as of rt_sigreturn

MOST_ARGUMENTS: Final = 6
_RAW, _NAMED = "raw_syscalls", "syscalls"
_ENTER_PREFIX, _EXIT_PREFIX = "sys_enter", "sys_exit"
_NUMBER_FIELDS = ("id", "__syscall_nr", "nr")
NO_CALL: Final = -1  #: the kernel's number of a call that a debugger skipped
_INT_SIZE: Final = 4
_NO_ARGUMENTS: Final = np.zeros(1, np.uint64)
_DTYPES: Final = {1: "u1", 2: "u2", 4: "i4", 8: "i8"}


class CallEvents(NamedTuple):
    """Entries and returns of system calls, and samples of other events, by time.

    Attributes:
        kind: uint8[n]: ENTER, EXIT, OTHER or UNNUMBERED.
        tid, pid: int32[n].
        cpu: int32[n]; -1 where samples have no CPU.
        time: int64[n], nanoseconds.
        key: uint64[n], delivery keys.
        number: int64[n], the number of the call; -1 of OTHER.
        arguments: uint64[n, 6], of ENTER.
        result: int64[n], of EXIT.
        row: int64[n], the row of the sample in its batch; -1 of entries of earlier batches.
    """

    kind: NDArray[np.uint8]
    tid: NDArray[np.int32]
    pid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    time: NDArray[np.int64]
    key: NDArray[np.uint64]
    number: NDArray[np.int64]
    arguments: NDArray[np.uint64]
    result: NDArray[np.int64]
    row: NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of events."""
        return len(self.kind)

    def take(self, rows: Index) -> CallEvents:
        """Select rows."""
        columns: Any = tuple(column[rows] for column in self)
        return CallEvents(*columns)

    @classmethod
    def concat(cls, parts: Sequence[CallEvents]) -> CallEvents:
        """Join parts in their order."""
        return parts[0] if len(parts) == 1 else cls(*map(np.concatenate, zip(*parts, strict=True)))


class CallFields(NamedTuple):
    """The position of a tracepoint's fields.

    Attributes:
        kind: ENTER or EXIT.
        number, result: (offset, size) of the field.
        arguments: the offset of each argument.
    """

    kind: int
    number: tuple[int, int]
    result: tuple[int, int]
    arguments: tuple[int, ...]


def fields_of(form: EventFormat) -> CallFields | None:
    """Return the fields of a tracepoint of system calls; None for any other tracepoint."""
    if form.system not in (_RAW, _NAMED):
        return None
    number = next((field for name in _NUMBER_FIELDS if (field := _own_field(form, name))), None)
    is_exit = form.name.startswith(_EXIT_PREFIX)
    if number is None or not (is_exit or form.name.startswith(_ENTER_PREFIX)):
        return None
    where = number.offset, number.size
    if is_exit:
        result = _own_field(form, "ret")
        return None if result is None else CallFields(EXIT, where, (result.offset, result.size), ())
    if form.system == _RAW:
        arguments = _own_field(form, "args")
        count = 0 if arguments is None else min(arguments.size // 8, MOST_ARGUMENTS)
        starts = () if arguments is None else tuple(arguments.offset + 8 * index for index in range(count))
    else:
        own = [field for field in form.fields if field.name != number.name and not field.is_dynamic and field.size == 8]
        starts = tuple(field.offset for field in own[:MOST_ARGUMENTS])
    return CallFields(ENTER, where, (0, 0), starts)


def _own_field(form: EventFormat, name: str) -> TraceField | None:
    return next((field for field in form.fields if field.name == name), None)


def call_fields(events: Sequence[FileEvent], tracing: Tracing | None) -> dict[int, CallFields]:
    """Return index of the event -> its fields, for the tracepoints of system calls among a source's events."""
    if tracing is None:
        return {}
    found = {}
    for event in events:
        if event.attr.type == PerfType.TRACEPOINT and event.attr.config in tracing.tracepoints:
            form = _format(tracing, event.attr.config)
            fields = fields_of(form) if form is not None else None
            if fields is not None:
                found[event.index] = fields
    return found


def _format(tracing: Tracing, number: int) -> EventFormat | None:
    point = tracing.tracepoints[number]
    if point.system not in (_RAW, _NAMED):
        return None
    try:
        return tracing.formats[number]
    except (KeyError, ValueError):
        return None


class CallColumns:
    """The columns of system calls, computed from raw data while these are in memory (perfdata.records.batches.FurtherColumns).

    Args:
        forms: of the tracepoints of system calls (call_fields).
        endian: the byte order of the recorded machine.
        has_arguments: also compute the arguments.
    """

    fields = ("raw",)

    def __init__(self, forms: Mapping[int, CallFields], endian: str, *, has_arguments: bool = True) -> None:
        self._forms = forms
        self._endian = endian
        self._has_arguments = has_arguments

    def extend(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """Return the columns of some samples with call_kind, call_number, call_result and call_arguments."""
        del key
        count = len(event)
        kind, number = np.full(count, OTHER, np.uint8), np.full(count, NO_CALL, np.int64)
        arguments, result = np.zeros((count if self._has_arguments else 0, MOST_ARGUMENTS), np.uint64), np.zeros(count, np.int64)
        raw = slices_of(columns["raw"]) if "raw" in columns else None
        for index, form in self._forms.items():
            rows = rows_where(event == index)
            if raw is None or not len(rows):
                continue
            words = RawWords(raw.take(rows), self._endian)
            numbers = words.numbers(*form.number)
            kind[rows] = form.kind
            number[rows] = numbers
            if form.kind == EXIT:
                result[rows] = words.numbers(*form.result)
                if int(numbers.min()) < 0:
                    kind[rows[numbers < 0]] = UNNUMBERED
            elif form.arguments and self._has_arguments:
                arguments[rows, : len(form.arguments)] = words.words(form.arguments)
        added: dict[str, Column] = {"call_kind": kind, "call_number": number, "call_result": result}
        if self._has_arguments:
            added["call_arguments"] = arguments
        return Columns(columns.rows, {**columns, **added}, columns.damaged)


def call_events(columns: Columns, key: NDArray[np.uint64]) -> CallEvents:
    """Return the samples of a batch as entries, returns and others.

    Args:
        columns: of the samples, with tid and those of CallColumns.
        key: the samples' delivery keys.
    """
    count = columns.rows
    tid, pid, cpu = (int_column(columns, name) for name in ("tid", "pid", "cpu"))
    time = columns["time"].astype(np.int64) if "time" in columns else np.zeros(count, np.int64)
    arguments = columns["call_arguments"] if "call_arguments" in columns else np.broadcast_to(_NO_ARGUMENTS, (count, MOST_ARGUMENTS))
    kind, number, result = columns["call_kind"], columns["call_number"], columns["call_result"]
    return CallEvents(kind, tid, pid, cpu, time, key, number, arguments, result, np.arange(count))


def int_column(columns: Columns, name: str) -> NDArray[np.int32]:
    """Return a column of thread ids or CPUs: -1 where samples have none."""
    return columns[name].astype(np.int32, copy=False) if name in columns else np.full(columns.rows, -1, np.int32)


def slices_of(raw: Ragged | Slices) -> Slices:
    """Return the rows of a column without a copy."""
    return Slices(raw.values, raw.offsets[:-1], raw.lengths) if isinstance(raw, Ragged) else raw


class RawWords:
    """Numbers at fixed offsets in the raw data of samples of one tracepoint.

    Args:
        raw: uint8 rows; a Ragged or Slices.
        endian: the byte order of the recorded machine.
    """

    def __init__(self, raw: Any, endian: str) -> None:
        self._endian = endian
        if isinstance(raw, Slices) and raw.words.dtype.itemsize == 1:
            self._buffer, self._starts, self._lengths = raw.words, raw.starts, raw.lengths
        else:
            rows = raw.gather()
            self._buffer, self._starts, self._lengths = rows.values, rows.offsets[:-1], rows.lengths
        self._shortest = int(self._lengths.min()) if len(self._lengths) else 0

    def numbers(self, offset: int, size: int) -> NDArray[np.int64]:
        """Return the signed number at an offset of each row; 0 beyond a row's end."""
        return self._values(offset, np.dtype(self._endian + _DTYPES.get(size, "i8"))).astype(np.int64)

    def words(self, offsets: Sequence[int]) -> NDArray[np.uint64]:
        """Return uint64[n, k], the 64-bit words at offsets of each row; 0 beyond a row's end."""
        first, size = offsets[0], 8 * len(offsets)
        if list(offsets) == list(range(first, first + size, 8)) and first + size <= self._shortest:
            rows = np.ndarray((len(self._buffer) - size + 1, len(offsets)), self._endian + "u8", self._buffer, strides=(1, 8))
            return rows[self._starts + first].astype(np.uint64, copy=False)
        words = np.empty((len(self._starts), len(offsets)), np.uint64)
        for column, offset in enumerate(offsets):
            words[:, column] = self._values(offset, np.dtype(self._endian + "u8"))
        return words

    def _values(self, offset: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a number of each row, read at any byte of the buffer."""
        size, count = dtype.itemsize, len(self._buffer)
        if count < size:
            return np.zeros(len(self._starts), dtype)
        at_any_byte = np.ndarray((count - size + 1,), dtype, self._buffer, strides=(1,))
        positions = self._starts + offset
        if offset + size <= self._shortest:
            return at_any_byte[positions]
        is_inside = offset + size <= self._lengths
        return np.where(is_inside, at_any_byte[np.where(is_inside, positions, 0)], dtype.type(0))
