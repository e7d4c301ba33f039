"""What one `perfpy report` asks for: its command line, completed by the configuration and the recording.

What enters: the command's options, perfconfig's settings, an open recording.
What leaves: the library's options for rows, symbols and text; or an error where
the recording has no such data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from perfpy.analysis.filters.conditions import events_named
from perfpy.analysis.report.options import DEFAULT_PARENT, ChainOptions, NameOptions, ReportOptions, RowOptions, TimeOptions
from perfpy.analysis.report.report import cpus_of_socket
from perfpy.analysis.samples.wait_events import has_off_cpu, says_why_it_waited
from perfpy.analysis.sortkeys.key_texts import HOUR
from perfpy.analysis.sortkeys.names import DEFAULT_ORDER
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.cli.line.options import fail
from perfpy.cli.line.symbol_values import inline_of, symbol_options_of
from perfpy.cli.line.terminal import colour_start
from perfpy.cli.report import option_values as texts
from perfpy.cli.report.call_graph import call_graph
from perfpy.errors import PerfError
from perfpy.views.report.column_text import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.report.layout import Wanted
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class ReportRequest:
    """The options of one report, for the library."""

    def __init__(self, recording: Recording, asked: ReportCommandOptions, config: Config) -> None:
        self._recording = recording
        self._asked = asked
        self._config = config

    def report_options(self, *, plain: bool = False) -> ReportOptions:
        """Which rows the report has; plain: perf's text. Raises PerfError for what was not recorded, UsageError for what makes no sense."""
        asked, config = self._asked, self._config
        children = config.flag("report.children", True) if asked.children is None else asked.children
        graph = call_graph(asked, children=children, config=config)
        self._refuse_missing_data()
        self._refuse_sorting_without_groups()
        percentage = asked.percentage or texts.configured_percentage(config)
        children = children and not asked.hierarchy
        sample_filter = self.sample_filter()
        return ReportOptions(
            wanted=self._wanted(sample_filter, children=children, plain=plain),
            sample_filter=sample_filter,
            chains=ChainOptions(
                graph,
                children,
                asked.max_stack,
                ignore_callees=texts.pattern(asked.ignore_callees, "--ignore-callees"),
                recursion_as_one=not plain and asked.json is None and not graph.within_functions,
            ),
            rows=self._row_options(plain=plain, relative_percentages=percentage == "relative"),
            names=NameOptions(
                verbose=asked.verbose > 0,
                tiers_as_one=not plain and asked.json is None and not sample_filter.by_location,
                full_source_path=asked.full_source_path,
                as_addr2line=plain,
                unnamed_dso_width=0 if asked.column_widths or asked.field_separator or asked.dsos else 16,
            ),
            times=TimeOptions(
                nanoseconds=asked.ns,
                time_quantum=texts.quantum(asked.time_quantum),
                clock_quantum=texts.quantum(asked.time_quantum) if asked.in_order("time_quantum") else HOUR,
            ),
        )

    def _row_options(self, *, plain: bool, relative_percentages: bool) -> RowOptions:
        asked, config = self._asked, self._config
        return RowOptions(
            hierarchy=asked.hierarchy,
            group=asked.group if asked.group is not None or config.flag("report.group", True) else False,
            sort_member=asked.group_sort_idx,
            parent=texts.pattern(asked.parent, "-p") or DEFAULT_PARENT,
            exclude_other=asked.exclude_other,
            hide_unresolved=asked.hide_unresolved,
            relative_percentages=relative_percentages,
            rows_filtered=plain,
        )

    def _wanted(self, sample_filter: SampleFilter, *, children: bool, plain: bool) -> Wanted:
        """The columns; where time off the CPU was recorded seconds are among them, but in perf's text only if they are asked for."""
        asked = self._asked
        wanted = texts.wanted(asked, sample_filter, children=children, config=self._config, mode=self._mode())
        says_why = says_why_it_waited(self._recording.events)
        if asked.with_off_cpu and says_why and wanted.sort is None and wanted.fields is None:
            wanted = wanted._replace(sort=f"state,{DEFAULT_ORDER[Mode.NORMAL]}")
        timed = asked.with_off_cpu or (not plain and has_off_cpu(self._recording.events))
        return wanted._replace(metrics=(*wanted.metrics, "seconds")) if timed else wanted

    def sample_filter(self) -> SampleFilter:
        """The filters."""
        asked = self._asked
        chosen = texts.sample_filter(asked, self._times(), self._switch())
        if asked.event:
            chosen = chosen._replace(events=events_named(asked.event, self._recording.events))
        if asked.socket_filter < 0:
            return chosen
        cpus = cpus_of_socket(self._recording.data, asked.socket_filter)
        if not cpus:
            raise PerfError(f"--socket-filter {asked.socket_filter}: {self._recording.path} names no CPU in this socket")
        return chosen._replace(cpus=tuple(sorted(cpus if chosen.cpus is None else cpus.intersection(chosen.cpus))))

    def symbol_options(self, *, plain: bool = False, screen: bool = False) -> SymbolOptions:
        """Where symbols come from; plain: for perf's text; screen: for a terminal."""
        asked, recording = self._asked, self._recording
        inline = inline_of(asked.inline, recording, plain=plain)
        found = symbol_options_of(asked, self._config, recording, force=asked.force, ignore_vmlinux=asked.ignore_vmlinux, inline=inline)
        return found._replace(fold_interpreters=self.folds_interpreters(screen=screen))

    def folds_interpreters(self, *, screen: bool) -> bool:
        """Whether samples count for the functions that interpreters ran: where asked, with sort keys of Python, on screens by default."""
        asked = self._asked
        if asked.fold_interpreters is not None:
            return asked.fold_interpreters
        by_python = any(key in ("pyfunc", "pyline") for key in re.split(r"[,+\s]+", f"{asked.sort or ''},{asked.fields or ''}"))
        if by_python or not screen:
            return by_python
        from perfpy.symbols.interpreters import has_python_image  # plain reports need not know

        return has_python_image(self._recording.data.kept_files)

    def text_options(self) -> TextOptions:
        """How rows are printed."""
        asked, config = self._asked, self._config
        limit = asked.percent_limit
        return TextOptions(
            separator=asked.field_separator,
            widths=texts.widths(asked.column_widths),
            quiet=asked.quiet,
            percent_limit=config.number("report.percent-limit", 0.0) if limit is None else limit,
            times=asked.time,
            skip_empty=self.skips_empty(),
            memory_order=self._memory_order(),
            socket=asked.socket_filter,
            colour=colour_start(asked.stdio_color),
        )

    def skips_empty(self) -> bool:
        """Whether events without samples, and counts of nothing, are left out."""
        asked = self._asked.skip_empty
        return self._config.flag("report.skip-empty", True) if asked is None else asked

    def _times(self) -> TimeRanges | None:
        if not self._asked.time:
            return None
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._asked.time, self._recording.times())

    def _switch(self) -> EventSwitch | None:
        asked = self._asked
        if not (asked.switch_on or asked.switch_off):
            return None
        from perfpy.analysis.filters.event_switch import EventSwitch

        return EventSwitch.between(asked.switch_on, asked.switch_off, self._recording.events, show=asked.show_on_off_events)

    def _mode(self) -> Mode:
        """What a row stands for."""
        if self._asked.mem_mode:
            return Mode.MEMORY
        asked = self._asked.branch_stack
        branches = self._recording.data.has_branches if asked is None else asked
        return Mode.BRANCH if branches else Mode.NORMAL

    @property
    def of_blocks(self) -> bool:
        """Whether blocks between branches are shown: of other recordings perf shows its usual table."""
        return self._asked.total_cycles and self._mode() is Mode.BRANCH

    def _memory_order(self) -> str:
        """The sort keys, which perf prints for reports of memory accesses."""
        mode = Mode.MEMORY
        return (texts.sort_order(self._asked, self._config, mode) or DEFAULT_ORDER[mode]) if self._asked.mem_mode else ""

    def _refuse_missing_data(self) -> None:
        """Reports of what was not recorded are errors; of pipes it is not known before they are read."""
        data = self._recording.data
        missing = () if data.is_pipe else (remedy for field, remedy in self._needs() if not data.has(field))
        for remedy in missing:
            raise PerfError(f"{self._recording.path}: the recording has no such data; {remedy}")

    def _needs(self) -> Iterator[tuple[int, str]]:
        """The fields that samples must have for what is asked, and what helps where they have not."""
        asked = self._asked
        if asked.parent or "parent" in (asked.sort or ""):
            yield SampleType.CALLCHAIN, "--sort parent needs callchains: record with -g"
        if asked.call_graph is not None and not asked.call_graph.startswith("none"):
            yield SampleType.CALLCHAIN, "-g needs callchains: record with -g"
        if asked.cpu:
            yield SampleType.CPU, "-C needs the CPU of each sample: record with --sample-cpu, or leave -C out"
        if asked.branch_stack:
            yield SampleType.BRANCH_STACK, "-b needs branch records: record with -b"
        if asked.mem_mode:
            yield SampleType.DATA_SRC, "--mem-mode needs memory accesses: record with -d"

    def _refuse_sorting_without_groups(self) -> None:
        asked, data = self._asked, self._recording.data
        grouped = data.is_pipe or data.features.get("group_desc", ()) or (asked.group and len(data.events) > 1)
        if asked.group_sort_idx and not grouped:
            fail("--group-sort-idx sorts groups of events, the recording has none; --group makes one of its events where it has several")
