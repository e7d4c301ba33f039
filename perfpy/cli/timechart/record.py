"""`perfpy timechart record`: record switches, wakeups and power states, or input and output, on all CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from perfpy.cli.timechart.options import TimechartRecordOptions

_TASKS: Final = ("sched:sched_wakeup", "sched:sched_switch")
_POWER: Final = ("power:cpu_frequency", "power:cpu_idle")


def record_arguments(options: TimechartRecordOptions) -> list[str]:
    """Return the arguments of `perfpy record` for the parts of the chart."""
    if options.power_only and options.tasks_only:
        fail("-P and -T exclude each other")
    names = _io_events() if options.io_only else [*(() if options.power_only else _TASKS), *(() if options.tasks_only else _POWER)]
    callchains = ["-g"] if options.callchain else []
    return ["-a", "-R", "-c", "1", *callchains, *(word for name in names for word in ("-e", name))]


def _io_events() -> list[str]:
    """Return the tracepoints of input and output that the kernel has."""
    from perfpy.analysis.timechart.io_calls import CALLS, ENTER, EXIT
    from perfpy.kernel.tracefs import Tracefs, mount_as_root

    present = set(Tracefs(mount=mount_as_root).events("syscalls"))
    names = [prefix + name for calls in CALLS.values() for prefix in (ENTER, EXIT) for name in calls]
    names = [name for name in names if name.partition(":")[2] in present]
    if not names:
        fail("this kernel has no tracepoints of single system calls; record switches instead: perfpy timechart record -- COMMAND")
    return names
