"""Options of `perfpy diff` as the library's options for one recording: table, samples, symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.cli.diff.options import DiffCommandOptions
    from perfpy.cli.line.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_DEFAULT_SORT: Final = "dso,symbol"


def is_verbose(options: DiffCommandOptions) -> bool:
    """Whether to print more details."""
    return options.verbose > 0 and not options.quiet


def sort_keys(options: DiffCommandOptions) -> str:
    """Return the sort keys by which rows are compared."""
    sort = options.sort
    return f"{_DEFAULT_SORT},{sort[1:]}" if sort.startswith("+") else sort or _DEFAULT_SORT


def are_relative(options: DiffCommandOptions, config: Config) -> bool:
    """Whether percentages are of the filtered samples instead of all."""
    from perfpy.cli.report.columns import configured_percentage

    return (options.percentage or configured_percentage(config)) == "relative"


def report_options(
    options: DiffCommandOptions, config: Config, recording: Recording, times: TimeRanges | None, *, for_people: bool
) -> ReportOptions:
    """Return the options of one recording's table. times is the part of --time for this recording."""
    from perfpy.analysis.entries.layout import ColumnOptions
    from perfpy.analysis.entries.options import NameOptions, ReportOptions, RowOptions

    if options.cpus and not recording.data.is_pipe and not recording.data.has(SampleType.CPU):
        raise PerfError(f"{recording.path}: the samples have no CPU field; drop --cpu, or record with --sample-cpu")
    unnamed = not options.field_separator and not options.dsos
    return ReportOptions(
        rows=RowOptions(rows_filtered=not for_people, group=False, relative_percentages=are_relative(options, config)),
        names=NameOptions(
            keep_exited=False,  # as perf diff; perf report keeps them
            as_addr2line=True,
            verbose=is_verbose(options),
            unnamed_dso_width=ReportOptions().names.unnamed_dso_width if unnamed else 0,
        ),
        columns=ColumnOptions(sort=sort_keys(options)),
        sample_filter=sample_filter(options, times),
    )


def sample_filter(options: DiffCommandOptions, times: TimeRanges | None) -> SampleFilter:
    """Return the sample filter of one recording."""
    from perfpy.analysis.filters.sample_filter import SampleFilter

    return options.fill(SampleFilter, times=times)


def symbol_options(options: DiffCommandOptions, config: Config, recording: Recording, *, folds: bool = False) -> SymbolOptions:
    """Return the symbol options of one recording.

    folds: count samples for the functions that interpreters ran, unless an option decides.
    """
    from perfpy.cli.line.symbol_values import symbol_options_of

    symbols = symbol_options_of(options, config, recording, force=options.force)
    return symbols._replace(fold_interpreters=folds) if options.fold_interpreters is None else symbols
