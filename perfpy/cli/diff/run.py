"""One run of `perfpy diff` over open recordings, the first of which is the baseline."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.cli.diff.options import compute_of, order_of
from perfpy.cli.diff.recording_options import is_verbose, report_options, sample_filter, symbol_options
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.analysis.differences.changed_rows import ChangedRow
    from perfpy.analysis.differences.difference import Difference, Naming
    from perfpy.analysis.differences.recording_changes import RecordingChanges
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.report.report import Report
    from perfpy.cli.diff.options import DiffCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.diff.text import DifferenceOptions

_ALL_ROWS: Final = 1 << 30


class DiffRun:
    """One run of the command over open recordings."""

    def __init__(self, recordings: list[Recording], paths: list[str], options: DiffCommandOptions) -> None:
        from perfpy.cli.line.perfconfig import load

        self._recordings = recordings
        self._paths = paths
        self._options = options
        self._config = load()
        self._verbose = is_verbose(options)
        self._for_people = self._is_for_people()

    def show(self) -> int:
        """Write the output; return the exit status."""
        status = self._write()
        limit = self._options.fail_above
        return status if status or limit is None else self._print_exceeded(limit)

    def _print_exceeded(self, limit: float) -> int:
        """Print what costs more than the limit; return the exit status."""
        from perfpy.analysis.differences.recording_changes import recording_changes
        from perfpy.cli.line.regression_limits import report_exceeded

        if len(self._recordings) != 2:
            fail("--fail-above requires two recordings")
        before, after = self._reports()
        all_changes = recording_changes(before, after, self._naming())
        return report_exceeded([_costs_more(changes, row, limit) for changes in all_changes for row in changes.above(limit)])

    def _write(self) -> int:
        options = self._options
        if options.flamegraph is not None:
            return self._flame_graph(options.flamegraph)
        if self._for_people:
            return self._show_screen()
        differences = self._differences()
        if options.json is not None:
            from perfpy.cli.output.output_files import write_text
            from perfpy.views.diff.json import difference_json

            write_text(options.json, difference_json(differences, self._paths))
            return 0
        from perfpy.cli.output.terminal import print_lines

        print_lines(self._lines(differences))
        return 0

    def _is_for_people(self) -> bool:
        """Whether two recordings are compared on a terminal without options of perf's columns."""
        from perfpy.cli.output.terminal import wants_plain

        options = self._options
        texts = (options.json, options.flamegraph, options.field_separator, options.noise, options.order)
        if len(self._paths) != 2 or options.period or options.formula or any(one is not None for one in texts):
            return False
        return compute_of(options, self._config).of_shares and not wants_plain(stdio=options.stdio)

    def _show_screen(self) -> int:
        from perfpy.cli.output.terminal import console
        from perfpy.views.diff.screen import Side, show_differences

        sides = [Side(path, one.title, _seconds(one)) for path, one in zip(self._paths, self._recordings, strict=True)]
        show_differences(self._differences(self._naming()), sides, console(), everything=self._options.all)
        return 0

    def _naming(self) -> Naming:
        """Return names under which equal code in both recordings matches."""
        from perfpy.analysis.differences.recording_changes import names_for_both

        options = self._options
        return names_for_both(self._commands(0), self._commands(1), ignore_comm=options.ignore_comm, full_names=options.full_names)

    def _commands(self, index: int) -> dict[str, int]:
        """Return the period of each command in one recording's first event."""
        from perfpy.analysis.entries.layout import ColumnOptions
        from perfpy.analysis.entries.options import ReportOptions

        report = self._recordings[index].report(
            options=ReportOptions(columns=ColumnOptions(sort="comm"), sample_filter=self._sample_filter(index))
        )
        rows = report.top(_ALL_ROWS)
        return {row.texts["comm"]: row.values["period"][0] for row in rows}

    def _differences(self, naming: Naming | None = None) -> Iterator[Difference]:
        from perfpy.analysis.differences.difference import differences

        options = self._options
        compute = compute_of(options, self._config)
        order = order_of(options, self._config)
        if not 0 <= order < len(self._paths):
            fail(f"-o {order}: expected 0 (the baseline) to {len(self._paths) - 1}")
        return differences(self._reports(), compute, baseline_only=options.baseline_only, order=order, naming=naming)

    def _reports(self) -> list[Report]:
        numbered = enumerate(self._recordings)
        reports = [recording.report(options=self._report_options(index), symbols=self._symbols(recording)) for index, recording in numbered]
        for index, report in enumerate(reports):
            if not any(len(histogram.visible_entries()) for histogram in report.histograms):
                self._explain(index, always=self._for_people or self._options.json is not None)
        return reports

    def _explain(self, index: int, *, always: bool) -> None:
        """Print why no samples of a recording are left. always: also if stderr is no terminal."""
        from perfpy.cli.line.empty_results import print_nothing_left
        from perfpy.cli.output.notes import notes_are_read

        options, recording = self._options, self._recordings[index]
        if notes_are_read(quiet=options.quiet, verbose=options.verbose) or (always and not options.quiet):
            print_nothing_left(recording, self._sample_filter(index), self._symbols(recording))

    def _lines(self, differences: Iterable[Difference]) -> Iterator[str]:
        from perfpy.cli.output.terminal import wants_plain, width
        from perfpy.views.diff.text import difference_lines

        plain = wants_plain(stdio=self._options.stdio) or self._options.field_separator is not None
        lines = difference_lines(differences, self._text_options(plain=plain))
        return lines if plain else (_truncate(line, width()) for line in lines)

    def _text_options(self, *, plain: bool) -> DifferenceOptions:
        from perfpy.cli.report.columns import hidden_keys
        from perfpy.views.diff.text import DifferenceOptions

        options = self._options
        return DifferenceOptions(
            self._paths,
            list_paths=self._verbose,
            periods=options.period,
            formulas=options.formula,
            noise=not plain if options.noise is None else options.noise,
            separator=options.field_separator,
            quiet=options.quiet,
            hidden=tuple(key for key, _, _ in hidden_keys(self._sample_filter(0))),
        )

    def _report_options(self, index: int) -> ReportOptions:
        """Return the options of one recording's table."""
        recording = self._recordings[index]
        return report_options(self._options, self._config, recording, self._times(index), for_people=self._for_people)

    def _sample_filter(self, index: int) -> SampleFilter:
        """Return the sample filter of one recording."""
        return sample_filter(self._options, self._times(index))

    def _times(self, index: int) -> TimeRanges | None:
        """Return the part of --time for one recording; percentages apply to all."""
        from perfpy.analysis.filters.time_ranges import ranges_of

        text = self._options.time
        if ":" in text:
            parts = text.split(":")
            if len(parts) != len(self._paths):
                fail(f"--time {text}: expected one range for each of the {len(self._paths)} recordings")
            text = parts[index]
        return ranges_of(text, self._recordings[index].times()) if text else None

    def _symbols(self, recording: Recording) -> SymbolOptions:
        return symbol_options(self._options, self._config, recording, folds=self._folds_interpreters)

    @cached_property
    def _folds_interpreters(self) -> bool:
        """Whether samples count for the functions that interpreters ran by default: on screens, if all recordings are of Python."""
        from perfpy.symbols.interpreters import has_python_image  # not needed for plain text

        return self._for_people and all(has_python_image(recording.data.kept_files) for recording in self._recordings)

    def _flame_graph(self, path: str) -> int:
        from perfpy.cli.output.output_files import write_bytes
        from perfpy.cli.report.exports import page_of_changes
        from perfpy.views.page.profile_data import MOST_SINGLE

        if len(self._recordings) != 2:
            fail("--flamegraph requires two recordings")
        numbered = enumerate(self._recordings)
        stacks = [
            recording.stacks(
                self._symbols(recording), sample_filter=self._report_options(index).sample_filter, timed=True, most_samples=MOST_SINGLE
            )
            for index, recording in numbered
        ]
        for index, parts in enumerate(stacks):
            if not parts:
                self._explain(index, always=True)
        options = self._options
        page = page_of_changes(self._recordings, stacks, ignore_comm=options.ignore_comm, full_names=options.full_names)
        write_bytes(path, page.encode(errors="replace"), quiet=self._options.quiet)
        return 0


def _costs_more(changes: RecordingChanges, row: ChangedRow, limit: float) -> str:
    share = row.change / max(changes.before.period, 1)
    return f"{changes.name(row)} costs more than before, by {share:.1%} of all {changes.event}; the limit is {limit:.1%}"


def _seconds(recording: Recording) -> float:
    """Return the seconds from the first sample to the last; 0 if unknown."""
    times = recording.times()
    return (times.last - times.first) / 1e9


def _truncate(line: str, room: int) -> str:
    """Truncate a line to the window's width."""
    return line if len(line) <= room else f"{line[: room - 1]}…"
