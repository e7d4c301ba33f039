"""`perfpy report -i A -i B`, `-i 'hosts/*.data'`, `-i FOLDER`: many recordings as one report.

What enters: the command's options. What leaves: perf's text, JSON, a flame graph or other stacks; on standard error
which recordings could not be read, and why. The exit status is then 91.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.notes import tell
from perfpy.cli.line.opening import without_idle_threads
from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes, write_text
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.progress import progress_line
from perfpy.cli.line.terminal import print_lines
from perfpy.cli.line.unread import tell_unread
from perfpy.cli.report.exports import write_folded
from perfpy.cli.report.request import ReportRequest
from perfpy.errors import BadPerfData
from perfpy.recording import Recording

if TYPE_CHECKING:
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.fleet.recordings import Recordings
    from perfpy.symbols.files.debug_files import SymbolOptions

_DEFAULT_SORT: Final = "comm,dso,symbol"


def report_many(asked: ReportCommandOptions) -> int:
    """Report the recordings that -i names as one; the exit status."""
    without_idle_threads()
    from perfpy.fleet.cluster import cluster_address
    from perfpy.fleet.recordings import Recordings, recordings_named

    _refuse_what_is_each_recordings_own(asked)
    names = recordings_named(str(given.value) for given in asked.in_order("input"))
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
    return tell_unread([recordings], quiet=asked.quiet)


def _refuse_what_is_each_recordings_own(asked: ReportCommandOptions) -> None:
    given = {
        "--stats": asked.stats,
        "--tasks": asked.tasks,
        "--mmaps": asked.mmaps,
        "-D": asked.dump_raw_trace,
        "--header": asked.header,
        "--header-only": asked.header_only,
        "--latency": asked.latency,
        "--with-off-cpu": asked.with_off_cpu,
        "--tui": asked.tui,
        "--firefox": asked.firefox,
        "--pprof": asked.pprof,
        "--speedscope": asked.speedscope,
        "-T": asked.threads,
        "--group": asked.group,
    }
    wanted = [name for name, value in given.items() if value]
    if wanted:
        fail(f"{', '.join(wanted)}: of one recording only; several make tables, JSON, folded lines and flame graphs")


class _Asking:
    """What is asked of each recording: the same options, completed by what it has itself. It can be sent to other processes."""

    def __init__(self, asked: ReportCommandOptions, *, plain: bool) -> None:
        self._asked, self._plain = asked, plain

    def of_rows(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """For tables."""
        request = ReportRequest(recording, self._asked, load())
        options = request.report_options(plain=self._plain)
        wanted = options.wanted if options.wanted.fields else options.wanted._replace(sort=options.wanted.sort or _DEFAULT_SORT)
        return options._replace(wanted=wanted, group=None), request.symbol_options(plain=self._plain)

    def of_stacks(self, recording: Recording) -> tuple[SampleFilter, SymbolOptions]:
        """For whole stacks."""
        request = ReportRequest(recording, self._asked, load())
        return request.sample_filter(), request.symbol_options()


def _report(recordings: Recordings, asked: ReportCommandOptions) -> None:
    from perfpy.views.report.text import HEADER_HINT, report_lines

    plain = asked.json is None
    asking = _Asking(asked, plain=plain)
    with _first_readable(recordings, asked) as recording:
        options = asking.of_rows(recording)[0]
        text_options = ReportRequest(recording, asked, load()).text_options()
    report = recordings.report(options=options, asked=asking.of_rows)
    if asked.json is not None:
        from perfpy.views.report.json import report_json

        write_text(asked.json, report_json(report))
        return
    if not asked.quiet:
        print_lines(HEADER_HINT.split("\n"))
    if report.samples:
        print_lines(report_lines(report, text_options))
    from perfpy.symbols.providers.missing import note

    tell(note(report.missing, report.samples, everything=bool(asked.verbose)), quiet=asked.quiet, verbose=asked.verbose)


def _first_readable(recordings: Recordings, asked: ReportCommandOptions) -> Recording:
    """The recording whose options the columns are made by."""
    refused: BadPerfData | None = None
    for path in recordings.paths:
        try:
            return Recording(path, check_owner=not asked.force)
        except BadPerfData as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _export(recordings: Recordings, asked: ReportCommandOptions) -> None:
    asking = _Asking(asked, plain=False)
    with _first_readable(recordings, asked) as recording:
        sample_filter = asking.of_stacks(recording)[0]
    stacks = recordings.stacks(sample_filter=sample_filter, asked=asking.of_stacks)
    if not stacks:
        return
    for name, path in asked.exports.items():
        if name == "folded":
            write_folded(stacks, path, quiet=asked.quiet)
        else:
            from perfpy.views.page.page import PageText, render

            title = f"{len(recordings) - len(recordings.unread)} recordings"
            write_bytes(path, render(stacks, PageText(title)).encode(errors="replace"), quiet=asked.quiet)
