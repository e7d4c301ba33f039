"""A CounterGroup opens and reads its members together, and explains refusals."""

from __future__ import annotations

import errno

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import HardwareId, PerfType
from perfpy.capture.counter_group import CounterGroup
from perfpy.errors import KernelRefusedError, UsageError
from tests.builders.fake_kernel import FakeCounter, FakeKernel


def attrs(*ids: int) -> list[EventAttr]:
    return [EventAttr(type=PerfType.HARDWARE, config=number) for number in ids]


def numbered(counter: FakeCounter) -> None:
    counter.value, counter.enabled, counter.running = 100 + counter.fd, 20, 10


PAIR = attrs(HardwareId.CPU_CYCLES, HardwareId.INSTRUCTIONS)


def test_a_group_is_read_at_once() -> None:
    """Only the leader waits to be enabled."""
    kernel = FakeKernel(counts=numbered)
    with CounterGroup(PAIR, events=["cycles", "instructions"], kernel=kernel) as group:
        assert [counter.attr.disabled for counter in kernel.counters] == [1, 0]
        reading = group.read()
        assert [one.value for one in reading] == [100 + counter.fd for counter in group]
        assert reading["instructions"] == reading[1]
    assert all(counter.closed for counter in kernel.counters)


def test_members_of_the_same_name_are_kept_separate() -> None:
    kernel = FakeKernel(counts=numbered)
    with CounterGroup(attrs(*[HardwareId.CPU_CYCLES] * 3), events=["cycles", "cycles", "other"], kernel=kernel) as group:
        reading = group.read()
        assert len({one.value for one in reading}) == 3
        assert reading["other"] == reading[2]
        with pytest.raises(KeyError, match="0, 1 are named 'cycles'"):
            reading["cycles"]
        with pytest.raises(KeyError, match="no member is named 'cycle'"):
            reading["cycle"]


@pytest.mark.parametrize("fits", [1, 2])
def test_the_error_of_a_too_large_group_has_the_number_that_fits(fits: int) -> None:
    class SmallPmu(FakeKernel):
        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            members = sum(1 for one in self.counters if not one.closed)
            if group_fd >= 0 and members >= fits:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = SmallPmu()
    three = attrs(HardwareId.CPU_CYCLES, HardwareId.INSTRUCTIONS, HardwareId.CACHE_MISSES)
    with pytest.raises(KernelRefusedError, match=f"with the {fits} before it.*at most {fits} of these 3"):
        CounterGroup(three, events=["a", "b", "c"], kernel=kernel)
    assert all(counter.closed for counter in kernel.counters)


def test_an_event_that_opens_nowhere_is_reported() -> None:
    class NoPmu(FakeKernel):
        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            if event == "b":
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event, cause="no such thing")
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    with pytest.raises(KernelRefusedError, match="no such thing"):
        CounterGroup(PAIR, events=["a", "b"], kernel=NoPmu())


def test_a_group_needs_an_event() -> None:
    with pytest.raises(UsageError, match="at least one"):
        CounterGroup([], kernel=FakeKernel())
