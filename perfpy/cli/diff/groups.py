"""`perfpy diff BEFORE AFTER` of two groups of recordings: patterns, or folders.

The output is a table of the changes that exceed the differences between hosts, JSON, or a page. Unreadable recordings are
listed on stderr. The exit status is then 91, or 90 if --fail-above is exceeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.diff.recording_options import are_relative, report_options, sample_filter, sort_keys, symbol_options
from perfpy.cli.line.opening import prepare_numpy
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.regression_limits import report_exceeded
from perfpy.cli.output.failed_recordings import warn_of_failed_recordings
from perfpy.cli.output.output_files import write_bytes, write_text
from perfpy.cli.output.progress import progress_line
from perfpy.cli.output.terminal import console, print_lines, wants_plain
from perfpy.errors import PerfError
from perfpy.fleet.worker_settings import SentSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.differences.group_changes import GroupChanges, GroupRow
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.diff.options import DiffCommandOptions
    from perfpy.fleet.folding import StackOptions
    from perfpy.fleet.recordings import Recordings
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class GroupRecordingOptions:
    """The options for each recording; can be sent to other processes."""

    def __init__(self, options: DiffCommandOptions) -> None:
        self._options, self._settings = options, SentSettings(load())

    def row_options(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """Return the options for tables."""
        from perfpy.fleet.group_difference import with_recordings

        options, config = self._options, self._settings.apply()
        table_options = report_options(options, config, recording, self._times(recording), for_people=True)
        return with_recordings(table_options), symbol_options(options, config, recording)

    def stack_options(self, recording: Recording) -> tuple[StackOptions, SymbolOptions]:
        """Return the options for whole stacks."""
        from perfpy.fleet.folding import StackOptions

        config = self._settings.apply()
        return StackOptions(sample_filter(self._options, self._times(recording))), symbol_options(self._options, config, recording)

    def _times(self, recording: Recording) -> TimeRanges | None:
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._options.time, recording.times()) if self._options.time else None


class GroupDiffRun:
    """One run of the command over two groups."""

    def __init__(self, sides: tuple[Sequence[str], Sequence[str]], options: DiffCommandOptions) -> None:
        _refuse_pair_options(options)
        self._sides = sides
        self._options = options
        self._each = GroupRecordingOptions(options)

    def show(self) -> int:
        """Write the output; return the exit status."""
        prepare_numpy()
        from perfpy.fleet.cluster import cluster_address
        from perfpy.fleet.recordings import Recordings, find_recordings

        options = self._options
        with progress_line("reading recordings") as progress:
            groups = [
                Recordings(
                    find_recordings(names),
                    weight=options.weights,
                    check_owner=not options.force,
                    jobs=options.jobs,
                    cluster=cluster_address(options.cluster),
                    progress=progress,
                )
                for names in self._sides
            ]
            _, symbols = groups[0].read_first(self._each.row_options)
            all_changes = self._changes(groups, symbols)
            page = self._page(groups, all_changes, symbols) if options.flamegraph is not None else None
        self._write(all_changes, groups, page)
        failed = warn_of_failed_recordings(groups, quiet=options.quiet)
        return self._print_exceeded(all_changes) or failed

    def _changes(self, groups: Sequence[Recordings], symbols: SymbolOptions) -> list[GroupChanges]:
        """Return the changes of each event. Raises PerfError if there is nothing to compare."""
        from perfpy.analysis.entries.layout import ColumnOptions
        from perfpy.analysis.entries.options import ReportOptions, RowOptions

        options = self._options
        table_options = ReportOptions(
            rows=RowOptions(group=False, relative_percentages=are_relative(options, load())), columns=ColumnOptions(sort=sort_keys(options))
        )
        row_options, (before, after) = self._each.row_options, groups
        all_changes = before.changes(
            after, symbols=symbols, options=table_options, options_of=row_options, unit=options.unit, full_names=options.full_names
        )
        if not any(map(len, all_changes)):
            raise PerfError("no event has samples in both groups after filtering")
        if options.fail_above is not None and not any(changes.test for changes in all_changes):
            raise PerfError(f"--fail-above requires two {all_changes[0].unit}s in each group, to measure how {all_changes[0].unit}s differ")
        return all_changes

    def _write(self, all_changes: Sequence[GroupChanges], groups: Sequence[Recordings], page: str | None) -> None:
        from perfpy.views.diff.groups import group_lines, show_groups

        options = self._options
        if page is not None:
            assert options.flamegraph is not None
            write_bytes(options.flamegraph, page.encode(errors="replace"), quiet=options.quiet)
        elif options.json is not None:
            from perfpy.views.diff.groups_json import groups_json

            write_text(options.json, groups_json(all_changes, [failed for group in groups for failed in group.failed]))
        elif wants_plain(stdio=options.stdio) or options.field_separator is not None:
            print_lines(group_lines(all_changes, separator=options.field_separator, quiet=options.quiet))
        else:
            show_groups(all_changes, console(), everything=options.all)

    def _page(self, groups: Sequence[Recordings], all_changes: Sequence[GroupChanges], symbols: SymbolOptions) -> str:
        """Return a page with the table and the flame graph of the changes."""
        from perfpy.analysis.stacks.matching import match_names
        from perfpy.symbols.demangling.short_names import without_instance
        from perfpy.views.diff.groups import group_page

        options = self._options
        stacks: list[list[Stacks]] = [group.stacks(symbols, options_of=self._each.stack_options) for group in groups]
        first, second = match_names(*stacks, ignore_comm=options.ignore_comm, name=str if options.full_names else without_instance)
        return group_page(first, second, [", ".join(names) for names in self._sides], all_changes)

    def _print_exceeded(self, all_changes: Sequence[GroupChanges]) -> int:
        limit = self._options.fail_above
        return (
            0
            if limit is None
            else report_exceeded([_costs_more(changes, row, limit) for changes in all_changes for row in changes.above(limit)])
        )


def _costs_more(changes: GroupChanges, row: GroupRow, limit: float) -> str:
    from perfpy.views.diff.groups import change_in_words

    return f"{change_in_words(changes, row)} of {changes.event}; the limit is {100 * limit:.2f} points"


def _refuse_pair_options(options: DiffCommandOptions) -> None:
    excluded = options.given("compute", "baseline_only", "period", "formula", "order", "with_off_cpu")
    excluded += ["--no-noise"] * (options.noise is False) + ["--time with colons"] * (":" in options.time)
    if excluded:
        fail(f"{', '.join(excluded)}: not available for groups of recordings, which are compared by share")
