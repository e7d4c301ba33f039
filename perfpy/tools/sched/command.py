"""`perfpy sched`: what the scheduler did."""

from __future__ import annotations

from functools import partial

from perfpy.cli.forwarded_actions import OtherCommand, record_arguments
from perfpy.cli.line.subcommands import Action, CommandWithActions
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


command = CommandWithActions(
    SchedOptions,
    {
        "record": OtherCommand("record", "record what the scheduler does, on all CPUs", partial(record_arguments, "sched")),
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
        "script": OtherCommand("script", "every event as a line of text"),
    },
    "Show what the scheduler did: delays, switches, and the time of each thread.",
)
