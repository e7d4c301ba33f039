"""Options of `perfpy ftrace` and its actions: perf ftrace's (perf-ftrace(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Attached, Choice, Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option, program_to_run
from perfpy.cli.line.shared import VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_LACKING: Final[Mapping[str, str]] = {
    "-b,--use-bpf": "ftrace latency uses the function tracer; perfpy latency measures functions of programs"
}


class FtraceOptions(VerboseOptions):
    """Which tasks and functions are traced."""

    pid: str = option("-p,--pid", Value(default=""), "trace these processes", metavar="<pid>")
    tid: str = option("--tid", Value(default=""), "trace these threads", metavar="<tid>")
    all_cpus: bool = option("-a,--all-cpus", Flag(), "trace all tasks")
    cpu: str = option("-C,--cpu", Value(default=""), "trace only on these CPUs", metavar="<cpu>")
    trace_funcs: tuple[str, ...] = option("-T,--trace-funcs", Listed(), "only these functions, or patterns such as vfs_*", metavar="<func>")
    command: tuple[str, ...] = program_to_run()


class FtraceFilterOptions(CommandOptions):
    """Further filters of functions."""

    notrace_funcs: tuple[str, ...] = option("-N,--notrace-funcs", Listed(), "skip these functions", metavar="<func>")
    graph_funcs: tuple[str, ...] = option("-G,--graph-funcs", Listed(), "these functions and what they call", metavar="<func>")
    nograph_funcs: tuple[str, ...] = option("-g,--nograph-funcs", Listed(), "skip what these functions call", metavar="<func>")
    buffer_size: str = option("-m,--buffer-size", Value(default=""), "size of the buffer of each CPU: 512K, 4M", metavar="<size>")


class FtraceTraceOptions(FtraceOptions, FtraceFilterOptions):
    """Options of `perfpy ftrace trace`."""

    tracer: str = option(
        "-t,--tracer", Value(Choice("function_graph", "function"), default=""), "function_graph (default) or function", metavar="<tracer>"
    )
    funcs: str | None = option("-F,--funcs", Attached("", takes_word=True), "list the functions that can be traced", metavar="<[FILTER]>")
    delay: int = option("-D,--delay", Value(parse_unsigned, default=0), "milliseconds to wait before tracing starts", metavar="<n>")
    inherit: bool = option("--inherit", Flag(), "trace child processes")
    func_opts: str = option("--func-opts", Value(default=""), "options of the tracer function: call-graph, irq-info", metavar="<options>")
    graph_opts: str = option(
        "--graph-opts", Value(default=""), "nosleep-time, noirqs, verbose, thresh=<n>, depth=<n>, tail", metavar="<options>"
    )


class FtraceLatencyOptions(FtraceOptions, lacks=_LACKING):
    """Options of `perfpy ftrace latency`."""

    use_nsec: bool = option("-n,--use-nsec", Flag(), "a histogram of nanoseconds")


class FtraceProfileOptions(FtraceOptions, FtraceFilterOptions):
    """Options of `perfpy ftrace profile`."""

    sort: str = option("-s,--sort", Value(default="total"), "sort by total (default), avg, max, count or name", metavar="<key>")
    graph_opts: str = option("--graph-opts", Value(default=""), "nosleep-time, noirqs, thresh=<n>, depth=<n>", metavar="<options>")
