"""Recording: what perfpy.open() returns. It joins the layers of the reading half: columns, reports, stacks, pages, annotated code.

The layers below do not know each other's users; the commands above use only this package.

Modules:

exported        read a recording from a folder of tables
page_parts      stacks, code, lines and reports of a page, in one pass
shared_symbols  timelines and symbols that several passes share
values          single samples, and samples of a tracepoint
"""

from __future__ import annotations

import os

from perfpy.abi.flags import PerfType, RecordType, SampleType
from perfpy.abi.light_types import NamedTuple, cached_property
from perfpy.errors import BadPerfDataError, PerfError, UsageError
from perfpy.perfdata.reader import PerfData, recordings_in

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Any, BinaryIO, Self

    from perfpy.abi.perf_records import TraceDetails
    from perfpy.abi.records import Mmap, Mmap2
    from perfpy.analysis.annotation import Annotation
    from perfpy.analysis.differences import RecordingChanges
    from perfpy.analysis.filters import RecordedTimes, SampleFilter
    from perfpy.analysis.named_samples import NamedSamples
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sort_key import MemoryWords
    from perfpy.analysis.source_files import SourceShares
    from perfpy.analysis.stacks import StackOptions, Stacks
    from perfpy.auxtrace.pmcu import PmcuTrace
    from perfpy.auxtrace.pt_code import CodeSources
    from perfpy.auxtrace.pt_samples import TakeCalls
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery import SideBand, Span
    from perfpy.perfdata.source import Origin
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.dso_symbols import KeptSymbols
    from perfpy.symbols.files.debug_files import SharedFiles, SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.views.parquet import Exported
    from perfpy.views.tracepoints.event_text import PayloadTexts

    Naming = tuple[TaskTimeline, Symbolizer]
    Key = tuple[bool, SymbolOptions]


_MOST_COMPILED = 256 << 20  # bytes of compiled code, after which no more dumps are read
SCRIPT_SAMPLES = "cbexwpoIftaMm"  #: of --itrace: what `script` makes of a hardware trace without it


class Recording:
    """An open perf.data file.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     print([event.name for event in recording.events], recording.header["hostname"])
    ...     time = recording.samples["time"]  # in ns
    ...     print(len(time), int(time[-1] - time[0]))
    ['cpu-clock:u'] here
    10 90
    """

    def __init__(
        self,
        origin: Origin,
        *,
        check_owner: bool = False,
        as_stored: bool = False,
        symbols: SymbolOptions | None = None,
        itrace: str | None = None,
        trace_details: TraceDetails | None = None,
    ) -> None:
        exported = recordings_in(origin)
        self.symbol_options = symbols  #: for methods without symbol options
        self._symbolizers: list[Symbolizer] = []
        self._file: BinaryIO | None = None  #: unnamed, of an exported or decoded recording
        self._symbols: KeptSymbols | None = None  #: of an exported recording
        self._unwound = False  #: whether its callchains were unwound from stack copies that are no longer there
        if exported:
            self.data = self._of_tables(exported)
        else:
            self.data = PerfData(origin, check_owner=check_owner, as_stored=as_stored)
            if itrace is not None and any(event.attr.type > PerfType.BREAKPOINT for event in self.data.events):
                self._decode_trace(itrace, trace_details)
            elif itrace not in (None, "", SCRIPT_SAMPLES):
                self._check_samples(itrace)
        self.shared_symbols = SharedSymbols()  #: a context in which reports, stacks and annotations share symbols, and so cost less
        self.sample_filter: SampleFilter | None = None  #: of where()

    def _of_tables(self, exported: list[str]) -> PerfData:
        """Open an exported recording, whose records stand in order of delivery."""
        from perfpy.views.parquet import ExportedSymbols, open_exported  # needs pyarrow

        if len(exported) > 1:
            raise BadPerfDataError(os.path.dirname(exported[0]), f"{len(exported)} recordings", remedy=f"name one of them: {exported[0]}")
        self._file, self._unwound = open_exported(exported[0])
        self._symbols = ExportedSymbols(exported[0])
        data = PerfData(self._file, as_stored=True)
        data.path = exported[0]
        return data

    def _check_samples(self, itrace: str) -> None:
        """Close the recording and raise UsageError if there are no such samples of a hardware trace."""
        from perfpy.auxtrace.itrace import parse_itrace

        try:
            parse_itrace(itrace)
        except UsageError:
            self.data.close()
            raise

    def _decode_trace(self, itrace: str, details: TraceDetails | None) -> None:
        """Replace the hardware trace by samples, if there is one that perfpy decodes; itrace: the kinds of samples, "" for perf's."""
        from perfpy.abi.perf_records import NO_DETAILS
        from perfpy.auxtrace.decoded import decoded_recording, needs_decoding, refuse_other_traces
        from perfpy.auxtrace.itrace import MEMORY_LETTERS, parse_itrace

        source = self.data
        source.decodes_traces = True
        details = details or NO_DETAILS
        try:
            wanted = parse_itrace(itrace)
            if itrace not in ("", SCRIPT_SAMPLES) and not wanted.letters <= MEMORY_LETTERS:
                refuse_other_traces(source)
            if not needs_decoding(source):
                return
            self._file = decoded_recording(source, wanted._replace(details=details), self._code_sources())
            self.data = PerfData(self._file, as_stored=True)
        except BaseException:
            source.close()
            raise
        self.data.path, self.data.kernel_copy, self.data.keeps_exited = source.path, source.kernel_copy, source.keeps_exited
        self.data.has_branch_flags, self.data.has_ipc = details.branch_flags, details.ipc
        self.data.warnings += source.warnings
        source.close()

    def follow_calls(self, take: TakeCalls) -> None:
        """Decode the calls and returns in the recording's Intel PT trace; give them to `take` until it refuses more."""
        from perfpy.auxtrace.decoded import follow_calls

        follow_calls(self.data, self._code_sources(), take)

    def _code_sources(self) -> CodeSources:
        """Return where the code of traces is found."""
        from perfpy.auxtrace.pt_code import CodeSources
        from perfpy.disassembly.function_code import kernel_bytes
        from perfpy.symbols.dso import user_kind
        from perfpy.symbols.jit_images import mapped_images
        from perfpy.symbols.jitdump import RecordedClock, is_dump, on_clock, read_dump

        timeline = self.make_timeline(keep_exited=True)
        symbolizer = self.new_symbolizer(timeline, None)

        images: dict[str, bytes] = {}

        def find(name: str, build_id: str) -> memoryview | None:
            if name in images:
                return memoryview(images[name])
            files = symbolizer.files(timeline.dso_table.id_of(name, user_kind(name), build_id))
            file = files.runtime or (None if build_id else files.original)  # a file without symbols has code, too
            return None if file is None else memoryview(file.content)

        data = self.data

        def find_compiled(mapping: Mmap | Mmap2, time: int, conversion: tuple[int, int, int]) -> list[tuple[int, Mmap2]]:
            if not is_dump(mapping.filename) or sum(map(len, images.values())) > _MOST_COMPILED:
                return []
            try:
                clock = RecordedClock.of(data.events[0].attr, conversion)
                found = mapped_images(mapping, on_clock(read_dump(mapping), mapping.filename, clock, time), data.events[0].ids)
            except (PerfError, OSError) as error:
                data.warnings.append(str(error))
                return []
            images.update(found.images)
            return found.mappings

        return CodeSources(find, lambda address, size: kernel_bytes(symbolizer, address, size), find_compiled, images)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays and records already returned stay valid."""
        self.data.close()
        if self._file is not None:
            self._file.close()

    @property
    def path(self) -> str:
        """The file, as messages name it."""
        return self.data.path

    @property
    def events(self) -> list[FileEvent]:
        """The recorded events, with their attrs and names."""
        return self.data.events

    @property
    def header(self) -> Mapping[str, Any]:
        """The recorder's data about the machine and itself: "hostname", "cmdline" ... (perfpy.perfdata.header)."""
        return self.data.features

    @property
    def title(self) -> str:
        """The recorder's command line without the folder of its program, or else the path."""
        program, *arguments = self._command_words
        return " ".join([program.rpartition("/")[2], *arguments]) or self.path

    @property
    def command_line(self) -> str:
        """The recorder's command line, or else the path."""
        return " ".join(self._command_words) or self.path

    @property
    def _command_words(self) -> list[str]:
        command = self.header.get("cmdline")
        return [*map(str, command)] if isinstance(command, (tuple, list)) and command else str(command or "").split(" ")

    @property
    def environment(self) -> list[str]:
        """Host, kernel, architecture and duration, as short phrases."""
        phrases = [str(self.header[name]) for name in ("hostname", "osrelease", "arch") if self.header.get(name)]
        span = self.header.get("sample_time")
        if span is not None and span.last > span.first:
            phrases.append(f"{(span.last - span.first) / 1e9:.3g} s")
        return phrases

    @property
    def warnings(self) -> list[str]:
        """One line for each part of the file that was skipped; grows while the file is read and symbols are resolved."""
        files = (str(file) for symbolizer in self._symbolizers for file in symbolizer.unusable())
        return [*self.data.warnings, *(file for file in dict.fromkeys(files) if file not in self.data.warnings)]

    def times(self) -> RecordedTimes:
        """Return the times of the first and the last sample, in ns, from the header or else from the samples."""
        from perfpy.analysis.filters import RecordedTimes

        return RecordedTimes(self.path, *self.data.sample_times)

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """Return the samples of one span (perfpy.perfdata.records.delivery), like batches(); None if it is empty."""
        from perfpy.perfdata.records.batches import Batch  # numpy is loaded when samples are asked for

        batch = self.data.batch_of(span, fields, more)
        if batch is None:
            return None
        return Batch(batch.columns, batch.event, self.data.settled_keys(batch), batch.offset)

    def unwinding(self, symbols: SymbolOptions | None = None, *, max_stack: int = 127) -> UserCallchains | None:
        """Return the unwinder of copied stacks, for batches(); None if the recording has no copies.

        The "callchain" column then continues, after the kernel's part and a marker (PERF_CONTEXT_USER), with the user's frames,
        innermost first: `recording.batches(["callchain"], recording.unwinding())`.

        symbols: where to look for files; max_stack: limit of each part.
        """
        from perfpy.analysis.callchains import user_callchains

        return user_callchains(self.data, self.symbolizer(symbols), max_stack)

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the records other than samples, in order of delivery: an iterable of SideRecord.

        types: only records of these types (perfpy.abi.flags.RecordType); by default all but FINISHED_ROUND.
        """
        return self.data.side_band(types)

    def records(self) -> Iterator[Any]:
        """Yield everything in order of delivery: samples as Sample, other records as values of perfpy.abi.records and user_records."""
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
        """Return the samples of a tracepoint event ("sched:sched_switch"), its fields as columns.

        Raises UsageError if the recording has no tracepoint of this name, no format of its fields, or no raw data.
        """
        # loaded here because opening a file needs no numpy
        from perfpy.perfdata.tracepoint_rows import tracepoint_samples

        return TracepointSamples(*tracepoint_samples(self.data, name, self.batches()))

    @cached_property
    def timeline(self) -> TaskTimeline:
        """The commands and address spaces of all tasks over time; threads lose their names when they exit."""
        return self.make_timeline(keep_exited=False)

    def make_timeline(self, *, keep_exited: bool, has_spaces: bool = True, comms: list[str] | None = None) -> TaskTimeline:
        """Return a new timeline of the known side-band.

        Args:
            keep_exited: threads keep their names when they exit.
            has_spaces: False for names only, made sooner.
            comms: of an earlier timeline, whose indexes stay valid.
        """
        from perfpy.abi.task_columns import NAMING_TYPES, TASK_TYPES
        from perfpy.symbols.address_spaces import TaskTimeline, kernel_name
        from perfpy.symbols.dso import DsoTable, is_guest_map

        keep_exited = keep_exited or self.data.keeps_exited
        listed = self.data.features.get("build_id", ())
        kernel = kernel_name((entry.misc, entry.filename) for entry in listed)
        types = (TASK_TYPES if has_spaces else NAMING_TYPES) - ({RecordType.EXIT} if keep_exited else set())
        build_ids = {entry.filename: entry.build_id.hex() for entry in listed}
        dso_table = DsoTable(build_ids, by_identity=self.data.ended_here > 0, has_vdso32=self.header.get("arch") == "x86_64")
        guests = {entry.pid for entry in listed if entry.pid > 0 and is_guest_map(entry.misc)}
        records = self.data.side_band(types).tasks()
        return TaskTimeline(records, dso_table=dso_table, kernel_name=kernel, keep_exited=keep_exited, guests=guests, comms=comms)

    def symbolizer(self, options: SymbolOptions | None = None) -> Symbolizer:
        """Return a new Symbolizer for the recording's addresses; options: where to look for symbols."""
        return self.new_symbolizer(self.timeline, options)

    def new_symbolizer(self, timeline: TaskTimeline, options: SymbolOptions | None, shared: SharedFiles | None = None) -> Symbolizer:
        """Return a new Symbolizer for a timeline of the recording; shared: files found for other recordings."""
        from perfpy.symbols.files.debug_files import Inline, SymbolOptions
        from perfpy.symbols.symbolizer import Symbolizer

        chosen = (options or self.symbol_options or SymbolOptions())._replace(kernel_copy=self.data.kernel_copy, ended=self.data.ended_here)
        if chosen.fold_interpreters is None:
            from perfpy.symbols.dso import has_python_image

            chosen = chosen._replace(fold_interpreters=has_python_image(self.data.kept_files))
        symbolizer = Symbolizer(timeline, chosen, files=self.data.kept_files, symbols=self._symbols, shared=shared)
        symbolizer.programs = self._bpf_code
        self._symbolizers.append(symbolizer)
        unwound = self._unwound or any(event.attr.sample_type & SampleType.STACK_USER for event in self.events)
        if (inline := symbolizer.inline) is not Inline.NONE and (unwound or inline is not Inline.UNWOUND_AS_PERF):
            from perfpy.debuginfo.inlined_frames import give_inlined

            give_inlined(symbolizer, unwound=unwound)
        return symbolizer

    def naming(self, symbols: SymbolOptions | None = None, *, keep_exited: bool = True) -> tuple[TaskTimeline, Symbolizer]:
        """Return a timeline and a symbolizer for a pass over the samples, perhaps those of an earlier pass."""
        from perfpy.symbols.files.debug_files import SymbolOptions

        options = symbols or self.symbol_options or SymbolOptions()

        def make() -> tuple[TaskTimeline, Symbolizer]:
            timeline = self.make_timeline(keep_exited=keep_exited)
            return timeline, self.new_symbolizer(timeline, options)

        return self.shared_symbols.naming((keep_exited, options), make)

    def _bpf_code(self) -> dict[str, tuple[bytes, int]]:
        """Return the code of BPF programs by name, and its ELF machine."""
        from perfpy.perfdata.bpf_programs import bpf_functions
        from perfpy.symbols.files.elf import MACHINES

        machine = MACHINES.get(str(self.header.get("arch")), 0)
        programs, types, endian = self.header.get("bpf_prog_info", ()), self.header.get("bpf_btf", ()), self.data.endian
        return {one.name: (one.code, machine) for program in programs for one in bpf_functions(program, types, endian) if one.code}

    @cached_property
    def pmcu(self) -> PmcuTrace | None:
        """The counts of a HiSilicon PMCU as columns (to_dict(), batches()); None without. Raises BadPerfDataError."""
        if not self.data.has_pmcu:
            return None
        # loaded here because headers need no numpy
        from perfpy.auxtrace.pmcu import pmcu_trace

        trace = pmcu_trace(self.data)
        self.data.warnings += trace.notes if trace else []
        return trace

    def merge_off_cpu(self) -> None:
        """Merge time on the CPU and off it (record --off-cpu) into one event from now on; the sort key state separates them.

        Raises PerfError if the recording does not have both.
        """
        from perfpy.analysis.sample_view import merge_off_cpu

        merge_off_cpu(self.data)

    @cached_property
    def samples(self) -> NamedSamples:
        """All samples as columns, names included: recording.samples["ip"], recording.samples["symbol"]."""
        # loaded here because opening a file needs no numpy
        from perfpy.analysis.named_samples import NamedSamples, Naming

        return NamedSamples(self.data, self.sample_filter, lambda: Naming(self.timeline, self._naming_symbolizer))

    @cached_property
    def _naming_symbolizer(self) -> Symbolizer:
        return self.symbolizer()

    def where(
        self,
        *,
        pid: int | Iterable[int] | None = None,
        tid: int | Iterable[int] | None = None,
        comm: str | Iterable[str] | None = None,
        dso: str | Iterable[str] | None = None,
        symbol: str | Iterable[str] | None = None,
        cpu: int | Iterable[int] | None = None,
        event: str | Iterable[str] | None = None,
        time: str | tuple[float | str | None, float | str | None] | None = None,
    ) -> Recording:
        """Return the same recording, restricted to some samples: for its samples, batches, report, stacks and flamegraph.

        All given conditions must hold; each takes one value or several. The side-band stays whole;
        the file is shared, and closed with this recording. Raises TypeError, ValueError, UsageError.

        Args:
            dso, symbol: of the sampled address.
            event: by its name, with or without modifiers.
            time: from and to, in seconds from the first sample or as texts ("1.5s", "200ms", "10%"), None for an open end;
                or a text as --time takes it.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     part = recording.where(comm="busy", time=(None, "50%"))
        ...     len(part.samples["ip"]), len(recording.samples["ip"])
        (5, 10)
        """
        from perfpy.analysis.filters import both, conditions

        sets = {"pid": pid, "tid": tid, "cpu": cpu, "comm": comm, "dso": dso, "symbol": symbol}
        sample_filter = conditions(self.events, self.times, event=event, time=time, **sets)
        return self.narrowed(sample_filter if self.sample_filter is None else both(self.sample_filter, sample_filter))

    def narrowed(self, sample_filter: SampleFilter, symbols: SymbolOptions | None = None) -> Recording:
        """Return the same recording with this filter in place of where()'s; symbols: where to look for symbols, if given."""
        from copy import copy

        part = copy(self)
        for name in ("samples", "_naming_symbolizer"):
            part.__dict__.pop(name, None)
        part.sample_filter = None if sample_filter.is_open and sample_filter.switch is None else sample_filter
        part.symbol_options = symbols or self.symbol_options
        return part

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield the samples in order of delivery, some thousands at a time, as columns.

        Memory stays bounded however large the file is. A batch has `columns` (as Samples), `event` (indexes into
        Recording.events), `key` (the ordinal in the order of delivery) and `offset` (in the file, in bytes), one row a sample.

        Args:
            fields: names of columns; unknown ones are skipped. None for all.
            more: computes further columns (see unwinding()).
        """
        if self.sample_filter is not None:
            yield from self.samples.batches(fields, more)
            return
        # loaded here because opening a file needs no numpy
        from perfpy.perfdata.records.batches import Batch

        for batch in self.data.batches(fields, more):
            yield Batch(batch.columns, batch.event, self.data.settled_keys(batch), batch.offset)

    def report(
        self,
        by: str | Sequence[str] | None = None,
        *,
        callers: bool = False,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        progress: Callable[[float], None] | None = None,
        jobs: int = 1,
    ) -> Report:
        """Return a histogram of the samples, for each event.

        The report is a sequence of rows, with to_pandas(), to_arrow() and to_dict(), and displays in notebooks. Raises UsageError.

        by: sort keys such as "comm", "dso", "symbol", "pid", "cpu", or a text with commas (default: "comm,dso,symbol");
        callers: count callers, too, and keep call trees; options: all options of perf report, instead of by and callers;
        progress: called with the share read, 0 to 1; jobs: processes for large files (0: one per CPU).

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     for row in recording.report(by=["comm"]):
        ...         print(f"{row.percent:6.2f}%", row.texts["comm"], row.samples)
        100.00% busy 10
        """
        from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
        from perfpy.analysis.report.report import make_report

        if options is not None and (by or callers):
            raise UsageError("report(options=...) replaces by and callers; drop them")
        if options is None:
            columns = ColumnOptions(sort=(by if isinstance(by, str) else ",".join(by)) if by else None)
            graph = CallGraph(order="caller") if callers else None
            options = ReportOptions(chains=ChainOptions(call_graph=graph, children=callers), columns=columns)
        options = options._replace(sample_filter=self.within(options.sample_filter))
        timeline, symbolizer = self.naming(symbols, keep_exited=options.names.keep_exited)
        report = make_report(self.data, timeline, symbolizer, options, self.payloads(symbolizer), _memory_words(options), progress, jobs)
        report.display = _Display()
        return report

    def changes(
        self, after: Recording, by: str | Sequence[str] = "dso,symbol", *, symbols: SymbolOptions | None = None
    ) -> list[RecordingChanges]:
        """Compare with another recording; return the changes: see perfpy.diff."""
        from perfpy.analysis.differences import names_for_both, recording_changes

        commands = [{row.texts["comm"]: row.period for row in one.report(by="comm", symbols=symbols)} for one in (self, after)]
        reports = [one.report(by=by, symbols=symbols) for one in (self, after)]
        return recording_changes(reports[0], reports[1], names_for_both(commands[0], commands[1]))

    def annotate(
        self,
        function: str | None = None,
        *,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Annotation:
        """Return the code of functions, with the samples of each instruction. Needs objdump, or the package capstone.

        function: only the one of this name; options: the samples that count (its columns are ignored), instead of function.

            for code in recording.annotate("main").functions():
                for line in code.rows():
                    print(line.percent, line.address, line.text, line.source)
        """
        from perfpy.analysis.annotation import BY_FUNCTION, Annotation
        from perfpy.analysis.filters import SampleFilter
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.analysis.report.report import make_report

        report_options = options or ReportOptions(sample_filter=SampleFilter(symbols=(function,) if function else None))
        report_options = report_options.by_address(BY_FUNCTION)._replace(sample_filter=self.within(report_options.sample_filter))
        from perfpy.symbols.dso import has_python_image
        from perfpy.symbols.files.debug_files import SymbolOptions

        where = symbols or self.symbol_options or SymbolOptions()
        if where.fold_interpreters is None and has_python_image(self.data.kept_files):
            where = where._replace(fold_interpreters=False)  # An interpreted function has no instructions of its own.
        timeline, symbolizer = self.naming(where, keep_exited=report_options.names.keep_exited)
        return Annotation(make_report(self.data, timeline, symbolizer, report_options, progress=progress), symbolizer, timeline)

    def source_files(self, *, sample_filter: SampleFilter | None = None, symbols: SymbolOptions | None = None) -> list[SourceShares]:
        """Return the samples of each line of source files, for each event.

        for file in recording.source_files()[0].files:
            for line in file.lines:
                print(f"{file.path}:{line.line} {line.percent:.2f} % {line.with_inlined:.2f} %")
        """
        from perfpy.analysis.filters import SampleFilter
        from perfpy.analysis.source_files import source_scan, source_shares

        timeline, symbolizer = self.naming(symbols)
        chosen = self.within(sample_filter or SampleFilter())
        lines = source_scan(self.data, timeline, symbolizer, chosen).profile()
        return source_shares(self.data, symbolizer, chosen, lines.folded, lines.chains)

    def stacks(self, symbols: SymbolOptions | None = None, options: StackOptions | None = None) -> list[Stacks]:
        """Return the whole stacks of each event, for flame graphs and exports."""
        from perfpy.analysis.stacks import StackOptions, make_stacks

        options = options or StackOptions()
        timeline, symbolizer = self.naming(symbols)
        return make_stacks(self.data, timeline, symbolizer, options._replace(sample_filter=self.within(options.sample_filter)))

    def page(
        self,
        stacks: Sequence[Stacks] | None = None,
        *,
        sample_filter: SampleFilter | None = None,
        symbols: SymbolOptions | None = None,
        code: bool = True,
    ) -> str:
        """Return the profile as a page: one self-contained HTML file for any browser.

        stacks: shown in the page (default: all, with their times); code: include the code of the hottest functions (from objdump),
        and lines of source files.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     page = recording.where(comm="busy").page(code=False)
        >>> page[:15]
        '<!doctype html>'
        """
        from perfpy.views.page.page import page_of, page_parts

        return page_of(self, page_parts(self, sample_filter, symbols, stacks=stacks, code=code), symbols, sample_filter, code=code)

    def page_of_changes(
        self,
        after: Recording,
        stacks: Sequence[Sequence[Stacks]] | None = None,
        *,
        symbols: SymbolOptions | None = None,
        sample_filters: Sequence[SampleFilter] | None = None,
    ) -> str:
        """Return the page of the changes from this recording to another one.

        Args:
            after: the other recording.
            stacks: of both, comparable (perfpy.analysis.stacks); None for those of all samples.
            symbols: the sources of symbols.
            sample_filters: of the given stacks of both.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as before, perfpy.open("perf.data") as after:
        ...     page = before.page_of_changes(after)
        """
        from perfpy.views.page.page import changes_page

        return changes_page(self, after, stacks, symbols, sample_filters)

    def flamegraph(self, path: str | PathLike[str], *, after: Recording | None = None, symbols: SymbolOptions | None = None) -> None:
        """Write the profile as a page with flame graph, time line and tables: one self-contained HTML file for any browser.

        No program is run for it; page() includes code. Raises OutputFailedError.

        after: a second recording; the page then shows the changes from this one to that.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     recording.flamegraph("flame.html")
        """
        page = self.page(symbols=symbols, code=False) if after is None else self.page_of_changes(after, symbols=symbols)
        from perfpy.untrusted.destinations import write_whole  # not needed to read

        write_whole(os.fspath(path), page.encode(errors="replace"))

    def to_parquet(self, folder: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> Exported:
        """Add this recording to the tables in a folder (perfpy.views.parquet lists them), for DuckDB, Polars, Spark. Needs pyarrow.

        A recording that the folder has already is replaced. perfpy.open() reads it back. Returns its key in the tables, and the numbers of
        samples and bytes written. Raises PerfError, OutputFailedError.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     recording.to_parquet("tables").samples
        10
        """
        from perfpy.views.parquet import export

        return export(self, os.fspath(folder), symbols)

    def within(self, sample_filter: SampleFilter) -> SampleFilter:
        """Combine a filter with that of where()."""
        return sample_filter if self.sample_filter is None else sample_filter._replace(within=self.sample_filter)

    def payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """Return the texts of tracepoint data, with functions named by a symbolizer; None if the recording has no tracepoints."""
        if self.data.tracing is None:
            return None
        from perfpy.views.tracepoints.event_text import PayloadTexts

        return PayloadTexts(self.data.tracing, symbolizer)


class _Display:
    """The texts of reports, loaded when one is shown."""

    def report_text(self, report: Report, /) -> str:
        from perfpy.views.report.notebook import report_text

        return report_text(report)

    def report_html(self, report: Report, /) -> str:
        from perfpy.views.report.notebook import report_html

        return report_html(report)


def _memory_words(options: ReportOptions) -> MemoryWords | None:
    """Return the function that formats data_src; None if a report does not show it."""
    from perfpy.analysis.sort_key import Mode

    if options.columns.mode is not Mode.MEMORY:
        return None
    from perfpy.views.script import field_text

    return field_text


__all__ = ["Recording", "Sample", "TracepointSamples"]


# Values that a Recording returns: single samples, and the samples of a tracepoint.


class Sample(NamedTuple):
    """One sample: its event, and field name -> number (or array, for callchain, raw and the like)."""

    event: FileEvent
    fields: Mapping[str, Any]


class TracepointSamples(NamedTuple):
    """All samples of one tracepoint.

    Attributes:
        samples: the usual columns ("time", "tid", "cpu" ...).
        fields: a column for each field of the tracepoint, common fields included.
    """

    samples: Mapping[str, Any]
    fields: Mapping[str, Any]


# Timelines and symbols that several passes over one recording share, for as long as a context lasts.


class SharedSymbols:
    """A context in which equal requests get one timeline and symbolizer. Outside of it each request gets new ones."""

    def __init__(self) -> None:
        self._depth = 0
        self._namings: list[tuple[Key, Naming]] = []

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._namings = []

    def naming(self, key: Key, make: Callable[[], Naming]) -> Naming:
        """Return the timeline and the symbolizer of a key: whether exited threads keep their names, and where to look for symbols."""
        for other, naming in self._namings:
            if other == key:
                return naming
        naming = make()
        if self._depth:
            self._namings.append((key, naming))
        return naming
