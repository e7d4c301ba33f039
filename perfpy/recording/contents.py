"""What a recording holds: its events, features, records and samples, and what names its tasks and addresses.

What enters: a perf.data (path, "-", file descriptor, binary file). What
leaves: values, and batches of numpy columns.
"""

from __future__ import annotations

import os

from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.startup import NamedTuple, cached_property
from perfpy.errors import BadPerfData
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.tables_folder import recordings_in

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import TracebackType
    from typing import Any, BinaryIO, Self

    from perfpy.analysis.filters.time_ranges import RecordedTimes
    from perfpy.auxtrace.recorded_pmcu import PmcuTrace
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.container.source import Origin
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery_spans import Span
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.files.shared_files import SharedFiles
    from perfpy.symbols.loader import KeptSymbols
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.unwind.callchains import UserCallchains


class Sample(NamedTuple):
    """One sample as a value: its event, and field name -> number (or array, for callchain, raw and the like)."""

    event: FileEvent
    fields: Mapping[str, Any]


class TracepointSamples(NamedTuple):
    """All samples of one tracepoint.

    samples: their usual columns ("time", "tid", "cpu" ...); fields: a column
    for each field of the tracepoint, "common_pid" and its like included.
    """

    samples: Mapping[str, Any]
    fields: Mapping[str, Any]


class RecordingContents:
    """What a perf.data file holds, as it was recorded: see perfpy.Recording, which adds what can be made of it."""

    def __init__(self, origin: Origin, *, check_owner: bool = False, as_stored: bool = False, symbols: SymbolOptions | None = None) -> None:
        exported = recordings_in(origin)
        self._file: BinaryIO | None = None  #: without a name, where it was exported
        self._known: KeptSymbols | None = None  #: its symbols, where it was exported
        self._unwound = False  #: whether its callchains were made of copies of stacks that are no longer there
        if exported:
            self.data = self._of_tables(exported)
        else:
            self.data = PerfData(origin, check_owner=check_owner, as_stored=as_stored)
        self.symbol_options = symbols  #: where to look where a method is not told
        self._symbolizers: list[Symbolizer] = []

    def _of_tables(self, exported: list[str]) -> PerfData:
        """One that was exported: its records stand in order of delivery."""
        from perfpy.recording.exported import ExportedSymbols, open_exported  # needs pyarrow

        if len(exported) > 1:
            raise BadPerfData(os.path.dirname(exported[0]), f"{len(exported)} recordings", remedy=f"name one of them: {exported[0]}")
        self._file, self._unwound = open_exported(exported[0])
        self._known = ExportedSymbols(exported[0])
        data = PerfData(self._file, as_stored=True)
        data.path = exported[0]
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays and records already handed out stay valid."""
        self.data.close()
        if self._file is not None:
            self._file.close()

    @property
    def path(self) -> str:
        """The file, as messages name it."""
        return self.data.path

    @property
    def events(self) -> list[FileEvent]:
        """The events recorded, with their attrs and names."""
        return self.data.events

    @property
    def header(self) -> Mapping[str, Any]:
        """What the recorder wrote about the machine and itself: "hostname", "cmdline" ... (perfpy.perfdata.container.features)."""
        return self.data.features

    @property
    def title(self) -> str:
        """What was recorded: the recorder's command line, or the path where the file does not say."""
        command = self.header.get("cmdline")
        return " ".join(command) if isinstance(command, (tuple, list)) else str(command or self.path)

    @property
    def circumstances(self) -> list[str]:
        """Where and how long, in short phrases: host, kernel, architecture, seconds."""
        found = [str(self.header[name]) for name in ("hostname", "osrelease", "arch") if self.header.get(name)]
        span = self.header.get("sample_time")
        if span is not None and span.last > span.first:
            found.append(f"{(span.last - span.first) / 1e9:.3g} s")
        return found

    @property
    def warnings(self) -> list[str]:
        """What could not be read and was left out, a line each; grows while the file is read and symbols are asked for."""
        files = (str(file) for symbolizer in self._symbolizers for file in symbolizer.unreadable())
        return [*self.data.warnings, *(file for file in dict.fromkeys(files) if file not in self.data.warnings)]

    def times(self) -> RecordedTimes:
        """When the first and the last sample were taken, in ns, as the header or else the samples say."""
        from perfpy.analysis.filters.time_ranges import RecordedTimes

        return RecordedTimes(self.path, *self.data.sample_times)

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """The samples in order of delivery, some thousands at a time, as columns.

        fields: names of the columns wanted, of which those that the recording
        lacks are left out; None: all. more: makes further columns (see
        unwinding). Memory stays bounded however large the file is. A batch has `columns` (as Samples), `event` (indexes into
        Recording.events), `key` (the ordinal in the order of delivery) and
        `offset` (in the file, in bytes), one row a sample.
        """
        # numpy is loaded when samples are asked for, not by opening a file
        from perfpy.perfdata.records.batches import Batch

        for batch in self.data.batches(fields, more):
            yield Batch(batch.columns, batch.event, self.data.settled_keys(batch), batch.offset)

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """The samples of one part of the recording (see perfdata.records.delivery_spans), as from batches(); None where there are none."""
        from perfpy.perfdata.records.batches import Batch  # numpy is loaded when samples are asked for

        batch = self.data.batch_of(span, fields, more)
        if batch is None:
            return None
        return Batch(batch.columns, batch.event, self.data.settled_keys(batch), batch.offset)

    def unwinding(self, symbols: SymbolOptions | None = None, *, max_stack: int = 127) -> UserCallchains | None:
        """What makes whole callchains of copied stacks, for `batches`; None where the recording has no copies.

        The "callchain" column goes on, after the kernel's part and a marker (PERF_CONTEXT_USER), with the user's frames,
        innermost first: `recording.batches(["callchain"], recording.unwinding())`. symbols: where files are; max_stack: of each part.
        """
        from perfpy.analysis.samples.user_callchains import user_callchains

        return user_callchains(self.data, self.symbolizer(symbols), max_stack)

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """The records that are no samples, in order of delivery: an iterable of SideRecord.

        types: only records of these types (perfpy.abi.flags.RecordType); by
        default all but FINISHED_ROUND.
        """
        return self.data.side_band(types)

    def records(self) -> Iterator[Any]:
        """Everything in order of delivery: samples as Sample, other records as values of perfpy.abi.records and user_records."""
        others = iter(self.data.side_band())
        other = next(others, None)
        for batch in self.batches():
            for row, key in enumerate(batch.key.tolist()):
                while other is not None and other.key <= key:
                    yield other.record
                    other = next(others, None)
                fields = {name: column[row] for name, column in batch.columns.items()}
                yield Sample(self.events[batch.event[row]], fields)
        while other is not None:
            yield other.record
            other = next(others, None)

    def tracepoint(self, name: str) -> TracepointSamples:
        """The samples of the tracepoint event `name` ("sched:sched_switch"), its fields as columns (perfdata.trace_columns).

        Raises UsageError when the recording has no tracepoint of this name, or
        does not say what its fields are, or has not recorded them.
        """
        # numpy is loaded when samples are asked for, not by opening a file
        from perfpy.perfdata.tracepoint_columns import tracepoint_samples

        return TracepointSamples(*tracepoint_samples(self.data, name, self.batches()))

    @cached_property
    def timeline(self) -> TaskTimeline:
        """Commands and address spaces of all tasks over time; threads lose their names when they exit."""
        return self.make_timeline(keep_exited=False)

    def make_timeline(self, *, keep_exited: bool) -> TaskTimeline:
        """A new timeline; keep_exited: threads keep their names when they exit, as perf report has it."""
        from perfpy.abi.task_columns import TASK_TYPES
        from perfpy.symbols.tasks.address_space import TaskTimeline, kernel_name

        listed = self.data.features.get("build_id", ())
        build_ids = {entry.filename: entry.build_id.hex() for entry in listed}
        kernel = kernel_name((entry.misc, entry.filename) for entry in listed)
        types = TASK_TYPES - {RecordType.EXIT} if keep_exited else TASK_TYPES  # the ends of processes are then of no interest
        return TaskTimeline(self.data.side_band(types).tasks(), build_ids=build_ids, kernel_name=kernel, keep_exited=keep_exited)

    def symbolizer(self, options: SymbolOptions | None = None) -> Symbolizer:
        """A new Symbolizer for the recording's addresses; options: where to look for symbols."""
        return self.new_symbolizer(self.timeline, options)

    def new_symbolizer(self, timeline: TaskTimeline, options: SymbolOptions | None, shared: SharedFiles | None = None) -> Symbolizer:
        """A new Symbolizer, by a timeline of the recording; shared: files that were found for other recordings."""
        from perfpy.symbols.files.debug_files import Inline, SymbolOptions
        from perfpy.symbols.symbolizer import Symbolizer

        asked = (options or self.symbol_options or SymbolOptions())._replace(kernel_copy=self.data.kernel_copy)
        symbolizer = Symbolizer(timeline, asked, kept=self.data.kept_files, known=self._known, shared=shared)
        symbolizer.programs = self._bpf_code
        self._symbolizers.append(symbolizer)
        unwound = self._unwound or any(event.attr.sample_type & SampleType.STACK_USER for event in self.events)
        wanted = symbolizer.inline
        if wanted is not Inline.NONE and (unwound or wanted is not Inline.UNWOUND_AS_PERF):
            from perfpy.debuginfo.inlined_frames import give_inlined

            give_inlined(symbolizer, unwound=unwound)
        return symbolizer

    def _bpf_code(self) -> dict[str, tuple[bytes, int]]:
        """The code of BPF programs by their names, and the ELF machine that it is for."""
        from perfpy.perfdata.container.bpf_programs import bpf_functions
        from perfpy.symbols.files.elf import MACHINES

        machine = MACHINES.get(str(self.header.get("arch")), 0)
        programs, types, endian = self.header.get("bpf_prog_info", ()), self.header.get("bpf_btf", ()), self.data.endian
        return {one.name: (one.code, machine) for program in programs for one in bpf_functions(program, types, endian) if one.code}

    @cached_property
    def pmcu(self) -> PmcuTrace | None:
        """What a HiSilicon PMCU counted, as columns (to_dict(), batches()); None where none was recorded. Raises BadPerfData."""
        if not self.data.has_pmcu:
            return None
        # numpy is loaded for the records, not for the header
        from perfpy.auxtrace.recorded_pmcu import pmcu_trace

        trace = pmcu_trace(self.data)
        self.data.warnings += trace.notes if trace else []
        return trace

    def join_off_cpu(self) -> None:
        """From here on time on the CPU and off it (record --off-cpu) are one event, told apart by the sort key state.

        Raises PerfError where the recording has not both.
        """
        from perfpy.analysis.samples.wait_events import join_off_cpu

        join_off_cpu(self.data)
