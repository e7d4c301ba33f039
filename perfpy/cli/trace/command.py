"""`perfpy trace`: system calls as they happen, or from a recording."""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand, fail
from perfpy.cli.trace.options import TraceCommandOptions

_RECORD = "record"
#: options of perf record that perf trace record gives
_RECORD_OPTIONS = ("-R", "-m", "1024", "-c", "1", "-e", "raw_syscalls:sys_enter,raw_syscalls:sys_exit")


def run(options: TraceCommandOptions) -> int:
    """Print the system calls of a program, of running tasks or of a recording."""
    if options.workload[:1] == (_RECORD,):
        return _record(options)
    if options.summary and options.with_summary:
        options = options.replace(summary=False)
    if options.input:
        if options.workload:
            fail(f"-i {options.input} excludes a command to run")
        from perfpy.cli.trace.replay import replay  # --help needs no numpy

        return replay(options)
    from perfpy.cli.trace.live import LiveTrace  # a recording needs no kernel

    return LiveTrace(options).run()


def _record(options: TraceCommandOptions) -> int:
    """Record the tracepoints of system calls."""
    from perfpy.cli.dispatch.commands import load  # rarely needed

    return load(_RECORD).run(_RECORD, [*_RECORD_OPTIONS, *options.workload[1:]])


command = PerfCommand(TraceCommandOptions, run)
