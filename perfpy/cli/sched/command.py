"""`perfpy sched`: what the scheduler did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.actions import Action, CommandWithActions, OtherCommand
from perfpy.cli.sched.options import LatencyOptions, MapOptions, ReplayOptions, SchedOptions, TimehistOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _latency(options: LatencyOptions) -> int:
    """Show how long tasks waited for a CPU."""
    from perfpy.cli.sched.latency import run

    return run(options)


def _timehist(options: TimehistOptions) -> int:
    """Show each switch with the times that its thread waited and ran."""
    from perfpy.cli.sched.timehist import run

    return run(options)


def _map(options: MapOptions) -> int:
    """Show which thread each CPU ran over time."""
    from perfpy.cli.sched.map import run

    return run(options)


def _replay(options: ReplayOptions) -> int:
    """Repeat the recorded load: runs, sleeps and wakeups of each task."""
    from perfpy.cli.sched.replay import run

    return run(options)


def _record_arguments(arguments: Sequence[str]) -> list[str]:
    from perfpy.cli.sched.record import record_arguments

    return record_arguments(arguments)


command = CommandWithActions(
    SchedOptions,
    {
        "record": OtherCommand("record", "record what the scheduler does, on all CPUs", load, _record_arguments),
        "latency": Action(LatencyOptions, _latency, "the delays on the run queue of each task"),
        "timehist": Action(TimehistOptions, _timehist, "each switch, with the times that its thread waited and ran"),
        "map": Action(MapOptions, _map, "the thread that each CPU ran, over time"),
        "replay": Action(ReplayOptions, _replay, "the recorded load again, by threads that run, sleep and wake each other"),
        "script": OtherCommand("script", "every event as a line of text", load),
    },
    "Show what the scheduler did: delays, switches, and the time of each thread.",
)
