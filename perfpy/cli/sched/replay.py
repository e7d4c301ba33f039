"""`perfpy sched replay`: repeat the recorded load with threads."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from perfpy.cli.output.terminal import print_lines
from perfpy.cli.sched.opening import dump_records, open_sched

if TYPE_CHECKING:
    from perfpy.analysis.sched.replay_plan import ReplayPlan
    from perfpy.cli.sched.options import ReplayOptions


def run(options: ReplayOptions) -> int:
    """Repeat the recorded load: runs, sleeps and wakeups of each task."""
    from perfpy.analysis.sched.events import read_events
    from perfpy.analysis.sched.replay_plan import make_replay_plan
    from perfpy.live.load_replay import calibrate
    from perfpy.views.sched.replay_text import calibration_lines, plan_lines

    with open_sched(options) as recording:
        dump_records(recording, options)
        events = read_events(recording.data, runtimes=False, comms=True, woken_comms=True)
        plan = make_replay_plan(events, recording.data)
        del events
        print_lines(calibration_lines(calibrate()))
        print_lines(plan_lines(plan))
        _repeat(plan, options.repeat)
    return 0


def _repeat(plan: ReplayPlan, repeat: int) -> None:
    """Repeat the load, and print a line each time. repeat: 0 for no end."""
    from perfpy.live.load_replay import TaskLoad, replay_once
    from perfpy.views.sched.replay_text import Repetition, repetition_line

    loads = [TaskLoad(task.kinds.tolist(), task.values.tolist()) for task in plan.tasks]
    average: Repetition | None = None
    for number in range(1, repeat + 1) if repeat else count(1):
        repetition = replay_once(loads, plan.wakeup_count)
        weight = max(repeat, 1)  # perf weights the average by the number of repetitions
        if average is None:
            average = repetition
        else:
            wall, cpu = (((weight - 1) * old + new) / weight for old, new in zip(average, repetition, strict=True))
            average = Repetition(wall, cpu)
        print_lines([repetition_line(number, repetition, average)])
