"""Options of `perfpy diff`. Names, letters and defaults are perf-diff(1)'s; those for groups are perfpy's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.filters import parse_names, parse_numbers, parse_ranges
from perfpy.cli.line.kinds import Attached, Choice, Flag, Listed, Value, percent
from perfpy.cli.line.options import CommandOptions, option, words
from perfpy.cli.line.shared import JobOptions, QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from perfpy.analysis.differences.difference import Compute
    from perfpy.cli.line.perfconfig import Config

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
    field_separator: str | None = option("-t,--field-separator", Value(), "separate columns with this string", metavar="<separator>")
    with_off_cpu: bool = option("--with-off-cpu", Flag(), "merge on-CPU and off-CPU time (needs record --off-cpu)")
    fail_above: float | None = option(
        "--fail-above",
        Value(percent),
        "exit with 90 if a row rises by more than noise and this",
        metavar="<percent>",
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
    cluster: str = option(
        "--cluster",
        Value(default=""),
        "read the groups with this Dask cluster",
        metavar="<tcp://host:port>",
    )


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


def compute_of(options: DiffCommandOptions, config: Config) -> Compute:
    """Return the computation of -c, or else of diff.compute in ~/.perfconfig. Raises UsageError for an unknown one."""
    from perfpy.analysis.differences.difference import Compute

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


def order_of(options: DiffCommandOptions, config: Config) -> int:
    """Return the recording whose changes sort the rows: -o, or else diff.order in ~/.perfconfig."""
    return int(config.number("diff.order", 1)) if options.order is None else options.order
