"""`perfpy stat report`: show the counts in a file of `stat record`, or compare two files."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from perfpy.cli.line.kinds import Flag, Value
from perfpy.cli.line.opening import default_input
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option
from perfpy.cli.stat.options import PartOptions, StatCommandOptions
from perfpy.cli.stat.output import OutputForm, StatOutput

if TYPE_CHECKING:
    from perfpy.analysis.recorded_counts import RecordedCounts
    from perfpy.cli.line.parser import Parser


class _FormOptions(CommandOptions):
    """The files, and the output's format; these options are perfpy's own."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data; -: standard input)", metavar="<file>")
    separator: str | None = option("-x,--field-separator", Value(), "separate fields with this string", metavar="<separator>")
    json: bool = option("-j,--json-output", Flag(), "print JSON, one object a line")
    output: str = option("-o,--output", Value(default=""), "write to this file", metavar="<file>")
    append: bool = option("--append", Flag(), "append to the file of -o")
    log_fd: int = option("--log-fd", Value(int, default=0), "write to this file descriptor instead of stderr")
    big_num: bool | None = option("-B,--big-num", Flag(default=None), "use the locale's thousands separators")
    metric_only: bool = option("--metric-only", Flag(), "print only ratios and metrics")
    no_csv_summary: bool = option("--no-csv-summary", Flag(), "omit the word 'summary' from summaries with -x")
    quiet: bool = option("--quiet", Flag(), "print nothing")
    compare: str = option("--compare", Value(default=""), "compare with the counts of this file", metavar="<file>")


class StatReportOptions(_FormOptions, PartOptions):
    """Options of `perfpy stat report`."""

    no_aggr: bool = option("-A,--no-aggr", Flag(), "print one line for each CPU")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")

    @property
    def form(self) -> OutputForm:
        """The destination and format of the counts."""
        return OutputForm(
            path=self.output,
            append=self.append,
            log_fd=self.log_fd,
            quiet=self.quiet,
            json=self.json,
            separator=self.separator,
            big_num=self.big_num,
            metric_only=self.metric_only,
            mark_summary=not self.no_csv_summary,
        )


def require_options_of_report(parser: Parser) -> None:
    """Raise UsageError if an option before the word `report` is about counting."""
    accepted = {declared.name for declared in StatReportOptions.declared_options()} | {"usage", "show_help"}
    for occurrence in parser.occurrences:
        if occurrence.name not in accepted:
            spellings = next(declared for declared in StatCommandOptions.declared_options() if declared.name == occurrence.name).spellings
            fail(f"stat report does not count; drop {', '.join(spellings)}")


def run(options: StatReportOptions) -> None:
    """Show the counts in a file of `stat record`."""
    from perfpy.cli.stat.request import cache_level, chosen_aggregation

    with ExitStack() as stack:
        recorded = _open(stack, options.input or default_input(), options)
        if options.compare:
            _compare(recorded, _open(stack, options.compare, options), options)
            return
        grouping = recorded.grouping(chosen_aggregation(options, no_aggr=options.no_aggr), cache_level(options))
        output = stack.enter_context(StatOutput(options.form))
        output.title = f"'{' '.join(recorded.command)}'"
        for tally in recorded.tallies(grouping):
            output.show(tally)


def _open(stack: ExitStack, path: str, options: StatReportOptions) -> RecordedCounts:
    from perfpy.analysis.recorded_counts import RecordedCounts
    from perfpy.perfdata.reader import PerfData

    return RecordedCounts(stack.enter_context(PerfData(path, check_owner=not options.force)))


def _compare(a: RecordedCounts, b: RecordedCounts, options: StatReportOptions) -> None:
    from perfpy.cli.stat.compare import show
    from perfpy.counts.comparison import compare_runs

    try:
        comparison = compare_runs(a.runs(options.input or "perf.data"), b.runs(options.compare))
    except ValueError as error:
        fail(str(error))
    with StatOutput(options.form) as output:
        show([comparison], output)


command = PerfCommand(StatReportOptions, run)
