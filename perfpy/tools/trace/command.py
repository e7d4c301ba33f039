"""`perfpy trace`: system calls as they happen, or from a recording."""

from __future__ import annotations

from perfpy.cli.line.numpy_start import prepare_numpy
from perfpy.cli.line.option_parsing import PerfCommand, fail
from perfpy.tools.trace.options import TraceCommandOptions


def run(options: TraceCommandOptions) -> int:
    """Print the system calls of a program, of running tasks or of a recording."""
    if options.workload[:1] == ("record",):
        from perfpy.cli.forwarded_actions import run_record  # rarely needed

        return run_record("trace", options.workload[1:])
    if options.calls is not None:
        from perfpy.tools.trace.function_calls import SINGLE_STEPS, call_options, trace_calls

        chosen = call_options(options)
        if chosen.source == SINGLE_STEPS:
            from perfpy.tools.trace.single_steps import trace_single_steps

            return trace_single_steps(options, chosen)
        return trace_calls(options, chosen)
    if options.when or options.last or options.chrome_trace or options.calls_from:
        fail("--when, --last, --chrome-trace and --calls-from need --calls")
    if options.summary and options.with_summary:
        options = options.replace(with_summary=False)
    if options.input:
        if options.workload:
            fail(f"-i {options.input} excludes a command to run")
        from perfpy.tools.trace.replay import replay

        return replay(options)
    if not options.workload:
        prepare_numpy()
    from perfpy.tools.trace.live_trace import LiveTrace

    return LiveTrace(options).run()


command = PerfCommand(TraceCommandOptions, run, takes_processes=True)
