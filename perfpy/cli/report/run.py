"""One run of `perfpy report` over an open recording.

What enters: the command's values. What leaves: text on standard output, or
files; notes for people on standard error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perfpy.abi.flags import SampleType
from perfpy.analysis.filters.event_switch import EventSwitch
from perfpy.analysis.report.options import DEFAULT_PARENT, ReportOptions
from perfpy.analysis.sortkeys.names import DEFAULT_ORDER, Mode
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.progress import progress_line
from perfpy.cli.line.symbol_values import symbol_options_of
from perfpy.cli.line.terminal import colour_start, is_terminal, wants_plain
from perfpy.cli.report import options as texts
from perfpy.errors import PerfError
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import one_line
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.text import HEADER_HINT, report_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.report.report import Report
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

#: what only the plain text has
_PLAIN = ("stdio", "header", "hierarchy", "field_separator", "column_widths", "threads", "verbose", "quiet")
_EXPORTS = ("flamegraph", "folded", "speedscope", "firefox", "pprof")


class ReportRun:
    """Decides what is shown, and shows it."""

    def __init__(self, recording: Recording, values: dict[str, Any]) -> None:
        self._recording = recording
        self._values = values
        self._config = load()

    def show(self) -> int:
        """Do what the options ask for, but for the header; the exit status."""
        values = self._values
        if values["dump_raw_trace"]:
            return self._dump()
        if values["stats"]:
            from perfpy.views.metadata.record_counts import record_count_lines

            return _print(record_count_lines(self._recording, skip_empty=self._skips_empty()))
        if values["tasks"] or values["mmaps"]:
            from perfpy.views.metadata.tasks import task_lines

            return _print(task_lines(self._recording, mappings=values["mmaps"]))
        if any(values[name] is not None for name in _EXPORTS):
            self._export()
            if values["json"] is None:
                return 0
        return self._report()

    def _dump(self) -> int:
        from perfpy.views.dump.recording import is_read_to_the_end, write_dump
        from perfpy.views.metadata.record_counts import record_count_lines

        sys.stdout.flush()
        entries = write_dump(self._recording, sys.stdout.buffer, hint=f"{HEADER_HINT}\n")
        sys.stdout.buffer.flush()
        return _print(record_count_lines(self._recording, entries)) if is_read_to_the_end(self._recording) else 0

    def _report(self) -> int:
        values = self._values
        plain = values["json"] is None and not values["tui"] and wants_plain(stdio=any(values[name] for name in _PLAIN))
        hint = HEADER_HINT.split("\n") if plain and not values["quiet"] and not values["header"] else []
        try:
            options = self._options()
        except PerfError:
            _print(hint)
            raise
        hidden = texts.hidden_keys(options.selection)
        text_options = self._text_options()
        with progress_line("reading samples") as progress:
            # perf says nothing before it knows the sort keys
            report = self._recording.report(options=options, symbols=self._symbol_options(), progress=progress)
        _print(hint)
        if plain and values["show_info"] and not values["header"] and self._recording.data.is_pipe:
            from perfpy.cli.line.header import features_of_pipe, print_lines

            print_lines(features_of_pipe(self._recording))
        if plain:
            said = {key: f"# {name}: {value}" for key, name, value in hidden}
            _print(said[entry.name] for entry in report.layout.fields if entry.name in said)
        if values["json"] is not None:
            return self._write_json(report)
        if not report.samples:
            print(f"perfpy: {self._recording.path}: no samples in it; `perfpy evlist -v` shows what was asked for", file=sys.stderr)
            return 0
        if values["tui"]:
            return self._browse(report)
        if plain:
            _print(report_lines(report, text_options))
            if values["threads"]:
                from perfpy.views.report.thread_counts import thread_count_lines

                _print(thread_count_lines(self._recording))
        else:
            self._show_screen(report, text_options)
        self._note_missing(report)
        return 0

    def _note_missing(self, report: Report) -> None:
        """Say on standard error what has no symbols, and what would help."""
        if self._values["quiet"] or not report.missing:
            return
        from perfpy.symbols.providers.missing import note

        sys.stdout.flush()
        for line in note(report.missing, report.samples, everything=bool(self._values["verbose"])):
            print(one_line(line), file=sys.stderr)

    def _write_json(self, report: Report) -> int:
        from perfpy.cli.line.output_files import write_text
        from perfpy.views.report.json import report_json

        write_text(self._values["json"], report_json(report))
        return 0

    def _show_screen(self, report: Report, options: TextOptions) -> None:
        from perfpy.cli.line.terminal import console
        from perfpy.views.report.screen import show_report

        show_report(report, self._recording, console(), options)

    def _browse(self, report: Report) -> int:
        try:
            from perfpy.views.report.browser import ReportBrowser
        except ModuleNotFoundError as error:
            fail(f"--tui needs the module {error.name}: pip install 'perfpy[tui]'")
        if not is_terminal():
            fail("--tui needs a terminal: standard output is none")
        ReportBrowser(report, self._header_lines).run()
        return 0

    def _header_lines(self) -> Iterable[str]:
        from perfpy.cli.line.header import lines_of_header

        return lines_of_header(self._recording, full=self._values["show_info"])

    def _export(self) -> None:
        from perfpy.cli.report.exports import write_exports

        write_exports(self._recording, self._values, self._selection(), self._symbol_options())

    def _options(self) -> ReportOptions:
        values, config = self._values, self._config
        children = config.flag("report.children", True) if values["children"] is None else values["children"]
        graph = texts.call_graph(values, children=children, config=config)
        self._refuse_missing_data()
        self._refuse_sorting_without_groups()
        if values["part"]:
            values["symbol_filter"] = values["symbol_filter"] or values["part"]
        percentage = values["percentage"] or texts.configured_percentage(config)
        children = children and not values["hierarchy"]
        selection = self._selection()
        return ReportOptions(
            wanted=texts.wanted(values, selection, children=children, config=config, mode=self._mode()),
            selection=selection,
            call_graph=graph,
            children=children,
            hierarchy=values["hierarchy"],
            max_stack=values["max_stack"],
            ignore_callees=texts.pattern(values["ignore_callees"], "--ignore-callees"),
            parent=texts.pattern(values["parent"], "-p") or DEFAULT_PARENT,
            exclude_other=values["exclude_other"],
            hide_unresolved=values["hide_unresolved"],
            group=values["group"] if values["group"] is not None or config.flag("report.group", True) else False,
            sort_member=values["group_sort_idx"],
            relative_percentages=percentage == "relative",
            verbose=values["verbose"] > 0,
            nanoseconds=values["ns"],
            time_quantum=texts.quantum(values["time_quantum"]),
            unnamed_dso_width=0 if values["column_widths"] or values["field_separator"] or values["dsos"] else 16,
        )

    def _refuse_missing_data(self) -> None:
        """Reports of what was not recorded are errors; of pipes it is not known before they are read."""
        values, data = self._values, self._recording.data
        if data.is_pipe:
            return
        asked = values["call_graph"]
        lacking = ""
        if not data.has(SampleType.CALLCHAIN) and (values["parent"] or "parent" in (values["sort"] or "")):
            lacking = "--sort parent needs callchains: record with -g"
        elif not data.has(SampleType.CALLCHAIN) and asked is not None and not asked.startswith("none"):
            lacking = "-g needs callchains: record with -g"
        elif not data.has(SampleType.CPU) and values["cpu"]:
            lacking = "-C needs the CPU of each sample: record with --sample-cpu, or leave -C out"
        elif not data.has(SampleType.BRANCH_STACK) and values["branch_stack"]:
            lacking = "-b needs branch records: record with -b"
        elif not data.has(SampleType.DATA_SRC) and values["mem_mode"]:
            lacking = "--mem-mode needs memory accesses: record with -d"
        if lacking:
            raise PerfError(f"{self._recording.path}: the recording has no such data; {lacking}")

    def _refuse_sorting_without_groups(self) -> None:
        values, data = self._values, self._recording.data
        grouped = data.is_pipe or data.features.get("group_desc", ()) or (values["group"] and len(data.events) > 1)
        if values["group_sort_idx"] and not grouped:
            fail("--group-sort-idx sorts groups of events, the recording has none; --group makes one of its events where it has several")

    def _selection(self) -> SampleFilter:
        """The filters."""
        values = self._values
        switch = EventSwitch.between(values["switch_on"], values["switch_off"], self._recording.events, show=values["show_on_off_events"])
        return texts.selection(values, self._times(), switch)

    def _times(self) -> Any:
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._values["time"], self._recording.times()) if self._values["time"] else None

    def _mode(self) -> Mode:
        """What a row stands for."""
        if self._values["mem_mode"]:
            return Mode.MEMORY
        asked = self._values["branch_stack"]
        branches = self._recording.data.has_branches if asked is None else asked
        return Mode.BRANCH if branches else Mode.NORMAL

    def _memory_order(self) -> str:
        """The sort keys, which perf prints for reports of memory accesses."""
        mode = Mode.MEMORY
        return (texts.sort_order(self._values, self._config, mode) or DEFAULT_ORDER[mode]) if self._values["mem_mode"] else ""

    def _skips_empty(self) -> bool:
        """Whether events without samples, and counts of nothing, are left out."""
        asked: bool | None = self._values["skip_empty"]
        return self._config.flag("report.skip-empty", True) if asked is None else asked

    def _symbol_options(self) -> SymbolOptions:
        return symbol_options_of(self._values, self._config, self._recording)

    def _text_options(self) -> TextOptions:
        values, config = self._values, self._config
        limit = values["percent_limit"]
        return TextOptions(
            separator=values["field_separator"],
            widths=texts.widths(values["column_widths"]),
            quiet=values["quiet"],
            percent_limit=config.number("report.percent-limit", 0.0) if limit is None else limit,
            times=values["time"],
            skip_empty=self._skips_empty(),
            memory_order=self._memory_order(),
            colour=colour_start(values["stdio_color"]),
        )


def _print(lines: Iterable[str]) -> int:
    sys.stdout.writelines(one_line_each(lines))
    return 0
