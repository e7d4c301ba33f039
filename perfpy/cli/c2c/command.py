"""`perfpy c2c`: cache lines that CPUs take from each other."""

from __future__ import annotations

from perfpy.cli.c2c.options import C2cOptions, C2cRecordOptions, C2cReportOptions
from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.actions import Action, CommandWithActions, ForwardingAction


def _report(options: C2cReportOptions) -> int:
    """Show the cache lines that CPUs take from each other, and the code that uses them."""
    from perfpy.cli.c2c.report import report

    return report(options)


def _record(options: C2cRecordOptions, arguments: list[str]) -> int:
    from perfpy.cli.mem.record import event_arguments, print_events
    from perfpy.events.kinds.memory_events import LOADS, STORES

    if "list" in options.events:
        return print_events(options.ldlat, verbose=bool(options.verbose))
    chosen = event_arguments(options.events, (LOADS, STORES), options.ldlat)
    chosen += ["-W", "-d", "--phys-data", "--sample-cpu"]
    chosen += ["--all-kernel"] if options.kernel_only else []
    chosen += ["--all-user"] if options.user_only else []
    return load("record").run("record", [*chosen, *["-v"] * options.verbose, *arguments])


command = CommandWithActions(
    C2cOptions,
    {
        "record": ForwardingAction(
            C2cRecordOptions, _record, "record", "record accesses to data with their addresses; also takes the options of record", load
        ),
        "report": Action(C2cReportOptions, _report, "the cache lines that CPUs share, and the code that uses them"),
    },
    "Show cache lines that CPUs take from each other: false sharing, and data that many threads change.",
)
