"""Options of `perfpy sched` and its actions: perf sched's (perf-sched(1))."""

from __future__ import annotations

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.cli.line.input_recording import LOSSES, open_recording
from perfpy.cli.line.option_parsing import Flag, Value, fail, option, parse_unsigned, program_to_run, words
from perfpy.cli.line.shared_options import DumpOptions, InputOptions, KernelSymbolOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.cli.line.input_recording import OpenRecording


class SchedOptions(InputOptions, VerboseOptions, DumpOptions):
    """Options of all actions."""


class LatencyOptions(SchedOptions):
    """Options of `perfpy sched latency`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: pid, runtime, switch, avg, max", metavar="<key[,key2...]>")
    cpu: int = option("-C,--CPU", Value(int, default=-1), "count migrations as on this CPU", metavar="<n>")
    pids: bool = option("-p,--pids", Flag(), "one row per task instead of per name")


class TimehistOptions(SchedOptions, KernelSymbolOptions):
    """Options of `perfpy sched timehist`."""

    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    call_graph: bool = option("-g,--call-graph", Flag(default=True), "show callchains of switches (default)")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=5), "show at most n functions of a callchain", metavar="<n>")
    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")
    summary: bool = option("-s,--summary", Flag(), "show only the summary of each thread")
    with_summary: bool = option("-S,--with-summary", Flag(), "show the switches and the summary")
    wakeups: bool = option("-w,--wakeups", Flag(), "show wakeups, too")
    next: bool = option("-n,--next", Flag(), "show the next thread")
    migrations: bool = option("-M,--migrations", Flag(), "show migrations, too")
    cpu_visual: bool = option("-V,--cpu-visual", Flag(), "show a column for each CPU")
    idle_hist: bool = option("-I,--idle-hist", Flag(), "show idle times only")
    time: str = option("--time", Value(default=""), "only this time: start,stop", metavar="<str>")
    state: bool = option("--state", Flag(), "show the state in which threads leave a CPU")
    pid: str = option("-p,--pid", Value(default=""), "only these processes", metavar="<pid[,pid...]>")
    tid: str = option("-t,--tid", Value(default=""), "only these threads", metavar="<tid[,tid...]>")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    show_prio: bool = option("--show-prio", Flag(), "show priorities")
    prio: str = option("--prio", Value(default=""), "only threads with these priorities", metavar="<prio>")
    pre_migrations: bool = option("-P,--pre-migrations", Flag(), "show the wait before migrations (perf 7)")
    comm: str = option("--comm", Value(default=""), "only threads with these names", metavar="<comm[,comm...]>")


class ReplayOptions(SchedOptions):
    """Options of `perfpy sched replay`."""

    repeat: int = option("-r,--repeat", Value(parse_unsigned, default=10), "repeat the load n times (0: without end)", metavar="<n>")


class StatsOptions(SchedOptions):
    """Options of `perfpy sched stats report`. -v shows the meaning of each counter, as in perf."""

    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")


class StatsRecordOptions(StatsOptions):
    """Options of `perfpy sched stats` and `perfpy sched stats record`."""

    output: str = option("-o,--output", Value(default="perf.data"), "the file to write", metavar="<file>")
    workload: tuple[str, ...] = program_to_run()


class StatsDiffOptions(StatsOptions):
    """Options of `perfpy sched stats diff`."""

    files: tuple[str, ...] = words("[<old file> <new file>]")


class MapOptions(SchedOptions):
    """Options of `perfpy sched map`."""

    compact: bool = option("--compact", Flag(), "show only CPUs with switches")
    cpus: str = option("--cpus", Value(default=""), "only these CPUs", metavar="<cpus>")
    task_name: str = option("--task-name", Value(default=""), "only tasks with these names", metavar="<task>")
    fuzzy_name: bool = option("--fuzzy-name", Flag(), "task names may match in part")
    color_pids: str = option("--color-pids", Value(default=""), "highlight these tasks", metavar="<pids>")
    color_cpus: str = option("--color-cpus", Value(default=""), "highlight these CPUs", metavar="<cpus>")


def open_sched(options: SchedOptions, losses: Collection[int] = LOSSES) -> OpenRecording:
    """Return the context manager for the input; losses: see open_recording()."""
    return open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True, losses=losses)


def chosen_cpus(text: str) -> frozenset[int] | None:
    """Return the CPUs of -C; None for all."""
    if not text:
        return None
    try:
        return frozenset(parse_cpu_list(text))
    except ValueError as error:
        fail(f"-C {text!r}: {error}")
