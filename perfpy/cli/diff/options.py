"""The options of `perfpy diff`.

What leaves: DiffCommandOptions. Names, letters and defaults are perf-diff(1)'s; those of groups are ours.
"""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.kinds import Attached, Choice, Flag, Listed, Value, percent
from perfpy.cli.line.options import CommandOptions, option, words
from perfpy.cli.line.shared import JobOptions, QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions

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


class DiffGroupOptions(JobOptions):
    """Two groups of recordings: which, what is one observation, and who reads them."""

    before: tuple[str, ...] = option(
        "--before", Listed(), "recordings of the first group: file, pattern or folder; repeatable", metavar="<files>"
    )
    after: tuple[str, ...] = option("--after", Listed(), "recordings of the second group", metavar="<files>")
    unit: str = option(
        "--unit",
        Value(Choice("host", "recording"), default=""),
        "of groups, the spread between what a change must exceed: hosts (default), or recordings (default where a group has one host)",
        metavar="<host|recording>",
    )
    weights: str = option(
        "--weights",
        Value(Choice("time", "samples", "equal"), default="time"),
        "of groups, hosts count by their events (time, the default), by their samples, or all the same (equal)",
        metavar="<time|samples|equal>",
    )
    cluster: str = option(
        "--cluster",
        Value(default=""),
        "let the workers of this Dask scheduler read the groups (default: $PERFPY_CLUSTER; needs pip install perfpy[cluster])",
        metavar="<tcp://host:port>",
    )


class DiffModuleOptions(CommandOptions):
    """Which of the kernel's files have its symbols."""

    modules: bool = option("-m,--modules", Flag(), "load symbols of modules (they are, always)")


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
    """What the command takes."""

    files: tuple[str, ...] = words("[<baseline> <file>...]")
