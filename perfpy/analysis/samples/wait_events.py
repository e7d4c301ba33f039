"""Find the events that measure time, on the CPU and off it, and merge both into one event.

A report then shows running and waiting on one scale.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, RecordType, SampleType, SoftwareId
from perfpy.abi.records import Read
from perfpy.abi.waits import OFF_CPU_EVENT
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource

#: of a period
NANOSECONDS_A_SECOND: Final = 1e9
_WORTH_TELLING: Final = 0.01  # the share of hidden time on the CPU that deserves a warning
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


def is_off_cpu(event: FileEvent) -> bool:
    """Whether the event is time off the CPU, perf's or perfpy's."""
    attr = event.attr
    return event.name == OFF_CPU_EVENT and attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT


def is_clock(event: FileEvent) -> bool:
    """Whether the event is time on the CPU."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config in _CLOCKS


def is_time(event: FileEvent) -> bool:
    """Whether periods are ns."""
    return event.in_time or is_clock(event) or is_off_cpu(event)


def has_off_cpu(events: Sequence[FileEvent]) -> bool:
    """Whether any event is time off the CPU."""
    return any(map(is_off_cpu, events))


def says_why_it_waited(events: Sequence[FileEvent]) -> bool:
    """Whether the samples of time off the CPU have a state, which perf's own lack."""
    return any(event.attr.sample_type & SampleType.WEIGHT_STRUCT for event in events if is_off_cpu(event))


def merge_off_cpu(data: SampleSource) -> None:
    """Merge time on the CPU and off it into one event. Raises PerfError if a recording does not have both.

    Time on the CPU is a clock's samples; without one it is the running time of each thread, distributed over the samples of the first
    event.
    """
    off = next(filter(is_off_cpu, data.events), None)
    if off is None:
        raise PerfError(f"{data.path}: no off-CPU samples in the recording; record with --off-cpu")
    clock = next(filter(is_clock, data.events), None)
    first = next((event for event in data.events if event is not off and not is_dummy(event)), None)
    running = {} if clock else _running(data, off)
    if clock is None and not running:
        raise PerfError(f"{data.path}: no event measures time on the CPU; record with -e task-clock --off-cpu")
    main = clock or first
    if main is None or not main.attr.sample_type & SampleType.PERIOD:
        name = main.name if main else "its event"
        raise PerfError(f"{data.path}: the samples of {name} have no period; record with -F or --period")
    main.has_waits = True
    if clock:
        data.join(off, clock)
        return
    from perfpy.perfdata.thread_rates import thread_rates  # numpy, for few recordings

    rates = thread_rates(main.index, data.stored_batches({"tid", "period", "time"}), running)
    data.join(off, main, rates)
    main.in_time = True
    missed = sum(time for tid, time in running.items() if tid not in rates.threads)
    if missed > _WORTH_TELLING * sum(running.values()):
        share, seconds = missed / sum(running.values()), missed / NANOSECONDS_A_SECOND
        data.warnings.append(f"{seconds:.3g} s on the CPU ({share:.0%}) in threads without a sample of {main.name} are not shown")


def is_dummy(event: FileEvent) -> bool:
    """Whether the event counts nothing."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config == SoftwareId.DUMMY


def _running(data: SampleSource, off: FileEvent) -> dict[int, int]:
    """Return the running time of each thread, in ns, from READ records of the event of waits."""
    size = 3 * 8  # value, id, lost
    running_times: dict[int, int] = {}
    for side in data.side_band([RecordType.READ]):
        record = side.record
        if isinstance(record, Read) and len(record.values) >= size:
            value, ident, _ = struct.unpack_from(f"{data.endian}3Q", record.values)
            if ident in off.ids:
                running_times[record.tid] = running_times.get(record.tid, 0) + value
    return running_times
