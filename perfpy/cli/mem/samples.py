"""`perfpy mem report -D`: every memory access on a line, in perf mem's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.perfconfig import load as load_config
from perfpy.cli.mem.report import report_arguments
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.cli.report.request import ReportRequest

if TYPE_CHECKING:
    from perfpy.cli.mem.options import MemReportOptions


def print_samples(options: MemReportOptions, arguments: list[str]) -> int:
    """Print the accesses that the options of report leave, for `perfpy mem report ARGUMENTS`."""
    from perfpy.views.memory.access_lines import AccessColumns, access_lines

    parser = load("report").parser([*report_arguments(options.replace(sort_keys="", separator="")), *arguments])
    chosen = ReportCommandOptions.read(parser)
    with open_recording(chosen.input, force=chosen.force, quiet=chosen.quiet, verbose=chosen.verbose) as recording:
        request = ReportRequest(recording, chosen, load_config())
        columns = AccessColumns(options.phys_data, options.data_page_size, options.hide_unresolved, options.separator or " ")
        part = recording.narrowed(request.sample_filter(), request.symbol_options(plain=True))
        print_lines(access_lines(part, columns))
    return 0
