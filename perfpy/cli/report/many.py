"""`perfpy report -i A -i B`, `-i 'hosts/*.data'`, `-i FOLDER`: report many recordings as one.

The output is perf's text, JSON, a flame graph or other stacks. Unreadable recordings are listed on stderr, and the exit status
is then 91.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.sortkeys.names import DEFAULT_ORDER
from perfpy.cli.line.failed_recordings import warn_of_failed_recordings
from perfpy.cli.line.notes import tell
from perfpy.cli.line.opening import without_idle_threads
from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes, write_text
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.progress import progress_line
from perfpy.cli.line.sent_settings import SentSettings
from perfpy.cli.line.terminal import print_lines
from perfpy.cli.report.exports import BY_FUNCTION, refuse_what_stacks_have_not, write_folded
from perfpy.cli.report.request import ReportRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.fleet.folding import StackOptions
    from perfpy.fleet.recordings import Recordings
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.report.column_text import TextOptions


def report_many(asked: ReportCommandOptions) -> int:
    """Report the recordings of -i as one; return the exit status."""
    without_idle_threads()
    from perfpy.fleet.cluster import cluster_address
    from perfpy.fleet.recordings import Recordings, find_recordings

    _refuse_what_is_each_recordings_own(asked)
    names = find_recordings(str(given.value) for given in asked.in_order("input"))
    with progress_line("reading recordings") as progress:
        recordings = Recordings(
            names,
            weight=asked.weights,
            check_owner=not asked.force,
            jobs=asked.jobs,
            cluster=cluster_address(asked.cluster),
            progress=progress,
        )
        if asked.exports:
            _export(recordings, asked)
        if not asked.exports or asked.json is not None:
            _report(recordings, asked)
    return warn_of_failed_recordings([recordings], quiet=asked.quiet)


def _refuse_what_is_each_recordings_own(asked: ReportCommandOptions) -> None:
    given = {
        "--stats": asked.stats,
        "--tasks": asked.tasks,
        "--mmaps": asked.mmaps,
        "-D": asked.dump_raw_trace,
        "--total-cycles": asked.total_cycles,
        "-I": asked.show_info,
        "--header": asked.header,
        "--header-only": asked.header_only,
        "--tui": asked.tui,
        "--firefox": asked.firefox is not None,
        "-T": asked.threads,
        "--group": asked.group,
    }
    wanted = [name for name, value in given.items() if value]
    if wanted:
        fail(f"{', '.join(wanted)}: for single recordings only; many can be reported as tables, JSON, flame graphs, folded stacks, pprof and speedscope")


class Asking:
    """The options for each recording, completed by the recording's own data; can be sent to other processes."""

    def __init__(self, asked: ReportCommandOptions, *, plain: bool, sites: bool = False) -> None:
        self._asked, self._plain, self._sites, self._settings = asked, plain, sites, SentSettings()

    def of_rows(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """Return the options for tables."""
        request = self._request(recording)
        options = request.report_options(plain=self._plain)
        wanted = (
            options.wanted
            if options.wanted.fields
            else options.wanted._replace(sort=options.wanted.sort or DEFAULT_ORDER[options.wanted.mode])
        )
        return options._replace(rows=options.rows._replace(group=None), wanted=wanted), request.symbol_options(plain=self._plain)

    def of_stacks(self, recording: Recording) -> tuple[StackOptions, SymbolOptions]:
        """Return the options for whole stacks."""
        from perfpy.fleet.folding import StackOptions

        request = self._request(recording)
        return StackOptions(request.sample_filter(), self._asked.latency, self._sites), request.symbol_options()

    def _request(self, recording: Recording) -> ReportRequest:
        config = self._settings.apply()
        if self._asked.with_off_cpu:
            recording.merge_off_cpu()
        return ReportRequest(recording, self._asked, config)


def _report(recordings: Recordings, asked: ReportCommandOptions) -> None:
    from perfpy.views.report.text import HEADER_HINT, report_lines

    plain = asked.json is None
    asking = Asking(asked, plain=plain)
    options, symbols, text_options = recordings.read_first(lambda recording: _options_of(asking, recording, asked))
    report = recordings.report(options=options, symbols=symbols, asked=asking.of_rows)
    if asked.json is not None:
        from perfpy.views.report.json import report_json

        write_text(asked.json, report_json(report))
        return
    if not asked.quiet:
        print_lines(HEADER_HINT.split("\n"))
    if report.samples:
        print_lines(report_lines(report, text_options))
    from perfpy.symbols.providers.missing import note

    notes = [*note(report.missing, report.samples, everything=bool(asked.verbose)), *report.notes]
    tell(notes, quiet=asked.quiet, verbose=asked.verbose)


def _options_of(asking: Asking, recording: Recording, asked: ReportCommandOptions) -> tuple[ReportOptions, SymbolOptions, TextOptions]:
    from perfpy.analysis.report.plan import plan_report

    options, symbols = asking.of_rows(recording)
    plan_report(recording.data, options)
    return options, symbols, ReportRequest(recording, asked, load()).text_options()


def _export(recordings: Recordings, asked: ReportCommandOptions) -> None:
    refuse_what_stacks_have_not(asked)
    for sites in (False, True):
        paths = {name: path for name, path in asked.exports.items() if (name in BY_FUNCTION) is not sites}
        if not paths:
            continue
        asking = Asking(asked, plain=False, sites=sites)
        wanted, symbols = recordings.read_first(asking.of_stacks)
        stacks = recordings.stacks(symbols, sample_filter=wanted.sample_filter, latency=wanted.latency, sites=sites, asked=asking.of_stacks)
        for name, path in paths.items() if stacks else ():
            if name == "folded":
                write_folded(stacks, path, quiet=asked.quiet)
            else:
                write_bytes(path, _made(name, stacks, recordings), quiet=asked.quiet)


def _made(name: str, stacks: Sequence[Stacks], recordings: Recordings) -> bytes:
    """Return an export that is one file."""
    title = recordings.title
    if name == "speedscope":
        from perfpy.views.stacks.exports import speedscope

        return speedscope(stacks, title).encode(errors="replace")
    if name == "pprof":
        from perfpy.views.stacks.pprof import Metadata, pprof

        return pprof(stacks, Metadata(comments=[title]))
    from perfpy.views.page.page import PageText, render

    return render(stacks, PageText(title)).encode(errors="replace")
