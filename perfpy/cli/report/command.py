"""`perfpy report`: show where the time of a recording went.

On a terminal it shows a view for people, else perf's plain text; options select JSON, HTML and other formats.
"""

from __future__ import annotations

import os

from perfpy.cli.line.option_parsing import PerfCommand, fail
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.errors import PerfError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.recording import Recording


def run(options: ReportCommandOptions) -> int:
    """Read a recording and show where its time went."""
    from perfpy.cli.line.input_recording import LOSSES, open_recording, refuse_call_stacks_of_branches
    from perfpy.cli.output.terminal import notes_are_read, wants_plain

    _refuse_contradictions(options)
    _refuse_file_as_name(options)
    if _names_several(options):
        from perfpy.cli.report.many import ManyRun

        return ManyRun(options).show()
    header_only = options.header_only and not options.quiet
    is_raw = options.dump_raw_trace or header_only or options.stats
    decoding = None if is_raw else options.decoding
    verbose = options.verbose if wants_plain(stdio=options.needs_plain) else 0  # for perf's text only
    files = None if decoding is None or options.tasks or options.mmaps else options.code_files()
    is_told = options.is_summary or notes_are_read(quiet=options.quiet, verbose=options.verbose)
    losses = LOSSES if options.dump_raw_trace or not is_told else ()
    with open_recording(
        options.input, force=options.force, quiet=options.quiet, verbose=verbose, losses=losses, itrace=decoding, code=files
    ) as recording:
        if options.stitch_lbr:
            refuse_call_stacks_of_branches(recording)
        if (options.header or options.header_only) and not options.quiet:
            from perfpy.cli.output.header import print_header

            dumps_features = options.dump_raw_trace and not (header_only or options.is_summary)
            print_header(recording, full=options.show_info, warns=options.dump_raw_trace, dumps_features=dumps_features)
            if header_only:
                return 0
        is_tree = options.tasks or options.mmaps
        if not is_tree or options.dump_raw_trace:
            from perfpy.cli.report.run import ReportRun

            status = ReportRun(recording, options).show()
            if not is_tree:
                return status
        return _show_tasks(recording, options)


def _show_tasks(recording: Recording, options: ReportCommandOptions) -> int:
    """Print the tree of tasks (--tasks, --mmaps), which needs none of the modules of a report."""
    from perfpy.cli.output.terminal import print_lines
    from perfpy.views.recording_summary import task_lines

    if options.with_off_cpu:
        recording.merge_off_cpu()
    print_lines(task_lines(recording, mappings=options.mmaps))
    return 0


def _names_several(options: ReportCommandOptions) -> bool:
    """Whether -i names several recordings (repeated, a pattern, a folder, a URL), or a cluster reads them."""
    is_url = "://" in options.input and not os.path.exists(options.input)
    if len(options.in_order("input")) > 1 or is_url or options.cluster:
        return True
    if not os.path.isfile(options.input):
        from perfpy.perfdata.reader import recordings_in  # --help does not read recordings

        if len(recordings_in(options.input)) > 1:
            return True
    is_pattern = any(letter in options.input for letter in "*?[") and not os.path.exists(options.input)
    return is_pattern or (os.path.isdir(options.input) and any(name.endswith(".data") for name in os.listdir(options.input)))


def _refuse_contradictions(options: ReportCommandOptions) -> None:
    if options.stats and (options.tasks or options.mmaps):
        fail("--stats excludes --tasks and --mmaps")
    if options.hierarchy and options.fields:
        fail("--hierarchy excludes --fields")
    if options.prefix_strip and not options.prefix:
        raise PerfError("--prefix-strip requires --prefix")
    if options.call_graph:
        from perfpy.cli.line.numpy_start import prepare_numpy

        prepare_numpy()
        from perfpy.cli.report.run import check  # loads numpy

        check(options.call_graph)  # before any output


def _refuse_file_as_name(options: ReportCommandOptions) -> None:
    """Raise PerfError if a word names a file and there is no perf.data. As in perf, words are parts of functions' names."""
    from perfpy.cli.line.input_recording import default_input, input_hint

    hint = input_hint(options.part) if options.part and not options.input else ""
    if hint and not os.path.exists(default_input()):
        raise PerfError(f"{default_input()} does not exist, and '{options.part}' is taken for a part of function names{hint}")


command = PerfCommand(ReportCommandOptions, run)
