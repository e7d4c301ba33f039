"""Counters of event-based branches (POWER): checked, verified, and without a value."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType
from perfpy.capture.counter import Counter
from perfpy.capture.counter_group import CounterGroup
from perfpy.capture.counters import Counting, CountingOptions
from perfpy.capture.record_options import RecordOptions
from perfpy.capture.sample_attrs import configure_sampling
from perfpy.capture.targets import Target
from perfpy.errors import NotScheduledError, UsageError
from perfpy.events.ebb import EBB
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel

GOOD = EventAttr(type=PerfType.RAW, config=EBB | 0x1001E, pinned=1, exclusive=1, disabled=1)
MEMBER = GOOD.copy(config=EBB | 0x20002, pinned=0, exclusive=0)


@pytest.fixture(autouse=True)
def power(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a POWER machine."""
    monkeypatch.setattr("perfpy.events.ebb.means_ebb", lambda name="": True)


def test_a_broken_rule_costs_no_system_call() -> None:
    kernel = FakeKernel()
    with pytest.raises(UsageError, match="it must not have inherit"):
        Counter(GOOD.copy(inherit=1), kernel=kernel)
    with pytest.raises(UsageError, match="it must follow a task"):
        Counter(GOOD, -1, 0, kernel=kernel)
    assert kernel.calls == []


def test_elsewhere_the_bit_is_the_kernels_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.events.ebb.means_ebb", lambda name="": False)
    with Counter(GOOD.copy(inherit=1), kernel=FakeKernel()) as counter:
        assert counter.read().value == 0


def test_enabling_looks_whether_it_is_on_the_pmu() -> None:
    kernel = FakeKernel()
    with Counter(GOOD, event="e", kernel=kernel) as counter:
        counter.enable()
        kernel.counters[0].gone = True
        with pytest.raises(NotScheduledError, match="another pinned event holds the PMU"):
            counter.enable()
        with pytest.raises(NotScheduledError, match="another pinned event"):
            counter.verify()
        with pytest.raises(NotScheduledError, match="another pinned event"):
            counter.read()


def test_a_raw_event_alone_is_refused_with_the_argument_that_makes_it_one() -> None:
    code, kernel = f"r{EBB | 0x1001E:x}", FakeKernel()
    with pytest.raises(UsageError, match="ebb=True"):
        Counter(EventAttr(type=PerfType.RAW, config=int(code[1:], 16)), event=code, kernel=kernel)
    assert kernel.calls == []


def test_a_read_makes_up_no_value() -> None:
    """The kernel says 0, or what was there before the branches began."""
    with Counter(GOOD, event="e", kernel=FakeKernel()) as counter, pytest.raises(UsageError, match="its count is in the PMC"):
        counter.read()
    with CounterGroup([GOOD, MEMBER], kernel=FakeKernel()) as group, pytest.raises(UsageError, match="its count is in the PMC"):
        group.read()


def test_a_group_is_verified_as_one() -> None:
    kernel = FakeKernel()
    group = CounterGroup([GOOD, MEMBER], kernel=kernel)
    kernel.counters[0].gone = True
    with pytest.raises(NotScheduledError):
        group.enable()
    group.close()


def test_a_group_of_both_kinds_is_refused_and_leaves_nothing_open() -> None:
    kernel = FakeKernel()
    with pytest.raises(UsageError, match="all events of a group"):
        CounterGroup([GOOD, EventAttr(type=PerfType.HARDWARE)], kernel=kernel)
    assert all(counter.closed for counter in kernel.counters)


def opened(*events: Event, on_exec: bool = True) -> tuple[FakeKernel, Counting]:
    kernel = FakeKernel()
    return kernel, Counting(events, options=CountingOptions(on_exec=on_exec), kernel=kernel).open((7,))


def test_stat_adds_required_events_and_enables_them() -> None:
    leader = Event("e", EventAttr(type=PerfType.RAW, config=EBB | 0x1001E), ebb=True)
    member = Event("m", EventAttr(type=PerfType.RAW, config=EBB | 0x20002), led_by=leader, ebb=True)
    kernel, counting = opened(leader, member, Event("cycles", EventAttr(type=PerfType.HARDWARE)))
    first, second, other = (counter.attr for counter in kernel.counters)
    assert (first.pinned, first.exclusive, first.inherit, first.enable_on_exec, first.sample_type) == (1, 1, 0, 0, 0)
    assert (second.pinned, second.exclusive, second.inherit) == (0, 0, 0)
    assert (other.inherit, other.enable_on_exec) == (1, 1)
    counting.enable_ebb()
    assert [counter.counting for counter in kernel.counters] == [True, True, False]  # a member is on whenever its leader is


def test_stat_has_no_count_and_gives_the_reason() -> None:
    _, counting = opened(Event("e", EventAttr(type=PerfType.RAW, config=EBB | 0x1001E), ebb=True))
    (cells,) = counting.read({}).values()
    (event,) = counting.events
    assert cells == []
    assert event.state.failed
    assert "its count is in the PMC" in str(event.state.why_not)


def test_stat_goes_on_where_the_pmu_is_held() -> None:
    kernel, counting = opened(Event("e", EventAttr(type=PerfType.RAW, config=EBB | 0x1001E), ebb=True), on_exec=False)
    kernel.counters[0].gone = True
    counting.enable()
    assert not next(iter(counting.read({}).values()))
    assert isinstance(counting.events[0].state.why_not, NotScheduledError)


def test_it_has_no_samples() -> None:
    event = Event("e", EventAttr(type=PerfType.RAW, config=EBB | 0x1001E), ebb=True)
    with pytest.raises(UsageError, match="has no samples"):
        configure_sampling([event], RecordOptions(), Target("command", (), (0,)), FakeKernel())
