"""`perfpy diff`: what changed between recordings.

What enters: perf diff's options and two or more recordings, the first of them
the baseline. What leaves: perf's plain text; on a terminal, or with --noise,
with a mark at what the noise of sampling does not explain; or JSON, or a flame
graph of the differences.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.cli.line.kinds import Attached, Choice, Flag, Value, percent
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, words
from perfpy.cli.line.shared import QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.report.changed_rows import ChangedRow
    from perfpy.analysis.report.difference import Compute, Difference, Naming
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.recording_changes import RecordingChanges
    from perfpy.analysis.report.report import Report
    from perfpy.cli.line.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.diff.text import DifferenceOptions

_DEFAULT_FILES: Final = ("perf.data.old", "perf.data")
_DEFAULT_SORT: Final = "dso,symbol"
_ALL_ROWS: Final = 1 << 30
_KINDS: Final = ("delta", "delta-abs", "ratio")
_WDIFF: Final = re.compile(r"wdiff:([+-]?\d+),([+-]?\d+)")
_LACKING: Final = {
    "--stream": "it needs branch records in callchains",
    "--cycles-hist": "it needs block counts of last branch records",
    "-D,--dump-raw-trace": "perfpy report -D has it",
}


class DiffComparisonOptions(CommandOptions):
    """What is compared, and which columns show it."""

    sort: str = option("-s,--sort", Value(default=""), "compare by these keys (default: dso,symbol)", metavar="<key[,key2...]>")
    compute: str | None = option("-c,--compute", Value(), "delta, delta-abs (default), ratio or wdiff:w1,w2", metavar="<kind>")
    baseline_only: bool = option("-b,--baseline-only", Flag(), "only rows that the baseline and another recording have")
    period: bool = option("-p,--period", Flag(), "show periods")
    formula: bool = option("-F,--formula", Flag(), "show what was computed of what")
    order: int | None = option(
        "-o,--order", Value(int), "sort by this recording's change (1: the second; 0: by the baseline)", metavar="<n>"
    )
    dsos: str = option("-d,--dsos", Value(default=""), "only these shared objects", metavar="<dso[,dso...]>")
    comms: str = option("-C,--comms", Value(default=""), "only these commands", metavar="<comm[,comm...]>")
    symbols: str = option("-S,--symbols", Value(default=""), "only these functions", metavar="<symbol[,symbol...]>")
    pid: str = option("--pid", Value(default=""), "only these processes", metavar="<pid[,pid...]>")
    tid: str = option("--tid", Value(default=""), "only these threads", metavar="<tid[,tid...]>")
    cpu: str = option("--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    time: str = option(
        "--time", Value(default=""), "only this time: 10%-20%, or start,stop for each recording, parted by colons", metavar="<str>"
    )
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "shares of what filters leave, or of all")
    field_separator: str | None = option("-t,--field-separator", Value(), "columns with this separator", metavar="<separator>")
    with_off_cpu: bool = option("--with-off-cpu", Flag(), "time on and off the CPU as one (of record --off-cpu)")
    fail_above: float | None = option(
        "--fail-above",
        Value(percent),
        "exit status 90 where a row costs more than before, by more than noise and this share of all",
        metavar="<percent>",
    )
    noise: bool | None = option("--noise", Flag(default=None), "mark what sampling noise does not explain (default on a terminal)")


class DiffOutputOptions(CommandOptions):
    """In which form the comparison is written, and whose files are read."""

    json: str | None = option("--json", Attached("-"), "the comparison as JSON", metavar="<file>")
    flamegraph: str | None = option(
        "--flamegraph,--html", Value(), "what changed as a page: flame graph, time line, tables; one HTML file", metavar="<file>"
    )
    all: bool = option("--all", Flag(), "on a terminal, also the rows that the noise of sampling explains")
    ignore_comm: bool | None = option(
        "--ignore-comm", Flag(default=None), "commands are the same whatever they are called (default where each file has one)"
    )
    whole_names: bool = option("--whole-names", Flag(), "on a terminal and in flame graphs, each instance of a template by itself")
    force: bool = option("-f,--force", Flag(), "read files although somebody else owns them")


class DiffModuleOptions(CommandOptions):
    """Which of the kernel's files have its symbols."""

    modules: bool = option("-m,--modules", Flag(), "load symbols of modules (they are, always)")


class DiffCommandOptions(
    DiffComparisonOptions,
    StdioOptions,
    DiffOutputOptions,
    SymbolFileOptions,
    DiffModuleOptions,
    VerboseOptions,
    QuietOptions,
    lacks=_LACKING,
):
    """What the command takes."""

    files: tuple[str, ...] = words("[<baseline> <file>...]")


def run(asked: DiffCommandOptions) -> int:
    """Compare recordings, perf.data.old and perf.data where none are named."""
    # everything after the options needs numpy
    from perfpy.cli.line.opening import open_recording

    if asked.field_separator == ".":
        fail("-t .: the dot is in numbers, any other separator will do")
    paths = _paths(asked.files)
    _refuse_missing_baseline(asked.files)
    with ExitStack() as stack:
        recordings = [
            stack.enter_context(open_recording(path, force=asked.force, quiet=asked.quiet, verbose=asked.verbose)) for path in paths
        ]
        if asked.with_off_cpu:
            for recording in recordings:
                recording.join_off_cpu()
        return _DiffRun(recordings, paths, asked).show()


def _paths(named: tuple[str, ...]) -> list[str]:
    """The recordings to compare: one name is compared with perf.data.old."""
    return list(named) if len(named) > 1 else [_DEFAULT_FILES[0], named[0] if named else _DEFAULT_FILES[1]]


def _refuse_missing_baseline(named: tuple[str, ...]) -> None:
    """Who names one recording, or none, may not know of the other, which is another recording's former perf.data."""
    old = _DEFAULT_FILES[0]
    if len(named) < 2 and not os.path.exists(old):
        other = named[0] if named else _DEFAULT_FILES[1]
        advice = f"name two recordings: perfpy diff BASELINE {other}"
        raise PerfError(f"{old}: cannot open: {os.strerror(errno.ENOENT)}; with it {other} is compared; {advice}")


class _DiffRun:
    """One run of the command over open recordings."""

    def __init__(self, recordings: list[Recording], paths: list[str], asked: DiffCommandOptions) -> None:
        from perfpy.cli.line.perfconfig import load

        self._recordings = recordings
        self._paths = paths
        self._asked = asked
        self._config = load()
        self._verbose = asked.verbose > 0 and not asked.quiet
        self._for_people = self._is_for_people()

    def show(self) -> int:
        """Write what the options ask for; the exit status."""
        status = self._write()
        limit = self._asked.fail_above
        return status if status or limit is None else self._exceeded(limit)

    def _exceeded(self, limit: float) -> int:
        """Say what costs more than the limit allows; the exit status."""
        from perfpy.analysis.report.recording_changes import recording_changes
        from perfpy.cli.line.limits import told

        if len(self._recordings) != 2:
            fail("--fail-above compares two recordings")
        before, after = self._reports()
        found = recording_changes(before, after, self._naming())
        return told([_costs_more(changes, row, limit) for changes in found for row in changes.above(limit)])

    def _write(self) -> int:
        asked = self._asked
        if asked.flamegraph is not None:
            return self._flame_graph(asked.flamegraph)
        if self._for_people:
            return self._show_screen()
        found = self._differences()
        if asked.json is not None:
            from perfpy.cli.line.output_files import write_text
            from perfpy.views.diff.json import difference_json

            write_text(asked.json, difference_json(found, self._paths))
            return 0
        from perfpy.cli.line.terminal import print_lines

        print_lines(self._lines(found))
        return 0

    def _is_for_people(self) -> bool:
        """Whether a person compares two recordings, and asks for none of perf's columns."""
        from perfpy.cli.line.terminal import wants_plain

        asked = self._asked
        texts = (asked.json, asked.flamegraph, asked.field_separator, asked.noise, asked.order)
        if len(self._paths) != 2 or asked.period or asked.formula or any(one is not None for one in texts):
            return False
        return compute_of(asked.compute, self._config).of_shares and not wants_plain(stdio=asked.stdio)

    def _show_screen(self) -> int:
        from perfpy.cli.line.terminal import console
        from perfpy.views.diff.screen import Side, show_differences

        sides = [Side(path, one.title, _seconds(one)) for path, one in zip(self._paths, self._recordings, strict=True)]
        show_differences(self._differences(self._naming()), sides, console(), everything=self._asked.all)
        return 0

    def _naming(self) -> Naming:
        """What is the same in both recordings is called the same."""
        from perfpy.analysis.report.recording_changes import names_for_both

        asked = self._asked
        return names_for_both(self._commands(0), self._commands(1), ignore_comm=asked.ignore_comm, whole_names=asked.whole_names)

    def _commands(self, index: int) -> dict[str, int]:
        """What each command has in one of the recordings, of its first event."""
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions

        report = self._recordings[index].report(options=ReportOptions(wanted=Wanted(sort="comm"), sample_filter=self._sample_filter(index)))
        rows = report.top(_ALL_ROWS)
        return {row.texts["comm"]: row.values["period"][0] for row in rows}

    def _differences(self, naming: Naming | None = None) -> Iterator[Difference]:
        from perfpy.analysis.report.difference import differences

        asked = self._asked
        compute = compute_of(asked.compute, self._config)
        order = int(self._config.number("diff.order", 1)) if asked.order is None else asked.order
        if not 0 <= order < len(self._paths):
            fail(f"-o {order}: there are {len(self._paths)} recordings, the baseline is 0")
        return differences(self._reports(), compute, baseline_only=asked.baseline_only, order=order, naming=naming)

    def _reports(self) -> list[Report]:
        numbered = enumerate(self._recordings)
        reports = [recording.report(options=self._options(index), symbols=self._symbols(recording)) for index, recording in numbered]
        for index, report in enumerate(reports):
            if not any(len(histogram.shown()) for histogram in report.histograms):
                self._explain(index, always=self._for_people or self._asked.json is not None)
        return reports

    def _explain(self, index: int, *, always: bool) -> None:
        """Say why nothing is left of a recording. always: not only to a person."""
        from perfpy.cli.line.notes import are_read
        from perfpy.cli.line.nothing_left import say_why_nothing

        asked, recording = self._asked, self._recordings[index]
        if are_read(quiet=asked.quiet, verbose=asked.verbose) or (always and not asked.quiet):
            say_why_nothing(recording, self._sample_filter(index), self._symbols(recording))

    def _lines(self, found: Iterable[Difference]) -> Iterator[str]:
        from perfpy.cli.line.terminal import wants_plain, width
        from perfpy.views.diff.text import difference_lines

        plain = wants_plain(stdio=self._asked.stdio) or self._asked.field_separator is not None
        lines = difference_lines(found, self._text_options(plain=plain))
        return lines if plain else (_cut(line, width()) for line in lines)

    def _text_options(self, *, plain: bool) -> DifferenceOptions:
        from perfpy.cli.report.option_values import hidden_keys
        from perfpy.views.diff.text import DifferenceOptions

        asked = self._asked
        return DifferenceOptions(
            self._paths,
            list_paths=self._verbose,
            periods=asked.period,
            formulas=asked.formula,
            noise=not plain if asked.noise is None else asked.noise,
            separator=asked.field_separator,
            quiet=asked.quiet,
            hidden=tuple(key for key, _, _ in hidden_keys(self._sample_filter(0))),
        )

    def _options(self, index: int) -> ReportOptions:
        """What the table of one recording is made of."""
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.cli.report.option_values import configured_percentage

        asked, sort, recording = self._asked, self._asked.sort, self._recordings[index]
        if asked.cpu and not recording.data.is_pipe and not recording.data.has(SampleType.CPU):
            raise PerfError(f"{recording.path}: the recording does not say on which CPU samples were taken; leave --cpu out")
        percentage = asked.percentage or configured_percentage(self._config)
        unnamed = not asked.field_separator and not asked.dsos
        return ReportOptions(
            rows_filtered=not self._for_people,
            wanted=Wanted(sort=f"{_DEFAULT_SORT},{sort[1:]}" if sort.startswith("+") else sort or _DEFAULT_SORT),
            sample_filter=self._sample_filter(index),
            group=False,
            keep_exited=False,  # as perf diff; its report keeps them
            as_addr2line=True,
            relative_percentages=percentage == "relative",
            verbose=self._verbose,
            unnamed_dso_width=ReportOptions().unnamed_dso_width if unnamed else 0,
        )

    def _sample_filter(self, index: int) -> SampleFilter:
        """Which samples of one recording count."""
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.cli.report import option_values as texts

        asked = self._asked
        return SampleFilter(
            comms=texts.words(asked.comms),
            pids=texts.numbers(asked.pid, "--pid"),
            tids=texts.numbers(asked.tid, "--tid"),
            dsos=texts.words(asked.dsos),
            symbols=texts.words(asked.symbols),
            cpus=texts.ranges(asked.cpu, "--cpu"),
            times=self._times(index),
        )

    def _times(self, index: int) -> TimeRanges | None:
        """The part of --time that is about one recording: all of it, where it is in percent."""
        from perfpy.analysis.filters.time_ranges import ranges_of

        text = self._asked.time
        if ":" in text:
            parts = text.split(":")
            if len(parts) != len(self._paths):
                fail(f"--time {text}: a range for each of the {len(self._paths)} recordings is needed")
            text = parts[index]
        return ranges_of(text, self._recordings[index].times()) if text else None

    def _symbols(self, recording: Recording) -> SymbolOptions:
        from perfpy.cli.line.symbol_values import symbol_options_of

        return symbol_options_of(self._asked, self._config, recording, force=self._asked.force)

    def _flame_graph(self, path: str) -> int:
        from perfpy.cli.line.output_files import write_bytes
        from perfpy.cli.report.exports import page_of_changes

        if len(self._recordings) != 2:
            fail("--flamegraph compares two recordings")
        numbered = enumerate(self._recordings)
        stacks = [
            recording.stacks(self._symbols(recording), sample_filter=self._options(index).sample_filter, timed=True)
            for index, recording in numbered
        ]
        for index, parts in enumerate(stacks):
            if not parts:
                self._explain(index, always=True)
        asked = self._asked
        page = page_of_changes(self._recordings, stacks, ignore_comm=asked.ignore_comm, whole_names=asked.whole_names)
        write_bytes(path, page.encode(errors="replace"), quiet=self._asked.quiet)
        return 0


def _costs_more(changes: RecordingChanges, row: ChangedRow, limit: float) -> str:
    share = row.change / max(changes.before.period, 1)
    return f"{changes.name(row)} costs more than before, by {share:.1%} of all {changes.event}; the limit is {limit:.1%}"


def _seconds(recording: Recording) -> float:
    """From the first sample to the last; 0 where that is not known."""
    times = recording.times()
    return (times.last - times.first) / 1e9


def _cut(line: str, room: int) -> str:
    """A line within the window."""
    return line if len(line) <= room else f"{line[: room - 1]}…"


def compute_of(text: str | None, config: Config) -> Compute:
    """What -c, or else the configuration, asks for. Raises UsageError for what is not known."""
    from perfpy.analysis.report.difference import Compute

    asked = text or config.get("diff.compute", _KINDS[1])
    weights = _WDIFF.fullmatch(asked)
    if weights and int(weights[1]) and int(weights[2]):
        return Compute("wdiff", (int(weights[1]), int(weights[2])))
    if asked in _KINDS:
        return Compute(asked)
    if asked == "cycles":
        raise UsageError("-c cycles needs block counts of last branch records, which perfpy does not read")
    if asked.startswith("wdiff"):
        raise UsageError(f"-c {asked}: two weights other than 0 are needed, such as wdiff:1,2")
    raise UsageError(f"-c {asked}: delta, delta-abs, ratio or wdiff:w1,w2 are known")


command = PerfCommand(DiffCommandOptions, run)
