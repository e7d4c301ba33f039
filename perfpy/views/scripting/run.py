"""A run of a script over a recording: passes each sample that perf script would print to the script's functions, in order.

It calls trace_begin, then SYSTEM__EVENT, trace_unhandled or process_event for samples, throttle, context_switch and functions for counts
for other records, and trace_end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.flags import PerfType
from perfpy.views.script.lines import take_rows
from perfpy.views.script.texts import field_text
from perfpy.views.scripting.context import SampleContext
from perfpy.views.scripting.frames import FrameValues
from perfpy.views.scripting.handlers import Head, TracepointArguments
from perfpy.views.scripting.other_records import OtherRecords
from perfpy.views.scripting.program import ScriptFailedError
from perfpy.views.scripting.samples import COLUMNS, SampleValues
from perfpy.views.scripting.tables import TableRows, sample_rows
from perfpy.views.scripting.words import define_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.tracepoints.event_format import EventFormat
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.run import ScriptRun
    from perfpy.views.scripting.program import ScriptProgram

    Call = tuple[str, Callable[..., Any], tuple[Any, ...]]

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
        from perfpy.analysis.samples.source_texts import SourceTexts  # few scripts need it

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
