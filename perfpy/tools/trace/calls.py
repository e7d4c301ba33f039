"""Pair entries and returns of system calls by thread, batch after batch.

An entry is *interrupted* if the next entry of any thread, or a sample of another event, comes before its return: perf trace then prints
it at once, and the rest of the line at its return.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, are_among, distinct, grouped, rows_where
from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.perfdata.tracepoint_rows import tracepoint_windows, tracepoints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final, Literal

    from numpy.typing import NDArray

    from perfpy.abi.columns import Column, Index
    from perfpy.perfdata.event_format import EventFormat, TraceField, Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import FileSource


NO_ROW = -1


class PairedEvents(NamedTuple):
    """Events of a batch, after the entries of earlier batches that had not returned.

    Attributes:
        events: the entries of earlier batches (row -1), then the batch's events.
        carried: the number of entries of earlier batches.
        entry: int64[n]; of a return the row of its entry, -1 without.
        interrupter: int64[n]; of an interrupted entry the row before which it is printed, -1 without.
        was_interrupted: bool[n]; of an entry whether it was printed before or in this batch because of an interruption.
        open_rows: the rows of entries that have not returned.
    """

    events: CallEvents
    carried: int
    entry: NDArray[np.int64]
    interrupter: NDArray[np.int64]
    was_interrupted: NDArray[np.bool_]
    open_rows: frozenset[int]


class OpenCalls(NamedTuple):
    """The entries that had not returned at the end of a part of a stream of events.

    Attributes:
        events: the entries.
        was_interrupted: bool[n], whether they were printed already.
        current: the index of the last entry of all; -1 if it has returned, or the part has none.
        tids: int32[m], the threads with entries or returns in the part.
        has_entries: whether the part has entries.
    """

    events: CallEvents
    was_interrupted: NDArray[np.bool_]
    current: int
    tids: NDArray[np.int32]
    has_entries: bool


class Pairing:
    """The pairing of one stream of events.

    Args:
        ending: numbers of calls that do not return (exit, exit_group), which are not paired.
        wants_interruptions: find the interrupted entries.
    """

    def __init__(self, ending: NDArray[np.int64], *, wants_interruptions: bool = True) -> None:
        self._ending = ending.tolist()
        self._wants_interruptions = wants_interruptions
        self._open: CallEvents | None = None
        self._open_interrupted = np.zeros(0, np.bool_)
        self._current = NO_ROW  # the row in _open of the last entry of all

    def pair(self, batch: CallEvents) -> PairedEvents:
        """Return the events of a batch with their partners; keep the entries that have not returned."""
        events, carried = batch, 0
        if self._open is not None:
            carried = self._open.size
            events = CallEvents.concat([self._open, batch])
        entry, returned_by = self._partners(events)
        if self._wants_interruptions:
            interrupter = self._interrupters(events, carried, returned_by)
        else:
            interrupter = np.full(events.size, NO_ROW, np.int64)
        was_interrupted = interrupter != NO_ROW
        was_interrupted[:carried] |= self._open_interrupted
        open_rows = self._keep(events, returned_by, was_interrupted, carried)
        return PairedEvents(events, carried, entry, interrupter, was_interrupted, open_rows)

    def open_calls(self, batch: CallEvents) -> OpenCalls:
        """Return the entries that had not returned after a stream of a single batch."""
        assert self._open is not None
        is_entry = batch.kind == ENTER
        tids = distinct(batch.tid[is_entry | (batch.kind == EXIT)])
        return OpenCalls(self._open, self._open_interrupted, self._current, tids, bool(is_entry.any()))

    def follow(self, part: OpenCalls) -> None:
        """Continue after a part of the stream that another object has paired."""
        if self._open is None:
            self._open, self._open_interrupted, self._current = part.events, part.was_interrupted, part.current
            return
        kept = rows_where(~are_among(self._open.tid, part.tids))
        current = part.current
        if current != NO_ROW:
            current += len(kept)
        elif not part.has_entries:
            same = rows_where(kept == self._current)
            current = int(same[0]) if len(same) else NO_ROW
        self._open = CallEvents.concat([self._open.take(kept), part.events])
        self._open_interrupted = np.concatenate([self._open_interrupted[kept], part.was_interrupted])
        self._current = current

    def forget(self, tids: Iterable[int]) -> None:
        """Drop the entries of threads that ended."""
        if self._open is None:
            return
        kept = rows_where(~np.isin(self._open.tid, list(tids)))
        if len(kept) < self._open.size:
            last = rows_where(kept == self._current)
            self._open, self._open_interrupted = self._open.take(kept), self._open_interrupted[kept]
            self._current = int(last[0]) if len(last) else NO_ROW

    def _end(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which calls do not return."""
        chosen = np.zeros(len(numbers), np.bool_)
        for number in self._ending:
            chosen |= numbers == number
        return chosen

    def _partners(self, events: CallEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return of each return its entry, and of each entry the row of its thread's next entry or return; -1 without."""
        count = events.size
        entry, ended_by = np.full(count, NO_ROW, np.int64), np.full(count, NO_ROW, np.int64)
        rows = rows_where((events.kind == ENTER) | (events.kind == EXIT))
        order = rows[np.argsort(events.tid[rows], kind="stable")]
        tids, kinds = events.tid[order], events.kind[order]
        is_entry = (kinds[:-1] == ENTER) & (tids[:-1] == tids[1:])
        first = rows_where(is_entry)
        before, after = order[first], order[first + 1]
        ended_by[before] = after
        is_pair = kinds[first + 1] == EXIT
        entry[after[is_pair]] = before[is_pair]
        return entry, ended_by

    def _interrupters(self, events: CallEvents, carried: int, ended_by: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of each interrupted entry the row that interrupts it: the next entry or other event."""
        count = events.size
        interrupter = np.full(count, NO_ROW, np.int64)
        rows = rows_where((events.kind[carried:] == ENTER) | (events.kind[carried:] == OTHER)) + carried
        current = self._current if self._current != NO_ROW and not self._open_interrupted[self._current] else NO_ROW
        entries = rows if current == NO_ROW else np.concatenate([[current], rows])
        before, after = entries[:-1], entries[1:]
        end = ended_by[before]
        is_interrupted = (events.kind[before] == ENTER) & ((end == NO_ROW) | (end >= after)) & ~self._end(events.number[before])
        interrupter[before[is_interrupted]] = after[is_interrupted]
        return interrupter

    def _keep(self, events: CallEvents, ended_by: NDArray[np.int64], was_interrupted: NDArray[np.bool_], carried: int) -> frozenset[int]:
        """Keep the entries without a return for the next batch; return their rows."""
        is_open = (events.kind == ENTER) & (ended_by == NO_ROW) & ~self._end(events.number)
        rows = rows_where(is_open)
        entries = rows_where(events.kind[carried:] == ENTER) + carried
        last = int(entries[-1]) if len(entries) else NO_ROW
        if last == NO_ROW and self._current != NO_ROW:
            last = self._current
        self._open = events.take(rows)._replace(row=np.full(len(rows), NO_ROW, np.int64))
        self._open_interrupted = was_interrupted[rows]
        position = np.searchsorted(rows, last) if len(rows) else 0
        is_kept = last != NO_ROW and position < len(rows) and rows[position] == last
        self._current = int(position) if is_kept else NO_ROW
        return frozenset(rows.tolist())


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
_WINDOW: Final = 1 << 16  # samples
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
        names: the names of the fields of number and result, the latter of EXIT only.
    """

    kind: int
    number: tuple[int, int]
    result: tuple[int, int]
    arguments: tuple[int, ...]
    names: tuple[str, ...]


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
        return None if result is None else CallFields(EXIT, where, (result.offset, result.size), (), (number.name, "ret"))
    if form.system == _RAW:
        arguments = _own_field(form, "args")
        count = 0 if arguments is None else min(arguments.size // 8, MOST_ARGUMENTS)
        starts = () if arguments is None else tuple(arguments.offset + 8 * index for index in range(count))
    else:
        own = [field for field in form.fields if field.name != number.name and not field.is_dynamic and field.size == 8]
        starts = tuple(field.offset for field in own[:MOST_ARGUMENTS])
    return CallFields(ENTER, where, (0, 0), starts, (number.name,))


def _own_field(form: EventFormat, name: str) -> TraceField | None:
    return next((field for field in form.fields if field.name == name), None)


def call_fields(events: Sequence[FileEvent], tracing: Tracing | None) -> dict[int, CallFields]:
    """Return index of the event -> its fields, for the tracepoints of system calls among a source's events."""
    if tracing is None:
        return {}
    found = {}
    for event in events:
        point = tracing.tracepoints.get(event.attr.config) if event.attr.type == PerfType.TRACEPOINT else None
        if point is None or point.system not in (_RAW, _NAMED):
            continue
        try:
            fields = fields_of(tracing.formats[event.attr.config])
        except (KeyError, ValueError):  # a damaged format
            continue
        if fields is not None:
            found[event.index] = fields
    return found


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

    raw_syscalls:sys_enter has { s64 id; u64 args[6]; } and raw_syscalls:sys_exit { s64 id; s64 ret; }; syscalls:sys_enter_NAME has { s32
    __syscall_nr; u64 of each argument; } and syscalls:sys_exit_NAME { s32 __syscall_nr; s64 ret; }. Where the fields are is read from the
    tracepoints' formats.

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


def call_windows(source: FileSource, forms: Mapping[int, CallFields], columns: Collection[str]) -> Iterator[CallEvents]:
    """Yield the calls of a recording that has no other samples, without arguments, window by window (tracepoint_windows).

    Args:
        source: of the samples.
        forms: as for CallColumns.
        columns: which of pid, tid and cpu are read; others are 0.
    """
    form_of = {name: forms[event.index] for name, event in tracepoints_of(source).items() if event.index in forms}
    fields_of = {name: form.names for name, form in form_of.items()}
    for rows in tracepoint_windows(source, fields_of, columns=columns, least=lambda: _WINDOW):
        count = sum(len(table.order) for table in rows.values())
        same = np.broadcast_to(np.int32(0), count)
        tid, pid, cpu = (np.empty(count, np.int32) if name in columns else same for name in ("tid", "pid", "cpu"))
        kind, time, key = np.empty(count, np.uint8), np.empty(count, np.int64), np.broadcast_to(np.uint64(0), count)
        number, result = np.empty(count, np.int64), np.zeros(count, np.int64)
        for name, table in rows.items():
            form, row = form_of[name], table.order  # the window has no other samples
            fields = table.with_numbers(form.names).fields
            kind[row], time[row], number[row] = form.kind, table.time, fields[form.names[0]]
            if form.kind == EXIT:
                result[row] = fields[form.names[1]]
                kind[row[fields[form.names[0]] < 0]] = UNNUMBERED
            for name_of_column, column in (("tid", tid), ("pid", pid), ("cpu", cpu)):
                if name_of_column in columns:
                    column[row] = getattr(table, name_of_column)
        if count:
            yield CallEvents(kind, tid, pid, cpu, time, key, number, np.empty((count, 0), np.uint64), result, np.arange(count))


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


_IDLE: Final = "swapper"
_MOST_COMMS: Final = 1 << 16


class ThreadNames(Protocol):
    """The comms of threads over time; perfpy.symbols.address_spaces.TaskTimeline is one."""

    comms: list[str]

    def comm_ids(self, tid: NDArray[np.int32], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread at each key, as indexes into `comms`; ":TID" for unnamed threads."""


class FollowedComms:
    """The comms of threads.

    Other than perfpy.symbols.address_spaces.TaskTimeline it forgets the past, for streams without an end: it knows the comms at the
    beginning of a batch and their changes in it.

    Args:
        read_comm: returns the comm that a thread has now, "" if it has ended.

    Attributes:
        comms: texts, which comm_ids() refers to.
    """

    def __init__(self, read_comm: Callable[[int], str] = lambda _tid: "") -> None:
        self._read_comm = read_comm
        self.comms: list[str] = []
        self._numbers: dict[str, int] = {}
        self._now: dict[int, str] = {0: _IDLE}
        self._last: dict[int, str] = {}  # of threads that ended
        self._changes: dict[int, list[tuple[int, str]]] = {}  # tid -> (key, comm from then on; the first from 0), "" after its end

    def begin_batch(self) -> None:
        """Forget when comms changed, and the threads that ended."""
        self._changes = {}
        if len(self.comms) > _MOST_COMMS:
            self.comms, self._numbers = [], {}

    def name(self, tid: int, comm: str, key: int = 0) -> None:
        """A thread has this comm from a key on."""
        before = self._now.get(tid, "")
        if key:
            self._changes.setdefault(tid, [(0, before)]).append((key, comm))
        if comm:
            self._now[tid] = comm
        elif (last := self._now.pop(tid, "")) and len(self._last) < _MOST_COMMS:
            self._last[tid] = last

    def fork(self, parent: int, child: int, key: int) -> None:
        """A new thread has the comm of its parent."""
        self.name(child, self._known(parent), key)

    def end(self, tid: int, key: int) -> None:
        """A thread ends and loses its comm."""
        self.name(tid, "", key)

    def last_comm(self, tid: int) -> str:
        """Return the comm of a thread now; ":TID" if it is unknown."""
        return self._known(tid) or f":{tid}"

    def final_comm(self, tid: int) -> str:
        """Return the last comm of a thread, also if it has ended."""
        return self._known(tid) or self._last.get(tid, f":{tid}")

    def _known(self, tid: int) -> str:
        comm = self._now.get(tid, "")
        if not comm and tid not in self._changes and (comm := self._read_comm(tid)):
            self._now[tid] = comm
        return comm

    def comm_ids(self, tid: NDArray[np.int32], key: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the comm of each thread at each key, as indexes into `comms`; ":TID" for unnamed threads."""
        tids, which = grouped(tid)
        ids = np.array([self._number(self.last_comm(one)) for one in tids.tolist()], np.int32)[which]
        changes = [(one, key, comm) for one in tids.tolist() for key, comm in self._changes.get(one, ())]
        if changes:
            changed, keys, comms = zip(*changes, strict=True)
            starts = GroupedValues(np.array(changed, np.int64), np.array(keys, np.uint64))
            numbers = np.array([self._number(comm or f":{one}") for one, comm in zip(changed, comms, strict=True)], np.int32)[starts.order]
            found = starts.find(tid.astype(np.int64), key, "right")
            rows = rows_where(found.begin < found.end)
            ids[rows] = numbers[found.position[rows] - 1]
        return ids

    def _number(self, comm: str) -> int:
        number = self._numbers.get(comm)
        if number is None:
            number = self._numbers[comm] = len(self.comms)
            self.comms.append(comm)
        return number


class Found(NamedTuple):
    """The places of values among those of their groups, as positions in GroupedValues.order.

    Attributes:
        position: int64[n], where the value would be inserted.
        begin, end: int64[n], the first position of the group, and the one after its last; equal for unknown groups.
    """

    position: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


class GroupedValues:
    """Values in groups.

    Args:
        groups: int64[n].
        values: of the groups, one dtype.

    Attributes:
        order: the rows by group and value; equal values keep their order.
    """

    def __init__(self, groups: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.order = np.lexsort((values, groups))
        self._values = np.sort(values)
        ordered = groups[self.order]
        is_first = np.ones(len(ordered), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        self._begins = np.append(is_first.nonzero()[0], len(ordered))
        self._groups = ordered[is_first]
        self._span = len(ordered) + 1
        self._ranks = (np.cumsum(is_first) - 1) * self._span + np.searchsorted(self._values, values[self.order])

    def find(self, groups: NDArray[np.int64], values: NDArray[Any], side: Literal["left", "right"] = "left") -> Found:
        """Return the place of each value within its group. side: "left" before equal values, "right" after them.

        >>> found = GroupedValues(np.array([7, 3, 7]), np.array([10, 20, 30])).find(np.array([7, 3, 5]), np.array([30, 30, 30]))
        >>> [column.tolist() for column in found]
        [[2, 1, 1], [1, 0, 1], [3, 1, 1]]
        """
        number = np.searchsorted(self._groups, groups)
        is_known = number < len(self._groups)
        is_known[is_known] = self._groups[number[is_known]] == groups[is_known]
        position = np.searchsorted(self._ranks, number * self._span + np.searchsorted(self._values, values, side))
        begin = self._begins[number]
        return Found(position, begin, np.where(is_known, self._begins[np.minimum(number + 1, len(self._groups))], begin))
