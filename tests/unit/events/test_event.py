"""Events are values: made once, copied to be changed, told apart though they are alike."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import CacheId, CacheOp, CacheResult, PerfType, SoftwareId
from perfpy.events import parse_events
from perfpy.events.event import (
    HARDWARE,
    NO_TERMS,
    SOFTWARE,
    Event,
    EventTerms,
    cache_configs,
    cache_event,
    cache_event_name,
    change_events,
    combine_filters,
    generic_event,
    generic_name,
    natural_unit,
)


def event(name: str, leader: Event | None = None) -> Event:
    return Event(name, EventAttr(type=PerfType.SOFTWARE), leader)


@pytest.mark.parametrize("field", ["name", "attr", "filter", "leader", "cgroup"])
def test_events_are_immutable(field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(event("cs"), field, None)
    with pytest.raises(AttributeError):
        NO_TERMS.period = 1  # type: ignore[misc]


def test_the_same_text_twice_is_two_events() -> None:
    one, other = parse_events("cs,cs")
    assert one != other
    assert len({one, other}) == 2
    assert [one, other].index(other) == 1


def test_changed_events_are_in_the_groups_that_they_were_in() -> None:
    leader, alone = event("a"), event("c")
    events = [leader, event("b", leader), alone]
    actual_change_events = change_events(events, lambda event: {"cgroup": "web"} if event is not alone else {})
    assert [(one.name, one.cgroup) for one in actual_change_events] == [("a", "web"), ("b", "web"), ("c", None)]
    assert [one.leader for one in actual_change_events] == [actual_change_events[0], actual_change_events[0], actual_change_events[2]]
    assert [one.cgroup for one in events] == [None] * 3


def test_members_refer_to_the_final_leader() -> None:
    leader, member, alone = parse_events("{task-clock,cs}:u,cpu-clock")
    assert (leader.is_leader, member.leader is leader, alone.is_leader) == (True, True, True)
    assert (member.attr.exclude_kernel, leader.unit, member.unit) == (1, "msec", "")


def test_terms_list_the_given_ones() -> None:
    assert EventTerms(period=0, time=False).present_terms() == {"period": 0, "time": False}
    assert NO_TERMS.present_terms() == {}


def test_clocks_have_a_unit_by_nature() -> None:
    clock = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK)
    assert natural_unit(clock, "") == ("msec", 1e-6)
    assert natural_unit(EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY), "duration_time") == ("ns", 1.0)
    assert natural_unit(EventAttr(), "") == ("", 1.0)


def test_filters_are_joined() -> None:
    assert combine_filters("", "a > 1") == "a > 1"
    assert combine_filters("a > 1", "b") == "(a > 1) && (b)"


# The generic names.


def test_every_hardware_and_software_event_has_its_own_number_and_every_alias_the_same() -> None:
    for table, kind in ((HARDWARE, PerfType.HARDWARE), (SOFTWARE, PerfType.SOFTWARE)):
        assert len({config for _, _, config in table}) == len(table)
        for name, alias, config in table:
            assert generic_event(name) == (kind, config)
            assert not alias or generic_event(alias) == (kind, config)
    assert generic_event("cyclez") is None


@pytest.mark.parametrize(
    ("name", "cache", "operation", "result"),
    [
        ("L1-dcache-load-misses", CacheId.L1D, CacheOp.READ, CacheResult.MISS),
        ("l1d-loads", CacheId.L1D, CacheOp.READ, CacheResult.ACCESS),
        ("LLC", CacheId.LL, CacheOp.READ, CacheResult.ACCESS),
        ("L1-dcache-misses-loads", CacheId.L1D, CacheOp.READ, CacheResult.MISS),
        ("dTLB-speculative-read-miss", CacheId.DTLB, CacheOp.PREFETCH, CacheResult.MISS),
        ("branches-loads", CacheId.BPU, CacheOp.READ, CacheResult.ACCESS),
        ("L1-dcache-load-load", CacheId.L1D, CacheOp.READ, CacheResult.ACCESS),
        ("node-prefetch-misses", CacheId.NODE, CacheOp.PREFETCH, CacheResult.MISS),
    ],
)
def test_cache_events_in_all_their_spellings(name: str, cache: int, operation: int, result: int) -> None:
    assert cache_event(name) == cache | operation << 8 | result << 16


@pytest.mark.parametrize("name", ["L1-icache-stores", "iTLB-stores", "branch-stores", "L1-dcache-foo", "L1-dcachex", "loads"])
def test_impossible_cache_operations_are_no_events(name: str) -> None:
    assert cache_event(name) is None


def test_every_cache_event_reads_back_from_the_name_that_is_printed() -> None:
    for config in cache_configs():
        assert cache_event(cache_event_name(config)) == config
    assert cache_event_name(0xFF) == ""
    assert generic_name(PerfType.HARDWARE, 0) == "cycles"
    assert generic_name(PerfType.TRACEPOINT, 5) == ""
