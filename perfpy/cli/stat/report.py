"""`perfpy stat report`: show the counts in a file of `stat record`, or compare two such files.

What enters: the file and how to sum. What leaves: what stat itself would have printed.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from perfpy.cli.line.decorators import old_option, perf_command, together
from perfpy.cli.line.opening import default_input
from perfpy.cli.line.options import fail
from perfpy.cli.stat.options import part_options

if TYPE_CHECKING:
    from perfpy.analysis.recorded_counts import RecordedCounts

_options = together(
    old_option("-i", "--input", default="", metavar="<file>", help="input file name (default: perf.data; - reads a pipe)"),
    old_option("-x", "--field-separator", "separator", default=None, metavar="<separator>", help="fields with this separator"),
    old_option("-j", "--json-output", "json", is_flag=True, help="JSON, an object a line"),
    old_option("-o", "--output", default="", metavar="<file>", help="write to this file"),
    old_option("--compare", default="", metavar="<file>", help="tell how the counts of this file differ"),
    *part_options,
    old_option("-A", "--no-aggr", "no_aggr", is_flag=True, help="a line for each CPU"),
)
"""The options; those for the form of the output are perfpy's own."""

_OUTPUT_DEFAULTS = {
    "append": False,
    "quiet": False,
    "log_fd": 0,
    "interval_clear": False,
    "metric_only": False,
    "no_csv_summary": False,
    "big_num": None,
    "table": False,
}


@perf_command()
@_options
def command(**options: Any) -> None:
    """Show the counts of a file that stat record wrote."""
    from perfpy.cli.stat.output import StatOutput
    from perfpy.cli.stat.request import cache_level, chosen_aggregation

    with ExitStack() as stack:
        recorded = _open(stack, options["input"] or default_input())
        if options["compare"]:
            _compare(recorded, _open(stack, options["compare"]), options)
            return
        grouping = recorded.grouping(chosen_aggregation(options), cache_level(options))
        output = stack.enter_context(StatOutput({**_OUTPUT_DEFAULTS, **options}))
        output.title = f"'{' '.join(recorded.command)}'"
        for tally in recorded.tallies(grouping):
            output.show(tally)


def _open(stack: ExitStack, path: str) -> RecordedCounts:
    from perfpy.analysis.recorded_counts import RecordedCounts
    from perfpy.perfdata.reader import PerfData

    return RecordedCounts(stack.enter_context(PerfData(path)))


def _compare(a: RecordedCounts, b: RecordedCounts, options: dict[str, Any]) -> None:
    from perfpy.cli.stat.compare import show
    from perfpy.cli.stat.output import StatOutput
    from perfpy.counts.comparison import compare_runs

    try:
        comparison = compare_runs(a.runs(options["input"] or "perf.data"), b.runs(options["compare"]))
    except ValueError as error:
        fail(str(error))
    with StatOutput({**_OUTPUT_DEFAULTS, **options}) as output:
        show(comparison, output, options)
