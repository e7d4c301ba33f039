"""How often an event is sampled: at each occurrence, after a count, or at a frequency.

Input: the attrs of a recording. Output: whether its samples are a part of the events or all of them, and the
option that lowers their number. The kernel decides it in perf_swevent_event(): software events and tracepoints whose
samples have a period, but no frequency, are sampled at each occurrence.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType, SampleType, SoftwareId

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from perfpy.abi.attr import EventAttr

_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_COUNTED_BY_KERNEL: Final = (PerfType.SOFTWARE, PerfType.TRACEPOINT, PerfType.BREAKPOINT)


def is_sampled_each_time(attr: EventAttr) -> bool:
    """Return whether every occurrence of the event has its sample, so that shares are exact."""
    if attr.freq or attr.type not in _COUNTED_BY_KERNEL or _is_clock(attr):
        return False
    return attr.sample_period == 1 or _ignores_count(attr)


def are_sampled_each_time(attrs: Sequence[EventAttr]) -> bool:
    """Return whether that holds for all events that have samples."""
    sampled = [attr for attr in attrs if not _is_dummy(attr)]
    return bool(sampled) and all(map(is_sampled_each_time, sampled))


def option_for_fewer(attrs: Sequence[EventAttr]) -> str:
    """Return the option that lowers the number of samples: -F, -c or --filter; "" without one."""
    sampled = [attr for attr in attrs if not _is_dummy(attr) and attr.sample_period and not _is_bpf_output(attr)]
    if any(attr.freq for attr in sampled):
        return "-F"
    if any(not _ignores_count(attr) for attr in sampled):
        return "-c"
    return "--filter" if any(attr.type == PerfType.TRACEPOINT for attr in sampled) else ""


def _ignores_count(attr: EventAttr) -> bool:
    """Whether a count (-c) has no effect."""
    if attr.type not in (PerfType.SOFTWARE, PerfType.TRACEPOINT) or _is_clock(attr):
        return False
    return not attr.freq and bool(attr.sample_type & SampleType.PERIOD)


def _is_clock(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS


def _is_dummy(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.DUMMY


def _is_bpf_output(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT
