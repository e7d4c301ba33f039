"""Events: their grammar, attributes and fallbacks."""

from __future__ import annotations

from errno import EACCES, EINVAL, ENOENT, EOPNOTSUPP, EPERM

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import FLAG_FD_CLOEXEC, CacheId, CacheOp, CacheResult, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.errors import EventSyntaxError
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
from perfpy.events.fallback import Attempt, first_attempt, next_attempt, replacement
from perfpy.events.grammar import Breakpoint, EventSpec, GroupSpec, Numeric, TracepointName, Word, parse, parse_terms, raw_config

# Events are values: made once, copied to be changed, told apart though they are alike.


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


# What is tried after a refusal: the order in which perf 6.12 gives features up (seen by strace).


def changes(attr: EventAttr, errno: int = EINVAL, *, precise_max: bool = False, leads: bool = True) -> list[dict[str, int]]:
    """What differs from one attempt to the next, until there is none left."""
    results = []
    attempt: Attempt | None = first_attempt(attr, leads=leads)
    while attempt:
        after = next_attempt(attempt, errno, precise_max=precise_max)
        if after:
            names = [name for name in EventAttr.__slots__ if getattr(attempt.attr, name) != getattr(after.attr, name)]
            results.append({name: getattr(after.attr, name) for name in names} | ({"flags": 0} if attempt.flags != after.flags else {}))
        attempt = after
    return results


def test_a_sampling_event_gives_up_the_newest_feature_first() -> None:
    attr = EventAttr(type=9, read_format=ReadFormat.ID | ReadFormat.LOST, bpf_event=1, ksymbol=1, mmap2=1, exclude_guest=1, sample_id_all=1)
    assert changes(attr) == [
        {"read_format": ReadFormat.ID},
        {"bpf_event": 0},
        {"ksymbol": 0},
        {"flags": 0},
        {"mmap2": 0},
        {"exclude_guest": 0},
        {"sample_id_all": 0},
    ]


def test_callchains_are_taken_at_once_where_they_cannot_be_put_off() -> None:
    attr = EventAttr(type=9, defer_callchain=1, defer_output=1, read_format=ReadFormat.LOST)
    assert changes(attr)[:2] == [{"defer_callchain": 0, "defer_output": 0}, {"read_format": 0}]


def test_weights_and_clocks_step_down_in_perfs_order() -> None:
    attr = EventAttr(type=9, sample_type=SampleType.WEIGHT_STRUCT, use_clockid=1, clockid=4)
    assert changes(attr) == [{"sample_type": SampleType.WEIGHT}, {"clockid": 1}, {"use_clockid": 0, "clockid": 0}, {"flags": 0}, {}]


def test_a_count_is_tried_four_times() -> None:
    assert changes(EventAttr(type=5, exclude_guest=1)) == [{"flags": 0}, {"exclude_guest": 0}, {}]


def test_only_a_leader_gives_up_group_reads() -> None:
    attr = EventAttr(type=1, inherit=1, read_format=ReadFormat.GROUP | ReadFormat.ID)
    assert changes(attr)[-1] == {"read_format": 0}
    assert changes(attr, leads=False)[-1] == {}


def test_events_requested_by_name_have_no_fallback() -> None:
    attr = EventAttr(type=0, sample_type=SampleType.CODE_PAGE_SIZE, mmap2=1)
    assert changes(attr) == []
    assert changes(EventAttr(type=0, write_backward=1)) == []


def test_only_einval_on_the_first_cpu_and_thread_means_a_missing_feature() -> None:
    attempt = first_attempt(EventAttr(type=9, mmap2=1))
    assert next_attempt(attempt, EPERM) is None
    assert next_attempt(attempt, EINVAL, first=False) is None


def test_precision_is_lowered_step_by_step_for_the_modifier_p_only() -> None:
    attr = EventAttr(precise_ip=3)
    assert changes(attr, ENOENT, precise_max=True) == [{"precise_ip": 2}, {"precise_ip": 1}, {"precise_ip": 0}]
    assert changes(attr, ENOENT) == []


def test_missing_features_are_remembered_for_one_pmu() -> None:
    attempt: Attempt | None = first_attempt(EventAttr(type=9, exclude_guest=1))
    while attempt:
        last, attempt = attempt, next_attempt(attempt, EINVAL)
    same = first_attempt(EventAttr(type=9, exclude_guest=1, mmap2=1), last.missing)
    assert (same.attr.exclude_guest, same.attr.mmap2, same.flags) == (0, 1, 0)
    other = first_attempt(EventAttr(type=1, exclude_guest=1), last.missing)
    assert other.attr.exclude_guest == 1
    assert first_attempt(EventAttr()).flags == FLAG_FD_CLOEXEC


@pytest.mark.parametrize("errno", [ENOENT, EOPNOTSUPP])
@pytest.mark.parametrize(
    ("on_cpus", "clock", "name"), [(False, SoftwareId.TASK_CLOCK, "task-clock"), (True, SoftwareId.CPU_CLOCK, "cpu-clock")]
)
def test_cycles_without_a_pmu_become_a_clock(errno: int, on_cpus: bool, clock: int, name: str) -> None:
    result = replacement("cycles:P", EventAttr(precise_ip=3), errno, on_cpus=on_cpus, paranoid=2, precise_max=True)
    assert result is not None
    assert (result.attr.type, result.attr.config, result.name) == (PerfType.SOFTWARE, clock, f"{name}:ppp")
    assert name in result.message


@pytest.mark.parametrize(
    ("name", "output"), [("cs", "cs:u"), ("cs:H", "cs:Hu"), ("cpu/event=1/", "cpu/event=1/u"), ("mem:0x1000:w", "mem:0x1000:wu")]
)
def test_users_without_access_to_the_kernel_count_user_space_under_a_name_with_u(name: str, output: str) -> None:
    result = replacement(name, EventAttr(type=1, config=3), EACCES, on_cpus=False, paranoid=2)
    assert result is not None
    assert (result.name, result.attr.exclude_kernel, result.attr.exclude_hv) == (output, 1, 1)


def test_there_is_no_other_event_for_the_rest() -> None:
    cs = EventAttr(type=1, config=3)
    assert replacement("cs", cs, EACCES, on_cpus=False, paranoid=1) is None
    assert replacement("cs", cs.copy(exclude_kernel=1), EACCES, on_cpus=False, paranoid=2) is None
    assert replacement("cs", cs.copy(exclude_user=1), EACCES, on_cpus=False, paranoid=2) is None
    assert replacement("instructions", EventAttr(config=1), ENOENT, on_cpus=False, paranoid=2) is None


@pytest.mark.parametrize(
    "attr",
    [
        EventAttr(precise_ip=1),  # AMD without IBS, Arm
        EventAttr(precise_ip=3),  # AMD with IBS
        EventAttr(sample_type=SampleType.BRANCH_STACK),
        EventAttr(config=4 << 32),  # of one kind of cores
    ],
)
def test_no_clock_replaces_cycles_whose_precision_or_branches_the_pmu_lacks(attr: EventAttr) -> None:
    assert replacement("cycles", attr, EOPNOTSUPP, on_cpus=False, paranoid=0) is None


def test_host_or_guests_that_the_user_chose_are_not_dropped() -> None:
    attr = EventAttr(type=9, exclude_host=1, sample_id_all=1)
    attempt: Attempt | None = first_attempt(attr, chooses_guests=True)
    while attempt:
        assert attempt.attr.exclude_host
        attempt = next_attempt(attempt, EINVAL)
    known = frozenset({"exclude guest:9"})
    assert first_attempt(attr, known, chooses_guests=True).attr.exclude_host
    assert not first_attempt(attr, known).attr.exclude_host


# The pure half of the event language: text to specs, and errors with their columns.


def only(text: str) -> EventSpec:
    (entry,) = parse(text).entries
    assert isinstance(entry, EventSpec)
    return entry


@pytest.mark.parametrize(
    ("text", "target", "modifiers"),
    [
        ("cycles", Word("cycles"), ""),
        ("cycles:u", Word("cycles"), "u"),
        ("cycles:kppH", Word("cycles"), "kppH"),
        ("cs:", Word("cs"), ""),
        ("sched:sched_switch", TracepointName("sched", "sched_switch", 6), ""),
        ("sched:sched_*:u", TracepointName("sched", "sched_*", 6), "u"),
        ("*:*", TracepointName("*", "*", 2), ""),
        ("xhci-hcd:xhci_dbg", TracepointName("xhci-hcd", "xhci_dbg", 9), ""),
        ("1:0x10:k", Numeric(1, 16), "k"),
        ("mem:0x1000", Breakpoint(0x1000, 0, ""), ""),
        ("mem:4096/8:rw:u", Breakpoint(0x1000, 8, "rw"), "u"),
        ("mem:0x1000:x", Breakpoint(0x1000, 0, "x"), ""),
        ("mem:0x1000:u", Breakpoint(0x1000, 0, ""), "u"),
        ("cpu/event=0x3c/u", Word("cpu"), "u"),
        ("cpu/event=0x3c/:u", Word("cpu"), "u"),
    ],
)
def test_a_target_and_its_modifiers_are_distinguished(text: str, target: object, modifiers: str) -> None:
    spec = only(text)
    assert spec.target == target
    assert spec.modifiers.text == modifiers


def test_terms_keep_numbers_words_and_quoted_strings_with_any_character() -> None:
    terms = only("""cpu/event=0x3c,umask=1,edge,name='a,b/c:d',call-graph=fp,path="x y"/""").terms
    assert terms is not None
    values = {term.name: term.value for term in terms}
    assert values == {"event": 0x3C, "umask": 1, "edge": None, "name": "a,b/c:d", "call-graph": "fp", "path": "x y"}


def test_lists_groups_names_blanks_and_newlines() -> None:
    entries = parse(" cycles ,\n {a, b:k}:S,\tfoo{c}\n").entries
    assert [type(entry) for entry in entries] == [EventSpec, GroupSpec, GroupSpec]
    group, named_group = entries[1], entries[2]
    assert isinstance(group, GroupSpec)
    assert isinstance(named_group, GroupSpec)
    assert [event.name for event in group.events] == ["a", "b:k"]
    assert (group.modifiers.text, named_group.name) == ("S", "foo")


def test_the_printed_name_is_the_text_without_the_blanks_around_it() -> None:
    assert [entry.name for entry in parse(" cs , cpu/event=1, umask=2/u").entries] == ["cs", "cpu/event=1, umask=2/u"]


def test_a_breakpoint_with_a_length_is_named_by_its_address_as_perf_does() -> None:
    assert only("mem:0x1000/8:x:u").name == "mem:0x1000"
    assert only("mem:0x1000:x").name == "mem:0x1000:x"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 0, "an event name"),
        (",", 0, "an event name"),
        ("cs,", 3, "an event name"),
        ("cs,,faults", 3, "an event name"),
        ("cs faults", 3, "',' or the end"),
        ("cs:z", 3, "one of"),
        ("cs:uz", 4, "one of"),
        ("cs:uu", 4, ""),
        ("cs:pppp", 6, "p, pp or ppp"),
        ("cs:W", 3, ""),
        ("a{cs", 4, "',' or '}'"),
        ("{cs,{faults}}", 4, "an event"),
        ("{cs}}", 4, "',' or the end"),
        ("{cs}:q", 5, "one of"),
        ("{cs}:", 5, "modifiers"),
        ("{cs}:,faults", 5, "modifiers"),
        ("cpu/event=1", 11, "'/'"),
        ("cpu/=1/", 4, "a term"),
        ("cpu/event=/", 10, "a value for 'event'"),
        ("cpu/event=1,/", 12, "a term"),
        ("cpu/name='x/", 9, "a closing '"),
        ("cpu/name=a b/", 11, "',' or '/'"),
        ("cpu/config=0x1ffffffffffffffff/", 11, ""),
        ("1:z", 2, "a number"),
        ("1", 1, "':'"),
        ("99999999999:1", 0, ""),
        ("mem:", 4, "an address"),
        ("mem:0x10:rr", 9, "any of r, w and x"),
        ("mem:0/²", 6, "a term"),
        ("r\u0663", 1, "'/'"),
        ("cycles/", 7, "'/'"),
        ("a\0b", 1, ""),
    ],
)
def test_a_syntax_error_names_the_column_and_the_expected_text(text: str, column: int, expected: str) -> None:
    with pytest.raises(EventSyntaxError) as caught:
        parse(text)
    assert caught.value.column == column
    assert expected in caught.value.expected
    assert f"column {column + 1}" in str(caught.value)


def test_sysfs_events_are_terms_without_slashes() -> None:
    assert [(term.name, term.value) for term in parse_terms("domain=?,offset=0x80,core=?")] == [
        ("domain", "?"),
        ("offset", 0x80),
        ("core", "?"),
    ]
    with pytest.raises(EventSyntaxError):
        parse_terms("event=1/")


def test_raw_codes_are_hexadecimal_with_or_without_0x() -> None:
    assert (raw_config("r1a8"), raw_config("r0x1a8"), raw_config("read"), raw_config("rabbit")) == (0x1A8, 0x1A8, 0xEAD, None)
    assert (raw_config("r0x"), raw_config("r0"), raw_config("r" + "f" * 16), raw_config("r" + "f" * 17)) == (None, 0, (1 << 64) - 1, None)
