"""`perfpy diff`: compare recordings, or two groups of them.

The first recording is the baseline. The output is perf's plain text; on a terminal, or with --noise, changes beyond sampling
noise are marked. Other formats are JSON and a flame graph of the differences.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.numpy_start import prepare_numpy
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Flag,
    Listed,
    PerfCommand,
    StdioOptions,
    Value,
    fail,
    option,
    percent,
    words,
)
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import (
    JobOptions,
    QuietOptions,
    SymbolFileOptions,
    VerboseOptions,
    parse_names,
    parse_numbers,
    parse_ranges,
    parse_separator,
    report_exceeded,
    shown_machines,
    symbol_options_of,
)
from perfpy.cli.output.terminal import TaskProgress, console, notes_are_read, print_lines, wants_plain, warn_of_failed_recordings, width
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.reader import main_file, recordings_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfpy.analysis.differences import ChangedRow, Compute, Difference, Naming, RecordingChanges
    from perfpy.analysis.filters import SampleFilter, TimeRanges
    from perfpy.analysis.group_differences import GroupChanges, GroupRow
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.stacks import StackOptions, Stacks
    from perfpy.cli.line.perfconfig import Config
    from perfpy.fleet.recordings import Recordings
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.diff.text import DifferenceOptions


_KINDS: Final = ("delta", "delta-abs", "ratio")
_WDIFF: Final = re.compile(r"wdiff:([+-]?\d+),([+-]?\d+)")
_LACKING: Final = {
    "--stream": "it needs branch records in callchains",
    "--cycles-hist": "it needs block counts of last branch records",
    "-D,--dump-raw-trace": "perfpy report -D has it",
}


class DiffComparisonOptions(CommandOptions):
    """Options for the comparison and its columns."""

    sort: str = option("-s,--sort", Value(default=""), "compare by these keys (default: dso,symbol)", metavar="<key[,key2...]>")
    compute: str | None = option("-c,--compute", Value(), "compute delta, delta-abs (default), ratio or wdiff:w1,w2", metavar="<kind>")
    baseline_only: bool = option("-b,--baseline-only", Flag(), "only rows of the baseline that have a counterpart")
    period: bool = option("-p,--period", Flag(), "show periods")
    formula: bool = option("-F,--formula", Flag(), "show the formula of each result")
    order: int | None = option("-o,--order", Value(int), "sort by this file's change (1: the second; 0: the baseline)", metavar="<n>")
    dsos: tuple[str, ...] | None = option("-d,--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    comms: tuple[str, ...] | None = option("-C,--comms", Value(parse_names), "only these commands", metavar="<comm[,comm...]>")
    symbols: tuple[str, ...] | None = option("-S,--symbols", Value(parse_names), "only these functions", metavar="<symbol[,symbol...]>")
    pids: tuple[int, ...] | None = option("--pid", Value(parse_numbers), "only these processes", metavar="<pid[,pid...]>")
    tids: tuple[int, ...] | None = option("--tid", Value(parse_numbers), "only these threads", metavar="<tid[,tid...]>")
    cpus: tuple[int, ...] | None = option("--cpu", Value(parse_ranges), "only these CPUs", metavar="<cpu>")
    time: str = option("--time", Value(default=""), "only this time: 10%-20%, or start,stop:start,stop", metavar="<str>")
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "percentages of the filtered or of all samples")
    field_separator: str | None = option(
        "-t,--field-separator", Value(parse_separator), "separate columns with this string", metavar="<separator>"
    )
    with_off_cpu: bool = option("--with-off-cpu", Flag(), "merge on-CPU and off-CPU time (needs record --off-cpu)")
    fail_above: float | None = option(
        "--fail-above", Value(percent), "exit with 90 if a row rises by more than noise and this", metavar="<percent>"
    )
    noise: bool | None = option("--noise", Flag(default=None), "mark changes beyond sampling noise (default on a terminal)")


class DiffOutputOptions(CommandOptions):
    """The output's format, and the ownership check."""

    json: str | None = option("--json", Attached("-"), "write the comparison as JSON", metavar="<file>")
    flamegraph: str | None = option("--flamegraph,--html", Value(), "write the changes as one HTML page", metavar="<file>")
    all: bool = option("--all", Flag(), "on a terminal: show rows within sampling noise, too")
    ignore_comm: bool | None = option("--ignore-comm", Flag(default=None), "ignore command names (default with one command a file)")
    full_names: bool = option("--full-names", Flag(), "show full function names on screens and in flame graphs")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")


class DiffGroupOptions(JobOptions):
    """Two groups of recordings: names, the unit of observation, and a cluster to read them."""

    before: tuple[str, ...] = option(
        "--before", Listed(), "first group of recordings: file, pattern, folder; repeatable", metavar="<files>"
    )
    after: tuple[str, ...] = option("--after", Listed(), "second group of recordings", metavar="<files>")
    unit: str = option(
        "--unit",
        Value(Choice("host", "recording"), default=""),
        "groups: observe hosts (default) or single recordings",
        metavar="<host|recording>",
    )
    weights: str = option(
        "--weights",
        Value(Choice("time", "samples", "equal"), default="time"),
        "groups: weigh hosts by time (default), samples or equally",
        metavar="<time|samples|equal>",
    )
    cluster: str = option("--cluster", Value(default=""), "read the groups with this Dask cluster", metavar="<tcp://host:port>")


class DiffModuleOptions(CommandOptions):
    """Which kernel files provide symbols."""

    modules: bool = option("-m,--modules", Flag(), "ignored: symbols of modules are always loaded")


class DiffCommandOptions(
    DiffComparisonOptions,
    StdioOptions,
    DiffOutputOptions,
    DiffGroupOptions,
    SymbolFileOptions,
    DiffModuleOptions,
    VerboseOptions,
    QuietOptions,
    lacks=_LACKING,
):
    """Options of `perfpy diff`."""

    files: tuple[str, ...] = words("[<baseline> <file>...]")

    @property
    def default_files(self) -> tuple[str, str]:
        """The recordings that are compared if none is named."""
        return "perf.data.old", "perf.data"


def compute_of(options: DiffCommandOptions, config: Config) -> Compute:
    """Return the computation of -c, or else of diff.compute in ~/.perfconfig. Raises UsageError for an unknown one."""
    from perfpy.analysis.differences import Compute

    kind = options.compute or config.get("diff.compute", _KINDS[1])
    weights = _WDIFF.fullmatch(kind)
    if weights and int(weights[1]) and int(weights[2]):
        return Compute("wdiff", (int(weights[1]), int(weights[2])))
    if kind in _KINDS:
        return Compute(kind)
    if kind == "cycles":
        raise UsageError("-c cycles needs block counts of last branch records, which perfpy does not support")
    if kind.startswith("wdiff"):
        raise UsageError(f"-c {kind}: expected two weights other than 0, for example wdiff:1,2")
    raise UsageError(f"-c {kind}: expected delta, delta-abs, ratio or wdiff:w1,w2")


def run(options: DiffCommandOptions) -> int:
    """Compare recordings (default: perf.data.old and perf.data)."""
    if groups := _groups(options):
        return GroupDiffRun(groups, options).show()
    paths = _paths(options.files, options.default_files)
    with ExitStack() as stack:
        recordings = [
            stack.enter_context(open_recording(path, force=options.force, quiet=options.quiet, verbose=options.verbose)) for path in paths
        ]
        if options.with_off_cpu:
            for recording in recordings:
                recording.merge_off_cpu()
        return DiffRun(recordings, paths, options).show()


def _paths(recordings: tuple[str, ...], defaults: tuple[str, str]) -> list[str]:
    """Return the recordings to compare: a single one is compared with the default baseline.

    Raises PerfError with advice if that is missing, because its name is not on the command line.
    """
    if len(recordings) > 1:
        return list(recordings)
    old, other = defaults[0], recordings[0] if recordings else defaults[1]
    if not os.path.exists(old):
        advice = f"name two recordings: perfpy diff BASELINE {other}"
        raise PerfError(f"{old}: cannot open: {os.strerror(errno.ENOENT)}; it is the default baseline for {other}; {advice}")
    return [old, other]


def _groups(options: DiffCommandOptions) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names of both groups' recordings; None to compare single recordings."""
    if options.before or options.after:
        if options.files:
            fail(f"{options.files[0]}: excess argument; quote patterns, and repeat --before and --after")
        if not (options.before and options.after):
            fail("--before and --after require each other")
        return options.before, options.after
    if not any(map(_is_group, options.files)):
        return None
    if len(options.files) != 2:
        fail("expected two groups, each a folder or a quoted pattern; for more files repeat --before and --after")
    return options.files[:1], options.files[1:]


def _is_group(name: str) -> bool:
    """Whether the name is a pattern, or a folder of recordings."""
    if exported := recordings_in(name):
        return len(exported) > 1
    if os.path.isdir(name):
        return not os.path.exists(main_file(name))  # otherwise it is one recording (record --threads)
    return not os.path.exists(name) and any(letter in name for letter in "*?[")


command = PerfCommand(DiffCommandOptions, run)


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
    from perfpy.cli.report.run import configured_percentage

    return (options.percentage or configured_percentage(config)) == "relative"


def report_options(
    options: DiffCommandOptions, config: Config, recording: Recording, times: TimeRanges | None, *, for_people: bool
) -> ReportOptions:
    """Return the options of one recording's table. times is the part of --time for this recording."""
    from perfpy.analysis.report.options import ColumnOptions, NameOptions, ReportOptions, RowOptions

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
        sample_filter=sample_filter(options, recording, times),
    )


def sample_filter(options: DiffCommandOptions, recording: Recording, times: TimeRanges | None) -> SampleFilter:
    """Return the sample filter of one recording."""
    from perfpy.analysis.filters import SampleFilter

    return options.fill(SampleFilter, times=times, machines=shown_machines(options, recording))


def symbol_options(options: DiffCommandOptions, config: Config, recording: Recording, *, folds: bool = False) -> SymbolOptions:
    """Return the symbol options of one recording.

    folds: count samples for the functions that interpreters ran, unless an option decides.
    """
    symbols = symbol_options_of(options, config, recording, force=options.force)
    return symbols._replace(fold_interpreters=folds) if options.fold_interpreters is None else symbols


_ALL_ROWS: Final = 1 << 30


class DiffRun:
    """One run of the command over open recordings."""

    def __init__(self, recordings: list[Recording], paths: list[str], options: DiffCommandOptions) -> None:
        self._recordings = recordings
        self._paths = paths
        self._options = options
        self._config = load_config()
        self._verbose = is_verbose(options)
        self._for_people = self._is_for_people()

    def show(self) -> int:
        """Write the output; return the exit status."""
        status = self._write()
        limit = self._options.fail_above
        return status if status or limit is None else self._print_exceeded(limit)

    def _print_exceeded(self, limit: float) -> int:
        """Print what costs more than the limit; return the exit status."""
        from perfpy.analysis.differences import recording_changes

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
        # With --noise the rows of two builds match although their files have other names; perf's text keeps perf's rows.
        are_matched = bool(options.noise) and len(self._recordings) == 2
        differences = self._differences(self._naming(full_names=True) if are_matched else None)
        if options.json is not None:
            from perfpy.cli.output.output_files import write_text
            from perfpy.views.diff.json import difference_json

            write_text(options.json, difference_json(differences, self._paths))
            return 0
        print_lines(self._lines(differences))
        return 0

    def _is_for_people(self) -> bool:
        """Whether two recordings are compared on a terminal without options of perf's columns."""
        options = self._options
        texts = (options.json, options.flamegraph, options.field_separator, options.noise, options.order)
        if len(self._paths) != 2 or options.period or options.formula or any(one is not None for one in texts):
            return False
        return compute_of(options, self._config).of_shares and not wants_plain(stdio=options.stdio)

    def _show_screen(self) -> int:
        from perfpy.views.diff.screen import Side, show_differences

        sides = [
            Side(path, one.title, _seconds(one), self._charged(index))
            for index, (path, one) in enumerate(zip(self._paths, self._recordings, strict=True))
        ]
        show_differences(self._differences(self._naming()), sides, console(), everything=self._options.all)
        return 0

    def _charged(self, index: int) -> dict[str, tuple[int, int]]:
        """Return the samples and the period that are charged to each function of own code; none without callchains."""
        from perfpy.views.verdict.profile import charged_amounts, headline_options

        recording = self._recordings[index]
        if not any(event.attr.sample_type & SampleType.CALLCHAIN for event in recording.events):
            return {}
        return charged_amounts(recording.report(options=headline_options(self._sample_filter(index)), symbols=self._symbols(recording)))

    def _naming(self, *, full_names: bool = False) -> Naming:
        """Return names under which equal code in both recordings matches. full_names: keep instances of templates apart."""
        from perfpy.analysis.differences import names_for_both

        options = self._options
        return names_for_both(
            self._commands(0), self._commands(1), ignore_comm=options.ignore_comm, full_names=full_names or options.full_names
        )

    def _commands(self, index: int) -> dict[str, int]:
        """Return the period of each command in one recording's first event."""
        from perfpy.analysis.report.options import ColumnOptions, ReportOptions

        report = self._recordings[index].report(
            options=ReportOptions(columns=ColumnOptions(sort="comm"), sample_filter=self._sample_filter(index)), jobs=self._options.jobs
        )
        rows = report.top(_ALL_ROWS)
        return {row.texts["comm"]: row.values["period"][0] for row in rows}

    def _differences(self, naming: Naming | None = None) -> Iterator[Difference]:
        from perfpy.analysis.differences import differences

        options = self._options
        compute = compute_of(options, self._config)
        order = int(self._config.number("diff.order", 1)) if options.order is None else options.order
        if not 0 <= order < len(self._paths):
            fail(f"-o {order}: expected 0 (the baseline) to {len(self._paths) - 1}")
        return differences(self._reports(), compute, baseline_only=options.baseline_only, order=order, naming=naming)

    def _reports(self) -> list[Report]:
        jobs = self._options.jobs
        reports = [
            recording.report(options=self._report_options(index), symbols=self._symbols(recording), jobs=jobs)
            for index, recording in enumerate(self._recordings)
        ]
        for index, report in enumerate(reports):
            if not any(len(histogram.visible_entries()) for histogram in report.histograms):
                self._explain(index, always=self._for_people or self._options.json is not None)
        return reports

    def _explain(self, index: int, *, always: bool) -> None:
        """Print why no samples of a recording are left. always: also if stderr is no terminal."""
        from perfpy.cli.line.empty_results import print_nothing_left

        options, recording = self._options, self._recordings[index]
        if notes_are_read(quiet=options.quiet, verbose=options.verbose) or (always and not options.quiet):
            print_nothing_left(recording, self._sample_filter(index), self._symbols(recording))

    def _lines(self, differences: Iterable[Difference]) -> Iterator[str]:
        from perfpy.views.diff.text import difference_lines

        plain = wants_plain(stdio=self._options.stdio) or self._options.field_separator is not None
        lines = difference_lines(differences, self._text_options(plain=plain))
        return lines if plain else (_truncate(line, width()) for line in lines)

    def _text_options(self, *, plain: bool) -> DifferenceOptions:
        from perfpy.cli.report.run import hidden_keys
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
        return sample_filter(self._options, self._recordings[index], self._times(index))

    def _times(self, index: int) -> TimeRanges | None:
        """Return the part of --time for one recording; percentages apply to all."""
        from perfpy.analysis.filters import ranges_of

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
        from perfpy.symbols.dso import has_python_image  # not needed for plain text

        return self._for_people and all(has_python_image(recording.data.kept_files) for recording in self._recordings)

    def _flame_graph(self, path: str) -> int:
        from perfpy.analysis.stacks import StackOptions
        from perfpy.cli.output.output_files import write_bytes
        from perfpy.cli.report.run import page_of_changes
        from perfpy.views.page.profile_data import MOST_SINGLE

        if len(self._recordings) != 2:
            fail("--flamegraph requires two recordings")
        stacks = [
            recording.stacks(
                self._symbols(recording),
                StackOptions(self._report_options(index).sample_filter, timed=True, most_samples=MOST_SINGLE, jobs=self._options.jobs),
            )
            for index, recording in enumerate(self._recordings)
        ]
        for index, parts in enumerate(stacks):
            if not parts:
                self._explain(index, always=True)
        options = self._options
        page = page_of_changes(
            self._recordings,
            stacks,
            ignore_comm=options.ignore_comm,
            full_names=options.full_names,
            symbols=self._symbols(self._recordings[0]),
            sample_filters=[self._report_options(index).sample_filter for index in range(2)],
        )
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


class GroupRecordingOptions:
    """The options for each recording; can be sent to other processes."""

    def __init__(self, options: DiffCommandOptions) -> None:
        from perfpy.fleet.cluster import SentSettings

        self._options, self._settings = options, SentSettings(load_config())

    def row_options(self, recording: Recording) -> tuple[ReportOptions, SymbolOptions]:
        """Return the options for tables."""
        from perfpy.fleet.recordings import with_recordings

        options, config = self._options, self._settings.apply()
        table_options = report_options(options, config, recording, self._times(recording), for_people=True)
        return with_recordings(table_options), symbol_options(options, config, recording)

    def stack_options(self, recording: Recording) -> tuple[StackOptions, SymbolOptions]:
        """Return the options for whole stacks."""
        from perfpy.analysis.stacks import StackOptions

        symbols = symbol_options(self._options, self._settings.apply(), recording)
        return StackOptions(sample_filter(self._options, recording, self._times(recording))), symbols

    def _times(self, recording: Recording) -> TimeRanges | None:
        from perfpy.analysis.filters import ranges_of

        return ranges_of(self._options.time, recording.times()) if self._options.time else None


class GroupDiffRun:
    """One run of the command over two groups.

    The output is a table of the changes that exceed the differences between hosts, JSON, or a page. Unreadable recordings are listed on
    stderr. The exit status is then 91, or 90 if --fail-above is exceeded.
    """

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
        with TaskProgress("reading recordings") as progress:
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
        from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions

        options = self._options
        table_options = ReportOptions(
            rows=RowOptions(group=False, relative_percentages=are_relative(options, load_config())),
            columns=ColumnOptions(sort=sort_keys(options)),
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
        from perfpy.cli.output.output_files import write_bytes, write_text
        from perfpy.views.diff.groups import group_lines, show_groups

        options = self._options
        if page is not None:
            assert options.flamegraph is not None
            write_bytes(options.flamegraph, page.encode(errors="replace"), quiet=options.quiet)
        elif options.json is not None:
            from perfpy.views.diff.json import groups_json

            write_text(options.json, groups_json(all_changes, [failed for group in groups for failed in group.failed]))
        elif wants_plain(stdio=options.stdio) or options.field_separator is not None:
            print_lines(group_lines(all_changes, separator=options.field_separator, quiet=options.quiet))
        else:
            show_groups(all_changes, console(), everything=options.all)

    def _page(self, groups: Sequence[Recordings], all_changes: Sequence[GroupChanges], symbols: SymbolOptions) -> str:
        """Return a page with the table and the flame graph of the changes."""
        from perfpy.analysis.differences import match_names
        from perfpy.symbols.demangling.short_names import without_instance
        from perfpy.views.diff.groups import group_page

        options = self._options
        stacks: list[list[Stacks]] = [group.stacks(symbols, options_of=self._each.stack_options) for group in groups]
        first, second = match_names(*stacks, ignore_comm=options.ignore_comm, name=str if options.full_names else without_instance)
        return group_page(first, second, [", ".join(names) for names in self._sides], all_changes)

    def _print_exceeded(self, all_changes: Sequence[GroupChanges]) -> int:
        limit = self._options.fail_above
        if limit is None:
            return 0
        return report_exceeded([_group_costs_more(changes, row, limit) for changes in all_changes for row in changes.above(limit)])


def _group_costs_more(changes: GroupChanges, row: GroupRow, limit: float) -> str:
    from perfpy.views.diff.groups import change_in_words

    return f"{change_in_words(changes, row)} of {changes.event}; the limit is {100 * limit:.2f} points"


def _refuse_pair_options(options: DiffCommandOptions) -> None:
    excluded = options.given("compute", "baseline_only", "period", "formula", "order", "with_off_cpu")
    excluded += ["--no-noise"] * (options.noise is False) + ["--time with colons"] * (":" in options.time)
    if excluded:
        fail(f"{', '.join(excluded)}: not available for groups of recordings, which are compared by share")
