"""One run of `perfpy report` over an open recording."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.abi.flags import RecordType
from perfpy.analysis.samples.wait_events import has_off_cpu, is_off_cpu
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.output.notes import fit_notes, notes_are_read, print_notes, rows_of
from perfpy.cli.output.progress import progress_line
from perfpy.cli.output.terminal import is_terminal, print_lines, wants_plain
from perfpy.cli.report.columns import hidden_keys
from perfpy.cli.report.request import ReportRequest
from perfpy.errors import PerfError
from perfpy.untrusted.text import lines as one_line_each
from perfpy.views.report.text import HEADER_HINT, report_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.recording import Recording
    from perfpy.views.annotate.browser import CodeScreen
    from perfpy.views.report.column_text import TextOptions
    from perfpy.views.verdict.sentence import Sentence


class ReportRun:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, options: ReportCommandOptions) -> None:
        self._recording = recording
        self._options = options
        if options.with_off_cpu:
            recording.merge_off_cpu()
        config = load()
        self._request = ReportRequest(recording, options, config)
        by_setting = config.flag("tui.report", False) and _has_browser() and not wants_plain(stdio=options.needs_plain)
        self._browses = options.json is None and (
            by_setting or (options.tui and is_terminal())
        )  # perf prints its text if there is no terminal
        has_form = options.json is not None or self._browses or options.verdict
        self._plain = not has_form and wants_plain(stdio=options.needs_plain)

    def show(self) -> int:
        """Carry out the options, except for the header; return the exit status."""
        options = self._options
        if options.dump_raw_trace:
            return self._dump()
        if options.stats:
            return self._count_records()
        if options.tasks or options.mmaps:
            return self._list_tasks()
        if options.exports:
            self._export()
            if options.json is None:
                return 0
        return self._report()

    def _dump(self) -> int:
        from perfpy.views.dump.recording import is_read_to_the_end, write_dump
        from perfpy.views.metadata.record_counts import record_count_lines

        sys.stdout.flush()
        entries = write_dump(self._recording, sys.stdout.buffer, hint=f"{HEADER_HINT}\n")
        sys.stdout.buffer.flush()
        return _print_counts(record_count_lines(self._recording, entries)) if is_read_to_the_end(self._recording) else 0

    def _count_records(self) -> int:
        from perfpy.views.metadata.record_counts import record_count_lines

        return _print_counts(record_count_lines(self._recording, skip_empty=self._request.skips_empty()))

    def _list_tasks(self) -> int:
        from perfpy.views.metadata.tasks import task_lines

        return _print(task_lines(self._recording, mappings=self._options.mmaps))

    def _export(self) -> None:
        from perfpy.cli.report.exports import write_exports

        write_exports(self._recording, self._options, self._request.sample_filter(), self._request.symbol_options())

    def _report(self) -> int:
        if self._options.json is None and self._report_pmcu():
            return 0
        if self._request.shows_blocks:
            return self._report_blocks()
        options = self._report_options()
        text_options = self._request.text_options()
        with progress_line("reading samples") as progress:
            symbols = self._request.symbol_options(plain=self._plain, screen=self._is_screen)
            report = self._recording.report(options=options, symbols=symbols, progress=progress, jobs=self._options.jobs)
        self._introduce(report, options)
        is_empty = not any(len(histogram.visible_entries()) for histogram in report.histograms)
        if is_empty:
            self._explain(report)
        if self._options.json is not None:
            return self._write_json(self._options.json, report)
        if not report.samples or (is_empty and not self._plain):
            return 0
        if self._options.verdict:
            return _print(sentence.text for sentence in self._verdict(report))
        if self._browses:
            return self._browse(report)
        if self._plain:
            self._print_tables(report, text_options)
            print_notes(self._notes(report), quiet=self._options.quiet, verbose=self._options.verbose)
        else:
            notes = list(self._notes(report))
            rows_left = self._show_screen(report, text_options, notes)
            print_notes(
                notes if self._options.verbose else fit_notes(notes, rows_left), quiet=self._options.quiet, verbose=self._options.verbose
            )
        return 0

    def _report_blocks(self) -> int:
        """Print the blocks between branches that took the most cycles."""
        from perfpy.analysis.report.branch_blocks import COLUMNS, block_tables
        from perfpy.analysis.report.report import losses
        from perfpy.views.report.block_text import block_lines

        recording, chosen = self._recording, self._request.sample_filter()
        symbolizer = recording.symbolizer(self._request.symbol_options(plain=True))
        batches = recording.batches(COLUMNS | chosen.all_fields())
        tables = block_tables(batches, recording.events, recording.timeline, symbolizer, chosen)
        self._hint()
        return _print(block_lines(tables, losses(recording.data)[0], symbolizer))

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
        from perfpy.views.pmcu.table import report_lines as pmcu_lines  # few recordings have one

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

    def _print_tables(self, report: Report, options: TextOptions) -> None:
        _print(report_lines(report, options))
        if self._options.threads:
            from perfpy.views.report.thread_counts import thread_count_lines

            _print(thread_count_lines(self._recording))

    def _show_screen(self, report: Report, text_options: TextOptions, notes: list[str]) -> int:
        """Print the report, and return the rows that it leaves for notes above the prompt."""
        from perfpy.cli.output.terminal import console
        from perfpy.views.report.screens.screen import ScreenOptions, show_report

        options = self._options
        screen_options = ScreenOptions(
            text=text_options._replace(short_names=not options.full_names),
            own_first=options.children is None and not options.latency,
            every_row=options.percent_limit is not None,
            tree=options.call_graph is not None,
            browser=_has_browser(),
            lines_after=rows_of(notes) if notes_are_read(quiet=options.quiet, verbose=options.verbose) else 0,
            verdict=self._verdict(report),
        )
        screen = console()
        with screen.capture() as captured:
            show_report(report, self._recording, screen, screen_options)
        text = captured.get()
        screen.file.write(text)
        return max(screen.height - 1 - text.count("\n"), 1)

    def _verdict(self, report: Report) -> list[Sentence]:
        from perfpy.views.verdict.profile import profile_verdict  # not needed for plain reports

        folds = self._request.folds_interpreters(screen=self._is_screen)
        return profile_verdict(report, self._recording, self._waits if folds and has_off_cpu(self._recording.events) else None)

    def _waits(self) -> Report:
        """Return a report of the waits with the frames of interpreters, which show their reasons."""
        options = self._report_options()
        off_cpu = frozenset(event.index for event in self._recording.events if is_off_cpu(event))
        options = options._replace(sample_filter=options.sample_filter._replace(events=off_cpu))
        symbols = self._request.symbol_options(screen=True)._replace(fold_interpreters=False)
        return self._recording.report(options=options, symbols=symbols, jobs=self._options.jobs)

    def _notes(self, report: Report) -> Iterator[str]:
        """Yield notes on missing symbols, missing callers, short stacks and hidden rows, with remedies."""
        from perfpy.symbols.providers.missing_symbols import note
        from perfpy.unwind import truncated_stacks

        if self._plain and self._request.sample_filter().marks:
            from perfpy.analysis.report.quality import filtered_rows_notes

            yield from filtered_rows_notes(report)
        yield from note(report.missing, report.samples, everything=bool(self._options.verbose))
        yield from report.notes
        yield from truncated_stacks.note(report.truncated)
        if self._is_screen and self._options.fold_interpreters is None and self._request.folds_interpreters(screen=True):
            yield "note: Python functions include the C code that they ran; --no-fold-interpreters shows it"

    @staticmethod
    def _write_json(path: str, report: Report) -> int:
        from perfpy.cli.output.output_files import write_text
        from perfpy.views.report.json import report_json

        write_text(path, report_json(report))
        return 0

    def _browse(self, report: Report) -> int:
        try:
            from perfpy.views.report.screens.browser import ReportBrowser
        except ModuleNotFoundError as error:
            fail(f"--tui requires the module {error.name}; pip install 'perfpy[tui]'")
        options = self._options
        ReportBrowser(
            report,
            self._header_lines,
            full_names=options.full_names,
            code=self._code,
            verdict=self._verdict(report),
            own_first=options.children is None and not options.latency,
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


def _print_counts(lines: Iterable[str]) -> int:
    """Print record counts. They end dumps, too, which programs read line by line."""
    sys.stdout.writelines(one_line_each(lines))
    return 0
