"""The text of `sched replay`, byte for byte perf 6.12's but for measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.untrusted.text import one_line_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.sched.replay_plan import ReplayPlan

_RULE: Final = "-" * 60


class Calibration(NamedTuple):
    """The precision of runs and sleeps, in nanoseconds.

    Attributes:
        run_overhead: of reading the clock.
        sleep_overhead: of the shortest sleep.
        run_test, sleep_test: the time that a run and a sleep of one millisecond took.
    """

    run_overhead: int
    sleep_overhead: int
    run_test: int
    sleep_test: int


class Repetition(NamedTuple):
    """The time and CPU time of one repetition, in nanoseconds."""

    wall: float
    cpu: float


def calibration_lines(calibration: Calibration) -> Iterator[str]:
    """Yield the lines about the precision of runs and sleeps."""
    yield f"run measurement overhead: {calibration.run_overhead} nsecs"
    yield f"sleep measurement overhead: {calibration.sleep_overhead} nsecs"
    yield f"the run test took {calibration.run_test} nsecs"
    yield f"the sleep test took {calibration.sleep_test} nsecs"


def plan_lines(plan: ReplayPlan) -> Iterator[str]:
    """Yield the numbers of events, and a line for each task."""
    yield f"nr_run_events:        {plan.runs}"
    yield f"nr_sleep_events:      {plan.sleeps}"
    yield f"nr_wakeup_events:     {plan.wakeups}"
    if plan.targetless:
        yield f"target-less wakeups:  {plan.targetless}"
    if plan.repeated:
        yield f"multi-target wakeups: {plan.repeated}"
    for number, task in enumerate(plan.tasks):
        comm = one_line_bytes(task.comm).decode("utf-8", "surrogateescape")
        yield f"task {number:6d} ({comm:>20}:{task.tid:10d}), nr_events: {len(task.kinds)}"
    yield _RULE


def repetition_line(number: int, repetition: Repetition, average: Repetition) -> str:
    """Return the line of one repetition. average: the running average."""
    cpu = f"{repetition.cpu / 1e6:.2f} / {average.cpu / 1e6:.2f}"
    return f"#{number:<3d}: {repetition.wall / 1e6:.3f}, ravg: {average.wall / 1e6:.2f}, cpu: {cpu}"
