"""`perfpy report -i A -i B`, `-i 'hosts/*.data'`, `-i FOLDER`: report many recordings as one.

The output is perf's text, JSON, a flame graph or other stacks. Unreadable recordings are listed on stderr, and the exit status
is then 91.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.report.options import plan_report
from perfpy.analysis.sort_keys import DEFAULT_ORDER
from perfpy.analysis.stacks import StackOptions
from perfpy.cli.line.numpy_start import prepare_numpy
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.output_files import write_bytes, write_text
from perfpy.cli.output.terminal import TaskProgress, colour_start, print_lines, print_notes, warn_of_failed_recordings
from perfpy.cli.report.run import BY_FUNCTION, ReportRequest, refuse_row_options, write_folded
from perfpy.fleet.cluster import SentSettings, cluster_address
from perfpy.symbols.quality_notes import note
from perfpy.views.report.text import HEADER_HINT, report_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.stacks import Stacks
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.fleet.recordings import Recordings
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.report.text import TextOptions

_SINGLE_ONLY: Final = (
    "stats", "tasks", "mmaps", "dump_raw_trace", "total_cycles", "show_info", "header", "header_only", "tui", "firefox", "threads", "group",
    "stitch_lbr",
)  # fmt: skip


class ManyRun:
    """One run of the command over many recordings."""

    def __init__(self, options: ReportCommandOptions) -> None:
        self._options = options

    def show(self) -> int:
        """Report the recordings of -i as one; return the exit status."""
        prepare_numpy()
        if excluded := ", ".join(self._options.given(*_SINGLE_ONLY)):
            fail(f"{excluded}: for single recordings only; many have tables, JSON, flame graphs, folded stacks, pprof and speedscope")
        with TaskProgress("reading recordings") as progress:
            recordings = _open(self._options, progress)
            if self._options.exports:
                self._export(recordings)
            if not self._options.exports or self._options.json is not None:
                self._report(recordings)
        return warn_of_failed_recordings([recordings], quiet=self._options.quiet)

    def _report(self, recordings: Recordings) -> None:
        options = self._options
        each = ManyRecordingOptions(options, plain=options.json is None)
        table_options, symbols, text_options = recordings.read_first(each.table_options)
        report = recordings.report(options=table_options, symbols=symbols, options_of=each.row_options)
        if options.json is not None:
            from perfpy.views.report.json import report_json

            write_text(options.json, report_json(report))
            return
        if not options.quiet:
            print_lines(HEADER_HINT.split("\n"))
        if report.samples:
            print_lines(report_lines(report, text_options._replace(colour=colour_start(options.stdio_color))))
        notes = [*note(report.missing, report.samples, everything=bool(options.verbose)), *report.notes]
        print_notes(notes, quiet=options.quiet, verbose=options.verbose)

    def _export(self, recordings: Recordings) -> None:
        refuse_row_options(self._options)
        for sites in (False, True):
            paths = {name: path for name, path in self._options.exports.items() if (name in BY_FUNCTION) is not sites}
            if not paths:
                continue
            each = ManyRecordingOptions(self._options, plain=False, sites=sites)
            options, symbols = recordings.read_first(each.stack_options)
            stacks = recordings.stacks(symbols, options, options_of=each.stack_options)
            for name, path in paths.items() if stacks else ():
                if name == "folded":
                    write_folded(stacks, path, quiet=self._options.quiet)
                else:
                    write_bytes(path, _export_bytes(name, stacks, recordings.title), quiet=self._options.quiet)


class ManyRecordingOptions:
    """The options for each recording, completed by the recording's own data; can be sent to other processes."""

    def __init__(self, options: ReportCommandOptions, *, plain: bool, sites: bool = False) -> None:
        self._options, self._plain, self._sites, self._settings = options, plain, sites, SentSettings(load_config())

    def row_options(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """Return the options for tables."""
        request = self._request(recording)
        options = request.report_options(plain=self._plain)
        columns = options.columns
        if not columns.fields:
            columns = columns._replace(sort=columns.sort or DEFAULT_ORDER[columns.mode])
        return options._replace(rows=options.rows._replace(group=None), columns=columns), request.symbol_options(plain=self._plain)

    def stack_options(self, recording: Recording) -> tuple[StackOptions, SymbolOptions]:
        """Return the options for whole stacks."""
        request = self._request(recording)
        return StackOptions(request.sample_filter(), latency=self._options.latency, sites=self._sites), request.symbol_options()

    def table_options(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions, TextOptions]:
        """Return the options for the table of all recordings, and its text, from the first recording. Raises UsageError."""
        options, symbols = self.row_options(recording)
        plan_report(recording.data, options)
        # the terminal is this process's, whichever process reads the recording
        return options, symbols, ReportRequest(recording, self._options, load_config()).text_options()._replace(colour="")

    def _request(self, recording: Recording) -> ReportRequest:
        config = self._settings.apply()
        if self._options.with_off_cpu:
            recording.merge_off_cpu()
        return ReportRequest(recording, self._options, config)


def _open(options: ReportCommandOptions, progress: Callable[[float], None] | None) -> Recordings:
    from perfpy.fleet.recordings import Recordings, find_recordings

    return Recordings(
        find_recordings(str(occurrence.value) for occurrence in options.in_order("input")),
        weight=options.weights,
        check_owner=not options.force,
        jobs=options.jobs,
        cluster=cluster_address(options.cluster),
        progress=progress,
    )


def _export_bytes(name: str, stacks: Sequence[Stacks], title: str) -> bytes:
    """Return an export that is one file."""
    if name == "speedscope":
        from perfpy.views.stacks.exports import speedscope

        return speedscope(stacks, title).encode(errors="replace")
    if name == "pprof":
        from perfpy.views.stacks.protobuf_exports import Metadata, pprof

        return pprof(stacks, Metadata(comments=[title]))
    from perfpy.views.page.page import PageText, render

    return render(stacks, PageText(title)).encode(errors="replace")
