"""Options of `perfpy trace`: perf trace's names, letters and defaults (perf-trace(1))."""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.filters import TaskOptions
from perfpy.cli.line.kinds import Choice, Counted, Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option, program_to_run
from perfpy.cli.line.shared import InputOptions

_BPF: Final = "perfpy has no BPF programs to load for events"
_LACKING: Final = {
    "--map-dump": _BPF,
    "--force-btf": "names of values come from tables that perfpy ships",
    "--print-sample": "it prints perf's internal values; use perfpy script -D",
    "--tool_stats": "perfpy follows descriptors without hooks",
    "--libtraceevent_print": "use perfpy record, then perfpy script",
    "--bpf-summary": _BPF,
    "-D,--delay": "use perfpy trace record -D, then perfpy trace -i",
}


def milliseconds(text: str) -> float:
    """Parse --duration: a number of milliseconds that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("a number of milliseconds")
    return value


class TraceTargetOptions(TaskOptions):
    """Which tasks and CPUs to trace."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "trace all CPUs")
    cgroup: str = option("-G,--cgroup", Value(default=""), "trace only the tasks of this cgroup", metavar="<name>")
    no_inherit: bool = option("--no-inherit", Flag(), "do not trace child tasks")
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "maps are read at once", hidden=True)
    sort_events: bool = option("--sort-events", Flag(), "lines are in order of time in any case", hidden=True)
    filter_pids: str = option("--filter-pids", Value(default=""), "skip these processes (comma-separated)", metavar="<pid>")
    mmap_pages: str = option("-m,--mmap-pages", Value(default=""), "size of ring buffers in pages, or bytes: 64K, 2M", metavar="<pages>")


class TraceEventOptions(CommandOptions):
    """Which calls and other events to print."""

    event: tuple[str, ...] = option(
        "-e,--event,--expr", Listed(), "calls (openat,mmap*), groups (file), !LIST, events, probes", metavar="<list>", negatable=False
    )
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    syscalls: bool | None = option("--syscalls", Flag(default=None), "print system calls (default without -F or events in -e)")
    faults: str = option("-F,--pf", Value(Choice("all", "maj", "min"), default=""), "print page faults", metavar="<all|maj|min>")
    strings: bool = option("--strings", Flag(default=True), "read file names and structures, as root (default)")
    failure: bool = option("--failure", Flag(), "print only calls that failed")
    duration: float = option(
        "--duration", Value(milliseconds, default=0.0), "print only calls that took more than n milliseconds", metavar="<n>"
    )
    slowest: int = option("--slowest", Value(parse_unsigned, default=0), "print only the n slowest calls, at the end", metavar="<n>")
    switch_on: str = option("--switch-on", Value(default=""), "print only what happens after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "print only what happens before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "print the events of --switch-on and --switch-off, too")
    max_events: int = option("--max-events", Value(parse_unsigned, default=0), "stop after n lines", metavar="<n>")


class TraceStackLimits(CommandOptions):
    """Callchains."""

    call_graph: str | None = option("--call-graph", Value(), "print callchains: fp or dwarf[,bytes]", metavar="<mode>")
    kernel_chains: bool = option("--kernel-syscall-graph", Flag(), "print the kernel's frames of system calls, too")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=0), "print at most n frames of a callchain", metavar="<n>")
    min_stack: int = option("--min-stack", Value(parse_unsigned, default=0), "print only calls with at least n frames", metavar="<n>")


class TraceTextOptions(CommandOptions):
    """The form of lines and tables."""

    time: bool = option("-T,--time", Flag(), "print times of the clock, not since the first event")
    comm: bool = option("--comm", Flag(default=True), "print the comm of the thread (default)")
    show_cpu: bool = option("--show-cpu", Flag(), "print the CPU")
    summary: bool = option("-s,--summary", Flag(), "print only tables of calls and times by thread")
    with_summary: bool = option("-S,--with-summary", Flag(), "print the calls, then the tables")
    sched: bool = option("--sched", Flag(), "print the time on a CPU of each thread in the tables")
    errno_summary: bool = option("--errno-summary", Flag(), "print the errors of each call in the tables")
    summary_mode: str = option(
        "--summary-mode", Value(Choice("thread", "total"), default=""), "a table for each thread, or one for all", metavar="<mode>"
    )
    max_summary: int = option("--max-summary", Value(parse_unsigned, default=0), "print at most n rows of a table", metavar="<n>")
    percentiles: bool = option("--percentiles", Flag(), "print a table with percentiles and shares of the time")
    histogram: bool = option("--histogram", Flag(), "print the table and a histogram of each call's times")
    html: str = option("--html", Value(default=""), "write a page with a lane of calls for each thread", metavar="<file>")
    by: str = option("--by", Value(Choice("path", "peer"), default=""), "print a table by file or by peer address", metavar="<path|peer>")
    json: bool = option("--json", Flag(), "print JSON objects, one a line, on standard output")
    output: str = option("-o,--output", Value(default=""), "write to this file (default: standard error)", metavar="<file>")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")


class TraceCommandOptions(
    InputOptions,
    TraceTargetOptions,
    TraceEventOptions,
    TraceStackLimits,
    TraceTextOptions,
    lacks=_LACKING,
):
    """Options of `perfpy trace`."""

    workload: tuple[str, ...] = program_to_run()
