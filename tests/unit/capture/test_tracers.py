"""The plan of a hardware tracer's recording: its events, their side-band, sizes, and what it refuses."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.flags import SampleType
from perfpy.capture import tracers
from perfpy.capture.sample_attrs import configure_sampling
from perfpy.capture.targets import Target
from perfpy.capture.tracers import TracePlan, plan_trace
from perfpy.errors import PerfError, TraceOptionsError, UsageError
from perfpy.events.resolve import parse_events
from tests.builders import sysfs_tree
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.event import Event

COMMAND = Target("command", (), (0, 1, 2, 3))
PROCESS = Target("pid", (7,), (0, 1, 2, 3))
SYSTEM = Target("system", (), (0, 1, 2, 3))
SOME_CPUS = Target("cpu", (), (1,), "1")
PAGES = 4 * 1024 * 1024 // mmap.PAGESIZE
BASIC = SampleType.IP | SampleType.TID | SampleType.IDENTIFIER
TIMED = BASIC | SampleType.TIME | SampleType.CPU


class Session:
    """A recording on a machine of a sysfs tree, planned and configured."""

    def __init__(self, tree: sysfs_tree.Tree, *texts: str, target: Target = COMMAND, filters: tuple[str, ...] = (), **options: Any) -> None:
        machine = tree.machine()
        self.said: list[str] = []
        parsed = parse_events(texts, [(len(texts), text) for text in filters], machine)
        events, self.options, plan = plan_trace(parsed, record_options(**options), target, machine.sysfs, self.said.append)
        assert plan is not None
        self.plan: TracePlan = plan
        self.events: list[Event] = configure_sampling(events, self.options, target, FakeKernel(), machine.sysfs)

    def shapes(self) -> list[tuple[str, int, int, int]]:
        """Name, disabled, enable_on_exec and context_switch of each event."""
        attrs = [(event.name, event.attr) for event in self.events]
        return [(name, attr.disabled, attr.enable_on_exec, attr.context_switch) for name, attr in attrs]


@pytest.fixture(autouse=True)
def _privileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracers, "may_count_cpus", lambda: True)
    monkeypatch.setattr(tracers, "may_lock_more", lambda: True)


@pytest.fixture
def intel(tmp_path: Path) -> sysfs_tree.Tree:
    return sysfs_tree.intel_trace(tmp_path)


# Intel PT


def test_intel_pt_comes_first_with_the_side_band_of_all_cpus(intel: sysfs_tree.Tree) -> None:
    session = Session(intel, "page-faults:u,intel_pt//u")
    trace, other, switches, tracking = session.events
    assert session.shapes() == [("intel_pt//u", 1, 1, 0), ("page-faults:u", 1, 1, 0), ("dummy:u", 0, 0, 1), ("dummy:u", 1, 1, 0)]
    assert trace.attr.config == 0x300E601
    assert (trace.attr.sample_period, trace.attr.freq, trace.attr.aux_watermark) == (1, 0, 1 << 20)
    assert (trace.attr.exclude_guest, trace.attr.mmap, other.attr.mmap) == (0, 0, 0)
    assert trace.attr.sample_type == switches.attr.sample_type == tracking.attr.sample_type == TIMED
    assert (switches.system_wide, tracking.system_wide) == (True, False)
    assert (tracking.attr.mmap, tracking.attr.comm, tracking.attr.ksymbol) == (1, 1, 1)
    assert session.plan[:3] == ("intel_pt", session.plan.pmu, PAGES)
    assert (session.plan.snapshot_size, session.plan.switches, session.plan.per_cpu) == (0, 3, True)
    assert session.options.output.buildid_all  # what a trace hits is not known


def test_in_the_kernel_changes_of_its_code_are_recorded(intel: sysfs_tree.Tree) -> None:
    *_, tracking, pokes = Session(intel, "intel_pt//").events
    assert (pokes.attr.text_poke, pokes.attr.ksymbol, pokes.attr.disabled, pokes.system_wide) == (1, 1, 0, True)
    assert (tracking.attr.ksymbol, tracking.attr.mmap) == (0, 1)


@pytest.mark.parametrize("target", [SYSTEM, SOME_CPUS])
def test_of_whole_cpus_the_tracking_event_has_the_switches(intel: sysfs_tree.Tree, target: Target) -> None:
    session = Session(intel, "intel_pt//u", target=target)
    assert session.shapes() == [("intel_pt//u", 1, 0, 0), ("dummy:u", 0, 0, 1)]
    assert session.events[1].system_wide
    assert session.plan.switches == 3


def test_a_user_records_the_switches_of_the_own_tasks(intel: sysfs_tree.Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracers, "may_count_cpus", lambda: False)
    monkeypatch.setattr(tracers, "may_lock_more", lambda: False)
    session = Session(intel, "intel_pt//u")
    assert session.shapes() == [("intel_pt//u", 1, 1, 0), ("dummy:u", 0, 0, 1)]
    assert session.plan.switches == 2
    kilobytes = session.plan.pages * mmap.PAGESIZE >> 10, session.options.buffers.mmap_pages * mmap.PAGESIZE >> 10
    assert kilobytes == (128, 256)


@pytest.mark.parametrize(("text", "options"), [("intel_pt/tsc=0/u", {}), ("intel_pt//u", {"switch_events": False})])
def test_without_times_or_on_request_switches_are_not_recorded(intel: sysfs_tree.Tree, text: str, options: dict[str, Any]) -> None:
    session = Session(intel, text, target=PROCESS, **options)
    assert [shape[3] for shape in session.shapes()] == [0, 0]
    assert session.plan.switches == 0
    assert "will not be possible" in session.said[0]
    assert Session(intel, text.replace("u", "k"), target=PROCESS, **options).said == []


def test_threads_have_areas_of_their_own(intel: sysfs_tree.Tree) -> None:
    session = Session(intel, "intel_pt//u", per_thread=True)
    assert [event.attr.sample_type for event in session.events] == [BASIC, BASIC]
    assert (session.plan.per_cpu, session.plan.switches, session.events[0].attr.inherit) == (False, 0, 0)


@pytest.mark.parametrize(
    ("terms", "config"),
    [
        ("cyc", 0x300E603),
        ("cyc,noretcomp", 0x300EE03),
        ("branch=0", 0x300C601),
        ("mtc=0", 0x300E401),
        ("psb_period=0,mtc_period=9", 0x26601),
        ("config=0x2401", 0x2401),
        ("config=0x2401,cyc", 0x2403),
        ("pt=0", 0x300E601),
    ],
)
def test_terms_change_the_default_config(intel: sysfs_tree.Tree, terms: str, config: int) -> None:
    assert Session(intel, f"intel_pt/{terms}/u").events[0].attr.config == config


@pytest.mark.parametrize(
    ("files", "config"),
    [
        ({"caps_mtc": "0"}, 0x2401),
        ({"caps_psb_cyc": "0"}, 0xE601),
        ({"caps_mtc_periods": "200"}, 0x3026601),
        ({"caps_psb_periods": "1"}, 0xE601),
    ],
)
def test_the_default_config_is_what_the_cpu_can(tmp_path: Path, files: dict[str, str], config: int) -> None:
    assert Session(sysfs_tree.intel_trace(tmp_path, **files), "intel_pt//u").events[0].attr.config == config


def test_nothing_is_added_to_its_records(intel: sysfs_tree.Tree) -> None:
    trace, other, *dummies = Session(intel, "intel_pt//u,page-faults:u", branch_filter=8, raw=True, intr_regs=1).events
    for event in (trace, *dummies):
        assert event.attr.sample_type == TIMED
    assert other.attr.sample_type & SampleType.RAW


def test_on_hybrid_machines_tracking_starts_at_once(tmp_path: Path) -> None:
    tree = sysfs_tree.intel_trace(tmp_path)
    tree.pmu("cpu_core", 14, cpus="0-1").pmu("cpu_atom", 15, cpus="2-3")
    assert Session(tree, "intel_pt//u").shapes()[-1] == ("dummy:u", 0, 0, 0)


# Snapshots, AUX data in samples, events that use the trace


@pytest.mark.parametrize(
    ("snapshot", "aux_pages", "pages", "size", "at_exit"),
    [
        ("", 0, PAGES, 4 << 20, False),
        ("e", 0, PAGES, 4 << 20, True),
        ("0x10000", 0, 65536 // mmap.PAGESIZE, 65536, False),
        ("e70000", 0, 131072 // mmap.PAGESIZE, 70000, True),
        ("", 4, 4, 4 * mmap.PAGESIZE, False),
    ],
)
def test_sizes_of_snapshots(intel: sysfs_tree.Tree, snapshot: str, aux_pages: int, pages: int, size: int, *, at_exit: bool) -> None:
    session = Session(intel, "intel_pt//u", snapshot=snapshot, aux_pages=aux_pages)
    assert (session.plan.pages, session.plan.snapshot_size, session.plan.snapshot_at_exit) == (pages, size, at_exit)
    assert session.plan.overwrites
    assert session.events[0].attr.aux_watermark == 0


def test_a_snapshot_smaller_than_a_packet_period_is_warned_of(intel: sysfs_tree.Tree) -> None:
    assert "too small for PSB period (16384)" in Session(intel, "intel_pt//u", snapshot="0x4000").said[0]
    assert Session(intel, "intel_pt/psb_period=0/u", snapshot="0x4000").said == []


@pytest.mark.parametrize(
    ("texts", "options", "sizes"),
    [
        (("{intel_pt//u,page-faults:u}",), {"aux_sample": ""}, (0, 4096)),
        (("{intel_pt//u,page-faults:u,minor-faults/aux-sample-size=0/u}",), {"aux_sample": "8192"}, (0, 8192, 0)),
        (("intel_pt//u,page-faults/aux-sample-size=100/u",), {}, (0, 100)),
        (("intel_pt//u", "page-faults/aux-sample-size=100/u"), {}, (0, 100)),
    ],
)
def test_aux_data_in_samples(intel: sysfs_tree.Tree, texts: tuple[str, ...], options: dict[str, Any], sizes: tuple[int, ...]) -> None:
    """Events with the term join the tracer's group."""
    session = Session(intel, *texts, **options)
    events = session.events[: len(sizes)]
    assert tuple(event.attr.aux_sample_size for event in events) == sizes
    assert [bool(event.attr.sample_type & SampleType.AUX) for event in events] == [bool(size) for size in sizes]
    assert all(event.leader is session.events[0] for event in events)
    assert (session.plan.is_sampled, session.plan.pages) == (True, max(-(-max(sizes) // mmap.PAGESIZE), 1))
    assert session.events[0].attr.config == 0xE601  # each sample needs a PSB packet


def test_of_a_group_that_is_read_the_event_after_the_tracer_samples(intel: sysfs_tree.Tree) -> None:
    session = Session(intel, "{intel_pt//,page-faults,minor-faults}:S", freq=None)
    trace, sampler, member = session.events[:3]
    assert (sampler.attr.freq, sampler.attr.sample_freq, member.attr.sample_period, trace.attr.sample_period) == (1, 4000, 0, 0)
    assert trace.attr.sample_type == member.attr.sample_type
    assert member.attr.sample_type & ~SampleType.CPU == sampler.attr.sample_type


def test_in_the_group_of_another_event_a_trace_is_recorded_too(intel: sysfs_tree.Tree) -> None:
    """perf maps no AUX area then, because it maps them by the first event."""
    first, second, trace, *_ = Session(intel, "minor-faults:u,{page-faults:u,intel_pt//u}").events
    assert [event.name for event in (first, second, trace)] == ["page-faults:u", "intel_pt//u", "minor-faults:u"]
    assert second.leader is first


def test_an_event_with_aux_output_joins_the_group(intel: sysfs_tree.Tree) -> None:
    trace, other, *_ = Session(intel, "intel_pt/branch=0/u,page-faults/aux-output/u").events
    assert (other.leader, other.attr.aux_output) == (trace, 1)
    trace, other, *_ = Session(intel, "intel_pt/aux-action=start-paused/u,page-faults/aux-action=resume/u").events
    assert (other.leader, trace.attr.aux_action, other.attr.aux_action) == (trace, 1, 4)


@pytest.mark.parametrize(
    ("texts", "options", "reason"),
    [
        (("intel_pt//u", "intel_pt//k"), {}, "one intel_pt event only"),
        (("intel_pt//u", "intel_bts//u"), {}, "intel_bts and intel_pt"),
        (("intel_pt/mtc_period=2/u",), {}, "mtc_period=2 is not among the values of this CPU: 0, 3, 6, 9"),
        (("intel_pt/psb_period=9/u",), {}, "0, 1, 2, 3, 4, 5"),
        (("intel_pt//u",), {"aux_pages": 1}, "at least 8 kB"),
        (("intel_pt//u",), {"clockid": 1}, "drop --clockid"),
        (("intel_pt//u",), {"snapshot": "0x20000", "aux_pages": 16}, "enlarge it with -m,128K"),
        (("intel_pt//u",), {"aux_sample": ""}, "no event has AUX data"),
        (("{intel_pt//u,page-faults:u}",), {"aux_sample": "70000"}, "70000 bytes of AUX data are too many"),
        (("{intel_pt//u,page-faults:u}",), {"aux_sample": "x"}, "expected a number of bytes"),
        (("{intel_pt//u,page-faults:u}",), {"aux_sample": "", "snapshot": ""}, "exclude each other"),
        (("intel_pt/aux-sample-size=9/u",), {}, "a group that the tracer's event leads"),
        (("page-faults/aux-sample-size=9/u,intel_pt//u",), {}, "a group that the tracer's event leads"),
        (("intel_bts//u",), {}, "add --per-thread"),
        (("{intel_bts//u,page-faults:u}",), {"aux_sample": ""}, "use intel_pt"),
    ],
)
def test_refusals_have_perfs_status(intel: sysfs_tree.Tree, texts: tuple[str, ...], options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TraceOptionsError, match=reason) as caught:
        Session(intel, *texts, **options)
    assert caught.value.exit_code == 234


@pytest.mark.parametrize(
    ("options", "reason"), [({"snapshot": "big"}, "expected a number of bytes"), ({"threads": "cpu"}, "drop --threads")]
)
def test_other_refusals_are_failures(intel: sysfs_tree.Tree, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PerfError, match=reason) as caught:
        Session(intel, "intel_pt//u", **options)
    assert caught.value.exit_code == 255


@pytest.mark.parametrize(
    ("text", "options"), [("page-faults", {"snapshot": ""}), ("page-faults", {"aux_sample": ""}), ("page-faults/aux-sample-size=9/", {})]
)
def test_options_of_tracers_need_one(intel: sysfs_tree.Tree, text: str, options: dict[str, Any]) -> None:
    machine = intel.machine()
    with pytest.raises(TraceOptionsError, match="hardware tracer, and no event is one"):
        plan_trace(parse_events(text, machine=machine), record_options(**options), COMMAND, machine.sysfs, print)


def test_what_takes_samples_only_refuses_tracers(intel: sysfs_tree.Tree) -> None:
    events = parse_events("page-faults,intel_pt//u", machine=intel.machine())
    with pytest.raises(UsageError, match="which only perfpy record takes"):
        configure_sampling(events, record_options(), COMMAND, FakeKernel())


def test_without_a_tracer_nothing_changes(intel: sysfs_tree.Tree) -> None:
    machine = intel.machine()
    events, options = parse_events("page-faults", machine=machine), record_options()
    assert plan_trace(events, options, COMMAND, machine.sysfs, print) == (events, options, None)


@pytest.mark.parametrize("option", ["unwind", "off_cpu", "overwrite"])
def test_what_rewrites_or_overwrites_records_is_refused(intel: sysfs_tree.Tree, option: str) -> None:
    options: dict[str, Any] = {option: True}
    with pytest.raises(UsageError, match="drop --" + option.replace("_", "-")):
        Session(intel, "intel_pt//u", **options)


def test_branches_of_bts_are_those_of_threads(intel: sysfs_tree.Tree) -> None:
    session = Session(intel, "intel_bts//u", per_thread=True, aux_pages=8)
    assert session.shapes() == [("intel_bts//u", 1, 1, 0), ("dummy:u", 1, 1, 0)]
    assert (session.plan.pages, session.events[0].attr.aux_watermark, session.events[0].attr.exclude_guest) == (8, 0, 1)


def test_a_filter_is_given_to_the_kernel_with_numbers(intel: sysfs_tree.Tree) -> None:
    session = Session(intel, "intel_pt//u", filters=("filter 16/0x20", "start 5"))
    assert session.events[0].filter == session.plan.filter == "filter 0x10/0x20,start 0x5"
    assert not any(event.filter for event in session.events[1:])


# Arm's tracers


def test_spe_samples_at_the_shortest_interval_with_times(tmp_path: Path) -> None:
    session = Session(sysfs_tree.arm_spe(tmp_path), "arm_spe_0/load_filter=1,pa_enable=1/")
    assert session.shapes() == [("arm_spe_0/load_filter=1,pa_enable=1/", 1, 1, 0), ("dummy:u", 1, 1, 1)]
    trace, tracking = session.events
    assert (trace.attr.config, trace.attr.sample_period, trace.attr.aux_watermark) == (0x200000003, 256, 0)
    assert trace.attr.sample_type == TIMED | SampleType.DATA_SRC | SampleType.PHYS_ADDR
    assert tracking.attr.sample_type == TIMED
    assert (trace.cpus, trace.requires_cpu) == ((0, 1, 2, 3), False)
    assert Session(sysfs_tree.arm_spe(tmp_path / "2"), "arm_spe_0/ts_enable=0/").events[0].attr.config == 0


def test_spe_of_two_kinds_of_cores(tmp_path: Path) -> None:
    tree = sysfs_tree.arm_spe(tmp_path).pmu("arm_spe_1", 11, {"ts_enable": "config:0"}, cpumask="4-7")
    session = Session(tree, "arm_spe_0//,arm_spe_1//", snapshot="")
    assert [(event.name, event.attr.sample_period) for event in session.events[:2]] == [("arm_spe_1//", 4096), ("arm_spe_0//", 256)]


def test_coresight_has_context_ids_times_and_a_sink(tmp_path: Path) -> None:
    session = Session(sysfs_tree.coresight(tmp_path), "cs_etm/@tmc_etr0,contextid=0/u", target=Target("command", (), (0, 1)))
    trace, tracking = session.events
    assert (trace.attr.config, trace.attr.config2) == (1 << 28, 0x1A2B3C4D)
    assert (tracking.attr.context_switch, tracking.attr.disabled) == (1, 1)
    assert trace.attr.sample_type & SampleType.CPU
    threads = Session(sysfs_tree.coresight(tmp_path / "2"), "cs_etm//u", target=Target("command", (), (0,)), per_thread=True)
    assert (threads.events[0].attr.config, threads.events[0].attr.config2) == (0, 0)


@pytest.mark.parametrize(
    ("text", "cpus", "reason"),
    [
        ("cs_etm/@nowhere/u", (0,), "no sink 'nowhere'"),
        ("cs_etm/contextid=0/u", (2,), "has no timestamp; write cs_etm/timestamp=0/"),
        ("cs_etm//u", (2,), "has no contextid; write"),
        ("cs_etm/contextid2=1/u", (0,), "has no contextid2"),
        ("cs_etm//u", (3,), "CPU 3 has no tracer"),
    ],
)
def test_what_a_cpus_tracer_lacks_is_refused(tmp_path: Path, text: str, cpus: tuple[int, ...], reason: str) -> None:
    with pytest.raises(TraceOptionsError, match=reason):
        Session(sysfs_tree.coresight(tmp_path), text, target=Target("command", (), cpus))


# A PMCU


def test_a_pmcu_comes_first_and_excludes_nothing(tmp_path: Path) -> None:
    session = Session(sysfs_tree.hisi_pmcu(tmp_path), "cpu-clock,hisi_pmcu_sccl3/user_events=0x10/", freq=100)
    event, other, dummy = session.events
    assert (event.attr.sample_period, event.attr.freq, event.attr.disabled, event.attr.enable_on_exec) == (1, 0, 1, 0)
    assert event.attr.sample_type & SampleType.TIME
    assert (event.attr.exclude_guest, event.attr.inherit) == (0, 0)
    assert (other.attr.sample_freq, other.attr.mmap) == (100, 0)
    assert (dummy.attr.mmap2, dummy.attr.enable_on_exec) == (1, 1)
    assert session.plan.pages * mmap.PAGESIZE == 16 << 20


@pytest.mark.parametrize("option", ["unwind", "off_cpu", "overwrite", "per_thread"])
def test_what_a_pmcu_excludes_is_named(tmp_path: Path, option: str) -> None:
    options: dict[str, Any] = {option: True}
    with pytest.raises(UsageError, match="drop --" + option.replace("_", "-")):
        Session(sysfs_tree.hisi_pmcu(tmp_path), "hisi_pmcu_sccl3/user_events=0x10/", **options)


def test_a_recording_has_one_pmcu(tmp_path: Path) -> None:
    text = "hisi_pmcu_sccl3/name=one,user_events=0x10/,hisi_pmcu_sccl3/name=two,user_events=0x10/"
    with pytest.raises(UsageError, match="record 'one' and 'two' separately"):
        Session(sysfs_tree.hisi_pmcu(tmp_path), text)


def test_a_pmcu_without_permission_suggests_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracers, "may_count_cpus", lambda: False)
    with pytest.raises(UsageError, match="run as root"):
        Session(sysfs_tree.hisi_pmcu(tmp_path), "hisi_pmcu_sccl3/user_events=0x10/")
