"""Recording: what perfpy.open() returns, which joins the parts of the reading half.

What enters: a perf.data (path, "-", file descriptor, binary file). What
leaves: what it holds (perfpy.recording.contents), and what is made of that:
columns with names, reports, stacks, flame graphs, annotated code. The layers
below know nothing of each other's users; the commands above call nothing but
this.
"""

from __future__ import annotations

from os import fspath

from perfpy.abi.startup import cached_property
from perfpy.errors import OutputFailed, UsageError
from perfpy.recording.contents import RecordingContents, Sample, TracepointSamples

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from os import PathLike

    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.analysis.annotation.source_files import SourceShares
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.named_samples import NamedSamples
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.recording_changes import RecordingChanges
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.sortkeys.key_texts import MemoryWords
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.perfdata.container.source import Origin
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.parquet.export import Exported
    from perfpy.views.tracepoints.payloads import PayloadTexts


class Recording(RecordingContents):
    """A perf.data file, open.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     print([event.name for event in recording.events], recording.header["hostname"])
    ...     time = recording.samples["time"]  # in ns
    ...     print(len(time), int(time[-1] - time[0]))
    ['cpu-clock:u'] here
    10 90
    """

    def __init__(self, origin: Origin, *, check_owner: bool = False, as_stored: bool = False, symbols: SymbolOptions | None = None) -> None:
        super().__init__(origin, check_owner=check_owner, as_stored=as_stored, symbols=symbols)
        self.sample_filter: SampleFilter | None = None  #: of where()

    @cached_property
    def samples(self) -> NamedSamples:
        """All samples as columns, names included: recording.samples["ip"], recording.samples["symbol"]."""
        # numpy is loaded when samples are asked for, not by opening a file
        from perfpy.analysis.named_samples import NamedSamples
        from perfpy.analysis.sample_names import Naming

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
        """The same recording, narrowed to some samples: for its samples, batches, report, stacks and flamegraph.

        Each condition takes one value or several; all that are given must hold. dso, symbol: of the sampled address;
        event: by its name, with or without modifiers. time: from and to, in seconds from the first sample or as a text
        ("1.5s", "200ms", "10%"), None for an open end; or a text as --time takes it. The side-band stays whole;
        the file is shared, and closed with this recording. Raises TypeError, ValueError, UsageError.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     part = recording.where(comm="busy", time=(None, "50%"))
        ...     len(part.samples["ip"]), len(recording.samples["ip"])
        (5, 10)
        """
        from perfpy.analysis.filters.conditions import both, conditions

        sets = {"pid": pid, "tid": tid, "cpu": cpu, "comm": comm, "dso": dso, "symbol": symbol}
        asked = conditions(self.events, self.times, event=event, time=time, **sets)
        return self.narrowed(asked if self.sample_filter is None else both(self.sample_filter, asked))

    def narrowed(self, sample_filter: SampleFilter, symbols: SymbolOptions | None = None) -> Recording:
        """The same recording with these samples alone, in place of what where() left; symbols: where to look for symbols, where told."""
        from copy import copy

        part = copy(self)
        for name in ("samples", "_naming_symbolizer"):
            part.__dict__.pop(name, None)
        part.sample_filter = None if sample_filter.is_open and sample_filter.switch is None else sample_filter
        part.symbol_options = symbols or self.symbol_options
        return part

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """The samples in order of delivery, some thousands at a time, as columns: those that where() left. See RecordingContents."""
        return super().batches(fields, more) if self.sample_filter is None else self.samples.batches(fields, more)

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
        """A histogram of the samples, for each event.

        by: sort keys such as "comm", "dso", "symbol", "pid", "cpu", or a text with commas (default: "comm,dso,symbol"); callers: count
        callers, too, and keep call trees; options: everything that perf report can be asked, instead of these; symbols: where to look
        for symbols; progress: called with the share of the file that has been read; jobs: how many processes may be forked for large
        files (0: as many as CPUs). Raises UsageError for unknown keys. The report is a sequence of rows, has
        to_pandas(), to_arrow() and to_dict(), and shows itself in notebooks.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     for row in recording.report(by=["comm"]):
        ...         print(f"{row.percent:6.2f}%", row.texts["comm"], row.samples)
        100.00% busy 10
        """
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import CallGraph, ReportOptions
        from perfpy.analysis.report.report import make_report

        if options is not None and (by or callers):
            raise UsageError("report(options=...) says everything: leave out by and callers")
        if options is None:
            wanted = Wanted(sort=(by if isinstance(by, str) else ",".join(by)) if by else None)
            graph = CallGraph(order="caller") if callers else None
            options = ReportOptions(wanted=wanted, call_graph=graph, children=callers)
        options = options._replace(sample_filter=self.within(options.sample_filter))
        timeline = self.make_timeline(keep_exited=options.keep_exited)
        symbolizer = self.new_symbolizer(timeline, symbols)
        report = make_report(self.data, timeline, symbolizer, options, self._payloads(symbolizer), _memory_words(options), progress, jobs)
        report.display = _Display()
        return report

    def changes(
        self, after: Recording, by: str | Sequence[str] = "dso,symbol", *, symbols: SymbolOptions | None = None
    ) -> list[RecordingChanges]:
        """What changed from this recording to another one: see perfpy.diff."""
        from perfpy.analysis.report.recording_changes import names_for_both, recording_changes

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
        asked = asked._replace(sample_filter=self.within(asked.sample_filter))
        timeline = self.make_timeline(keep_exited=asked.keep_exited)
        symbolizer = self.new_symbolizer(timeline, symbols)
        return Annotation(make_report(self.data, timeline, symbolizer, asked, progress=progress), symbolizer)

    def source_files(self, *, sample_filter: SampleFilter | None = None, symbols: SymbolOptions | None = None) -> list[SourceShares]:
        """The source files that samples are from, line by line, of each event.

        for file in recording.source_files()[0].files:
            for line in file.lines:
                print(f"{file.path}:{line.line} {line.percent:.2f} % {line.with_inlined:.2f} %")
        """
        from perfpy.analysis.annotation.source_files import make_source_shares
        from perfpy.analysis.filters.sample_filter import SampleFilter

        timeline = self.make_timeline(keep_exited=True)
        symbolizer = self.new_symbolizer(timeline, symbols)
        return make_source_shares(self.data, timeline, symbolizer, self.within(sample_filter or SampleFilter()))

    def stacks(
        self,
        symbols: SymbolOptions | None = None,
        *,
        sample_filter: SampleFilter | None = None,
        timed: bool = False,
        latency: bool = False,
        sites: bool = False,
        payloads: bool = False,
        most_samples: int = 0,
        jobs: int = 1,
    ) -> list[Stacks]:
        """The whole stacks of each event, for flame graphs and exports.

        timed: with the single samples; latency: weighted by shares of the wall clock; sites: with addresses and lines;
        payloads: with the data of tracepoints for the single samples; most_samples: of more single samples those alike but for
        their times are put together (0: never); jobs: as for report.
        """
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.analysis.stacks.stack_builder import make_stacks

        timeline = self.make_timeline(keep_exited=True)
        symbolizer = self.new_symbolizer(timeline, symbols)
        wanted = self.within(sample_filter or SampleFilter())
        more = {"timed": timed, "latency": latency, "sites": sites, "payloads": payloads}
        return make_stacks(self.data, timeline, symbolizer, wanted, **more, most_samples=most_samples, jobs=jobs)

    def page(
        self,
        stacks: Sequence[Stacks] | None = None,
        *,
        sample_filter: SampleFilter | None = None,
        symbols: SymbolOptions | None = None,
        code: bool = True,
    ) -> str:
        """The profile as a page: one HTML file for any browser, complete in itself.

        stacks: of which it is made (default: all, with their times); code: with that of the hottest functions, for which
        objdump is run, and lines of source files.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     page = recording.where(comm="busy").page(code=False)
        >>> page[:15]
        '<!doctype html>'
        """
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.views.page.code_data import code_data, file_data
        from perfpy.views.page.page import PageText, render
        from perfpy.views.page.profile_data import MOST_ROWS
        from perfpy.views.page.verdict import verdict

        parts = self.stacks(symbols, sample_filter=sample_filter, timed=True, most_samples=MOST_ROWS) if stacks is None else stacks
        hot = self.annotate(options=ReportOptions(sample_filter=sample_filter or SampleFilter()), symbols=symbols)
        text = PageText(self.title, self.circumstances, verdict(hot.report, parts[0].cut if parts else ()))
        if not code:
            return render(parts, text)
        files = self.source_files(sample_filter=sample_filter, symbols=symbols)
        return render(parts, text, code=code_data(hot), files=file_data(files))

    def page_of_changes(
        self, after: Recording, stacks: Sequence[Sequence[Stacks]] | None = None, *, symbols: SymbolOptions | None = None
    ) -> str:
        """The same of what changed from this recording to another one. stacks: of both, comparable (analysis.stacks.matching).

        >>> import perfpy
        >>> with perfpy.open("perf.data") as before, perfpy.open("perf.data") as after:
        ...     page = before.page_of_changes(after)
        """
        from perfpy.views.page.page import PageText, render
        from perfpy.views.page.profile_data import MOST_ROWS

        both = (self, after)
        first, second = stacks or [one.stacks(symbols, timed=True, most_samples=MOST_ROWS) for one in both]
        told = [f"{one.path}: {', '.join([one.title, *one.circumstances])}" for one in both]
        return render(first, PageText(f"{self.path} \N{RIGHTWARDS ARROW} {after.path}", told), after=second)

    def flamegraph(self, path: str | PathLike[str], *, after: Recording | None = None, symbols: SymbolOptions | None = None) -> None:
        """Write the profile as a page with flame graph, time line and tables: one HTML file for any browser, complete in itself.

        after: a second recording; the page shows then what changed from this
        one to that. symbols: where to look for symbols. No program is run for it: page() has code, too. Raises OutputFailed.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     recording.flamegraph("flame.html")
        """
        page = self.page(symbols=symbols, code=False) if after is None else self.page_of_changes(after, symbols=symbols)
        try:
            with open(path, "wb") as file:
                file.write(page.encode(errors="replace"))
        except OSError as error:
            raise OutputFailed(fspath(path), error.strerror or str(error)) from None

    def to_parquet(self, folder: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> Exported:
        """Add this recording to the tables in a folder (perfpy.views.parquet says which), for DuckDB, Polars, Spark; needs pyarrow.

        symbols: where to look for symbols. perfpy.open() reads it back. Returns its key in the tables, how many samples and bytes were
        written. A recording that is there already is written anew. Raises PerfError, OutputFailed.

        >>> import perfpy
        >>> with perfpy.open("perf.data") as recording:
        ...     recording.to_parquet("tables").samples
        10
        """
        from perfpy.views.parquet.export import export

        return export(self, fspath(folder), symbols)

    def within(self, sample_filter: SampleFilter) -> SampleFilter:
        """A filter within what where() left."""
        return sample_filter if self.sample_filter is None else sample_filter._replace(within=self.sample_filter)

    def payload_texts(self, symbols: SymbolOptions | None = None) -> PayloadTexts | None:
        """What words the data of tracepoints; None where the recording describes none."""
        return self._payloads(self.symbolizer(symbols))

    def _payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """What words the data of tracepoints; None where the recording describes none."""
        tracing = self.data.tracing
        if tracing is None:
            return None
        from perfpy.views.tracepoints.payloads import PayloadTexts

        return PayloadTexts(tracing, symbolizer)


class _Display:
    """Words reports, loaded when one is shown."""

    def report_text(self, report: Report, /) -> str:
        from perfpy.views.report.notebook import report_text

        return report_text(report)

    def report_html(self, report: Report, /) -> str:
        from perfpy.views.report.notebook import report_html

        return report_html(report)


def _memory_words(options: ReportOptions) -> MemoryWords | None:
    """What words data_src; None where a report does not show it."""
    from perfpy.analysis.sortkeys.sort_key import Mode

    if options.wanted.mode is not Mode.MEMORY:
        return None
    from perfpy.views.script import memory_text

    return memory_text


__all__ = ["Recording", "Sample", "TracepointSamples"]
