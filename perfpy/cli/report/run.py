"""One run of `perfpy report` over an open recording."""

from __future__ import annotations

import os
import re
import sys
from functools import cached_property

from perfpy.abi.flags import BranchSample, PerfType, RecordType, SampleType, SoftwareId
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.analysis.filters import EventSwitch, SampleFilter, events_named, ranges_of
from perfpy.analysis.report.options import (
    ALL_FRAMES,
    DEFAULT_PARENT,
    PERFS_FRAMES,
    CallGraph,
    ChainOptions,
    ColumnOptions,
    EventGroups,
    NameOptions,
    ReportOptions,
    RowOptions,
    TimeOptions,
)
from perfpy.analysis.report.report import cgroup_names, cpus_of_socket, filtered_rows_notes, losses
from perfpy.analysis.sample_view import has_off_cpu, says_why_it_waited
from perfpy.analysis.sort_key import HOUR, Mode
from perfpy.analysis.sort_keys import DEFAULT_ORDER
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import inline_of, shown_machines, symbol_options_of
from perfpy.cli.output.terminal import (
    TaskProgress,
    colour_start,
    console,
    fit_notes,
    is_terminal,
    notes_are_read,
    print_lines,
    print_notes,
    rows_of,
    wants_plain,
)
from perfpy.errors import PerfError
from perfpy.untrusted.text import lines as one_line_each
from perfpy.views.report.text import (
    HEADER_HINT,
    OF_PROCESSES,
    TextOptions,
    block_lines,
    branch_kind_lines,
    report_lines,
    thread_count_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.filters import TimeRanges
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.stacks import Stacks
    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.processes import ProcessRow
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.perfdata.events import FileEvent
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.annotate.browser import CodeScreen
    from perfpy.views.page.page import PageParts
    from perfpy.views.verdict.sentence import Sentence


class ReportRun:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, options: ReportCommandOptions) -> None:
        self._recording = recording
        self._options = options
        if options.with_off_cpu:
            recording.merge_off_cpu()
        config = load_config()
        self._request = ReportRequest(recording, options, config)
        by_setting = config.flag("tui.report", False) and _has_browser() and not wants_plain(stdio=options.needs_plain)
        # perf prints its text if there is no terminal
        self._browses = options.json is None and (by_setting or (options.tui and is_terminal()))
        has_form = options.json is not None or self._browses or options.verdict
        self._plain = not has_form and wants_plain(stdio=options.needs_plain)

    def show(self) -> int:
        """Carry out the options, except for the header; return the exit status."""
        options = self._options
        if options.dump_raw_trace:
            return self._dump()
        if options.stats:
            from perfpy.views.recording_summary import record_count_lines

            return _print_counts(record_count_lines(self._recording, skip_empty=self._request.skips_empty()))
        if options.exports:
            write_exports(self._recording, options, self._request.sample_filter(), self._request.symbol_options())
            if options.json is None:
                return 0
        return self._report()

    def _dump(self) -> int:
        from perfpy.cli.output.header import print_records
        from perfpy.views.dump.recording import is_read_to_the_end
        from perfpy.views.recording_summary import record_count_lines

        options, header = self._options, self._options.header and not self._options.quiet
        hint = "" if options.quiet or options.header or options.is_summary else f"{HEADER_HINT}\n"
        guests, branches = self._request.symbol_options(plain=True).guests, self._request.mode() is Mode.BRANCH
        features, full = (header or options.show_info) and not options.is_summary, options.show_info
        entries = print_records(self._recording, hint, guests, features=features, full=full, is_warned=header, counts_branches=branches)
        if options.tasks or options.mmaps or not is_read_to_the_end(self._recording):
            return 0
        return _print_counts(record_count_lines(self._recording, entries))

    def _report(self) -> int:
        if self._options.json is None and self._report_pmcu():
            return 0
        if self._request.shows_blocks and self._recording.data.sample_counts.total():
            return self._report_blocks()
        options = self._report_options()
        text_options = self._request.text_options()
        with TaskProgress("reading samples") as progress:
            symbols = self._request.symbol_options(plain=self._plain)
            report = self._recording.report(options=options, symbols=symbols, progress=progress, jobs=self._options.jobs)
        self._introduce(report, options)
        is_empty = not any(len(histogram.visible_entries()) for histogram in report.histograms)
        if is_empty:
            self._explain(report)
        if self._options.json is not None:
            from perfpy.cli.output.output_files import write_text
            from perfpy.views.report.json import report_json

            write_text(self._options.json, report_json(report, self._service))
            return 0
        if not report.samples or (is_empty and not self._plain):
            return 0
        if self._options.verdict:
            return _print(sentence.text for sentence in self._verdict(report))
        if self._browses:
            return self._browse(report)
        if self._plain:
            _print_report(report, text_options)
            if options.columns.mode is Mode.BRANCH:
                _print(self._branch_kind_lines())
            if self._options.threads:
                _print(thread_count_lines(self._recording))
            print_notes(self._notes(report), quiet=self._options.quiet, verbose=self._options.verbose)
        else:
            notes = list(self._notes(report))
            rows_left = self._show_screen(report, text_options, notes)
            print_notes(
                notes if self._options.verbose else fit_notes(notes, rows_left), quiet=self._options.quiet, verbose=self._options.verbose
            )
        return 0

    def _service(self) -> list[ProcessRow]:
        """Return the processes of a service with several workers, whose names are in the recording; empty for others."""
        files = self._recording.data.kept_files
        if files is None:
            return []
        from perfpy.perfdata.kept_files import PROCESSES

        if PROCESSES not in files:
            return []
        from perfpy.analysis.verdict.evidence import Evidence  # not needed for other recordings
        from perfpy.views.verdict.profile import headline_options

        options = headline_options(self._report_options().sample_filter)
        report = self._recording.report(options=options, symbols=self._request.symbol_options(), jobs=self._options.jobs)
        return Evidence(report, self._recording.data).process_rows

    def _report_blocks(self) -> int:
        """Print the blocks between branches that took the most cycles."""
        from perfpy.analysis.report.branch_blocks import COLUMNS, block_tables
        from perfpy.views.script.code import BranchCounters, is_counted

        recording, options, chosen = self._recording, self._options, self._report_options().sample_filter
        symbolizer = recording.symbolizer(self._request.symbol_options(plain=True))
        groups = EventGroups.of(recording.events, recording.data.features.get("group_desc", ()), options.group)
        counters = BranchCounters.of(recording.data.features, recording.events) if any(map(is_counted, recording.events)) else None
        batches = recording.batches(COLUMNS | ({"branch_counters"} if counters else set()) | chosen.all_fields())
        sizes = counters.sizes if counters else (0, 0)
        tables = block_tables(batches, recording.events, recording.timeline, symbolizer, chosen, groups, sizes)
        self._hint()
        style, lost, verbose = self._request.text_options(), losses(recording.data)[0], options.verbose > 0
        _print(block_lines(tables, lost, symbolizer, counters, style, verbose=verbose, full_paths=options.full_source_path))
        return _print(self._branch_kind_lines())

    def _branch_kind_lines(self) -> Iterator[str]:
        """Yield the lines about the types of branches, if the recording has types."""
        recording, chosen = self._recording, self._request.sample_filter()
        if not any(event.attr.branch_sample_type & BranchSample.TYPE_SAVE for event in recording.events):
            return
        from perfpy.analysis.report.branch_blocks import COLUMNS, branch_kinds

        batches = recording.batches(COLUMNS | chosen.all_fields())
        yield from branch_kind_lines(branch_kinds(batches, recording.events, recording.timeline, recording.symbolizer(), chosen))

    def _explain(self, report: Report) -> None:
        """Print why there are no rows, unless perf's text already shows it and stderr is no terminal."""
        from perfpy.cli.line.empty_results import print_nothing_left

        options = self._options
        is_silent = options.quiet or (self._plain and report.samples and not notes_are_read(quiet=False, verbose=options.verbose))
        if not is_silent:
            print_nothing_left(self._recording, self._request.sample_filter(), self._request.symbol_options())

    def _report_pmcu(self) -> bool:
        """Print the counts of a PMCU; return whether the recording has nothing else."""
        trace = self._recording.pmcu
        if trace is None:
            return False
        from perfpy.views.dump.aux_data import report_lines as pmcu_lines  # few recordings have one

        _print(pmcu_lines(trace))
        return not self._recording.data.record_index.type_counts[RecordType.SAMPLE]

    def _report_options(self) -> ReportOptions:
        try:
            options = self._request.report_options(plain=self._plain)
            return options._replace(rows=options.rows._replace(by_thread=self._is_screen))
        except PerfError:
            self._hint()
            raise

    def _introduce(self, report: Report, options: ReportOptions) -> None:
        """Print the lines before the tables of a plain report. perf prints nothing before it has parsed the sort keys."""
        self._hint()
        if not self._plain:
            return
        if self._options.show_info and not self._options.header and self._recording.data.is_pipe:
            from perfpy.cli.output.header import features_of_pipe

            _print(features_of_pipe(self._recording))
        lines = {key: f"# {name}: {value}" for key, name, value in hidden_keys(options.sample_filter)}
        _print(lines[entry.name] for entry in report.layout.fields if entry.name in lines)

    def _hint(self) -> None:
        if self._plain and not self._options.quiet and not self._options.header:
            _print(HEADER_HINT.split("\n"))

    @property
    def _is_screen(self) -> bool:
        return not self._plain and self._options.json is None

    def _show_screen(self, report: Report, text_options: TextOptions, notes: list[str]) -> int:
        """Print the report, and return the rows that it leaves for notes above the prompt."""
        from perfpy.views.report.screen import ScreenOptions, show_report
        from perfpy.views.verdict.profile import verdict_of

        options, evidence = self._options, self._evidence(report)
        screen_options = ScreenOptions(
            text=text_options._replace(short_names=not options.full_names, process_names=self._process_names(report, evidence)),
            own_first=options.children is None and not options.latency,
            every_row=options.percent_limit is not None,
            details=bool(options.verbose),
            fills_window=bool(options.sort or options.fields),
            tree=options.call_graph is not None,
            browser=_has_browser(),
            lines_after=rows_of(notes) if notes_are_read(quiet=options.quiet, verbose=options.verbose) else 0,
            verdict=verdict_of(evidence),
            processes=evidence.process_rows,
        )
        screen = console()
        with screen.capture() as captured:
            show_report(report, self._recording, screen, screen_options)
        text = captured.get()
        screen.file.write(text)
        return max(screen.height - 1 - text.count("\n"), 1)

    def _verdict(self, report: Report) -> list[Sentence]:
        from perfpy.views.verdict.profile import verdict_of  # not needed for plain reports

        return verdict_of(self._evidence(report))

    def _evidence(self, report: Report) -> Evidence:
        from perfpy.analysis.verdict.evidence import Evidence  # as above

        folds = self._request.folds_interpreters()
        return Evidence(report, self._recording.data, self._unfolded if folds else None)

    @staticmethod
    def _process_names(report: Report, evidence: Evidence) -> dict[int, str]:
        """Return the names of processes, if the report has a column for them."""
        has_column = any(key.name in OF_PROCESSES for key in report.layout.keys)
        return {pid: named.name for pid, named in evidence.process_names.items()} if has_column else {}

    def _unfolded(self) -> Report:
        """Return a report with the frames of interpreters, which show the reasons of waits and the collection of garbage."""
        symbols = self._request.symbol_options()._replace(fold_interpreters=False)
        return self._recording.report(options=self._report_options(), symbols=symbols, jobs=self._options.jobs)

    def _notes(self, report: Report) -> Iterator[str]:
        """Yield notes on missing symbols, missing callers, short stacks and hidden rows, with remedies."""
        from perfpy.symbols.quality_notes import note, truncation_note

        if self._plain and self._request.sample_filter().marks:
            yield from filtered_rows_notes(report)
        yield from note(report.missing, report.samples, everything=bool(self._options.verbose))
        yield from report.notes
        yield from truncation_note(report.truncated)
        if self._is_screen and self._options.fold_interpreters is None and self._request.folds_interpreters():
            yield "note: C functions that Python called have rows (C; C?: named by the call); --no-fold-interpreters shows their code"

    def _browse(self, report: Report) -> int:
        try:
            from perfpy.views.report.browser import ReportBrowser
        except ModuleNotFoundError as error:
            fail(f"--tui requires the module {error.name}; pip install 'perfpy[tui]'")
        from perfpy.views.verdict.profile import verdict_of

        options, evidence = self._options, self._evidence(report)
        ReportBrowser(
            report,
            self._header_lines,
            full_names=options.full_names,
            code=self._code,
            verdict=verdict_of(evidence),
            own_first=options.children is None and not options.latency,
            process_names=self._process_names(report, evidence),
        ).run()
        return 0

    def _code(self, event: FileEvent, function: str) -> CodeScreen:
        """Return the code of a function with the samples of an event. Raises PerfError if there is no code."""
        from perfpy.views.annotate.browser import CodeScreen

        options = self._request.report_options()._replace(rows=self._request.report_options().rows._replace(group=False, hierarchy=False))
        options = options._replace(sample_filter=options.sample_filter._replace(symbols=(function,)))
        return CodeScreen(self._recording.annotate(options=options, symbols=self._request.symbol_options()).function(event))

    def _header_lines(self) -> Iterable[str]:
        from perfpy.cli.output.header import lines_of_header

        return lines_of_header(self._recording, full=self._options.show_info)


def _has_browser() -> bool:
    from importlib.util import find_spec  # not needed for plain reports

    return find_spec("textual") is not None


def _print(lines: Iterable[str]) -> int:
    print_lines(lines)
    return 0


def _print_report(report: Report, options: TextOptions) -> None:
    if is_terminal():
        print_lines(report_lines(report, options))
    else:
        sys.stdout.writelines(f"{lines}\n" for lines in report_lines(report, options, many_at_once=True))


def _print_counts(lines: Iterable[str]) -> int:
    """Print record counts. They end dumps, too, which programs read line by line."""
    sys.stdout.writelines(one_line_each(lines))
    return 0


#: Formats that do not need addresses within functions.
BY_FUNCTION: Final = ("flamegraph", "folded")
#: Characters not used in file names.
_NO_NAME: Final = r"[^\w.:=,+-]"

#: Options about tables and rows, which exports do not have; JSON beside them has tables.
_OF_TABLES: Final = ("sort", "fields", "hierarchy", "percent_limit")
_OF_ROWS: Final = ("parent", "exclude_other", "ignore_callees", "hide_unresolved", "branch_stack", "mem_mode")


def write_exports(recording: Recording, options: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
    """Write every format that the options select."""
    from perfpy.cli.output.output_files import write_bytes
    from perfpy.symbols.quality_notes import truncation_note

    refuse_row_options(options)
    export_stacks = _ExportStacks(recording, options, sample_filter, symbols)
    makers: dict[str, Callable[[], bytes]] = {
        "flamegraph": lambda: export_stacks.page().encode(errors="replace"),
        "speedscope": lambda: _speedscope(recording, export_stacks.with_sites),
        "firefox": lambda: _firefox(recording, export_stacks.with_sites, symbols),
        "pprof": lambda: _pprof(recording, export_stacks.with_sites),
    }
    stacks: Sequence[Stacks] = ()
    with recording.shared_symbols:
        for name, path in options.exports.items():
            stacks = export_stacks.whole if name in BY_FUNCTION else export_stacks.with_sites
            if not stacks:
                from perfpy.cli.line.empty_results import print_nothing_left  # few reports are empty

                if not options.quiet:
                    print_nothing_left(recording, sample_filter, symbols)
                return
            if name == "folded":
                write_folded(stacks, path, quiet=options.quiet)
            else:
                write_bytes(path, makers[name](), quiet=options.quiet)
    print_notes(truncation_note(stacks[0].truncated), quiet=options.quiet, verbose=options.verbose)


class _ExportStacks:
    """The stacks of a recording, read once for each kind of stacks that the formats need."""

    def __init__(self, recording: Recording, options: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
        self._recording = recording
        self._options = options
        self._filter = sample_filter
        self._symbols = symbols

    @cached_property
    def _page_parts(self) -> PageParts:
        from perfpy.views.page.page import page_parts

        options = self._options
        return page_parts(self._recording, self._filter, self._symbols, latency=options.latency, code=options.source)

    def page(self) -> str:
        """Return the page; its parts are not kept."""
        from perfpy.views.page.page import page_of

        parts = [self._page_parts]
        del self._page_parts  # page_of() frees them before it packs the samples
        return page_of(self._recording, parts.pop(), self._symbols, self._filter, code=self._options.source)

    @cached_property
    def whole(self) -> Sequence[Stacks]:
        """Stacks of functions, with single samples for the page."""
        options = self._options
        if options.flamegraph is not None:
            return self._page_parts.stacks
        from perfpy.analysis.stacks import StackOptions  # few reports are exports

        return self._recording.stacks(self._symbols, StackOptions(self._filter, latency=options.latency, jobs=options.jobs))

    @cached_property
    def with_sites(self) -> list[Stacks]:
        """Stacks with addresses and lines, with single samples if a format needs them."""
        from perfpy.analysis.stacks import StackOptions
        from perfpy.views.stacks.exports import MOST_SAMPLES

        options, has_marks = self._options, self._options.firefox is not None
        is_ordered = options.speedscope is not None and self._recording.data.sample_counts.total() <= MOST_SAMPLES
        more = {"timed": has_marks or is_ordered, "payloads": has_marks, "threads": options.pprof is not None}
        stack_options = StackOptions(self._filter, latency=options.latency, sites=True, jobs=options.jobs, **more)
        return self._recording.stacks(self._symbols, stack_options)


def refuse_row_options(options: ReportCommandOptions) -> None:
    """Raise UsageError for options about rows, which exports do not have."""
    excluded = options.given(*(() if options.json is not None else _OF_TABLES), *_OF_ROWS)
    if excluded:
        fail(f"flame graphs and other exports have no rows; drop {', '.join(excluded)}")


def page_of_changes(
    recordings: Sequence[Recording],
    stacks: Sequence[Sequence[Stacks]],
    *,
    ignore_comm: bool | None,
    full_names: bool,
    symbols: SymbolOptions | None = None,
    sample_filters: Sequence[SampleFilter] | None = None,
) -> str:
    """Return the page of changes from the first to the second recording."""
    from perfpy.analysis.differences import match_names
    from perfpy.symbols.demangling.short_names import without_instance

    before, after = recordings
    matched = match_names(*stacks, ignore_comm=ignore_comm, name=str if full_names else without_instance)
    return before.page_of_changes(after, matched, symbols=symbols, sample_filters=sample_filters)


def write_folded(stacks: Sequence[Stacks], path: str, *, quiet: bool) -> None:
    """Write the stacks of one event to a file, because the format has no units, and those of other events to files beside it."""
    from perfpy.cli.output.output_files import write_bytes
    from perfpy.views.stacks.exports import folded_lines

    first, *others = stacks
    file_of = {path: first}
    if path != "-":
        for part in others:
            file_of.setdefault(_beside(path, part.event), part)
    elif others:
        names = ", ".join(part.event for part in others)
        print_notes([f"writing the stacks of {first.event} only; select other events with --event: {names}"], quiet=quiet)
    for file, part in file_of.items():
        write_bytes(file, "".join(f"{line}\n" for line in folded_lines(part)).encode(errors="surrogateescape"), quiet=quiet)


def _beside(path: str, event: str) -> str:
    """Return a name such as stacks-page-faults.txt for stacks.txt."""
    stem, extension = os.path.splitext(path)
    return f"{stem}-{re.sub(_NO_NAME, '_', event)[:100]}{extension}"


def _speedscope(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import speedscope

    return speedscope(stacks, recording.title).encode(errors="replace")


def _firefox(recording: Recording, stacks: Sequence[Stacks], symbols: SymbolOptions) -> bytes:
    from perfpy.views.page.marks import make_marks
    from perfpy.views.stacks.firefox import Heading, firefox

    header = recording.header
    system = " ".join(str(header[name]) for name in ("osrelease", "arch") if header.get(name))
    count = header.get("nrcpus")
    heading = Heading(recording.title, start_time(recording) / 1e9, system, str(header.get("cpudesc") or ""), count.online if count else 0)
    words = recording.payloads(recording.symbolizer(symbols)) if any(part.tracepoint for part in stacks) else None
    marks = make_marks(recording, [part for part in stacks if not part.tracepoint], symbols, sampled_only=True)
    return firefox(stacks, heading, words, marks.rows).encode(errors="replace")


def _pprof(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.protobuf_exports import Metadata, pprof

    times = recording.times()
    metadata = Metadata(
        start=start_time(recording),
        duration=max(times.last - times.first, 0),
        period=_period(recording.events[0].attr),
        comments=[recording.title, ", ".join(recording.environment)],
        host=str(recording.header.get("hostname") or ""),
        cgroups=cgroup_names(recording.data) if any(part.cgroup is not None for part in stacks) else {},
    )
    return pprof(stacks, metadata)


def start_time(recording: Recording) -> int:
    """Return the first sample's time in ns since 1970, from the recorded clock, or else from the file's modification time."""
    times, clocks = recording.times(), recording.header.get("clock_data")
    if clocks is not None:
        return max(int(clocks.wall_clock_ns + times.first - clocks.clockid_ns), 0)
    return max(int(recording.data.modification_time * 1e9) - max(times.last - times.first, 0), 0)


def _period(attr: EventAttr) -> int:
    """Return the period between samples; ns for clocks sampled by frequency, 0 for other frequencies."""
    if not attr.freq:
        return attr.sample_period
    is_clock = attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
    return round(1e9 / attr.sample_freq) if is_clock and attr.sample_freq else 0


# The request of one `perfpy report`: its command line, completed by the configuration and the recording.


class ReportRequest:
    """The options of one report, for the library."""

    def __init__(self, recording: Recording, options: ReportCommandOptions, config: Config) -> None:
        self._recording = recording
        self._options = options
        self._config = config

    def report_options(self, *, plain: bool = False) -> ReportOptions:
        """Return the options for rows. Raises PerfError for data that were not recorded, UsageError for an invalid option.

        plain: for perf's text.
        """
        options, config = self._options, self._config
        children = config.flag("report.children", True) if options.children is None else options.children
        graph = call_graph(options, children=children, config=config)
        if self._shows_history:
            graph = graph._replace(key="address")
        self._refuse_missing_data()
        self._refuse_sorting_without_groups()
        percentage = options.percentage or configured_percentage(config)
        children = children and not options.hierarchy
        sample_filter = self.sample_filter()
        most_frames = PERFS_FRAMES if plain or self._shows_history else ALL_FRAMES
        return ReportOptions(
            columns=self._requested_columns(sample_filter, children=children, plain=plain),
            sample_filter=sample_filter,
            chains=options.fill(
                ChainOptions,
                call_graph=graph,
                children=children,
                max_stack=most_frames if options.max_stack is None else options.max_stack,
                recursion_as_one=not plain and options.json is None and not graph.within_functions,
                branch_history=self._shows_history and self._recording.data.has_branches,
            ),
            rows=self._row_options(plain=plain, relative_percentages=percentage == "relative"),
            names=options.fill(
                NameOptions,
                verbose=options.verbose > 0 and (plain or options.json is not None),
                tiers_as_one=not plain and options.json is None and not sample_filter.by_location,
                unnamed_as_one=not plain and self._shows_few_rows(),
                as_addr2line=plain,
                unnamed_dso_width=0 if options.widths or options.separator or options.dsos else 16,
                objdump=options.objdump or self._config.get("annotate.objdump", ""),
            ),
            times=options.fill(TimeOptions, clock_quantum=options.time_quantum if options.in_order("time_quantum") else HOUR),
        )

    def _shows_few_rows(self) -> bool:
        """Whether the screen has the usual table of functions, not all rows or other columns."""
        options = self._options
        is_usual = options.json is None and options.percent_limit is None and not (options.verbose or options.sort or options.fields)
        return is_usual and self.mode() is Mode.NORMAL

    def _row_options(self, *, plain: bool, relative_percentages: bool) -> RowOptions:
        options, config = self._options, self._config
        return options.fill(
            RowOptions,
            group=options.group if options.group is not None or config.flag("report.group", True) else False,
            parent=options.parent or DEFAULT_PARENT,
            relative_percentages=relative_percentages,
            rows_filtered=plain,
        )

    def _requested_columns(self, sample_filter: SampleFilter, *, children: bool, plain: bool) -> ColumnOptions:
        """Return the columns. Off-CPU recordings get a column of seconds, except perf's text, which has it with --with-off-cpu only."""
        options = self._options
        columns = requested_columns(options, sample_filter, children=children, config=self._config, mode=self.mode())
        is_default = sort_order(options, self._config, Mode.NORMAL) is None and columns.fields is None and not sample_filter.comms
        if is_default and not plain and options.json is None:
            columns = columns._replace(of_processes=True)  # threads with names of their own would split the rows of a function
        says_why = says_why_it_waited(self._recording.events)
        if options.with_off_cpu and says_why and columns.sort is None and columns.fields is None:
            columns = columns._replace(sort=f"state,{DEFAULT_ORDER[Mode.NORMAL]}")
        timed = options.with_off_cpu or (not plain and has_off_cpu(self._recording.events))
        return columns._replace(metrics=(*columns.metrics, "seconds")) if timed else columns

    def sample_filter(self) -> SampleFilter:
        """Return the filters. Raises PerfError for CPUs that samples do not have."""
        options, data = self._options, self._recording.data
        if options.cpus and not data.is_pipe and not data.has(SampleType.CPU):
            raise PerfError(f"{self._recording.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        machines = shown_machines(options, self._recording)
        chosen = options.fill(SampleFilter, symbol_part=options.symbol_part, times=self._times(), switch=self._switch(), machines=machines)
        if options.event:
            chosen = chosen._replace(events=events_named(options.event, self._recording.events))
        if options.socket_filter < 0:
            return chosen
        cpus = cpus_of_socket(data, options.socket_filter)
        if not cpus:
            raise PerfError(f"--socket-filter {options.socket_filter}: {self._recording.path} has no CPU in this socket")
        return chosen._replace(cpus=tuple(sorted(cpus if chosen.cpus is None else cpus.intersection(chosen.cpus))))

    def symbol_options(self, *, plain: bool = False) -> SymbolOptions:
        """Return the symbol options. plain: for perf's text."""
        options, recording = self._options, self._recording
        inline = inline_of(options.inline, recording, plain=plain)
        return symbol_options_of(
            options,
            self._config,
            recording,
            force=options.force,
            ignore_vmlinux=options.ignore_vmlinux,
            inline=inline,
            for_people=not plain,
        )

    def folds_interpreters(self) -> bool:
        """Whether samples count for the functions that interpreters ran: as the option says, by default in recordings of Python."""
        if self._options.fold_interpreters is not None:
            return self._options.fold_interpreters
        from perfpy.symbols.dso import has_python_image  # not needed for plain reports

        return has_python_image(self._recording.data.kept_files)

    def text_options(self) -> TextOptions:
        """Return the layout of the text."""
        options, config = self._options, self._config
        limit = options.percent_limit
        return options.fill(
            TextOptions,
            percent_limit=config.number("report.percent-limit", 0.0) if limit is None else limit,
            times=options.time,
            skip_empty=self.skips_empty(),
            memory_order=self._memory_order(),
            socket=options.socket_filter,
            colour=colour_start(options.stdio_color),
        )

    def skips_empty(self) -> bool:
        """Whether to hide events without samples, and zero counts."""
        options = self._options.skip_empty
        return self._config.flag("report.skip-empty", True) if options is None else options

    def _times(self) -> TimeRanges | None:
        if not self._options.time:
            return None
        return ranges_of(self._options.time, self._recording.times())

    def _switch(self) -> EventSwitch | None:
        options = self._options
        if not (options.switch_on or options.switch_off):
            return None
        return EventSwitch.between(options.switch_on, options.switch_off, self._recording.events, show=options.show_on_off_events)

    def mode(self) -> Mode:
        """Return the kind of thing that a row represents."""
        if self._options.mem_mode:
            return Mode.MEMORY
        if self._shows_history:
            return Mode.NORMAL
        options = self._options.branch_stack
        branches = self._recording.data.has_branches if options is None else options
        return Mode.BRANCH if branches else Mode.NORMAL

    @property
    def _shows_history(self) -> bool:
        """Whether callchains begin with branches: without callchains, perf ignores --branch-history."""
        return self._options.branch_history and not (self._options.call_graph or "").startswith("none")

    @property
    def shows_blocks(self) -> bool:
        """Whether to show blocks between branches. Without branch records perf shows its usual table."""
        return self._options.total_cycles and self.mode() is Mode.BRANCH

    def _memory_order(self) -> str:
        """Return the sort keys, which perf prints for reports of memory accesses."""
        default = DEFAULT_ORDER[Mode.MEMORY]
        order = sort_order(self._options, self._config, Mode.MEMORY) or default
        if not self._options.mem_mode:
            return ""
        return f"{default},{order[1:]}" if order.startswith("+") else order

    def _refuse_missing_data(self) -> None:
        """Raise PerfError if the recording lacks data that an option needs. The data of pipes are unknown before they are read."""
        data = self._recording.data
        missing = () if data.is_pipe else (remedy for field, remedy in self._needs() if not data.has(field))
        for remedy in missing:
            raise PerfError(f"{self._recording.path}: {remedy}")

    def _needs(self) -> Iterator[tuple[int, str]]:
        """Yield the sample fields that the options need, with a remedy if they are missing."""
        options = self._options
        if options.parent or "parent" in (options.sort or ""):
            yield SampleType.CALLCHAIN, "no callchains for --sort parent; record with -g"
        if self._shows_history:
            kinds = (SampleType.CALLCHAIN, SampleType.BRANCH_STACK)
            kind = next(filter(self._recording.data.has, kinds), SampleType.BRANCH_STACK)
            yield kind, "no branch records for --branch-history; record with -b"
        elif options.call_graph is not None and not options.call_graph.startswith("none"):
            yield SampleType.CALLCHAIN, "no callchains for -g; record with -g"
        if options.branch_stack:
            yield SampleType.BRANCH_STACK, "no branch records for -b; record with -b"
        if options.mem_mode:
            yield SampleType.DATA_SRC, "no memory accesses for --mem-mode; record with -d"

    def _refuse_sorting_without_groups(self) -> None:
        options, data = self._options, self._recording.data
        has_groups = data.is_pipe or data.features.get("group_desc", ()) or (options.group and len(data.events) > 1)
        if options.sort_member and not has_groups:
            fail("--group-sort-idx: this recording has no group of events; --group forms one if it has several events")


_ENOUGH: Final = 1_000_000  # more than any percentage or useful number of callers
# Every word of --call-graph, in perf's search order: an abbreviation means the first word that begins with it.
_WORDS: Final = (
    ("none", "style"),
    ("graph", "style"),
    ("flat", "style"),
    ("fractal", "style"),
    ("folded", "style"),
    ("caller", "order"),
    ("callee", "order"),
    ("function", "key"),
    ("address", "key"),
    ("srcline", "key"),
    ("branch", "branches"),
    ("percent", "value"),
    ("period", "value"),
    ("count", "value"),
)
_CONFIGURED: Final = (("print-type", "style"), ("order", "order"), ("sort-key", "key"))


def call_graph_words() -> list[str]:
    """Return every word of --call-graph. The syntax of --call-graph is that of perf-report(1)."""
    return [word for word, _ in _WORDS]


def call_graph(options: ReportCommandOptions, *, children: bool, config: Config) -> CallGraph:
    """Return how callchains are shown, by --call-graph, the configuration, -G, --children, and the limit for rows.

    The limit for rows also applies to callchains; the last one of it and a limit in --call-graph wins.
    """
    limit = options.percent_limit
    chosen = _read_configuration(config) | call_graph_parts(options.call_graph or "")
    if limit is None:
        # As in perf, the configured limit of rows takes precedence.
        chosen.setdefault("percent", config.number("report.percent-limit", config.number("call-graph.threshold", CallGraph().percent)))
    elif "percent" not in chosen or options.gives_row_limit_last:
        chosen["percent"] = limit
    chosen.pop("branches", "")  # Counts of branches within callchains are not supported; perf shows none without branch records.
    if options.inverted or (children and "order" not in chosen):
        chosen["order"] = "caller"
    return CallGraph(**chosen)


def check(text: str) -> None:
    """Raise UsageError for an invalid value of -g."""
    call_graph_parts(text)


def _read_configuration(config: Config) -> dict[str, Any]:
    """Return the parts of a CallGraph from the configuration, without the limit of callers."""
    parts: dict[str, Any] = {"limit": int(config.number("call-graph.print-limit", 0))}
    for name, part in _CONFIGURED:
        if f"call-graph.{name}" in config:
            parts[part] = _word(config[f"call-graph.{name}"], part)
    return parts


def call_graph_parts(text: str) -> dict[str, Any]:
    """Return the parts of a CallGraph from --call-graph: words in any order, a percentage, then a number of callers."""
    parts: dict[str, Any] = {}
    numbers = iter((("percent", float), ("limit", int)))
    for token in filter(None, text.split(",")):
        word, part = next((entry for entry in _WORDS if entry[0].startswith(token)), ("", ""))
        if word:
            parts[part] = word
        else:
            part, kind = next(numbers, ("limit", int))
            parts[part] = min(_number(token, kind), _ENOUGH)
        if word == "none":
            break
    return parts


def _word(text: str, part: str) -> str:
    match = next((word for word, kind in _WORDS if kind == part and word.startswith(text)), None)
    if match is None:
        fail(f"configuration: unknown {part} {text!r} of call graphs")
    return match


def _number(token: str, kind: type[int] | type[float]) -> float:
    digits = re.match(r"\s*[0-9]*\.?[0-9]+", token)
    if not digits:
        fail(f"--call-graph: {token!r} is neither a known word nor a number")
    return kind(float(digits[0]))


_ADDRESS: Final = "0x[0-9a-fA-F]{1,16}"


def configured_percentage(config: Config) -> str:
    """Return the configured base of percentages: "absolute" or "relative"."""
    text = config.get("hist.percentage", "absolute")
    if text not in ("absolute", "relative"):
        fail(f"configuration: hist.percentage = {text!r}: expected absolute or relative")
    return text


def hidden_keys(chosen: SampleFilter) -> tuple[tuple[str, str, str], ...]:
    """Return the keys that a filter restricts to one value: (key, perf's name of the filter, the value)."""
    names = [name for name in chosen.symbols or () if not re.fullmatch(_ADDRESS, name)]  # perf handles addresses separately
    lists = (("dso", "dso", chosen.dsos), ("comm", "comm", chosen.comms), ("symbol", "symbol", names))
    return tuple((key, name, next(iter(values))) for key, name, values in lists if values and len(values) == 1)


def sort_order(options: ReportCommandOptions, config: Config, mode: Mode) -> str | None:
    """Return the sort keys of the command line, or else of the configuration; None for the default."""
    sort = config.get("report.sort_order") if options.sort is None else options.sort
    if sort is None and mode is Mode.NORMAL and options.branch_history:
        sort = "srcline,symbol,dso"
    if sort and "symbol" in sort:
        # perf adds this column itself: instructions per cycle, dashes without branch records.
        sort += ",ipc_lbr" if mode is Mode.BRANCH else ",ipc_null"
    return sort


def requested_columns(options: ReportCommandOptions, chosen: SampleFilter, *, children: bool, config: Config, mode: Mode) -> ColumnOptions:
    """Return the columns of a command line."""
    if options.fields and not options.fields.replace(",", ""):
        fail(f"--fields {options.fields!r}: no field")
    return options.fill(
        ColumnOptions,
        sort=sort_order(options, config, mode),
        children=children,
        mode=mode,
        metrics=tuple(_metrics(options)),
        parent=bool(options.parent),
        hidden=() if options.hierarchy else tuple(key for key, _, _ in hidden_keys(chosen)),
    )


def _metrics(options: ReportCommandOptions) -> Iterator[str]:
    if options.show_cpu_utilization:
        yield from ("overhead_sys", "overhead_us")
        if options.machines.guests:
            yield from ("overhead_guest_sys", "overhead_guest_us")
    if options.show_nr_samples:
        yield "sample"
    if options.show_total_period:
        yield "period"
