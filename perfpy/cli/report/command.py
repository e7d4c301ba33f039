"""`perfpy report`: where the time of a recording went.

What enters: perf report's options. What leaves: on a terminal a view for
people, else perf's plain text; or JSON, HTML and other formats, where asked.
"""

from __future__ import annotations

import os

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.errors import PerfError
from perfpy.perfdata.tables_folder import recordings_in

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.recording import Recording


def run(asked: ReportCommandOptions) -> int:
    """Read a recording and show where its time went."""
    from perfpy.cli.line.opening import open_recording

    _refuse_contradictions(asked)
    _refuse_file_as_name(asked)
    if _names_several(asked):
        from perfpy.cli.report.many import report_many

        return report_many(asked)
    with open_recording(asked.input, force=asked.force, quiet=asked.quiet, verbose=asked.verbose) as recording:
        if (asked.header or asked.header_only) and not asked.dump_raw_trace:
            _show_header(recording, asked)
            if asked.header_only:
                return 0
        # all that follows needs numpy
        from perfpy.cli.report.run import ReportRun

        return ReportRun(recording, asked).show()


def _names_several(asked: ReportCommandOptions) -> bool:
    """Whether -i was given more than once, or names a pattern, a folder of recordings or a URL; or others are to read it."""
    is_url = "://" in asked.input and not os.path.exists(asked.input)
    if len(asked.in_order("input")) > 1 or is_url or asked.cluster:
        return True
    if not os.path.isfile(asked.input) and len(recordings_in(asked.input)) > 1:
        return True
    is_pattern = any(letter in asked.input for letter in "*?[") and not os.path.exists(asked.input)
    return is_pattern or (os.path.isdir(asked.input) and any(name.endswith(".data") for name in os.listdir(asked.input)))


def _refuse_contradictions(asked: ReportCommandOptions) -> None:
    if asked.stats and (asked.tasks or asked.mmaps):
        fail("--stats, and --tasks or --mmaps, are two things to show: choose one")
    if asked.hierarchy and asked.fields:
        fail("--hierarchy chooses its own columns: leave out --fields")
    if asked.prefix_strip and not asked.prefix:
        raise PerfError("--prefix-strip takes folders off what --prefix is put before: give --prefix, too")
    if asked.call_graph:
        from perfpy.cli.line.opening import without_idle_threads

        without_idle_threads()
        from perfpy.cli.report.call_graph import check  # which loads numpy

        check(asked.call_graph)  # before anything is printed
    if asked.field_separator == ".":
        fail("-t .: the dot is in numbers, any other separator will do")


def _refuse_file_as_name(asked: ReportCommandOptions) -> None:
    """A word is a part of functions' names, as in perf; but it was meant for a file where there is no perf.data."""
    from perfpy.cli.line.opening import default_input, input_hint

    hint = input_hint(asked.part) if asked.part and not asked.input else ""
    if hint and not os.path.exists(default_input()):
        raise PerfError(f"{default_input()} is not there, and '{asked.part}' stands where a part of a function's name does{hint}")


def _show_header(recording: Recording, asked: ReportCommandOptions) -> None:
    from perfpy.cli.line.header import print_header

    print_header(recording, full=asked.show_info)


command = PerfCommand(ReportCommandOptions, run)
