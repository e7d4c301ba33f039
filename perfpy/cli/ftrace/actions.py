"""The actions of `perfpy ftrace`: trace, latency and profile."""

from __future__ import annotations

import fnmatch
import sys
from typing import TYPE_CHECKING

from perfpy.cli.ftrace.tracing import FunctionTracing, filter_settings, graph_settings, trace_settings
from perfpy.cli.line.options import fail
from perfpy.cli.output.notes import print_notes
from perfpy.cli.output.terminal import print_lines
from perfpy.kernel.function_tracer import GRAPH, function_names
from perfpy.kernel.tracefs import Tracefs, mount_as_root
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.ftrace.options import FtraceLatencyOptions, FtraceProfileOptions, FtraceTraceOptions

_SORT_KEYS = ("total", "avg", "max", "count", "name")


def trace(options: FtraceTraceOptions) -> int:
    """Print every call. Return the exit status of the command."""
    if options.funcs is not None:
        names = function_names(Tracefs(mount=mount_as_root).root)
        print_lines(name for name in names if not options.funcs or fnmatch.fnmatchcase(name, options.funcs))
        return 0
    tracer, settings = trace_settings(options)
    tracing = FunctionTracing(options, tracer, settings, delay=options.delay)
    for line in tracing.lines():
        sys.stdout.write(f"{one_line(line)}\n")
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


def latency(options: FtraceLatencyOptions) -> int:
    """Print a histogram of the durations of one function."""
    from perfpy.views.ftrace.histogram import DurationHistogram

    if len(options.trace_funcs) != 1:
        fail("ftrace latency takes one function: -T FUNCTION")
    tracing = FunctionTracing(options, GRAPH, {"set_ftrace_filter": options.trace_funcs[0]})
    histogram = DurationHistogram(nanoseconds=options.use_nsec)
    for line in tracing.lines():
        histogram.add(line)
    print_lines(histogram.lines())
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


def profile(options: FtraceProfileOptions) -> int:
    """Print the durations of functions."""
    from perfpy.views.ftrace.profile import FunctionProfile

    if options.sort not in _SORT_KEYS:
        fail(f"-s {options.sort}: unknown sort key; expected {', '.join(_SORT_KEYS)}")
    settings = {**filter_settings(options), **graph_settings(options.graph_opts), "options/funcgraph-tail": "1"}
    tracing = FunctionTracing(options, GRAPH, settings)
    functions = FunctionProfile()
    for line in tracing.lines():
        functions.add(line)
    print_lines(functions.lines(options.sort))
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


def _notes(tracing: FunctionTracing) -> Iterator[str]:
    if tracing.lost:
        yield "note: the kernel dropped events because its buffer was full; -m 16M makes it larger, -T and -G trace fewer functions"
    if tracing.missing:
        yield f"note: this kernel does not have {', '.join(sorted(set(tracing.missing)))}; the options that need them have no effect"
