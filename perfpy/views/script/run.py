"""One `perf script` over a recording: its options, and everything that the lines need from the recording.

The text goes to a binary stream, or with --per-event-dump to a file for each event.
"""

from __future__ import annotations

import os

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import MISC_KERNEL, RecordType, SampleType, names_of
from perfpy.abi.light_types import TYPE_CHECKING, Generic, NamedTuple, TypeVar, dataclass, field
from perfpy.analysis.filters import SampleFilter
from perfpy.perfdata.records.batches import carries_readings, split_readings
from perfpy.symbols.dso import is_kernel_map, is_kernel_name
from perfpy.untrusted.destinations import FileDestination, whole_file
from perfpy.untrusted.text import one_line
from perfpy.views.script.fields import DEPENDENT_FIELDS, OutputFields, kind_of
from perfpy.workers import ForkedWorkers, OrderedWriters, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO, Final

    from numpy.typing import NDArray

    from perfpy.analysis.filters import EventSwitch, TimeRanges
    from perfpy.analysis.locations import SourceTexts
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery import Span
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import FrameOrigins, Symbolizer
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.code import LineContext, SourceCode
    from perfpy.views.script.lines import DumpLines, ScriptLines
    from perfpy.views.tracepoints.event_text import TraceSource


_SECOND: Final = 1_000_000_000
_KERNEL_HALF: Final = 1 << 63
_TWO_SPACES: Final = ("s390", "sparc")  # kernel and processes share addresses there


@dataclass(eq=False, repr=False)
class ScriptOptions:
    """What to print.

    Attributes:
        fields: the -F options, before they are fitted to a recording
        shown: kinds of side-band records (perfpy.views.script.lines.SHOWN)
        time: the text of --time
        switch_on, switch_off: event names
    """

    fields: OutputFields = field(default_factory=OutputFields)
    side_band_types: frozenset[str] = frozenset()
    callchains: bool = True
    max_stack: int = 127
    max_blocks: int = 0
    callers_first: bool = False
    stop_at: frozenset[str] = frozenset()
    kernel_path: bool = False
    ns: bool = False
    pads_dso: bool = False
    latency: bool = False
    verbose: bool = False
    reltime: bool = False
    deltatime: bool = False
    time: str = ""
    sample_filter: SampleFilter = field(default_factory=SampleFilter)
    switch_on: str = ""
    switch_off: str = ""
    show_switches: bool = False
    jobs: int = 1
    full_source_path: bool = False
    symbols: SymbolOptions | None = None


def _source_code(sources: SourceTexts) -> SourceCode:
    from perfpy.views.script.code import SourceCode

    return SourceCode(sources)


class ScriptRun:
    """The listing of a recording."""

    def __init__(self, recording: Recorded, options: ScriptOptions) -> None:
        """Set recording and options. Raises UsageError if they do not fit."""
        self._recording = recording
        self._options = options
        features = recording.header
        self._use_callchain = options.fields.settle(
            recording.events,
            is_pipe=recording.data.is_pipe,
            has_stat="stat" in features,
            has_aux=recording.data.keeps_exited,
            use_callchain=options.callchains,
            has_clock="clock_data" in features,
        )
        self._symbolizer = recording.symbolizer(options.symbols)
        self._unwound: UserCallchains | None = None

    def write(self, out: BinaryIO, *, samples: bool = True) -> int:
        """Write all lines, and return the number of samples; with `samples=False` only side-band lines."""
        lines = self._lines(self.sample_filter())
        columns, side = lines.columns(), self._side_lines(lines.context)
        if not samples:
            return lines.write((), side, out)
        unwound = self._unwinding(columns, apart=self._may_unwind_apart(lines.sample_filter))
        divided = DividedListing(self._recording, self._symbolizer, columns, unwound)
        jobs = divided.jobs(self._options.jobs) if self._may_be_divided(lines, side) else 1
        if jobs == 1:
            return lines.write(self._batches(columns, unwound), side, out)
        if self._symbolizer.inliner is not None:  # it names inlined calls after those before them
            return lines.write(divided.batches(jobs), side, out)
        return self._write_divided(divided, lines, out, jobs)

    def _write_divided(self, divided: DividedListing, lines: ScriptLines, out: BinaryIO, jobs: int) -> int:
        """Write all lines, which several processes format, and write where possible."""
        from perfpy.views.script.lines import write_texts

        makers = lines.makers()

        def written(chunk: tuple[int, list[bytes]]) -> int:
            write_texts(chunk[1], out)
            out.flush()
            return chunk[0]

        def make(batch: Batch) -> tuple[int, list[bytes]]:
            return lines.make_lines(batch, makers)

        out.flush()
        if _is_shared(out):
            return sum(divided.outputs(make, written, jobs))
        return sum(map(written, divided.results(make, jobs)))

    def _may_be_divided(self, lines: ScriptLines, side: Iterable[Any]) -> bool:
        """Whether no line depends on the lines before it."""
        fields = set[str]().union(*(self._options.fields.sets[kind_of(event)].fields for event in self._recording.events))
        return side == () and lines.relative is None and lines.sample_filter.switch is None and not fields & DEPENDENT_FIELDS

    def _may_unwind_apart(self, sample_filter: SampleFilter) -> bool:
        """Whether only the lines need callchains."""
        has_callstacks = self._recording.data.has(SampleType.BRANCH_STACK)
        folds = self._options.symbols is not None and self._options.symbols.fold_interpreters
        return "callchain" not in sample_filter.all_fields() and not has_callstacks and not folds

    def parts(self, columns: set[str]) -> Iterator[Batch]:
        """Yield the samples that would be printed, with these columns, some thousands at a time."""
        lines = self._lines(self.sample_filter())
        columns = columns | lines.columns()
        return lines.chosen_parts(self._batches(columns, self._unwinding(columns)))

    def context(self) -> LineContext:
        """The state that the lines of all events share."""
        return self._context()

    @property
    def truncated_stacks(self) -> list[TruncatedStacks]:
        """Return the truncated stacks so far."""
        return self._unwound.truncated_stacks if self._unwound else []

    def dump_lines(self, *, samples: bool = True, owners: bool = True) -> tuple[DumpLines, str]:
        """Return script's lines for a dump of every record, and the dump's text for rounds.

        Args:
            samples: whether samples have lines
            owners: whether they have lines of their thread and dso, too
        """
        from perfpy.views.script.lines import NO_EVENT, DumpLines

        lines = self._lines(self.sample_filter())
        lines.only = None if samples else NO_EVENT
        columns = lines.columns()
        each = lines.each(self._batches(columns, self._unwinding(columns)), self._side_lines(lines.context))
        if not owners:
            each = ((record, None if record is None else text) for record, text in each)
        # perf ignores rounds if it does not sort records
        rounds = ": unhandled!\n" if self._recording.data.as_stored else "\n"
        types = self._shown_types() | {int(RecordType.STAT_ROUND), int(RecordType.AUXTRACE_ERROR)}
        return DumpLines(each, types), rounds

    def _shown_types(self) -> frozenset[int]:
        from perfpy.views.script.lines import SHOWN

        return frozenset(int(kind) for name in self._options.side_band_types for kind in SHOWN[name])

    def misordered_samples(self) -> Iterator[tuple[int, int]]:
        """Yield (time before, its own time) of each sample that is delivered after a later one."""
        import numpy as np

        last = np.uint64(0)
        for batch in self._recording.batches(["time"]):
            times = batch.columns.get("time", ())
            if not len(times):
                continue  # samples without times have no order
            before = np.concatenate([[last], times[:-1]])
            for row in np.flatnonzero(times < before).tolist():
                yield int(before[row]), int(times[row])
            last = times[-1]

    def write_each(self, name: Callable[[str], str], out: BinaryIO | None, *, samples: bool = True) -> Iterator[tuple[str, int]]:
        """Write each event's lines to its own file, and yield (path, samples printed).

        Args:
            name: returns the path for an event's name
            out: where records are written, None for a dump that has them
            samples: whether to write samples; else the files are empty
        """
        from perfpy.views.script.lines import NO_EVENT

        if out is not None and self._options.side_band_types:
            self._write_only(NO_EVENT, out)
        for event in self._recording.events:
            path, printed = name(event.name), 0
            with FileDestination(path) as destination, whole_file(destination) as file:
                if samples:
                    printed = self._write_only(event.index, file)
            yield path, printed

    def _write_only(self, event: int, out: BinaryIO) -> int:
        """Write the samples of one event, or the records; return the number of samples."""
        lines = self._lines(self.sample_filter())
        lines.only = event
        columns, side = lines.columns(), self._side_lines(lines.context)
        return lines.write(self._batches(columns, self._unwinding(columns)), side, out)

    def sample_filter(self) -> SampleFilter:
        """Return the filter of printed samples."""
        options = self._options
        return options.sample_filter._replace(times=self._times() if options.time else options.sample_filter.times, switch=self._switch())

    def _times(self) -> TimeRanges:
        from perfpy.analysis.filters import ranges_of

        return ranges_of(self._options.time, self._recording.times(), relative=self._options.reltime)

    def _lines(self, sample_filter: SampleFilter) -> ScriptLines:
        from perfpy.views.script.field_text import RelativeTimes
        from perfpy.views.script.lines import ScriptLines

        options = self._options
        relative = RelativeTimes(delta=options.deltatime) if options.reltime or options.deltatime else None
        events = self._recording.events
        return ScriptLines(events, options.fields, self._context(), sample_filter, self._tracepoints(), relative)

    def _context(self) -> LineContext:
        from perfpy.views.script.code import BranchCounters, LineContext

        recording, options = self._recording, self._options
        sources = self._sources()
        return LineContext(
            recording.timeline,
            self._symbolizer,
            arch=recording.header.get("arch") or os.uname().machine,
            kernel_start=self._kernel_start(),
            name_width=max((len(event.name.encode("utf-8", "surrogateescape")) for event in recording.events), default=0),
            ns=options.ns,
            latency=options.latency,
            use_callchain=self._use_callchain,
            max_stack=options.max_stack,
            callers_first=options.callers_first,
            kernel_path=options.kernel_path,
            flags=options.fields.flags,
            has_branch_flags=recording.data.has_branch_flags,
            has_ipc=recording.data.has_ipc,
            pads_dso=options.pads_dso,
            cgroups={side.record.id: side.record.path for side in recording.side_band([RecordType.CGROUP])},
            clock=_clock(recording.header.get("clock_data"), ns=options.ns),
            stop_at=options.stop_at,
            sources=sources,
            counters=BranchCounters.of(recording.header, recording.events, by_name=options.verbose),
            max_blocks=options.max_blocks,
            source_code=_source_code(sources) if sources else None,
        )

    def _sources(self) -> SourceTexts | None:
        """Return the formatter of source lines if a field needs it."""
        if not any({"srcline", "srccode"} & one.fields for one in self._options.fields.sets.values()):
            return None
        from perfpy.analysis.locations import SourceTexts

        return SourceTexts(self._symbolizer, full_paths=self._options.full_source_path, as_addr2line=True)

    def _kernel_start(self) -> int | None:
        """Return the start of kernel addresses: half of the space, or the kernel's own start; None if it has its own space."""
        arch = self._recording.header.get("arch", "x86_64")
        if arch == "x86_64":
            return _KERNEL_HALF
        if arch.startswith(_TWO_SPACES):
            return None
        for side in self._recording.side_band([RecordType.MMAP, RecordType.MMAP2]):
            record = side.record
            if is_kernel_map(record.misc) and is_kernel_name(record.filename):
                return record.addr or _KERNEL_HALF
        return _KERNEL_HALF

    def _batches(self, columns: set[str], unwound: UserCallchains | None) -> Iterable[Batch]:
        events = self._recording.events
        if any(carries_readings(event) for event in events):
            columns = columns | {"read", "period"}
        batches = split_readings(self._recording.batches(columns, unwound), events)
        if not any("metric" in one.fields for one in self._options.fields.sets.values()):
            return batches
        from perfpy.views.script.field_text import with_metrics

        return with_metrics(batches, events)

    def _unwinding(self, columns: set[str], *, apart: bool = False) -> UserCallchains | None:
        """Return the unwinder of copied stacks if callchains are printed; `apart`: see UserCallchains."""
        data = self._recording.data
        if not self._use_callchain or "callchain" not in columns or not data.has(SampleType.STACK_USER):
            return None
        from perfpy.analysis.callchains import user_callchains  # most recordings have no stack copies

        self._unwound = user_callchains(data, self._symbolizer, self._options.max_stack, apart=apart)
        return self._unwound

    def _tracepoints(self) -> TraceSource | None:
        tracing = self._recording.data.tracing
        if tracing is None:
            return None
        from perfpy.views.tracepoints.event_text import TraceSource
        from perfpy.views.tracepoints.values import Runtime

        runtime = Runtime(tracing.endian, tracing.long_size, self._kernel_function, tracing.printk_formats, tracing.warn)
        return TraceSource(tracing.formats, runtime)

    def _kernel_function(self, address: int) -> tuple[str, int] | None:
        """Return the kernel function at an address, and its start."""
        symbol = _kernel_symbol(self._symbolizer, address)
        return None if symbol is None else (one_line(symbol[0]), address - symbol[1])

    def _side_lines(self, context: LineContext) -> Iterable[Any]:
        types = self._recording.data.record_index.type_counts
        if not self._options.side_band_types and not types[RecordType.STAT_ROUND] and not types[RecordType.AUXTRACE_ERROR]:
            return ()
        from perfpy.views.script.lines import SideBandLines

        maker = SideBandLines(
            self._recording.events,
            self._options.fields,
            self._shown_types(),
            use_callchain=self._use_callchain,
            name_kernel=lambda address: _kernel_symbol(self._symbolizer, address),
            clock=context.clock,
            cpus=self._options.sample_filter.cpus,
            endian=self._recording.data.endian,
            latency=self._options.latency,
            keeps_exited=self._recording.data.keeps_exited,
        )
        # rounds are included only by name
        return maker.lines(self._recording.side_band(names_of(RecordType) if "round" in self._options.side_band_types else None))

    def _switch(self) -> EventSwitch | None:
        options = self._options
        if not (options.switch_on or options.switch_off):
            return None
        from perfpy.analysis.filters import EventSwitch

        return EventSwitch.between(options.switch_on, options.switch_off, self._recording.events, show=options.show_switches)


def _is_shared(out: BinaryIO) -> bool:
    """Whether forked processes write to the same file."""
    try:
        return out.fileno() >= 0
    except OSError:
        return False


def _kernel_symbol(symbolizer: Symbolizer, address: int) -> tuple[str, int] | None:
    """Return the symbol at a kernel address, and the offset in it, at the end of the recording."""
    import numpy as np

    end = np.array([(1 << 64) - 1], np.uint64)
    ids = symbolizer.frame_ids(np.array([-1], np.int32), np.array([address], np.uint64), end, np.array([MISC_KERNEL], np.uint8))
    frames = symbolizer.resolve()
    symbol = int(frames.symbol[ids[0]])
    return None if symbol < 0 else (symbolizer.symbols.name(symbol), int(frames.symbol_offset[ids[0]]))


def _clock(clock: Any, *, ns: bool) -> Callable[[int], bytes]:
    """Return a function that formats the time of day of a time stamp, by the CLOCK_DATA feature."""
    if clock is None:
        from perfpy.views.script.code import no_clock

        return no_clock
    import time as system_time

    def text(stamp: int) -> bytes:
        seconds, rest = divmod(clock.wall_clock_ns + stamp - clock.clockid_ns, _SECOND)
        day = system_time.strftime("%Y-%m-%d %H:%M:%S", system_time.localtime(seconds))
        return f"{day}.{rest:09d} ".encode() if ns else f"{day}.{rest // 1000:06d} ".encode()

    return text


# A listing by several processes, each of which formats spans of the recording.
#
# The results are in the order of the spans, the same as those of a single process.


MadeT = TypeVar("MadeT")
GivenT = TypeVar("GivenT")

#: the number of samples for which another process is worthwhile
_LINES_EACH: Final = 250_000
#: the number of samples to unwind for which it is: two processes take 1.3 times the CPU time of one for 15,000
_STACKS_EACH: Final = 8_000


class _Done(NamedTuple, Generic[MadeT]):
    """The result for a span, and its warnings; `counts`: see UserCallchains."""

    result: MadeT
    counts: list[TruncatedStacks]
    warnings: list[str]


class _Read(NamedTuple):
    """The samples of a span, the process that read them, and the frames that were new there."""

    batch: Batch
    process: int
    origins: FrameOrigins


class DividedListing:
    """Reads the spans of a recording in several processes.

    Args:
        columns: the sample columns needed
        unwound: unwinds copied stacks, if there are any
    """

    def __init__(self, recording: Recorded, symbolizer: Symbolizer, columns: set[str], unwound: UserCallchains | None) -> None:
        self._recording = recording
        self._symbolizer = symbolizer
        self._columns = columns
        self._unwound = unwound

    def jobs(self, requested: int) -> int:
        """Return the worthwhile number of processes; `requested`: the limit (0: the number of CPUs)."""
        data = self._recording.data
        if requested == 1 or any(map(carries_readings, data.events)):  # counts are printed as differences to the samples before
            return 1
        each = _LINES_EACH if self._unwound is None else _STACKS_EACH
        jobs = jobs_for(requested, data.record_index.sample_counts.total(), each)
        return 1 if jobs == 1 else min(jobs, max(len(data.records.delivery_spans), 1))

    def results(self, make: Callable[[Batch], MadeT], jobs: int) -> Iterator[MadeT]:
        """Yield the result of `make` for each span's samples, without empty spans."""
        with ForkedWorkers(self._recording.data.records.delivery_spans, lambda span: self._result(span, make), jobs) as workers:
            yield from self._report_warnings(workers.results())

    def outputs(self, make: Callable[[Batch], MadeT], give: Callable[[MadeT], GivenT], jobs: int) -> Iterator[GivenT]:
        """Yield the result of `give` for the result of `make`, which the processes call themselves, one after the other."""

        def give_made(part: _Done[MadeT] | None) -> _Done[GivenT] | None:
            return None if part is None else _Done(give(part.result), part.counts, part.warnings)

        parts = self._recording.data.records.delivery_spans
        with OrderedWriters(parts, lambda span: self._result(span, make), give_made, jobs) as workers:
            yield from self._report_warnings(workers.results())

    def batches(self, jobs: int) -> Iterator[Batch]:
        """Yield the samples of each span, with complete callchains."""
        begun = sent = len(self._symbolizer.frames)  # all processes have these frames

        def make(batch: Batch) -> _Read:
            nonlocal sent
            origins, sent = self._symbolizer.origins_since(sent), len(self._symbolizer.frames)
            return _Read(batch, os.getpid(), origins)

        ids_of_stacks: dict[int, NDArray[np.int32]] = {}
        for batch, process, origins in self.results(make, jobs):
            before = ids_of_stacks.get(process, np.arange(begun, dtype=np.int32))
            ids_of_stacks[process] = np.concatenate([before, self._symbolizer.intern(origins)])
            yield _with_frames(batch, ids_of_stacks[process])

    def _result(self, span: Span, make: Callable[[Batch], MadeT]) -> _Done[MadeT] | None:
        warning_count = len(self._recording.data.warnings)
        batch = self._recording.batch_of(span, self._columns, self._unwound)
        if batch is None:
            return None
        lines = make(batch)
        files = [str(file) for file in self._symbolizer.unusable()]
        counts = self._unwound.take_truncated_stacks() if self._unwound else []
        return _Done(lines, counts, [*self._recording.data.warnings[warning_count:], *files])

    def _report_warnings(self, results: Iterable[_Done[MadeT] | None]) -> Iterator[MadeT]:
        for part in results:
            if part is not None:
                self._take_over(part)
                yield part.result

    def _take_over(self, part: _Done[Any]) -> None:
        """Take over the warnings of another process."""
        warnings = self._recording.data.warnings
        warnings += [text for text in dict.fromkeys(part.warnings) if text not in warnings]
        if self._unwound is not None:
            self._unwound.add(part.counts)


def _with_frames(batch: Batch, frames: NDArray[np.int32]) -> Batch:
    """Return a batch whose "user_frames" have this process's ids; `frames`: by the batch's ids."""
    users: Ragged | None = batch.columns.get("user_frames")
    if users is None or not len(users.values):
        return batch
    here = np.where(users.values < 0, users.values, frames[users.values])
    columns = Columns(batch.columns.rows, {**batch.columns, "user_frames": Ragged(here, users.offsets)}, batch.columns.damaged)
    return batch._replace(columns=columns)
