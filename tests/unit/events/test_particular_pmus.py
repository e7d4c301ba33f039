"""Event-based branches of POWER: which events they are, what they need, and each rule that they can break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType
from perfpy.counts.aggregation import AggregateId, CountedEvent, CountRow, CountState
from perfpy.errors import EventSyntaxError, NotScheduledError, UsageError
from perfpy.events import parse_events, particular_pmus
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.machine import Machine


GOOD = EventAttr(type=PerfType.RAW, config=particular_pmus.EBB | 0x1001E, pinned=1, exclusive=1, disabled=1)


@pytest.mark.parametrize(
    ("name", "means"), [("POWER9", True), ("POWER8", True), ("power10", True), ("POWER9_raw", True), ("POWER7", False)]
)
def test_bit_63_has_a_meaning_from_power8_on(name: str, means: bool) -> None:
    assert particular_pmus.means_ebb(name) is means


@pytest.mark.parametrize(("machine", "means"), [("ppc64le", True), ("ppc64", True), ("x86_64", False), ("aarch64", False)])
def test_without_a_pmu_the_machine_decides(machine: str, means: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Uname:
        pass

    uname = Uname()
    uname.machine = machine  # type: ignore[attr-defined]  # all that is asked for
    monkeypatch.setattr("os.uname", lambda: uname)
    assert particular_pmus.means_ebb() is means


@pytest.mark.parametrize(
    ("text", "marked"),
    [("r800000000001001e", True), ("cpu/config=0x800000000001001e/", True), ("r1001e", False), ("cycles", False)],
)
def test_the_event_determines_whether_it_is_ebb(text: str, marked: bool, tmp_path: Path) -> None:
    (event,) = parse_events(text, machine=sysfs_tree.power9(tmp_path).machine())
    assert event.ebb is marked


def test_elsewhere_bit_63_is_a_bit(tmp_path: Path) -> None:
    (event,) = parse_events("r800000000001001e", machine=sysfs_tree.arm_server(tmp_path).machine())
    assert not event.ebb


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pinned": 0}, "it must be pinned"),
        ({"exclusive": 0}, "it must be exclusive"),
        ({"pinned": 0, "exclusive": 0}, "it must be pinned and exclusive"),
        ({"pinned": 0, "exclusive": 0}, "ebb=True sets both"),
        ({"inherit": 1}, "it must not have inherit"),
        ({"enable_on_exec": 1}, "it must not have enable_on_exec"),
        ({"sample_period": 9}, "it must not have sample_period"),
        ({"sample_freq": 9, "freq": 1}, "it must not have freq"),
        ({"sample_type": SampleType.IDENTIFIER}, "it must not have sample_type"),
        ({"config": particular_pmus.EBB | 0x1E}, "its code must name a counter in bits 16 to 19"),
    ],
)
def test_each_broken_rule_is_named(fields: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        particular_pmus.check(GOOD.copy(**fields), 0, -1, None)
    assert message in str(caught.value)
    assert ";" not in str(caught.value)


@pytest.mark.parametrize(("pid", "cpu"), [(-1, 0), (0, 0), (5, 1)])
def test_it_follows_a_task_on_any_cpu(pid: int, cpu: int) -> None:
    with pytest.raises(UsageError, match="it must follow a task, on any CPU"):
        particular_pmus.check(GOOD, pid, cpu, None)


def test_several_rules_are_named_together() -> None:
    with pytest.raises(UsageError, match=r"it must be pinned .*; it must not have inherit, freq; it must follow a task"):
        particular_pmus.check(GOOD.copy(pinned=0, inherit=1, freq=1), -1, 0, None, "x")


def test_of_a_group_all_or_none_and_the_leader_alone_is_pinned() -> None:
    member = GOOD.copy(pinned=0, exclusive=0)
    particular_pmus.check(member, 0, -1, GOOD)
    with pytest.raises(UsageError, match="only the leader of a group may be pinned and exclusive"):
        particular_pmus.check(GOOD, 0, -1, GOOD)
    for attr, leader in ((member, EventAttr(type=PerfType.RAW, config=0x1001E)), (EventAttr(type=PerfType.RAW, config=0x20002), GOOD)):
        with pytest.raises(UsageError, match="all events of a group must have that bit, or none"):
            particular_pmus.check(attr, 0, -1, leader)


def test_required_events_break_no_rule() -> None:
    attr = EventAttr(
        type=PerfType.RAW, config=0x1001E, inherit=1, enable_on_exec=1, sample_freq=4000, freq=1, sample_type=7, exclude_kernel=1
    )
    leader = particular_pmus.with_needs(attr)
    particular_pmus.check(leader, 0, -1, None)
    particular_pmus.check(particular_pmus.with_needs(attr, leads=False), 0, -1, leader)
    assert leader.exclude_kernel == 1


def row(event: CountedEvent, running: int, **state: Any) -> CountRow:
    return CountRow(event, AggregateId(), 0, running, running, 1, CountState(**state))


@pytest.mark.parametrize(
    ("rows", "never"),
    [
        pytest.param([(PerfType.HARDWARE, 0, {}), (PerfType.RAW, 0, {})], True, id="none"),
        pytest.param([(PerfType.HARDWARE, 0, {}), (PerfType.RAW, 5, {})], False, id="one was"),
        pytest.param([(PerfType.SOFTWARE, 0, {})], False, id="software"),
        pytest.param([(PerfType.HARDWARE, 0, {"supported": False})], False, id="no such event"),
        pytest.param([], False, id="no event"),
    ],
)
def test_an_event_that_never_ran_has_no_count(rows: list[tuple[int, int, dict[str, Any]]], never: bool) -> None:
    events = [(CountedEvent("e", EventAttr(type=kind)), running, state) for kind, running, state in rows]
    assert particular_pmus.never_counted({event: [row(event, running, **state)] for event, running, state in events}) is never


def test_why_there_is_no_count_is_reported_once() -> None:
    event = CountedEvent("e", GOOD)
    why = NotScheduledError("e")
    assert particular_pmus.reasons({event: [row(event, 0, failed=True, why_not=why), row(event, 0, failed=True, why_not=why)]}) == [
        str(why)
    ]
    assert not particular_pmus.never_counted({event: [row(event, 0)]})


# What is said of a HiSilicon PMCU's event before it is opened: the term, the limit, and what to do.


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return sysfs_tree.hisi_pmcu(tmp_path, user_events="0x0010\n").machine()


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        pytest.param("nr_sample=0x100000000", "0x100000000 does not fit 'nr_sample', expected at most 0xffffffff", id="samples"),
        pytest.param("sample_period_ms=85900", "85900 is too long for 'sample_period_ms', expected at most 85899 ms", id="period"),
        pytest.param("pmccfiltr=256", "256 does not fit 'pmccfiltr', expected at most 0xff", id="filter"),
        pytest.param(
            "user_events=0x10000", "'user_events' cannot be '0x10000', expected hexadecimal event numbers up to 0xffff", id="event"
        ),
        pytest.param("user_events=0x10:cycles", "'user_events' cannot be '0x10:cycles'", id="no number"),
        pytest.param("user_events=" + ":".join(["0x1"] * 241), "241 events, expected at most 240", id="many events"),
    ],
)
def test_values_out_of_range_are_named_with_their_limit(machine: Machine, terms: str, message: str) -> None:
    with pytest.raises(EventSyntaxError, match=message):
        parse_events(f"hisi_pmcu_sccl3/{terms}/", machine=machine)


def test_the_longest_period_is_taken(machine: Machine) -> None:
    (event,) = parse_events("hisi_pmcu_sccl3/sample_period_ms=85899/", machine=machine)
    assert event.attr.config >> 32 == 85_899


def test_events_can_be_given_with_the_event(tmp_path: Path) -> None:
    machine = sysfs_tree.hisi_pmcu(tmp_path).machine()
    (event,) = parse_events("hisi_pmcu_sccl3/user_events=0x10:0x11:c000,nr_sample=8/", machine=machine)
    assert event.terms.user_events == (0x10, 0x11, 0xC000)
    assert event.attr.config == 8
    (event,) = parse_events("hisi_pmcu_sccl3/user_events=0x11/", machine=machine)
    assert event.terms.user_events == (0x11,)


def test_a_pmcu_without_events_names_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_events("hisi_pmcu_sccl3/nr_sample=8/", machine=sysfs_tree.hisi_pmcu(tmp_path).machine())
    assert f"echo 0x10 0x11 > {tmp_path}" in str(caught.value)
    assert "hisi_pmcu_sccl3/user_events=0x10:0x11/" in str(caught.value)


def test_it_has_no_counts_for_stat(machine: Machine) -> None:
    with pytest.raises(UsageError, match="use perfpy record -e hisi_pmcu_sccl3//"):
        parse_events("hisi_pmcu_sccl3//", machine=machine, counting=True)
