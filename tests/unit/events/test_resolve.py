"""Generic events, modifiers, groups, filters: what perf 6.12 opens for the same text (seen by strace)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.errors import EventSyntaxError, KernelRefusedError, UnknownEventError, UsageError
from perfpy.events import Event, parse_events
from perfpy.events.machine import Machine
from tests.builders.sysfs_tree import power9, software_only

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return software_only(tmp_path).machine()


def one(text: str, machine: Machine) -> Event:
    (event,) = parse_events(text, machine=machine)
    return event


def excluded(event: Event) -> str:
    """The letters of what the event leaves out: u k h i, H for the host, G for guests."""
    fields = {"u": "user", "k": "kernel", "h": "hv", "i": "idle", "H": "host", "G": "guest"}
    return "".join(letter for letter, name in fields.items() if getattr(event.attr, f"exclude_{name}"))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("cycles", (0, 0)),
        ("cpu-cycles", (0, 0)),
        ("ref-cycles", (0, 9)),
        ("cs", (1, 3)),
        ("L1-dcache-load-misses", (3, 0x10000)),
        ("r1a8", (4, 0x1A8)),
        ("cpu/r1a8/", (4, 0x1A8)),
        ("cpu/cycles/", (0, 0)),
        ("cpu/L1-dcache-loads/", (3, 0)),
        ("4:0x6530160", (4, 0x6530160)),
        ("software/config=3/", (1, 3)),
        ("cpu-clock/config=3/", (1, 3)),
        ("r1a/config=3/", (4, 3)),
        ("msr/tsc/", (9, 0)),
        ("msr/TSC/", (9, 0)),
        ("tsc", (9, 0)),
        ("TSC/period=4/", (9, 0)),
        ("m*/tsc/", (9, 0)),
        ("uncore_msr/tsc/", (9, 0)),
        ("msr//", (9, 0)),
        ("msr/tsc,event=5/", (9, 5)),
        ("msr/event=0x1,event=2/", (9, 3)),
        ("sched:sched_switch", (2, 101)),
        ("uprobe/ref_ctr_offset=3,retprobe/", (8, 0x300000001)),
    ],
)
def test_type_and_config(text: str, numbers: tuple[int, int], machine: Machine) -> None:
    event = one(text, machine)
    assert (event.attr.type, event.attr.config) == numbers
    assert excluded(event) == "G"


@pytest.mark.parametrize(
    ("modifiers", "left_out", "precise"),
    [
        ("u", "khG", 0),
        ("k", "uh", 0),
        ("h", "uk", 0),
        ("uk", "hG", 0),
        ("kpup", "hG", 2),
        ("G", "H", 0),
        ("H", "G", 0),
        ("GH", "", 0),
        ("uG", "khH", 0),
        ("uH", "khG", 0),
        ("kG", "uhH", 0),
        ("hG", "ukH", 0),
        ("Gp", "H", 1),
        ("pp", "G", 2),
        ("ppp", "G", 3),
        ("I", "i", 0),
        ("P", "", 0),
        ("D", "", 0),
        ("e", "", 0),
        ("S", "", 0),
        ("", "G", 0),
    ],
)
def test_modifiers_of_an_event_start_from_a_clean_attr(modifiers: str, left_out: str, precise: int, machine: Machine) -> None:
    event = one(f"cs:{modifiers}", machine)
    assert excluded(event) == left_out
    assert event.attr.precise_ip == precise
    assert (event.attr.pinned, event.attr.exclusive) == ("D" in modifiers, "e" in modifiers)
    assert (event.precise_max, event.sample_read) == ("P" in modifiers, "S" in modifiers)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("{cs,faults:k}:u", ["khG", "hG"]),
        ("{cs:u,faults:G}:k", ["hG", "uhH"]),
        ("{cs:G,faults}:u", ["khH", "khG"]),
        ("{cs,faults}:D", ["G", "G"]),
    ],
)
def test_modifiers_of_a_group_add_to_its_events_modifiers(text: str, left_out: list[str], machine: Machine) -> None:
    assert [excluded(event) for event in parse_events(text, machine=machine)] == left_out


@pytest.mark.parametrize(
    ("text", "left_out", "of_both"),
    [
        ("cs", "H", ""),
        ("cs:P", "", ""),
        ("cs:u", "kh", "kh"),
        ("cs:p", "G", "G"),
        ("cs:H", "G", "G"),
        ("cs:G", "H", "H"),
        ("{cs}:u", "khH", "kh"),
    ],
)
def test_events_of_virtual_machines_exclude_the_host(text: str, left_out: str, of_both: str, machine: Machine) -> None:
    (event,) = parse_events(text, machine=machine, host=False, guests=True)
    assert excluded(event) == left_out
    (event,) = parse_events(text, machine=machine, host=True, guests=True)
    assert excluded(event) == of_both


def test_only_a_leader_is_pinned_or_exclusive_by_its_group_and_each_event_by_itself(machine: Machine) -> None:
    by_group = parse_events("{cs,faults}:De", machine=machine)
    assert [(e.attr.pinned, e.attr.exclusive) for e in by_group] == [(1, 1), (0, 0)]
    by_event = parse_events("{cs:D,faults:D}", machine=machine)
    assert [e.attr.pinned for e in by_event] == [1, 1]


def test_precise_letters_of_event_and_group_add_up_to_three_at_most(machine: Machine) -> None:
    assert [e.attr.precise_ip for e in parse_events("{cs:p,faults}:pp", machine=machine)] == [3, 2]
    with pytest.raises(EventSyntaxError) as caught:
        parse_events("{cs:pp,faults}:pp", machine=machine)
    assert caught.value.column == 15


def test_groups_have_a_leader_a_name_and_marks(machine: Machine) -> None:
    events = parse_events("task-clock,foo{cs,faults}:SW", machine=machine)
    assert [event.leader.name for event in events] == ["task-clock", "cs", "cs"]
    assert [event.group_name for event in events] == ["", "foo", "foo"]
    assert [(event.weak, event.sample_read) for event in events] == [(False, False), (True, True), (True, True)]


def test_a_group_over_pmus_falls_apart_in_the_order_of_their_names(machine: Machine) -> None:
    events = parse_events("cs,{cpu-clock,mem:0x1000:w},{faults,msr/tsc/}", machine=machine)
    assert [event.name for event in events] == ["cs", "mem:0x1000:w", "cpu-clock", "msr/tsc/", "faults"]
    assert all(event.is_leader for event in events)
    assert events.warnings == ["WARNING: events were regrouped to match PMUs"]
    assert not parse_events("{cycles,cs,msr/tsc/}", machine=machine).warnings


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cycles:u", "cycles:u"),
        ("l1d-loads:u", "l1d-loads"),
        ("sched:sched_switch:u", "sched:sched_switch"),
        ("mem:0x1000/8:x:u", "mem:0x1000"),
        ("msr/tsc/u", "msr/tsc/u"),
        ("msr/tsc,name=foo/u", "foo"),
        ("cs/name='x:y=1,2'/", "x:y=1,2"),
        ("cs/name=12/", "12"),
        ("1:1:u", "1:1:u"),
    ],
)
def test_names_equal_perfs(text: str, name: str, machine: Machine) -> None:
    assert one(text, machine).name == name


def test_breakpoints_have_perfs_default_lengths_and_access(machine: Machine) -> None:
    def facts(text: str) -> tuple[int, int, int, int]:
        attr = one(text, machine).attr
        return attr.type, attr.bp_addr, attr.bp_len, attr.bp_type

    assert facts("mem:0x1000") == (5, 0x1000, 4, 3)
    assert facts("mem:0x1000:x") == (5, 0x1000, 8, 4)
    assert facts("mem:0x1000/2:w") == (5, 0x1000, 2, 2)


def test_terms_of_an_event_are_kept_for_opening(machine: Machine) -> None:
    text = "cs/period=100,call-graph=dwarf,stack-size=4096,max-stack=5,no-inherit,overwrite,nr=3,time=0,percore/"
    assert one(text, machine).terms.present_terms() == {
        "period": 100,
        "call_graph": "dwarf",
        "stack_size": 4096,
        "max_stack": 5,
        "inherit": False,
        "overwrite": True,
        "max_events": 3,
        "time": False,
        "percore": True,
    }
    bound = one("cs/cpu=0,cpu=2/", machine)
    assert (bound.terms.cpu, bound.cpus, bound.requires_cpu) == ((0, 2), (0, 2), False)
    assert one("cs/branch_type=any|u/", machine).terms.branch_type == ("any", "u")
    assert one("cs/branch_type=call,branch_type=u/", machine).terms.branch_type == ("call", "u")
    assert one("msr/event=1,@sink/", machine).terms.driver == ("sink",)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("cs/period=abc/", 10),
        ("cs/time=2/", 8),
        ("cs/max-stack=70000/", 13),
        ("cs/call-graph=foo/", 14),
        ("cs/name/", 7),
        ("cs/perod=3/", 3),
        ("msr/evnt=1/", 4),
        ("msr/tsc=1/", 4),
        ("msr/event=foo/", 10),
        ("uprobe/retprobe=2/", 16),
        ("uprobe/ref_ctr_offset=0x1ffffffff/", 22),
        ("uprobe/ref_ctr_offset/", 21),
        ("uprobe/path=3/", 12),
        ("software/cs/", 9),
    ],
)
def test_a_term_that_does_not_fit_is_reported_with_its_column(text: str, column: int, machine: Machine) -> None:
    with pytest.raises(EventSyntaxError) as caught:
        parse_events(text, machine=machine)
    assert caught.value.column == column


def test_counting_refuses_terms_about_samples(machine: Machine) -> None:
    assert parse_events("cs/period=3/", machine=machine, counting=True)
    with pytest.raises(EventSyntaxError, match="applies to sampling"):
        parse_events("cs/call-graph=fp/", machine=machine, counting=True)


@pytest.mark.parametrize("counting", [True, False])
def test_settings_of_a_driver_are_terms_of_pmus_only(counting: bool, machine: Machine) -> None:
    """As in perf, where they have an effect on tracers only; stat takes them, too."""
    (event,) = parse_events("msr/event=1,@sink=2/", machine=machine, counting=counting)
    assert event.terms.driver == ("sink=2",)
    for text in ("cs/@sink/", "r1/@sink/", "cycles/period=5,@sink=2/"):
        with pytest.raises(EventSyntaxError, match="setting of a PMU's driver"):
            parse_events(text, machine=machine, counting=counting)


@pytest.mark.parametrize("text", ["cs/name=first,name=second/", "msr/name=first,event=1,name=second/"])
def test_the_first_of_two_names_stays_as_in_perf(text: str, machine: Machine) -> None:
    assert one(text, machine).name == "first"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("cyclez", "cycles"),
        ("context-swiches", "context-switches"),
        ("L1-dcache-laod-misses", "L1-dcache-load-misses"),
        ("shed:sched_switch", "sched:sched_switch"),
        ("sched:sched_swich", "sched:sched_switch"),
        ("sched:openat", "sched:*"),
        ("mrs/tsc/", "msr/"),
        ("tsx", "tsc"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(text: str, near: str, machine: Machine) -> None:
    with pytest.raises(UnknownEventError) as caught:
        parse_events(text, machine=machine)
    assert near in caught.value.near


def test_an_unknown_term_suggests_the_nearest_term_or_event(machine: Machine) -> None:
    with pytest.raises(EventSyntaxError) as caught:
        parse_events("msr/evnt=1/", machine=machine)
    assert caught.value.near[0] == "event"
    with pytest.raises(EventSyntaxError) as caught:
        parse_events("cs/call-grahp=fp/", machine=machine)
    assert caught.value.near[0] == "call-graph"


def test_the_name_of_a_pmu_alone_is_explained(machine: Machine) -> None:
    with pytest.raises(UnknownEventError, match="is a PMU"):
        parse_events("msr", machine=machine)


@pytest.mark.parametrize("text", ["sched:sched_switch/config=1/", "sched:sched_*/name=x,config1=2/"])
def test_the_config_of_a_tracepoint_cannot_be_changed(text: str, machine: Machine) -> None:
    with pytest.raises(EventSyntaxError, match="does not apply to tracepoints"):
        parse_events(text, machine=machine)


def test_patterns_of_tracepoints_name_all_matches(machine: Machine) -> None:
    events = parse_events("sched:sched_w*:k", machine=machine)
    assert {(event.name, event.attr.config, excluded(event)) for event in events} == {
        ("sched:sched_wakeup", 103, "uh"),
        ("sched:sched_waking", 102, "uh"),
    }
    assert len(parse_events("*:*", machine=machine)) == 6
    assert {event.tracepoint for event in parse_events("sys*:*openat", machine=machine)} == {
        ("syscalls", "sys_enter_openat"),
        ("syscalls", "sys_exit_openat"),
    }
    with pytest.raises(UnknownEventError, match="no tracepoint matches"):
        parse_events("sched:foo*", machine=machine)


def test_a_marker_without_a_probe_names_the_remedy(machine: Machine) -> None:
    with pytest.raises(UnknownEventError, match="perf probe sdt_python:line"):
        parse_events("sdt_python:line", machine=machine)


def test_a_filter_acts_on_all_events_of_the_last_option_before_it(machine: Machine) -> None:
    texts = ["cs", "sched:sched_switch,sched:sched_waking", "syscalls:*"]
    events = parse_events(texts, [(2, "prev_pid == 0"), (3, "a"), (3, "b")], machine)
    assert [event.filter for event in events] == ["", "prev_pid == 0", "prev_pid == 0", "(a) && (b)", "(a) && (b)"]
    with pytest.raises(UsageError, match="neither"):
        parse_events(["cs"], [(1, "x")], machine)
    with pytest.raises(UsageError, match="needs an -e before it"):
        parse_events(["cs"], [(0, "x")], machine)


def test_tool_events_are_marked_and_never_opened(machine: Machine) -> None:
    assert [event.tool for event in parse_events("duration_time,user_time//,cs", machine=machine)] == ["duration_time", "user_time", ""]


def test_a_uprobe_keeps_the_path_alive_that_its_attr_points_to(machine: Machine) -> None:
    import ctypes

    event = one('uprobe/path="/bin/true",offset=0x40,retprobe/', machine)
    assert ctypes.string_at(event.attr.config1) == b"/bin/true"
    assert (event.attr.config, event.attr.config2) == (1, 0x40)
    kprobe = one("kprobe/func=do_exit,offset=4/", machine)
    assert ctypes.string_at(kprobe.attr.config1) == b"do_exit"
    assert one("kprobe/addr=0xffffffff81000000/", machine).attr.config2 == 0xFFFFFFFF81000000


def test_tracepoints_that_may_not_be_read_are_distinguished_from_absent_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    machine = software_only(tmp_path).machine()
    assert machine.tracefs.root  # found while it could be
    real = os.open

    def refuse(path: str, *rest: int) -> int:
        if "sched_switch" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(KernelRefusedError, match="no permission") as caught:
        parse_events("sched:sched_switch", machine=machine)
    assert "mount" in caught.value.remedy
    with pytest.raises(UnknownEventError):
        parse_events("sched:sched_swich", machine=machine)


def test_the_error_without_tracefs_has_the_mount_command(tmp_path: Path) -> None:
    from perfpy.kernel.sysfs import Tracefs

    machine = Machine(software_only(tmp_path).machine().sysfs, Tracefs([str(tmp_path / "nowhere")]))
    with pytest.raises(KernelRefusedError, match="not mounted"):
        parse_events("sched:sched_switch", machine=machine)


@pytest.mark.parametrize("term", ["config", "config1", "config2", "config3"])
def test_a_config_word_without_a_value_is_one(term: str, machine: Machine) -> None:
    assert getattr(one(f"software/{term}/", machine).attr, term) == 1


@pytest.mark.parametrize(
    ("text", "field"), [("cs/period/", "period"), ("cs/freq/", "freq"), ("cs/max-stack/", "max_stack"), ("cs/nr/", "max_events")]
)
def test_a_number_without_a_value_is_one(text: str, field: str, machine: Machine) -> None:
    assert getattr(one(text, machine).terms, field) == 1


@pytest.mark.parametrize("text", ["r12345678901234567", "cycles,r12345678901234567:u", "cpu/r12345678901234567/"])
def test_a_raw_code_of_17_digits_is_refused_as_too_large(text: str, tmp_path: Path) -> None:
    with pytest.raises(EventSyntaxError, match="a raw code of more than 64 bits") as caught:
        parse_events(text, machine=power9(tmp_path).machine())
    assert caught.value.column == text.index("r1")
    assert caught.value.expected == "at most 16 hexadecimal digits"


def test_terms_with_two_events_are_refused_as_in_perf(machine: Machine) -> None:
    with pytest.raises(EventSyntaxError, match="'L1-dcache-loads' is a second event") as caught:
        parse_events("cpu/instructions,L1-dcache-loads/", machine=machine)
    assert caught.value.column == 17


@pytest.mark.parametrize(("text", "terms"), [("cs/period=5,freq=7/", (None, 7)), ("cs/freq=7,period=5/", (5, None))])
def test_the_last_of_period_and_freq_has_effect_as_in_perf(text: str, terms: tuple[int | None, int | None], machine: Machine) -> None:
    event = one(text, machine)
    assert (event.terms.period, event.terms.freq) == terms


def test_a_raw_code_with_0x_is_an_event_only_in_terms_as_in_perf(tmp_path: Path) -> None:
    machine = power9(tmp_path).machine()
    with pytest.raises(EventSyntaxError, match="has no 0x") as caught:
        parse_events("cycles,r0xc4:u", machine=machine)
    assert (caught.value.column, caught.value.expected) == (7, "rc4")
    (event,) = parse_events("cpu/r0xc4/", machine=machine)
    assert event.attr.config == 0xC4


def test_the_events_of_a_group_that_is_not_closed_are_in_no_group_and_a_warning_says_so(machine: Machine) -> None:
    """As in perf, which prints the bare brace."""
    events = parse_events("cs,{faults,migrations", machine=machine)
    assert [event.leader is event for event in events] == [True, True, True]
    assert events.warnings == ["WARNING: the group opened at column 4 of 'cs,{faults,migrations' is not closed: its events are in no group"]


def test_a_clock_by_its_number_counts_as_the_pmu_does(machine) -> None:
    """As in perf: only the name has the unit of milliseconds."""
    (by_number,) = parse_events("software/config=1/", machine=machine)
    (by_name,) = parse_events("task-clock", machine=machine)
    assert (by_number.unit, by_number.scale) == ("", 1.0)
    assert (by_name.unit, by_name.scale) == ("msec", 1e-6)
