"""Events are values: made once, copied to be changed, told apart though they are alike."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.events import parse_events
from perfpy.events.event import NO_TERMS, Event, EventTerms, change_events, combine_filters, natural_unit


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
