"""The request of one `perfpy report`: its command line, completed by the configuration and the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from perfpy.analysis.entries.options import DEFAULT_PARENT, ChainOptions, NameOptions, ReportOptions, RowOptions, TimeOptions
from perfpy.analysis.filters.conditions import events_named
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.report import cpus_of_socket
from perfpy.analysis.samples.wait_events import has_off_cpu, says_why_it_waited
from perfpy.analysis.sortkeys.key_texts import HOUR
from perfpy.analysis.sortkeys.names import DEFAULT_ORDER
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.cli.line.options import fail
from perfpy.cli.line.symbol_values import inline_of, symbol_options_of
from perfpy.cli.output.terminal import colour_start
from perfpy.cli.report.call_graph import call_graph
from perfpy.cli.report.columns import configured_percentage, requested_columns, sort_order
from perfpy.errors import PerfError
from perfpy.views.report.column_text import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.entries.layout import ColumnOptions
    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


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
        self._refuse_missing_data()
        self._refuse_sorting_without_groups()
        percentage = options.percentage or configured_percentage(config)
        children = children and not options.hierarchy
        sample_filter = self.sample_filter()
        return ReportOptions(
            columns=self._requested_columns(sample_filter, children=children, plain=plain),
            sample_filter=sample_filter,
            chains=options.fill(
                ChainOptions,
                call_graph=graph,
                children=children,
                recursion_as_one=not plain and options.json is None and not graph.within_functions,
            ),
            rows=self._row_options(plain=plain, relative_percentages=percentage == "relative"),
            names=options.fill(
                NameOptions,
                verbose=options.verbose > 0,
                tiers_as_one=not plain and options.json is None and not sample_filter.by_location,
                as_addr2line=plain,
                unnamed_dso_width=0 if options.widths or options.separator or options.dsos else 16,
            ),
            times=options.fill(TimeOptions, clock_quantum=options.time_quantum if options.in_order("time_quantum") else HOUR),
        )

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
        columns = requested_columns(options, sample_filter, children=children, config=self._config, mode=self._mode())
        is_default = sort_order(options, self._config, Mode.NORMAL) is None and columns.fields is None and not sample_filter.comms
        if is_default and not plain and options.json is None:
            columns = columns._replace(of_processes=True)  # threads with names of their own would split the rows of a function
        says_why = says_why_it_waited(self._recording.events)
        if options.with_off_cpu and says_why and columns.sort is None and columns.fields is None:
            columns = columns._replace(sort=f"state,{DEFAULT_ORDER[Mode.NORMAL]}")
        timed = options.with_off_cpu or (not plain and has_off_cpu(self._recording.events))
        return columns._replace(metrics=(*columns.metrics, "seconds")) if timed else columns

    def sample_filter(self) -> SampleFilter:
        """Return the filters."""
        options = self._options
        chosen = options.fill(SampleFilter, symbol_part=options.symbol_part, times=self._times(), switch=self._switch())
        if options.event:
            chosen = chosen._replace(events=events_named(options.event, self._recording.events))
        if options.socket_filter < 0:
            return chosen
        cpus = cpus_of_socket(self._recording.data, options.socket_filter)
        if not cpus:
            raise PerfError(f"--socket-filter {options.socket_filter}: {self._recording.path} has no CPU in this socket")
        return chosen._replace(cpus=tuple(sorted(cpus if chosen.cpus is None else cpus.intersection(chosen.cpus))))

    def symbol_options(self, *, plain: bool = False, screen: bool = False) -> SymbolOptions:
        """Return the symbol options. plain: for perf's text; screen: for a terminal."""
        options, recording = self._options, self._recording
        inline = inline_of(options.inline, recording, plain=plain)
        symbols = symbol_options_of(
            options, self._config, recording, force=options.force, ignore_vmlinux=options.ignore_vmlinux, inline=inline
        )
        return symbols._replace(fold_interpreters=self.folds_interpreters(screen=screen))

    def folds_interpreters(self, *, screen: bool) -> bool:
        """Whether samples count for the functions that interpreters ran: as the option says, by default on screens of Python recordings."""
        if self._options.fold_interpreters is not None or not screen:
            return bool(self._options.fold_interpreters)
        from perfpy.symbols.interpreters import has_python_image  # not needed for plain reports

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
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._options.time, self._recording.times())

    def _switch(self) -> EventSwitch | None:
        options = self._options
        if not (options.switch_on or options.switch_off):
            return None
        from perfpy.analysis.filters.event_switch import EventSwitch

        return EventSwitch.between(options.switch_on, options.switch_off, self._recording.events, show=options.show_on_off_events)

    def _mode(self) -> Mode:
        """Return the kind of thing that a row represents."""
        if self._options.mem_mode:
            return Mode.MEMORY
        options = self._options.branch_stack
        branches = self._recording.data.has_branches if options is None else options
        return Mode.BRANCH if branches else Mode.NORMAL

    @property
    def shows_blocks(self) -> bool:
        """Whether to show blocks between branches. Without branch records perf shows its usual table."""
        return self._options.total_cycles and self._mode() is Mode.BRANCH

    def _memory_order(self) -> str:
        """Return the sort keys, which perf prints for reports of memory accesses."""
        mode = Mode.MEMORY
        return (sort_order(self._options, self._config, mode) or DEFAULT_ORDER[mode]) if self._options.mem_mode else ""

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
        if options.call_graph is not None and not options.call_graph.startswith("none"):
            yield SampleType.CALLCHAIN, "no callchains for -g; record with -g"
        if options.cpus:
            yield SampleType.CPU, "the samples have no CPU field; drop -C, or record with --sample-cpu"
        if options.branch_stack:
            yield SampleType.BRANCH_STACK, "no branch records for -b; record with -b"
        if options.mem_mode:
            yield SampleType.DATA_SRC, "no memory accesses for --mem-mode; record with -d"

    def _refuse_sorting_without_groups(self) -> None:
        options, data = self._options, self._recording.data
        has_groups = data.is_pipe or data.features.get("group_desc", ()) or (options.group and len(data.events) > 1)
        if options.sort_member and not has_groups:
            fail("--group-sort-idx: this recording has no group of events; --group forms one if it has several events")
