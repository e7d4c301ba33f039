"""`perfpy report`: where the time of a recording went.

What enters: perf report's options. What leaves: on a terminal a view for
people, else perf's plain text; or JSON, HTML and other formats, where asked.
"""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.report.options import ReportCommandOptions

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.recording import Recording


def run(asked: ReportCommandOptions) -> int:
    """Read a recording and show where its time went."""
    from perfpy.cli.line.opening import open_recording

    _refuse_contradictions(asked)
    with open_recording(asked.input, force=asked.force, quiet=asked.quiet) as recording:
        if (asked.header or asked.header_only) and not asked.dump_raw_trace:
            _show_header(recording, asked)
            if asked.header_only:
                return 0
        # all that follows needs numpy
        from perfpy.cli.report.run import ReportRun

        return ReportRun(recording, asked).show()


def _refuse_contradictions(asked: ReportCommandOptions) -> None:
    if asked.stats and (asked.tasks or asked.mmaps):
        fail("--stats, and --tasks or --mmaps, are two things to show: choose one")
    if asked.hierarchy and asked.fields:
        fail("--hierarchy chooses its own columns: leave out --fields")
    if asked.field_separator == ".":
        fail("-t .: the dot is in numbers, any other separator will do")


def _show_header(recording: Recording, asked: ReportCommandOptions) -> None:
    from perfpy.cli.line.header import print_header

    print_header(recording, full=asked.show_info)


command = PerfCommand(ReportCommandOptions, run)
