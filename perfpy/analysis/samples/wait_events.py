"""Which events of a recording measure time, on the CPU and off it.

What enters: the events of a recording. What leaves: which of them have periods in
ns; and one event where there were two, so that a report shows on one scale what ran and what waited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.waits import OFF_CPU_EVENT
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.reader import PerfData

#: of a period
NANOSECONDS_A_SECOND: Final = 1e9
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


def is_off_cpu(event: FileEvent) -> bool:
    """Whether it is time off the CPU, perf's or ours."""
    attr = event.attr
    return event.name == OFF_CPU_EVENT and attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT


def is_clock(event: FileEvent) -> bool:
    """Whether it is time on the CPU."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config in _CLOCKS


def is_time(event: FileEvent) -> bool:
    """Whether periods are ns."""
    return is_clock(event) or is_off_cpu(event)


def has_off_cpu(events: list[FileEvent]) -> bool:
    """Whether any event is time off the CPU."""
    return any(map(is_off_cpu, events))


def says_why_it_waited(events: list[FileEvent]) -> bool:
    """Whether the samples of time off the CPU have a state, which perf's own have not."""
    return any(event.attr.sample_type & SampleType.WEIGHT_STRUCT for event in events if is_off_cpu(event))


def join_off_cpu(data: PerfData) -> None:
    """Make the time on the CPU and that off it one event. Raises PerfError where a recording has not both."""
    off = next(filter(is_off_cpu, data.events), None)
    clock = next(filter(is_clock, data.events), None)
    if off is None:
        raise PerfError(f"{data.path}: the recording does not follow what waits: record with --off-cpu")
    if clock is None:
        raise PerfError(f"{data.path}: no event of the recording measures seconds on the CPU: record -e task-clock --off-cpu")
    if not clock.attr.sample_type & SampleType.PERIOD:
        raise PerfError(f"{data.path}: the samples of {clock.name} do not say how long they are: record with -F, or --period")
    data.join(off, clock)
