"""`perfpy sched`: what the scheduler did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.commands import load_command
from perfpy.cli.line.actions import Action, CommandWithActions, OtherCommand
from perfpy.tools.sched.options import (
    LatencyOptions,
    MapOptions,
    ReplayOptions,
    SchedOptions,
    StatsDiffOptions,
    StatsOptions,
    StatsRecordOptions,
    TimehistOptions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def _latency(options: LatencyOptions) -> int:
    """Show how long tasks waited for a CPU."""
    from perfpy.tools.sched.latency import run

    return run(options)


def _timehist(options: TimehistOptions) -> int:
    """Show each switch with the times that its thread waited and ran."""
    from perfpy.tools.sched.timehist import run

    return run(options)


def _map(options: MapOptions) -> int:
    """Show which thread each CPU ran over time."""
    from perfpy.tools.sched.map import run

    return run(options)


def _replay(options: ReplayOptions) -> int:
    """Repeat the recorded load: runs, sleeps and wakeups of each task."""
    from perfpy.tools.sched.replay import run

    return run(options)


def _stats(options: StatsRecordOptions) -> int:
    """Show what the scheduler counted while a command ran."""
    from perfpy.tools.sched.stats import show_live

    return show_live(options)


def _stats_record(options: StatsRecordOptions) -> int:
    """Record what the scheduler counts while a command runs."""
    from perfpy.tools.sched.stats import record

    return record(options)


def _stats_report(options: StatsOptions) -> int:
    """Show what the scheduler counted."""
    from perfpy.tools.sched.stats import report

    return report(options)


def _stats_diff(options: StatsDiffOptions) -> int:
    """Show the counters of two recordings side by side."""
    from perfpy.tools.sched.stats import diff

    return diff(options)


def _record_arguments(arguments: Sequence[str]) -> list[str]:

    return record_arguments(arguments)


command = CommandWithActions(
    SchedOptions,
    {
        "record": OtherCommand("record", "record what the scheduler does, on all CPUs", load_command, _record_arguments),
        "latency": Action(LatencyOptions, _latency, "the delays on the run queue of each task"),
        "timehist": Action(TimehistOptions, _timehist, "each switch, with the times that its thread waited and ran"),
        "map": Action(MapOptions, _map, "the thread that each CPU ran, over time"),
        "replay": Action(ReplayOptions, _replay, "the recorded load again, by threads that run, sleep and wake each other"),
        "stats": CommandWithActions(
            StatsOptions,
            {
                "record": Action(StatsRecordOptions, _stats_record, "the counters before and after a command, to a file"),
                "report": Action(StatsOptions, _stats_report, "the counters of a file"),
                "diff": Action(StatsDiffOptions, _stats_diff, "the counters of two files side by side"),
            },
            "Show the scheduler's counters in /proc/schedstat: calls, wakeups and load balancing by CPU and domain.",
            "the scheduler's counters during a command",
            without_action=Action(StatsRecordOptions, _stats, "the counters during a command"),
        ),
        "script": OtherCommand("script", "every event as a line of text", load_command),
    },
    "Show what the scheduler did: delays, switches, and the time of each thread.",
)


# `perfpy sched record`: record the scheduler's tracepoints on all CPUs.


_EVENTS: Final = ("sched_switch", "sched_stat_runtime", "sched_process_fork", "sched_wakeup_new", "sched_migrate_task")
_STATISTICS: Final = ("sched_stat_wait", "sched_stat_sleep", "sched_stat_iowait")  # of kernels with schedstats


def record_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `perfpy record` for `perfpy sched record ARGUMENTS`."""
    from perfpy.kernel.tracefs import Tracefs, mount_as_root

    present = set(Tracefs(mount=mount_as_root).events("sched"))
    names = [_EVENTS[0], *(name for name in _STATISTICS if name in present), *_EVENTS[1:]]
    names.append("sched_waking" if "sched_waking" in present else "sched_wakeup")
    events = [word for name in names for word in ("-e", f"sched:{name}")]
    return ["-a", "-R", "-m", "1024", "-c", "1", *events, *arguments]
