"""Recording: what perfpy.open() returns, which joins the parts of the reading half.

What enters: a perf.data (path, "-", file descriptor, binary file). What
leaves: its events, features, records and samples, as values and as numpy
columns. The layers below know nothing of each other's users; the commands
above call nothing but this.
"""

from __future__ import annotations

from os import fspath

from perfpy.abi.flags import PerfType, RecordType, SampleType
from perfpy.abi.startup import NamedTuple, cached_property
from perfpy.errors import OutputFailed, UsageError
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.sample_columns import Samples

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Any

    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import RecordedTimes
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sortkeys.key_texts import MemoryWords
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.container.source import Origin
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.views.script.payloads import PayloadTexts


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


class Recording:
    """A perf.data file, open.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     print([event.name for event in recording.events], recording.header["hostname"])
    ...     time = recording.samples["time"]  # in ns
    ...     print(len(time), int(time[-1] - time[0]))
    ['cpu-clock:u'] here
    10 90
    """

    def __init__(self, origin: Origin, *, check_owner: bool = False, as_stored: bool = False) -> None:
        self.data = PerfData(origin, check_owner=check_owner, as_stored=as_stored)
        self.samples = Samples(self.data)
        self._symbolizers: list[Symbolizer] = []

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays and records already handed out stay valid."""
        self.data.close()

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
        return [*self.data.warnings, *dict.fromkeys(files)]

    def times(self) -> RecordedTimes:
        """When the first and the last sample were taken, in ns, as the header or else the samples say."""
        from perfpy.analysis.filters.time_ranges import RecordedTimes

        said = self.header.get("sample_time") or self.data.survey
        return RecordedTimes(self.path, said.first, said.last)

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
            yield Batch(batch.columns, batch.event, self.data.equal_times.settled(batch.key, batch.offset), batch.offset)

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
        import numpy as np

        from perfpy.abi.columns import Columns
        from perfpy.perfdata.tracepoints.field_columns import trace_columns

        data = self.data
        event = next((event for event in self.events if event.name == name and event.attr.type == PerfType.TRACEPOINT), None)
        if event is None or data.tracing is None or event.attr.config not in data.tracing.formats:
            known = ", ".join(event.name for event in self.events if event.tracepoint) or "none"
            raise UsageError(f"no tracepoint {name!r} with known fields in {self.path}; it has: {known}")
        parts = [batch.columns.take(np.flatnonzero(batch.event == event.index)) for batch in data.batches()]
        samples = Columns.concat(parts if any("raw" in part for part in parts) else [*parts, data.records.no_samples()])
        raw = samples.pop("raw", None)
        if raw is None:
            raise UsageError(f"the samples of {name!r} in {self.path} have no raw data, and so no fields")
        return TracepointSamples(samples, trace_columns(data.tracing.formats[event.attr.config], raw, data.tracing.endian))

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
        return self._new_symbolizer(self.timeline, options)

    def _new_symbolizer(self, timeline: TaskTimeline, options: SymbolOptions | None) -> Symbolizer:
        from perfpy.symbols.files.debug_files import Inline
        from perfpy.symbols.symbolizer import Symbolizer

        symbolizer = Symbolizer(timeline, options, kept=self.data.kept_files)
        self._symbolizers.append(symbolizer)
        unwound = any(event.attr.sample_type & SampleType.STACK_USER for event in self.events)
        if unwound or symbolizer.inline not in (Inline.NONE, Inline.UNWOUND_AS_PERF):
            from perfpy.debuginfo.inlined_frames import give_inlined

            give_inlined(symbolizer, unwound=unwound)
        return symbolizer

    def join_off_cpu(self) -> None:
        """From here on time on the CPU and off it (record --off-cpu) are one event, told apart by the sort key state.

        Raises PerfError where the recording has not both.
        """
        from perfpy.analysis.samples.wait_events import join_off_cpu

        join_off_cpu(self.data)

    def report(
        self,
        by: str | Sequence[str] | None = None,
        *,
        callers: bool = False,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Report:
        """A histogram of the samples, for each event.

        by: sort keys such as "comm", "dso", "symbol", "pid", "cpu", or a text
        with commas (default: "comm,dso,symbol"); callers: count callers, too, and keep call trees;
        options: everything that perf report can be asked, instead of these;
        symbols: where to look for symbols; progress: called with the share of
        the file that has been read. Raises UsageError for unknown keys.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     for row in recording.report(by=["comm"]).top(10):
        ...         print(f"{row.percent:6.2f}%", row.texts["comm"])
        100.00% busy
        """
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import CallGraph, ReportOptions
        from perfpy.analysis.report.report import make_report

        if options is None:
            wanted = Wanted(sort=(by if isinstance(by, str) else ",".join(by)) if by else None)
            graph = CallGraph(order="caller") if callers else None
            options = ReportOptions(wanted=wanted, call_graph=graph, children=callers)
        timeline = self.make_timeline(keep_exited=options.keep_exited)
        symbolizer = self._new_symbolizer(timeline, symbols)
        return make_report(self.data, timeline, symbolizer, options, self._payloads(symbolizer), _memory_words(options), progress)

    def annotate(
        self,
        function: str | None = None,
        *,
        options: ReportOptions | None = None,
        symbols: SymbolOptions | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Annotation:
        """The code of functions, with the samples at each instruction; it needs objdump, or the package capstone.

        function: only the one of this name; options: which samples count (its columns are not asked), instead of this; symbols,
        progress: as for `report`.

            for code in recording.annotate("main").functions():
                for line in code.rows():
                    print(line.percent, line.address, line.text, line.source)
        """
        from perfpy.analysis.annotation.annotation import Annotation
        from perfpy.analysis.annotation.hot_functions import BY_FUNCTION
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.analysis.report.report import make_report

        asked = options or ReportOptions(sample_filter=SampleFilter(symbols=(function,) if function else None))
        asked = asked._replace(wanted=BY_FUNCTION, by_address=True, call_graph=None, children=False)
        timeline = self.make_timeline(keep_exited=asked.keep_exited)
        symbolizer = self._new_symbolizer(timeline, symbols)
        return Annotation(make_report(self.data, timeline, symbolizer, asked, progress=progress), symbolizer)

    def stacks(
        self, symbols: SymbolOptions | None = None, *, sample_filter: SampleFilter | None = None, timed: bool = False, latency: bool = False
    ) -> list[Stacks]:
        """The whole stacks of each event, for flame graphs and exports.

        timed: with the single samples; latency: weighted by shares of the wall clock.
        """
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.analysis.stacks.stack_builder import make_stacks

        timeline = self.make_timeline(keep_exited=True)
        symbolizer = self._new_symbolizer(timeline, symbols)
        return make_stacks(self.data, timeline, symbolizer, sample_filter or SampleFilter(), timed=timed, latency=latency)

    def flamegraph(self, path: str | PathLike[str], *, after: Recording | None = None, symbols: SymbolOptions | None = None) -> None:
        """Write all stacks as a flame graph: one HTML page for any browser, complete in itself.

        after: a second recording; the page shows then what changed from this
        one to that. symbols: where to look for symbols. Raises OutputFailed.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     recording.flamegraph("flame.html")
        """
        from perfpy.views.stacks.flamegraph import render

        later = None if after is None else after.stacks(symbols)
        page = render(self.stacks(symbols), title=self.title, circumstances=self.circumstances, after=later)
        try:
            with open(path, "wb") as file:
                file.write(page.encode(errors="replace"))
        except OSError as error:
            raise OutputFailed(fspath(path), error.strerror or str(error)) from None

    def _payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """What words the data of tracepoints; None where the recording describes none."""
        tracing = self.data.tracing
        if tracing is None:
            return None
        from perfpy.views.script.payloads import PayloadTexts

        return PayloadTexts(tracing, symbolizer)


def _memory_words(options: ReportOptions) -> MemoryWords | None:
    """What words data_src; None where a report does not show it."""
    from perfpy.analysis.sortkeys.sort_key import Mode

    if options.wanted.mode is not Mode.MEMORY:
        return None
    from perfpy.views.script import memory_text

    return memory_text
