"""Which events have a sample for each occurrence, and which option lowers the number of samples."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import HardwareId, PerfType, SampleType, SoftwareId
from perfpy.abi.samples.pace import are_sampled_each_time, is_sampled_each_time, option_for_fewer

FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, config=300, sample_period=1, sample_type=int(SampleType.PERIOD))
WAITS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_period=1)


@pytest.mark.parametrize(
    ("attr", "expected"),
    [
        (FAULTS, True),
        (FAULTS.copy(sample_period=4), False),
        (FAULTS.copy(sample_period=4, sample_type=int(SampleType.PERIOD)), True),  # the kernel ignores the count
        (FAULTS.copy(sample_period=4000, freq=1, sample_type=int(SampleType.PERIOD)), False),
        (TRACEPOINT, True),
        (TRACEPOINT.copy(sample_period=8), True),
        (TRACEPOINT.copy(sample_period=99, freq=1), False),
        (WAITS, True),
        (CLOCK, False),
        (CLOCK.copy(sample_period=1, freq=0), False),  # a nanosecond: the kernel has a least period
        (EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES, sample_period=1), False),
        (EventAttr(type=PerfType.BREAKPOINT, sample_period=1), True),
    ],
)
def test_an_event_without_a_frequency_that_the_kernel_counts_itself_is_sampled_each_time(attr: EventAttr, expected: bool) -> None:
    assert is_sampled_each_time(attr) is expected


def test_dummies_do_not_set_the_pace() -> None:
    assert are_sampled_each_time([FAULTS, DUMMY])
    assert not are_sampled_each_time([FAULTS, CLOCK])
    assert not are_sampled_each_time([DUMMY])


@pytest.mark.parametrize(
    ("attrs", "option"),
    [
        ([CLOCK], "-F"),
        ([CLOCK, WAITS], "-F"),
        ([FAULTS, DUMMY], "-c"),
        ([TRACEPOINT], "--filter"),
        ([FAULTS.copy(sample_type=int(SampleType.PERIOD))], ""),
        ([WAITS], ""),
    ],
)
def test_the_option_is_the_one_that_has_an_effect(attrs: list[EventAttr], option: str) -> None:
    assert option_for_fewer(attrs) == option
