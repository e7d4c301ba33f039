"""Finished counts of stat, for views; also of a PMU, which few virtual machines have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.attr import COUNTED, CountedEvent, CountState, EventAttr
from perfpy.abi.flags import HardwareId, PerfType, SoftwareId
from perfpy.counts.aggregation import CounterCell, Grouping, aggregate
from perfpy.counts.tally import RunTimes, Tally

if TYPE_CHECKING:
    from collections.abc import Mapping


def hardware(name: str, config: int) -> CountedEvent:
    return CountedEvent(name, EventAttr(type=PerfType.HARDWARE, config=config))


def clock() -> CountedEvent:
    return CountedEvent("task-clock", EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK), unit="msec", scale=1e-6)


def tally(
    counts: dict[CountedEvent, tuple[int, int, int]],
    states: Mapping[CountedEvent, CountState] | None = None,
    times: RunTimes | None = None,
    **more: object,
) -> Tally:
    """Return a tally. counts: event -> value, enabled, running; states: of events that could not be counted."""
    state_of = states or {}
    grouping = Grouping.everything()
    rows = {
        event: aggregate(event, [CounterCell(-1, 0, *count)], grouping, state=state_of.get(event, COUNTED))
        for event, count in counts.items()
    }
    return Tally(list(counts), rows, grouping, wall_ns=2e9, times=times or RunTimes((2 * 10**9,)), **more)  # type: ignore[arg-type]


def pmu_counts() -> dict[CountedEvent, tuple[int, int, int]]:
    return {
        clock(): (10**9, 10**9, 10**9),
        hardware("cycles", HardwareId.CPU_CYCLES): (3_000_000_000, 100, 100),
        hardware("instructions", HardwareId.INSTRUCTIONS): (6_000_000_000, 100, 50),
        hardware("branches", HardwareId.BRANCH_INSTRUCTIONS): (1000, 100, 100),
        hardware("branch-misses", HardwareId.BRANCH_MISSES): (25, 100, 100),
        hardware("stalled-cycles-frontend", HardwareId.STALLED_CYCLES_FRONTEND): (600_000_000, 100, 100),
    }
