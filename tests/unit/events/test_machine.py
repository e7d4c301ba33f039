"""The PMUs of a machine, and those with rules of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import CountedEvent, CountState, EventAttr
from perfpy.abi.flags import PerfType, SampleType
from perfpy.counts.aggregation import AggregateId, CountRow
from perfpy.errors import EventSyntaxError, NotScheduledError, UnknownEventError, UsageError
from perfpy.events import Event, ebb, parse_events
from perfpy.events.machine import Machine
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from pathlib import Path


# Resolution on machines that are not here: PMUs, bit fields, hybrid CPUs, event files.


def numbers(event: Event) -> tuple[int, int, int, int]:
    return event.attr.type, event.attr.config, event.attr.config1, event.attr.config2


def configs(text: str, machine: Machine) -> list[tuple[int, int, int, int]]:
    return [numbers(event) for event in parse_events(text, machine=machine)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu/event=0x3c,umask=0x1,inv,cmask=2/", (4, 0x280013C, 0, 0)),
        ("cpu/cpu-cycles/", (4, 0x3C, 0, 0)),
        ("cpu/cycles/", (0, 0, 0, 0)),
        ("cpu/instructions/", (4, 0xC0, 0, 0)),
        ("cpu/mem-loads,ldlat=30/pp", (4, 0x1CD, 31, 0)),
        ("mem-loads", (4, 0x1CD, 3, 0)),
        ("cpu/event=0xb7,umask=1,offcore_rsp=0x3f803c0001/", (4, 0x1B7, 0x3F803C0001, 0)),
        ("cpu/config=0x5301c2,config1=7,config2=8/", (4, 0x5301C2, 7, 8)),
        ("power/energy-pkg/", (10, 2, 0, 0)),
        ("intel_pt/cyc,psb_period=5/", (8, 0x5000002, 0, 0)),
    ],
)
def test_skylake(text: str, expected: tuple[int, int, int, int], tmp_path: Path) -> None:
    assert configs(text, sysfs_tree.intel_skylake(tmp_path).machine()) == [expected]


def test_an_uncore_pmu_by_name_by_family_by_pattern_and_without_uncore(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_skylake(tmp_path).machine()
    for text in ("uncore_imc/cas_count_read/", "imc/cas_count_read/", "uncore_imc_*/cas_count_read/", "cas_count_read"):
        events = parse_events(text, machine=machine)
        assert [event.pmu for event in events] == ["uncore_imc_0", "uncore_imc_1", "uncore_imc_2"]
        assert {(e.attr.config, e.cpus, e.unit, e.scale, e.name) for e in events} == {(0x304, (0, 28), "MiB", 6.103515625e-5, text)}
    assert [event.pmu for event in parse_events("imc_1/clockticks/", machine=machine)] == ["uncore_imc_1"]


def test_bits_that_no_format_term_has_are_warned_of(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_skylake(tmp_path).machine()
    events = parse_events("r3000000000000,cpu/config=0x8000000000000,name=foo/,cycles,r1a8:u,cs,cpu/config3=5/", machine=machine)
    assert events.warnings == [
        "WARNING: event 'N/A' not valid (bits 48-49 of config '3000000000000' not supported by kernel)!",
        "WARNING: event 'foo' not valid (bits 51 of config '8000000000000' not supported by kernel)!",
        "WARNING: event 'N/A' not valid (bits 0,2 of config3 '5' not supported by kernel)!",
    ]
    assert not parse_events("r3000000000000", machine=sysfs_tree.software_only(tmp_path / "none").machine()).warnings


def test_a_counter_of_a_package_is_marked(tmp_path: Path) -> None:
    (event,) = parse_events("power/energy-pkg/", machine=sysfs_tree.intel_skylake(tmp_path).machine())
    assert (event.per_pkg, event.snapshot, event.unit, event.cpus) == (True, True, "Joules", (0, 28))
    assert event.requires_cpu


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("topdown-retiring,slots", [["slots", "topdown-retiring"]]),
        ("cpu/instructions/,slots,cs,topdown-retiring", [["cpu/instructions/"], ["slots", "topdown-retiring"], ["cs"]]),
        ("{slots,cpu/instructions/},topdown-retiring", [["slots", "topdown-retiring", "cpu/instructions/"]]),
        ("{cpu/instructions/,topdown-retiring},slots", [["slots", "topdown-retiring"], ["cpu/instructions/"]]),
        ("{slots,topdown-retiring},{slots,topdown-retiring}", [["slots", "topdown-retiring"]] * 2),
        ("topdown-retiring", [["topdown-retiring"]]),
        ("{cpu/instructions/,cpu/cpu-cycles/}", [["cpu/instructions/", "cpu/cpu-cycles/"]]),
    ],
)
def test_topdown_metrics_are_gathered_in_a_group_with_slots(text: str, groups: list[list[str]], tmp_path: Path) -> None:
    """The kernel refuses them elsewhere. Groups that have slots stay apart, as in perf 6.12."""
    events = parse_events(text, machine=sysfs_tree.intel_skylake(tmp_path).machine())
    members: dict[Event, list[str]] = {}
    for event in events:
        members.setdefault(event.leader, []).append(event.name)
    assert list(members.values()) == groups


def test_topdown_groups_begin_with_slots(tmp_path: Path) -> None:
    events = parse_events("{cpu/instructions/,topdown-retiring,slots}", machine=sysfs_tree.intel_skylake(tmp_path).machine())
    assert [event.name for event in events] == ["slots", "topdown-retiring", "cpu/instructions/"]
    assert {event.leader.name for event in events} == {"slots"}


def test_a_tracer_leads_a_group_of_other_pmus(tmp_path: Path) -> None:
    events = parse_events("{intel_pt//,cycles,cs}", machine=sysfs_tree.intel_skylake(tmp_path).machine())
    assert {event.leader.name for event in events} == {"intel_pt//"}


def test_generic_events_of_a_hybrid_cpu_are_opened_on_each_kind_of_core(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    events = parse_events("cycles:u,L1-dcache-loads,r1a8", machine=machine)
    assert [(event.name, hex(event.attr.config), event.pmu) for event in events] == [
        ("cpu_atom/cycles/u", "0xb00000000", "cpu_atom"),
        ("cpu_core/cycles/u", "0x400000000", "cpu_core"),
        ("cpu_atom/L1-dcache-loads/", "0xb00000000", "cpu_atom"),
        ("cpu_core/L1-dcache-loads/", "0x400000000", "cpu_core"),
        ("cpu_core/r1a8/", "0x1a8", "cpu_core"),
    ]
    assert events[0].cpus == tuple(range(16, 24))
    assert not any(event.requires_cpu for event in events)
    assert events[1].cpus == tuple(range(16))


@pytest.mark.parametrize("cores", ["core", "cpu_core"])
def test_generic_events_are_counted_on_the_kind_of_core_that_was_chosen(cores: str, tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine(cores=cores)
    events = parse_events("cycles,L1-dcache-loads,cs,cpu_atom/cycles/", machine=machine)
    assert [event.pmu for event in events] == ["cpu_core", "cpu_core", "", "cpu_atom"]


def test_kinds_of_core_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this machine has no PMU 'big'; available: cpu_atom"):
        sysfs_tree.intel_hybrid(tmp_path).machine(cores="big")


def test_a_hybrid_group_becomes_one_group_a_pmu_as_its_warning_says(tmp_path: Path) -> None:
    events = parse_events("{cycles,instructions}:S", machine=sysfs_tree.intel_hybrid(tmp_path).machine())
    assert [(event.name, event.leader.name) for event in events] == [
        ("cpu_atom/cycles/", "cpu_atom/cycles/"),
        ("cpu_atom/instructions/", "cpu_atom/cycles/"),
        ("cpu_core/cycles/", "cpu_core/cycles/"),
        ("cpu_core/instructions/", "cpu_core/cycles/"),
    ]
    assert events.warnings == ["WARNING: events were regrouped to match PMUs"]


def test_raw_events_join_the_group_of_the_kind_of_core_whose_type_they_have(tmp_path: Path) -> None:
    """PERF_TYPE_RAW is the type of cpu_core: the group of cpu_atom goes without the raw event."""
    events = parse_events("{cycles,r1a1:u,11:0x3c}", machine=sysfs_tree.intel_hybrid(tmp_path).machine())
    assert [(event.name, event.leader.name) for event in events] == [
        ("cpu_atom/cycles/", "cpu_atom/cycles/"),
        ("cpu_atom/11:0x3c/", "cpu_atom/cycles/"),
        ("cpu_core/cycles/", "cpu_core/cycles/"),
        ("cpu_core/r1a1/u", "cpu_core/cycles/"),
    ]


def test_names_of_hybrid_events_have_the_pmu_unless_the_user_chose_them(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    events = parse_events("cpu*/cycles/u,cycles/name=ticks/,cpu_core/cycles,name=ticks/,cpu_atom/cpu-cycles/", machine=machine)
    assert [event.name for event in events] == [
        *("cpu_atom/cycles/u", "cpu_core/cycles/u"),
        *("ticks", "ticks", "ticks", "cpu_atom/cpu-cycles/"),
    ]
    names = [event.name for event in parse_events("cycles/period=1000/u,mem-loads//p,cpu_core/cycles,period=7/", machine=machine)]
    assert names == [
        *("cpu_atom/cycles,period=1000/u", "cpu_core/cycles,period=1000/u"),
        *("cpu_atom/mem-loads/p", "cpu_core/mem-loads/p", "cpu_core/cycles,period=7/"),
    ]


def test_the_boxes_of_an_uncore_pmu_are_added_to_the_first(tmp_path: Path) -> None:
    """Each text has its own sum, also if it is given twice or grouped."""
    machine = sysfs_tree.intel_skylake(tmp_path).machine()
    twice = "uncore_imc/clockticks/,uncore_imc/clockticks/"
    for text, sums in (
        (twice, [0, 0, 0, 3, 3, 3]),
        (f"{{{twice}}}", [0, 1, 0, 1, 0, 1]),
        ("clockticks", [0] * 3),
        ("uncore_imc_1/clockticks/", [0]),
    ):
        events = parse_events(text, machine=machine)
        assert [events.index(event.added_to or event) for event in events] == sums


def test_kinds_of_cores_are_added_on_request_only(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    assert not any(event.added_to for event in parse_events("cycles,mem-loads", machine=machine))
    events = parse_events("cycles,cpu_core/cycles/", machine=machine, adds_cores=True)
    assert [(event.name, event.added_to) for event in events] == [("cycles", None), ("cycles", events[0]), ("cpu_core/cycles/", None)]


def test_a_pmu_of_a_hybrid_cpu_by_its_own_name(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    assert configs("cpu_atom/mem-loads/,cpu_core/cycles/,cpu_core/mem-loads/", machine) == [
        (11, 0x5D0, 0, 0),
        (0, 0x400000000, 0, 0),
        (4, 0x1CD, 3, 0),
    ]
    assert [event.pmu for event in parse_events("mem-loads", machine=machine)] == ["cpu_atom", "cpu_core"]
    with pytest.raises(UnknownEventError):
        parse_events("cpu/cycles/", machine=machine)


def test_an_old_kernel_without_extended_types_opens_generic_events_once(tmp_path: Path) -> None:
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    plain = Machine(machine.sysfs, machine.tracefs, can_open=lambda event_type, config: config == 0)
    assert configs("cycles", plain) == [(0, 0, 0, 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu/event=0x1c7,umask=0x2/", (4, 0x1000002C7, 0, 0)),
        ("ibs_op/cnt_ctl,l3missonly/", (12, 0x90000, 0, 0)),
        ("ibs_op/swfilt=1/u", (12, 0, 0, 1)),
        ("ibs_fetch/rand_en/", (11, 1 << 57, 0, 0)),
        ("amd_df/event=0x1407,umask=0xff0/", (13, 0x140F00F007, 0, 0)),
        ("amd_l3/event=0x4,umask=0xff,threadmask=0x3/", (14, 0x30000000000FF04, 0, 0)),
    ],
)
def test_zen(text: str, expected: tuple[int, int, int, int], tmp_path: Path) -> None:
    assert configs(text, sysfs_tree.amd_zen(tmp_path).machine()) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("armv8_pmuv3_0/inst_retired/", (9, 8, 0, 0)),
        ("armv8_pmuv3/inst_retired,long/", (9, 8, 1, 0)),
        ("armv8_pmuv3_0/cpu_cycles,rdpmc/", (9, 0x11, 2, 0)),
        ("inst_retired:u", (9, 8, 0, 0)),
        ("r8", (4, 8, 0, 0)),
        ("cycles", (0, 0, 0, 0)),
        ("arm_cmn_0/hnf_cache_miss,bynodeid,nodeid=0x20/", (30, 0x2080010005, 0, 0)),
        ("arm_cmn/type=0x770,eventid=2,wp_val=0x10,wp_mask=0xff/", (30, 0x20770, 0x10, 0xFF)),
    ],
)
def test_arm(text: str, expected: tuple[int, int, int, int], tmp_path: Path) -> None:
    assert configs(text, sysfs_tree.arm_server(tmp_path).machine()) == [expected]


def test_arm_units_of_clusters(tmp_path: Path) -> None:
    machine = sysfs_tree.arm_server(tmp_path).machine()
    events = parse_events("arm_dsu/bus_access/", machine=machine)
    assert [(event.pmu, event.attr.type, event.cpus) for event in events] == [("arm_dsu_0", 40, (0,)), ("arm_dsu_1", 41, (2,))]


def test_power9_and_events_with_parameters(tmp_path: Path) -> None:
    machine = sysfs_tree.power9(tmp_path).machine()
    assert configs("r500fa,cpu/event=0x600f4/,instructions", machine) == [(4, 0x500FA, 0, 0), (4, 0x600F4, 0, 0), (0, 1, 0, 0)]
    assert configs("hv_24x7/CPM_CCYC,domain=2,core=5/", machine) == [(20, 0x8000050002, 0, 0)]
    assert configs("hv_24x7/PM_MBA0_CLK_CYC,chip=1/", machine) == [(20, 0x800010001, 0, 0)]
    with pytest.raises(EventSyntaxError, match="needs a value for 'core'"):
        parse_events("hv_24x7/CPM_CCYC,domain=2/", machine=machine)


def test_the_pmcu_of_a_kunpeng(tmp_path: Path) -> None:
    machine = sysfs_tree.hisi_pmcu(tmp_path, user_events="0x0010\n").machine()
    (event,) = parse_events("hisi_pmcu_sccl3/nr_sample=1000,sample_period_ms=1000,pmccfiltr=0x8/", machine=machine)
    assert numbers(event) == (53, 1000 << 32 | 1000, 8, 0)
    assert (event.pmu, event.cpus) == ("hisi_pmcu_sccl3", (32,))
    with pytest.raises(EventSyntaxError, match="pmccfiltr"):
        parse_events("hisi_pmcu_sccl3/pmccfiltr=0x100/", machine=machine)


KERNEL_FORMAT = [
    {
        "EventName": "L1D.REPLACEMENT",
        "EventCode": "0x51",
        "UMask": "0x1",
        "SampleAfterValue": "2000003",
        "BriefDescription": "Lines replaced.",
        "PublicDescription": "Lines that were replaced, at length.",
    },
    {"EventName": "INST_RETIRED.ANY", "EventCode": "0x00", "UMask": "0x1", "SampleAfterValue": "2000003"},
    {"EventName": "OFFCORE.ANY", "EventCode": "0xB7,0xBB", "UMask": "0x1", "MSRIndex": "0x1a6,0x1a7", "MSRValue": "0x10001"},
    {"EventName": "UOPS.CYCLES", "EventCode": "0xB1", "UMask": "0x1", "CounterMask": "1", "Invert": "1", "EdgeDetect": "1"},
    {"EventName": "LLC_MISSES.MEM_READ", "EventCode": "0x4", "UMask": "0x3", "Unit": "iMC", "ScaleUnit": "64Bytes", "PerPkg": "1"},
    {"EventName": "OLD.EVENT", "EventCode": "0x1", "Deprecated": "1"},
    {"MetricName": "IPC", "MetricExpr": "instructions / cycles", "MetricGroup": "Summary;TopDown", "BriefDescription": "per cycle"},
]


@pytest.fixture
def event_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "cache.json").write_text(json.dumps(KERNEL_FORMAT))
    perfmon = {"Header": {"Copyright": "-"}, "Events": [{"EventName": "ARITH.DIV", "EventCode": "0x14", "UMask": "0x01", "Unit": None}]}
    (folder / "perfmon_core.json").write_text(json.dumps(perfmon))
    return folder


@pytest.mark.parametrize(
    ("text", "expected", "period"),
    [
        ("l1d.replacement", (4, 0x151, 0, 0), 2000003),
        ("L1D.REPLACEMENT:u", (4, 0x151, 0, 0), 2000003),
        ("cpu/l1d.replacement,cmask=1/", (4, 0x1000151, 0, 0), 2000003),
        ("inst_retired.any", (4, 0xC0, 0, 0), 2000003),
        ("offcore.any", (4, 0x1B7, 0x10001, 0), None),
        ("uops.cycles", (4, 0x18401B1, 0, 0), None),
        ("arith.div", (4, 0x114, 0, 0), None),
    ],
)
def test_events_of_json_files(
    text: str, expected: tuple[int, int, int, int], period: int | None, tmp_path: Path, event_folder: Path
) -> None:
    (event,) = parse_events(text, machine=sysfs_tree.intel_skylake(tmp_path / "m").machine(event_folder))
    assert numbers(event) == expected
    assert event.terms.period == period
    assert event.terms.proposes_period is (True if period else None)


@pytest.mark.parametrize("text", ["cpu/l1d.replacement,period=7/", "cpu/period=7,l1d.replacement/"])
def test_the_users_period_is_no_proposal(text: str, tmp_path: Path, event_folder: Path) -> None:
    (event,) = parse_events(text, machine=sysfs_tree.intel_skylake(tmp_path / "m").machine(event_folder))
    assert event.terms.present_terms() == {"period": 7}


@pytest.mark.parametrize("text", ["cpu/l1d.replacement,freq=99/", "cpu/freq=99,l1d.replacement/"])
def test_the_users_rate_goes_before_the_files(text: str, tmp_path: Path, event_folder: Path) -> None:
    (event,) = parse_events(text, machine=sysfs_tree.intel_skylake(tmp_path / "m").machine(event_folder))
    assert event.terms.present_terms() == {"freq": 99}


def test_uncore_events_of_json_files_are_opened_on_each_unit(tmp_path: Path, event_folder: Path) -> None:
    events = parse_events("llc_misses.mem_read", machine=sysfs_tree.intel_skylake(tmp_path / "m").machine(event_folder))
    assert [(e.pmu, e.attr.config, e.scale, e.unit, e.per_pkg) for e in events] == [
        (f"uncore_imc_{n}", 0x304, 64.0, "Bytes", True) for n in range(3)
    ]


def test_metrics_of_json_files(tmp_path: Path, event_folder: Path) -> None:
    files = sysfs_tree.intel_skylake(tmp_path / "m").machine(event_folder).event_files
    assert files is not None
    assert [(m.name, m.expression, m.groups) for m in files.metrics] == [("IPC", "instructions / cycles", ("Summary", "TopDown"))]


def test_an_architectures_standard_events_are_filled_in(tmp_path: Path) -> None:
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "common.json").write_text(json.dumps([{"EventName": "BR_RETIRED", "EventCode": "0x21", "BriefDescription": "branches"}]))
    (folder / "model.json").write_text(json.dumps([{"ArchStdEvent": "BR_RETIRED"}]))
    (folder / "uncore.json").write_text(json.dumps([{"EventName": "ddrc_read", "ConfigCode": "0x84", "Unit": "hisi_sccl,ddrc"}]))
    tree = sysfs_tree.arm_server(tmp_path / "m").pmu("hisi_sccl1_ddrc0", 60, {"event": "config:0-7"})
    assert configs("br_retired,ddrc_read", tree.machine(folder)) == [(9, 0x21, 0, 0), (60, 0x84, 0, 0)]


@pytest.mark.parametrize("content", ["{", "3", '{"Events": 5}'])
def test_a_broken_event_file_is_named(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "json"
    folder.mkdir()
    with pytest.raises(UsageError, match="no event files"):
        parse_events("foo", machine=sysfs_tree.intel_skylake(tmp_path / "a").machine(folder))
    (folder / "x.json").write_text(content)
    with pytest.raises(UsageError, match=r"x\.json"):
        parse_events("foo", machine=sysfs_tree.intel_skylake(tmp_path / "b").machine(folder))


# Event-based branches of POWER: which events they are, what they need, and each rule that they can break.


GOOD = EventAttr(type=PerfType.RAW, config=ebb.EBB | 0x1001E, pinned=1, exclusive=1, disabled=1)


@pytest.mark.parametrize(
    ("name", "means"), [("POWER9", True), ("POWER8", True), ("power10", True), ("POWER9_raw", True), ("POWER7", False)]
)
def test_bit_63_has_a_meaning_from_power8_on(name: str, means: bool) -> None:
    assert ebb.means_ebb(name) is means


@pytest.mark.parametrize(("machine", "means"), [("ppc64le", True), ("ppc64", True), ("x86_64", False), ("aarch64", False)])
def test_without_a_pmu_the_machine_decides(machine: str, means: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Uname:
        pass

    uname = Uname()
    uname.machine = machine  # type: ignore[attr-defined]  # all that is asked for
    monkeypatch.setattr("os.uname", lambda: uname)
    assert ebb.means_ebb() is means


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
        ({"config": ebb.EBB | 0x1E}, "its code must name a counter in bits 16 to 19"),
    ],
)
def test_each_broken_rule_is_named(fields: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ebb.check(GOOD.copy(**fields), 0, -1, None)
    assert message in str(caught.value)
    assert ";" not in str(caught.value)


@pytest.mark.parametrize(("pid", "cpu"), [(-1, 0), (0, 0), (5, 1)])
def test_it_follows_a_task_on_any_cpu(pid: int, cpu: int) -> None:
    with pytest.raises(UsageError, match="it must follow a task, on any CPU"):
        ebb.check(GOOD, pid, cpu, None)


def test_several_rules_are_named_together() -> None:
    with pytest.raises(UsageError, match=r"it must be pinned .*; it must not have inherit, freq; it must follow a task"):
        ebb.check(GOOD.copy(pinned=0, inherit=1, freq=1), -1, 0, None, "x")


def test_of_a_group_all_or_none_and_the_leader_alone_is_pinned() -> None:
    member = GOOD.copy(pinned=0, exclusive=0)
    ebb.check(member, 0, -1, GOOD)
    with pytest.raises(UsageError, match="only the leader of a group may be pinned and exclusive"):
        ebb.check(GOOD, 0, -1, GOOD)
    for attr, leader in ((member, EventAttr(type=PerfType.RAW, config=0x1001E)), (EventAttr(type=PerfType.RAW, config=0x20002), GOOD)):
        with pytest.raises(UsageError, match="all events of a group must have that bit, or none"):
            ebb.check(attr, 0, -1, leader)


def test_required_events_break_no_rule() -> None:
    attr = EventAttr(
        type=PerfType.RAW, config=0x1001E, inherit=1, enable_on_exec=1, sample_freq=4000, freq=1, sample_type=7, exclude_kernel=1
    )
    leader = ebb.with_needs(attr)
    ebb.check(leader, 0, -1, None)
    ebb.check(ebb.with_needs(attr, leads=False), 0, -1, leader)
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
    assert ebb.never_counted({event: [row(event, running, **state)] for event, running, state in events}) is never


def test_why_there_is_no_count_is_reported_once() -> None:
    event = CountedEvent("e", GOOD)
    why = NotScheduledError("e")
    assert ebb.reasons({event: [row(event, 0, failed=True, why_not=why), row(event, 0, failed=True, why_not=why)]}) == [str(why)]
    assert not ebb.never_counted({event: [row(event, 0)]})


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
