"""`perfpy diff BEFORE AFTER` of two groups of recordings: patterns, or folders.

The output is a table of the changes that exceed the differences between hosts, JSON, or a page. Unreadable recordings are
listed on stderr. The exit status is then 91, or 90 if --fail-above is exceeded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.diff.asked import are_relative, report_options, sample_filter, sort_keys, symbol_options
from perfpy.cli.line.failed_recordings import warn_of_failed_recordings
from perfpy.cli.line.limits import told
from perfpy.cli.line.opening import without_idle_threads
from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes, write_text
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.progress import progress_line
from perfpy.cli.line.sent_settings import SentSettings
from perfpy.cli.line.terminal import console, print_lines, wants_plain
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.report.group_changes import GroupChanges, GroupRow
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.diff.options import DiffCommandOptions
    from perfpy.fleet.folding import StackOptions
    from perfpy.fleet.recordings import Recordings
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class AskingGroups:
    """The options for each recording; can be sent to other processes."""

    def __init__(self, asked: DiffCommandOptions) -> None:
        self._asked, self._settings = asked, SentSettings()

    def of_rows(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """Return the options for tables."""
        from perfpy.fleet.group_difference import with_recordings

        asked, config = self._asked, self._settings.apply()
        options = report_options(asked, config, recording, self._times(recording), for_people=True)
        return with_recordings(options), symbol_options(asked, config, recording)

    def of_stacks(self, recording: Recording) -> tuple[StackOptions, SymbolOptions]:
        """Return the options for whole stacks."""
        from perfpy.fleet.folding import StackOptions

        config = self._settings.apply()
        return StackOptions(sample_filter(self._asked, self._times(recording))), symbol_options(self._asked, config, recording)

    def _times(self, recording: Recording) -> TimeRanges | None:
        from perfpy.analysis.filters.time_ranges import ranges_of

        return ranges_of(self._asked.time, recording.times()) if self._asked.time else None


class GroupDiffRun:
    """One run of the command over two groups."""

    def __init__(self, named: tuple[Sequence[str], Sequence[str]], asked: DiffCommandOptions) -> None:
        _refuse_what_is_of_two_recordings(asked)
        self._named = named
        self._asked = asked
        self._asking = AskingGroups(asked)

    def show(self) -> int:
        """Write the output; return the exit status."""
        without_idle_threads()
        from perfpy.fleet.cluster import cluster_address
        from perfpy.fleet.recordings import Recordings, find_recordings

        asked = self._asked
        with progress_line("reading recordings") as progress:
            groups = [
                Recordings(
                    find_recordings(names),
                    weight=asked.weights,
                    check_owner=not asked.force,
                    jobs=asked.jobs,
                    cluster=cluster_address(asked.cluster),
                    progress=progress,
                )
                for names in self._named
            ]
            _, symbols = groups[0].read_first(self._asking.of_rows)
            found = self._changes(groups, symbols)
            page = self._page(groups, found, symbols) if asked.flamegraph is not None else None
        self._write(found, groups, page)
        failed = warn_of_failed_recordings(groups, quiet=asked.quiet)
        return self._exceeded(found) or failed

    def _changes(self, groups: Sequence[Recordings], symbols: SymbolOptions) -> list[GroupChanges]:
        """Return the changes of each event. Raises PerfError if there is nothing to compare."""
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions, RowOptions

        asked = self._asked
        options = ReportOptions(
            rows=RowOptions(group=False, relative_percentages=are_relative(asked, load())), wanted=Wanted(sort=sort_keys(asked))
        )
        ask, (before, after) = self._asking.of_rows, groups
        found = before.changes(after, symbols=symbols, options=options, asked=ask, unit=asked.unit, full_names=asked.full_names)
        if not any(map(len, found)):
            raise PerfError("no event has samples in both groups after filtering")
        if asked.fail_above is not None and not any(changes.test for changes in found):
            raise PerfError(f"--fail-above requires two {found[0].unit}s in each group, to measure how {found[0].unit}s differ")
        return found

    def _write(self, found: Sequence[GroupChanges], groups: Sequence[Recordings], page: str | None) -> None:
        from perfpy.views.diff.groups import group_lines, show_groups

        asked = self._asked
        if page is not None:
            assert asked.flamegraph is not None
            write_bytes(asked.flamegraph, page.encode(errors="replace"), quiet=asked.quiet)
        elif asked.json is not None:
            from perfpy.views.diff.groups_json import groups_json

            write_text(asked.json, groups_json(found, [failed for group in groups for failed in group.failed]))
        elif wants_plain(stdio=asked.stdio) or asked.field_separator is not None:
            print_lines(group_lines(found, separator=asked.field_separator, quiet=asked.quiet))
        else:
            show_groups(found, console(), everything=asked.all)

    def _page(self, groups: Sequence[Recordings], found: Sequence[GroupChanges], symbols: SymbolOptions) -> str:
        """Return a page with the table and the flame graph of the changes."""
        from perfpy.analysis.stacks.matching import matched
        from perfpy.symbols.demangling.short_names import without_instance
        from perfpy.views.diff.groups import group_page

        asked = self._asked
        stacks: list[list[Stacks]] = [group.stacks(symbols, asked=self._asking.of_stacks) for group in groups]
        first, second = matched(*stacks, ignore_comm=asked.ignore_comm, name=str if asked.full_names else without_instance)
        return group_page(first, second, [", ".join(names) for names in self._named], found)

    def _exceeded(self, found: Sequence[GroupChanges]) -> int:
        limit = self._asked.fail_above
        return 0 if limit is None else told([_costs_more(changes, row, limit) for changes in found for row in changes.above(limit)])


def _costs_more(changes: GroupChanges, row: GroupRow, limit: float) -> str:
    from perfpy.views.diff.groups import change_in_words

    return f"{change_in_words(changes, row)} of {changes.event}; the limit is {100 * limit:.2f} points"


def _refuse_what_is_of_two_recordings(asked: DiffCommandOptions) -> None:
    given = {
        "-c": asked.compute,
        "-b": asked.baseline_only,
        "-p": asked.period,
        "-F": asked.formula,
        "-o": asked.order is not None,
        "--no-noise": asked.noise is False,
        "--with-off-cpu": asked.with_off_cpu,
        "--time with colons": ":" in asked.time,
    }
    wanted = [name for name, value in given.items() if value]
    if wanted:
        fail(f"{', '.join(wanted)}: not for groups of recordings; they are compared by share, with changes beyond noise marked")
