"""A run of a script over a recording: passes each sample that perf script would print to the script's functions, in order.

It calls trace_begin, then SYSTEM__EVENT, trace_unhandled or process_event for samples, throttle, context_switch and functions for counts
for other records, and trace_end.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi import perf_records, records
from perfpy.abi.flags import PerfType, RecordType
from perfpy.abi.framing import as_number
from perfpy.abi.perf_records import AuxtraceError
from perfpy.errors import PerfError
from perfpy.perfdata.tracepoint_rows import trace_columns
from perfpy.views.script import field_text
from perfpy.views.script.lines import StatRounds, take_rows
from perfpy.views.scripting.program import SampleContext, ScriptFailedError, define_words
from perfpy.views.scripting.samples import COLUMNS, FrameValues, SampleValues
from perfpy.views.scripting.tables import TableRows, sample_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.analysis.named_samples import SampleBatch
    from perfpy.perfdata.event_format import EventFormat, TraceField
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery import SideRecord
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.run import ScriptRun
    from perfpy.views.scripting.program import ScriptProgram

    Call = tuple[str, Callable[..., Any], tuple[Any, ...]]
    Values = Sequence[Any]


_ATTR_SIZE: Final = 136  # size of struct perf_event_attr in perf 6.12; scripts decode it


class ScriptedRun:
    """A run that calls a script's functions.

    Args:
        visible_text: converts a text of the recording for scripts
    """

    def __init__(self, recording: Recorded, run: ScriptRun, visible_text: Callable[[str], str]) -> None:
        self._recording = recording
        self._run = run
        self._visible_text = visible_text
        self._line = run.context()
        self._frames = FrameValues(self._line.symbolizer, visible_text)
        self._comms: list[str] = []
        self.context = SampleContext(recording.data.tracing, self._source_line)
        self._makers: dict[int, _OfEvent] = {}
        self._stopped = False
        self.tables: TableRows | None = None  #: set if the script fills tables

    def stop(self) -> None:
        """Stop reading; the script's end is still called. Safe in signal handlers."""
        self._stopped = True

    def go(self, program: ScriptProgram) -> None:
        """Run the script. Raises ScriptFailedError if one of its functions fails."""
        program.start()
        program.call_if_there("trace_begin")
        if program.asks_for("perf_db_export_mode"):
            self.tables = TableRows(program, self._frames)
            self.tables.begin()
        others = OtherRecords(self._recording, program, self.tables)
        for batch in self._run.parts(set(COLUMNS)):
            if self._stopped:
                break
            calls = self._calls(batch, program)
            self.context.batch = batch
            self._make(calls, others.before(batch), program)
        for record in () if self._stopped else others.rest():
            others.tell(record)
        program.call_if_there("trace_end")

    def _make(self, calls: list[Call | None], records: list[tuple[int, Callable[[], None]]], program: ScriptProgram) -> None:
        """Make all calls, and those for records among the samples."""
        context = self.context
        waiting = iter(records)
        position, record = next(waiting, (len(calls), _nothing))
        name = ""
        try:
            for row, call in enumerate(calls):
                if self._stopped:
                    return
                while position <= row:
                    record()
                    position, record = next(waiting, (len(calls), _nothing))
                if call is not None:
                    context.row = row
                    name, function, args = call
                    function(*args)
        except ScriptFailedError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a script raises is told with its own lines
            raise program.failure(name, error) from None

    def _calls(self, batch: Batch, program: ScriptProgram) -> list[Call | None]:
        """Return the call for each row of a batch."""
        present = np.flatnonzero(np.bincount(batch.event, minlength=1)).tolist() if len(batch) else []
        if len(present) == 1:
            return self._of(present[0], program).calls(batch)
        calls: list[Call | None] = [None] * len(batch)
        for number in present:
            rows = np.flatnonzero(batch.event == number)
            for row, call in zip(rows.tolist(), self._of(number, program).calls(take_rows(batch, rows)), strict=True):
                calls[row] = call
        return calls

    def _of(self, number: int, program: ScriptProgram) -> _OfEvent:
        if number not in self._makers:
            event = self._recording.events[number]
            attr = event.attr.pack("<", event.attr.size)[:_ATTR_SIZE].ljust(_ATTR_SIZE, b"\0")
            samples = SampleValues(event, attr, self._line, self._frames, self._comms_of)
            tracing = self._recording.data.tracing
            form = tracing.formats.get(event.attr.config) if tracing and event.attr.type == PerfType.TRACEPOINT else None
            endian = tracing.endian if tracing else "<"
            self._makers[number] = _OfEvent(event, form, endian, samples, program, self)
        return self._makers[number]

    def _comms_of(self, batch: Batch) -> list[str]:
        """Return the command of each sample."""
        timeline = self._line.timeline
        ids = timeline.comm_ids(batch.columns["tid"], batch.key) if "tid" in batch.columns else np.zeros(len(batch), np.int32)
        self._comms += map(self._visible_text, timeline.comms[len(self._comms) :])
        return [self._comms[number] for number in ids.tolist()]

    def visible_text(self, text: str) -> str:
        """Return a text of the recording as scripts get it."""
        return self._visible_text(text)

    def comms(self, batch: Batch) -> list[str]:
        """Return the command of each sample."""
        return self._comms_of(batch)

    def _source_line(self, batch: Batch, row: int) -> tuple[str, int] | None:
        from perfpy.analysis.locations import SourceTexts  # few scripts need it

        one = take_rows(batch, np.array([row]))
        columns = one.columns
        ids = self._line.symbolizer.frame_ids(columns["pid"], columns["ip"], one.key, columns["cpumode"])
        self._line.symbolizer.resolve()
        text = next(iter(SourceTexts(self._line.symbolizer, full_paths=True, as_addr2line=True).in_files(ids.astype(np.int64))))
        file, colon, line = (text or "").rpartition(":")
        return (self._visible_text(file), int(line)) if colon and line.isdigit() else None


def _nothing() -> None:
    """No-op: nothing follows the last record."""


class _OfEvent:
    """The calls for one event."""

    def __init__(
        self, event: FileEvent, form: EventFormat | None, endian: str, samples: SampleValues, program: ScriptProgram, run: ScriptedRun
    ) -> None:
        self._event = event
        self._endian = endian
        self._samples = samples
        self._run = run
        self._arguments: TracepointArguments | None = None
        self._function: Callable[..., Any] | None
        if form is None:
            self._name = "process_event" if run.tables is None else "sample_table"
            self._function = program.function(self._name) if run.tables is None else run.tables.sample
            return
        self._name = f"{form.system}__{form.name}"
        self._function = program.function(self._name)
        define_words(form, self._name, program)
        unhandled = self._function is None
        if unhandled:
            self._name, self._function = "trace_unhandled", program.function("trace_unhandled")
        if self._function is not None:
            name = f"{form.system}__{form.name}"
            self._arguments = TracepointArguments(form, name, self._function, run.context, run.visible_text, by_name=unhandled)

    def calls(self, batch: Batch) -> list[Call | None]:
        """Return the call for each row; None if the script has no function for the event."""
        function, name = self._function, self._name
        if function is None:
            return [None] * len(batch)
        if self._arguments is None and self._run.tables is not None:
            return [(name, function, values) for values in sample_rows(self._samples, batch, self._run.visible_text(self._event.name))]
        if self._arguments is None:
            return [(name, function, (values,)) for values in self._samples.dictionaries(batch)]
        raw = batch.columns.get("raw")
        if raw is None:
            return [None] * len(batch)
        cpu = (field_text.column(batch, self._event, "cpu").astype(np.int64)).tolist()
        times = field_text.column(batch, self._event, "time").astype(np.uint64).tolist()
        args = self._arguments.of(raw, self._endian, Head(cpu, times, self._run.comms(batch), self._samples.callchains(batch)))
        if self._arguments.wants_sample:
            args = [(*values, sample) for values, sample in zip(args, self._samples.dictionaries(batch), strict=True)]
        return [(name, function, values) for values in args]


# The arguments of a script's tracepoint handlers, SYSTEM__EVENT or trace_unhandled.
#
# A handler gets event, context, CPU, seconds, nanoseconds, PID, command and callchain, then the tracepoint's fields in the format's order
# (trace_unhandled: all in a dictionary). A function with one more parameter also gets the sample.
#
# Tracepoints gain and lose fields between kernels. If the number of parameters differs, fields are matched by the parameters' names, and
# other parameters get the field at their position.


#: the arguments before the fields that trace_unhandled gets by name
_COMMON: Final = ("common_cpu", "common_s", "common_ns", "common_pid", "common_comm", "common_callchain")
_LONG: Final = 8  # bytes of a number whose sign perf keeps
_BEFORE_FIELDS: Final = 2 + len(_COMMON)
_SECOND: Final = 1_000_000_000
#: as in perf: ASCII, and Latin-1 without control characters
_PRINTABLE: Final = frozenset([*range(0x20, 0x7F), *b"\t\n\v\f\r", *range(0xA0, 0x100)])


class Head(NamedTuple):
    """The columns of each row apart from the tracepoint's fields."""

    cpu: Values
    time: Values
    comm: Values
    callchain: Values


def parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of a function's positional parameters; None for any number, or for functions not written in Python."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or code.co_flags & 0x04:  # *args
        return None
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names[1:] if hasattr(function, "__self__") else names


class TracepointArguments:
    """The arguments of one tracepoint's handler."""

    def __init__(
        self,
        form: EventFormat,
        name: str,
        handler: Callable[..., Any],
        context: object,
        visible_text: Callable[[str], str],
        *,
        by_name: bool,
    ) -> None:
        """Set the handler.

        Args:
            name: SYSTEM__EVENT
            context: what the handler passes to perf_trace_context
            visible_text: converts a text for scripts
            by_name: whether the fields are in one dictionary
        """
        self._form = form
        self._name = name
        self._context = context
        self._visible_text = visible_text
        self._by_name = by_name
        self._not_text: set[str] = set()
        names = parameters(handler)
        argument_count = _BEFORE_FIELDS + len(form.fields) if not self._by_name else 3
        #: Whether the function has a parameter for the sample: one more than there are fields, and not named like a removed field.
        self.wants_sample = names is not None and len(names) == argument_count + 1 and (by_name or form.field(names[-1]) is None)
        fits = by_name or names is None or len(names) == argument_count + self.wants_sample
        self._match_fields = None if fits or names is None else _match_fields(names, form.fields)

    def of(self, raw: Any, endian: str, head: Head) -> list[tuple[Any, ...]]:
        """Return the arguments of each row, without the sample."""
        columns = trace_columns(self._form, raw, endian)
        fields: list[Values] = [self._values(field, columns[field.name], raw, endian) for field in self._form.fields]
        seconds = [time // _SECOND for time in head.time]
        rests = [time % _SECOND for time in head.time]
        common: list[Values] = [head.cpu, seconds, rests, columns["common_pid"].tolist(), head.comm, head.callchain]
        before = (itertools.repeat(self._name), itertools.repeat(self._context))
        if self._by_name:
            keys = (*_COMMON, *(field.name for field in self._form.fields))
            values = (dict(zip(keys, row, strict=True)) for row in zip(*common, *fields, strict=True))
            return list(zip(*before, values, strict=False))
        if self._match_fields is not None:
            nothing = [None] * len(head.cpu)
            fields = [nothing if which is None else fields[which] for which in self._match_fields]
        return list(zip(*before, *common, *fields, strict=False))

    def _values(self, field: TraceField, column: Any, raw: Any, endian: str) -> Values:
        """Return a field's values: numbers, text, or bytes for arrays of other types."""
        if not (field.is_array or field.is_dynamic):
            if not isinstance(column, np.ndarray):
                return [0] * len(column)
            # perf reads numbers of less than 64 bits as unsigned ones: scripts compare with 0xffffffff where a field has -1.
            numbers: Values = (column.view(f"u{column.itemsize}") if column.itemsize < _LONG else column).tolist()
            return numbers
        data = _data(field, raw, endian)
        if not field.is_string and not (field.is_dynamic and "char" in field.type):
            return list(map(bytearray, data))
        return [self._text(field, one) for one in data]

    def _text(self, field: TraceField, data: bytes) -> str | bytearray:
        """Return a printable text that ends within its field. After the first other value the field is bytes, as in perf."""
        text = data.partition(b"\0")[0]
        if not data or not data.endswith(b"\0") or not _PRINTABLE.issuperset(text):
            self._not_text.add(field.name)
        return self._visible_text(text.decode(errors="surrogateescape")) if field.name not in self._not_text else bytearray(data)


def _match_fields(names: tuple[str, ...], fields: Sequence[TraceField]) -> list[int | None]:
    """Return the index of the field for each parameter after the common ones; None for a missing field."""
    number_of = {field.name: number for number, field in enumerate(fields)}
    parameters = names[_BEFORE_FIELDS:]
    positions = {number_of[name] for name in parameters if name in number_of}
    free = [number if number < len(fields) and number not in positions else None for number in range(len(parameters))]
    return [number_of.get(name, number) for name, number in zip(parameters, free, strict=True)]


def _data(field: TraceField, raw: Any, endian: str) -> list[bytes]:
    """Return the bytes of an array in each row."""
    whole, bounds = raw.values.tobytes(), raw.offsets.tolist()
    rows = [whole[begin:end] for begin, end in itertools.pairwise(bounds)]
    if not field.is_dynamic:
        return [row[field.offset : field.offset + field.size] for row in rows]
    fields = []
    for row in rows:
        word = as_number(row[field.offset : field.offset + field.size], endian)
        begin = (word & 0xFFFF) + (field.offset + field.size if field.is_relative else 0)
        fields.append(row[begin : begin + (word >> 16)])
    return fields


# Calls of scripts for records other than samples: throttling, context switches, counts of perf stat record, lost hardware traces.
#
# The functions are throttle, unthrottle, context_switch, auxtrace_error, stat__EVENT and stat__interval, with perf's arguments. Scripts
# that
# fill tables get rows for context switches.


_SWITCH_OUT: Final = 1 << 13
_PREEMPTED: Final = 1 << 14
_NOBODY: Final = -1
#: the record types of each function
_TYPES: Final = {
    "throttle": (RecordType.THROTTLE,), "unthrottle": (RecordType.UNTHROTTLE,),
    "context_switch": (RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE), "auxtrace_error": (RecordType.AUXTRACE_ERROR,),
}  # fmt: skip
_TASK_TYPES: Final = (RecordType.COMM, RecordType.FORK, RecordType.EXIT)
_STAT_TYPES: Final = (RecordType.THREAD_MAP, RecordType.CPU_MAP, RecordType.STAT, RecordType.STAT_ROUND)


class OtherRecords:
    """The records of a recording other than samples."""

    def __init__(self, recording: Recorded, program: ScriptProgram, tables: TableRows | None) -> None:
        self._program = program
        self._tables = tables
        self._rounds = StatRounds(recording.events)
        types = {kind for name, kinds in _TYPES.items() if program.function(name) for kind in kinds}
        if tables is not None:
            types.update((*_TASK_TYPES, *_TYPES["context_switch"]))
        if recording.data.record_index.type_counts[RecordType.STAT_ROUND]:
            types.update(_STAT_TYPES)
        self._side: Iterator[SideRecord] = iter(recording.side_band(types) if types else ())
        self._next = next(self._side, None)

    def before(self, batch: Batch) -> list[tuple[int, Callable[[], None]]]:
        """Return (row, action) of each record before the batch's last sample; it precedes the sample in this row."""
        calls: list[tuple[int, Callable[[], None]]] = []
        while self._next is not None and len(batch) and (self._next.key, self._next.offset) < (int(batch.key[-1]), int(batch.offset[-1])):
            side, self._next = self._next, next(self._side, None)
            row = int(batch.key.searchsorted(side.key, side="right"))
            while row and int(batch.key[row - 1]) == side.key and int(batch.offset[row - 1]) > side.offset:
                row -= 1
            calls.append((row, partial(self.tell, side)))
        return calls

    def rest(self) -> Iterator[SideRecord]:
        """Return all remaining records."""
        while self._next is not None:
            yield self._next
            self._next = next(self._side, None)

    def tell(self, side: SideRecord) -> None:
        """Call the script's function for a record. Raises ScriptFailedError."""
        record: Any = side.record
        call = self._program.call_if_there
        if isinstance(record, (records.Throttle, records.Unthrottle)):
            sample_id = record.sample_id
            cpu, pid, tid = (sample_id.cpu, sample_id.pid, sample_id.tid) if sample_id else (None,) * 3
            name = "throttle" if isinstance(record, records.Throttle) else "unthrottle"
            call(name, record.time, _or_minus_one(cpu), _or_minus_one(pid), _or_minus_one(tid))
        elif isinstance(record, (records.Switch, records.SwitchCpuWide)):
            if self._tables is not None:
                _fill_switch(self._tables, record)
            else:
                call("context_switch", *_switch_arguments(record))
        elif isinstance(record, (records.Comm, records.Fork, records.Exit)):
            if self._tables is not None:
                self._tables.tasks.see(record)
        elif isinstance(record, AuxtraceError):
            numbers = (record.type, record.code, record.cpu, record.pid, record.tid, record.ip, record.time)
            call("auxtrace_error", *numbers, record.msg, 0, record.machine_pid, record.vcpu)
        else:
            for event, cpu, thread, counts in self._rounds.counts(record):
                call(f"stat__{event.name.replace(':', '_')}", cpu, thread, record.time, *counts)
            if isinstance(record, perf_records.StatRound):
                call("stat__interval", record.time)


def _switch_arguments(record: Any) -> tuple[Any, ...]:
    sample_id = record.sample_id
    head = (sample_id.time, sample_id.cpu, sample_id.pid, sample_id.tid) if sample_id else (None,) * 4
    others = (record.next_prev_pid, record.next_prev_tid) if isinstance(record, records.SwitchCpuWide) else (_NOBODY, _NOBODY)
    out = bool(record.misc & _SWITCH_OUT)
    return (*map(_or_minus_one, head), *others, _NOBODY, out, out and bool(record.misc & _PREEMPTED), 0, _NOBODY)


def _fill_switch(tables: TableRows, record: records.Switch | records.SwitchCpuWide) -> None:
    time, cpu, pid, tid, next_pid, next_tid, _, out, preempted, *_ = _switch_arguments(record)
    other = (next_pid, next_tid) if isinstance(record, records.SwitchCpuWide) else None
    tables.switch(time, cpu, (pid, tid), other, out=out, preempted=preempted)


def _or_minus_one(number: int | None) -> int:
    return _NOBODY if number is None else number


# A run of a script over columns (script --py): each call gets thousands of samples.
#
# The script may define on_start(recording), on_sample(batch), on_record(record) and on_end().


class ColumnRun:
    """A run that calls a script's functions with columns."""

    def __init__(self, recording: Any, batches: Iterable[SampleBatch], records: Iterable[SideRecord]) -> None:
        """Set what on_start gets, the batches, and the records other than samples, in order of delivery."""
        self._recording = recording
        self._batches = batches
        self._records = records
        self._stopped = False

    def stop(self) -> None:
        """Stop reading; the script's end is still called. Safe in signal handlers."""
        self._stopped = True

    def go(self, program: ScriptProgram) -> None:
        """Run the script. Raises ScriptFailedError if one of its functions fails, PerfError if it defines none."""
        program.start()
        if not any(map(program.function, ("on_start", "on_sample", "on_record", "on_end"))):
            raise PerfError(f"{program.path}: no function on_sample(batch) or on_record(record); a script in perf's form is run by -s")
        program.call_if_there("on_start", self._recording)
        records: Iterator[SideRecord] = iter(self._records if program.function("on_record") else ())
        waiting = next(records, None)
        for batch in self._batches if program.function("on_sample") else ():
            if self._stopped:
                break
            while waiting is not None and waiting.key <= batch.first_key:
                program.call_if_there("on_record", waiting.record)
                waiting = next(records, None)
            program.call_if_there("on_sample", batch)
        while waiting is not None and not self._stopped:
            program.call_if_there("on_record", waiting.record)
            waiting = next(records, None)
        program.call_if_there("on_end")
