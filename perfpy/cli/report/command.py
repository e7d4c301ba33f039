"""`perfpy report`: show where the time of a recording went.

On a terminal it shows a view for people, else perf's plain text; options select JSON, HTML and other formats.
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
        # everything below needs numpy
        from perfpy.cli.report.run import ReportRun

        return ReportRun(recording, asked).show()


def _names_several(asked: ReportCommandOptions) -> bool:
    """Whether -i names several recordings (repeated, a pattern, a folder, a URL), or a cluster reads them."""
    is_url = "://" in asked.input and not os.path.exists(asked.input)
    if len(asked.in_order("input")) > 1 or is_url or asked.cluster:
        return True
    if not os.path.isfile(asked.input) and len(recordings_in(asked.input)) > 1:
        return True
    is_pattern = any(letter in asked.input for letter in "*?[") and not os.path.exists(asked.input)
    return is_pattern or (os.path.isdir(asked.input) and any(name.endswith(".data") for name in os.listdir(asked.input)))


def _refuse_contradictions(asked: ReportCommandOptions) -> None:
    if asked.stats and (asked.tasks or asked.mmaps):
        fail("--stats excludes --tasks and --mmaps")
    if asked.hierarchy and asked.fields:
        fail("--hierarchy excludes --fields")
    if asked.prefix_strip and not asked.prefix:
        raise PerfError("--prefix-strip requires --prefix")
    if asked.call_graph:
        from perfpy.cli.line.opening import without_idle_threads

        without_idle_threads()
        from perfpy.cli.report.call_graph import check  # loads numpy

        check(asked.call_graph)  # before any output
    if asked.field_separator == ".":
        fail("-t .: numbers contain dots; choose another separator")


def _refuse_file_as_name(asked: ReportCommandOptions) -> None:
    """Raise PerfError if a word names a file and there is no perf.data. As in perf, words are parts of functions' names."""
    from perfpy.cli.line.opening import default_input, input_hint

    hint = input_hint(asked.part) if asked.part and not asked.input else ""
    if hint and not os.path.exists(default_input()):
        raise PerfError(f"{default_input()} does not exist, and '{asked.part}' is taken for a part of function names{hint}")


def _show_header(recording: Recording, asked: ReportCommandOptions) -> None:
    from perfpy.cli.line.header import print_header

    print_header(recording, full=asked.show_info)


command = PerfCommand(ReportCommandOptions, run)
