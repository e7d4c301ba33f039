"""`perfpy diff`: what changed between recordings.

What enters: perf diff's options and two or more recordings, the first of them
the baseline. What leaves: perf's plain text; on a terminal, or with --noise,
with a mark at what the noise of sampling does not explain; or JSON, or a flame
graph of the differences.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import SampleType
from perfpy.cli.line.decorators import (
    argument,
    choice,
    lacking_options,
    option,
    perf_command,
    quiet_option,
    stdio_option,
    symbol_options,
    verbose_option,
)
from perfpy.cli.line.options import fail
from perfpy.errors import PerfError, UsageError
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.report.difference import Compute, Difference
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.cli.line.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_DEFAULT_FILES: Final = ("perf.data.old", "perf.data")
_DEFAULT_SORT: Final = "dso,symbol"
_KINDS: Final = ("delta", "delta-abs", "ratio")
_WDIFF: Final = re.compile(r"wdiff:([+-]?\d+),([+-]?\d+)")
_LACKING: Final = {
    "--stream": "it needs branch records in callchains",
    "--cycles-hist": "it needs block counts of last branch records",
    "-D,--dump-raw-trace": "perfpy report -D has it",
}


@perf_command()
@option("-s", "--sort", default="", metavar="<key[,key2...]>", help="compare by these keys (default: dso,symbol)")
@option("-c", "--compute", default=None, metavar="<kind>", help="delta, delta-abs (default), ratio or wdiff:w1,w2")
@option("-b", "--baseline-only", is_flag=True, help="only rows that the baseline and another recording have")
@option("-p", "--period", is_flag=True, help="show periods")
@option("-F", "--formula", is_flag=True, help="show what was computed of what")
@option("-o", "--order", type=int, default=None, metavar="<n>", help="sort by this recording's change (1: the second; 0: by the baseline)")
@option("-d", "--dsos", default="", metavar="<dso[,dso...]>", help="only these shared objects")
@option("-C", "--comms", default="", metavar="<comm[,comm...]>", help="only these commands")
@option("-S", "--symbols", default="", metavar="<symbol[,symbol...]>", help="only these functions")
@option("--pid", default="", metavar="<pid[,pid...]>", help="only these processes")
@option("--tid", default="", metavar="<tid[,tid...]>", help="only these threads")
@option("--cpu", default="", metavar="<cpu>", help="only these CPUs")
@option("--time", default="", metavar="<str>", help="only this time: 10%-20%, or start,stop for each recording, parted by colons")
@option("--percentage", type=choice("relative", "absolute"), default=None, help="shares of what filters leave, or of all")
@option("-t", "--field-separator", default=None, metavar="<separator>", help="columns with this separator")
@option("--noise", is_flag=True, default=None, help="mark what sampling noise does not explain (default on a terminal)")
@stdio_option
@option("--json", bare="-", default=None, metavar="<file>", help="the comparison as JSON")
@option("--flamegraph", "--html", default=None, metavar="<file>", help="what changed as a flame graph, one HTML file")
@option("-f", "--force", is_flag=True, help="read files although somebody else owns them")
@symbol_options
@option("-m", "--modules", is_flag=True, help="load symbols of modules (they are, always)")
@verbose_option
@quiet_option
@lacking_options(_LACKING)
@argument("files", nargs=-1, metavar="[<baseline> <file>...]")
def command(**values: Any) -> int:
    """Compare recordings, perf.data.old and perf.data where none are named."""
    # everything behind the options needs numpy
    from perfpy.cli.line.opening import open_recording

    if values["field_separator"] == ".":
        fail("-t .: the dot is in numbers, any other separator will do")
    paths = _paths(values["files"])
    with ExitStack() as stack:
        force, quiet = values["force"], values["quiet"]
        recordings = [stack.enter_context(open_recording(path, force=force, quiet=quiet)) for path in paths]
        return _DiffRun(recordings, paths, values).show()


def _paths(named: tuple[str, ...]) -> list[str]:
    """The recordings to compare: one name is compared with perf.data.old."""
    return list(named) if len(named) > 1 else [_DEFAULT_FILES[0], named[0] if named else _DEFAULT_FILES[1]]


class _DiffRun:
    """One run of the command over open recordings."""

    def __init__(self, recordings: list[Recording], paths: list[str], values: dict[str, Any]) -> None:
        from perfpy.cli.line.perfconfig import load

        self._recordings = recordings
        self._paths = paths
        self._values = values
        self._config = load()
        self._verbose = values["verbose"] > 0 and not values["quiet"]

    def show(self) -> int:
        """Write what the options ask for; the exit status."""
        if self._values["flamegraph"] is not None:
            return self._flame_graph()
        from perfpy.analysis.report.difference import differences

        values = self._values
        compute = compute_of(values["compute"], self._config)
        order = int(self._config.number("diff.order", 1)) if values["order"] is None else values["order"]
        if not 0 <= order < len(self._paths):
            fail(f"-o {order}: there are {len(self._paths)} recordings, the baseline is 0")
        found = differences(self._reports(), compute, baseline_only=values["baseline_only"], order=order)
        if values["json"] is not None:
            from perfpy.cli.line.output_files import write_text
            from perfpy.views.diff.json import difference_json

            write_text(values["json"], difference_json(found, self._paths))
            return 0
        sys.stdout.writelines(one_line_each(self._lines(found)))
        return 0

    def _reports(self) -> list[Report]:
        numbered = enumerate(self._recordings)
        return [recording.report(options=self._options(at), symbols=self._symbols(recording)) for at, recording in numbered]

    def _lines(self, found: Iterable[Difference]) -> Iterator[str]:
        from perfpy.cli.line.terminal import wants_plain, width
        from perfpy.cli.report.options import hidden_keys
        from perfpy.views.diff.text import DifferenceOptions, difference_lines

        values, noise = self._values, self._values["noise"]
        plain = wants_plain(stdio=values["stdio"]) or values["field_separator"] is not None
        options = DifferenceOptions(
            self._paths,
            list_paths=self._verbose,
            periods=values["period"],
            formulas=values["formula"],
            noise=not plain if noise is None else noise,
            separator=values["field_separator"],
            quiet=values["quiet"],
            hidden=tuple(key for key, _, _ in hidden_keys(self._options(0).selection)),
        )
        lines = difference_lines(found, options)
        return lines if plain else (_cut(line, width()) for line in lines)

    def _options(self, at: int) -> ReportOptions:
        """What the table of one recording is made of."""
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.analysis.report.layout import Wanted
        from perfpy.analysis.report.options import ReportOptions
        from perfpy.cli.report import options as texts

        values, sort, recording = self._values, self._values["sort"], self._recordings[at]
        if values["cpu"] and not recording.data.is_pipe and not recording.data.has(SampleType.CPU):
            raise PerfError(f"{recording.path}: the recording does not say on which CPU samples were taken; leave --cpu out")
        percentage = values["percentage"] or texts.configured_percentage(self._config)
        unnamed = not values["field_separator"] and not values["dsos"]
        return ReportOptions(
            wanted=Wanted(sort=f"{_DEFAULT_SORT},{sort[1:]}" if sort.startswith("+") else sort or _DEFAULT_SORT),
            selection=SampleFilter(
                comms=texts.words(values["comms"]),
                pids=texts.numbers(values["pid"], "--pid"),
                tids=texts.numbers(values["tid"], "--tid"),
                dsos=texts.words(values["dsos"]),
                symbols=texts.words(values["symbols"]),
                cpus=texts.ranges(values["cpu"], "--cpu"),
                times=self._times(at),
            ),
            group=False,
            keep_exited=False,  # as perf diff; its report keeps them
            relative_percentages=percentage == "relative",
            verbose=self._verbose,
            unnamed_dso_width=ReportOptions().unnamed_dso_width if unnamed else 0,
        )

    def _times(self, at: int) -> TimeRanges | None:
        """The part of --time that is about one recording: all of it, where it is in percent."""
        from perfpy.analysis.filters.time_ranges import ranges_of

        text = self._values["time"]
        if ":" in text:
            parts = text.split(":")
            if len(parts) != len(self._paths):
                fail(f"--time {text}: a range for each of the {len(self._paths)} recordings is needed")
            text = parts[at]
        return ranges_of(text, self._recordings[at].times()) if text else None

    def _symbols(self, recording: Recording) -> SymbolOptions:
        from perfpy.cli.line.symbol_values import symbol_options_of

        return symbol_options_of(self._values, self._config, recording)

    def _flame_graph(self) -> int:
        from perfpy.cli.line.output_files import write_bytes
        from perfpy.cli.report.exports import flame_graph_of_changes

        if len(self._recordings) != 2:
            fail("--flamegraph compares two recordings")
        numbered = enumerate(self._recordings)
        stacks = [recording.stacks(self._symbols(recording), selection=self._options(at).selection) for at, recording in numbered]
        page = flame_graph_of_changes(self._recordings, stacks)
        write_bytes(self._values["flamegraph"], page.encode(errors="replace"), quiet=self._values["quiet"])
        return 0


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
