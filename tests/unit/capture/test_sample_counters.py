"""The targets on which counters of a recording are opened, and refusals."""

from __future__ import annotations

import errno
import mmap
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import FLAG_PID_CGROUP, BranchSample, HardwareId, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.capture import sample_counters
from perfpy.capture.record_options import Callchain, RecordOptions, parse_branch_filter
from perfpy.capture.sample_attrs import configure_sampling, copy_stacks_of_chosen, new_dummy, sampling_warnings
from perfpy.capture.sample_counters import CounterTarget, SampleCounters, default_pages, mover, pages_for
from perfpy.capture.targets import ANY, Target
from perfpy.errors import KernelRefusedError
from perfpy.events.event import SWITCHES, TRACKING, Event, EventTerms
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.ring import Ring
from tests.builders import sysfs_tree
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.capture.counter import OpenEvent


def event(name: str, config: int = SoftwareId.CPU_CLOCK, kind: int = PerfType.SOFTWARE, precise: int = 0, **more: Any) -> Event:
    return Event(name, EventAttr(type=kind, config=config, disabled=1, precise_ip=precise), **more)


def opened(
    kernel: FakeKernel, *events: Event, cpus: tuple[int, ...] = (0, 1), tids: tuple[int, ...] = (7,), **options: Any
) -> tuple[list[OpenEvent], list[str]]:
    """Open the events; return the counters and the messages."""
    warnings: list[str] = []
    counters = SampleCounters(kernel, events, cpus, tids, tell=warnings.append, **options)
    counters.open()
    return counters.events, warnings


def places(kernel: FakeKernel) -> list[tuple[str, int, int]]:
    return [(counter.event, counter.pid, counter.cpu) for counter in kernel.counters]


def test_a_task_is_followed_on_every_cpu():
    kernel = FakeKernel()
    opened(kernel, event("a"), tids=(7, 8))
    assert places(kernel) == [("a", 7, 0), ("a", 8, 0), ("a", 7, 1), ("a", 8, 1)]


def test_an_event_that_one_kind_of_core_lacks_is_sampled_on_the_other():
    """Alder Lake's small cores have no L1-dcache-load-misses."""
    atom, core = (event(f"{pmu}/misses/", pmu=pmu, text_name="misses", cpus=cpus) for pmu, cpus in (("cpu_atom", (1,)), ("cpu_core", (0,))))
    kernel = FakeKernel(refuse={"cpu_atom/misses/": errno.ENOENT})
    events, warnings = opened(kernel, atom, core, tids=(ANY,))
    assert places(kernel) == [("cpu_core/misses/", ANY, 0)]
    assert [one.name for one in events] == ["cpu_core/misses/"]
    assert warnings == ["the CPUs of cpu_atom cannot count 'misses'; sampling it on those of cpu_core only"]
    twice = [event("cpu_atom/misses/", pmu="cpu_atom", text_name="misses"), atom, core]
    assert opened(FakeKernel(refuse={"cpu_atom/misses/": errno.ENOENT}), *twice, tids=(ANY,))[1] == warnings
    with pytest.raises(KernelRefusedError):  # the plan of waits has indexes
        opened(FakeKernel(refuse={"cpu_atom/misses/": errno.ENOENT}), atom, core, needs_all=True)


@pytest.mark.parametrize(
    ("names", "refused", "code"),
    [
        (("", ""), ("cpu_atom/misses/",), errno.ENOENT),  # one that names its PMU
        (("misses", "misses"), ("cpu_atom/misses/", "cpu_core/misses/"), errno.ENOENT),
        (("misses", "misses"), ("cpu_core/misses/",), errno.EOPNOTSUPP),
        (("misses", "others"), ("cpu_atom/misses/",), errno.ENOENT),
    ],
)
def test_a_recording_needs_its_other_events(names: tuple[str, str], refused: tuple[str, ...], code: int) -> None:
    kinds = zip(("cpu_atom", "cpu_core"), names, strict=True)
    kernel = FakeKernel(refuse=dict.fromkeys(refused, code))
    with pytest.raises(KernelRefusedError):
        opened(kernel, *(event(f"{pmu}/misses/", pmu=pmu, text_name=text) for pmu, text in kinds))
    assert all(counter.closed for counter in kernel.counters)


def test_an_event_of_some_cpus_is_opened_on_these():
    kernel = FakeKernel()
    opened(kernel, event("a", cpus=(1,)), tids=(ANY,))
    assert places(kernel) == [("a", ANY, 1)]


def test_a_cgroup_takes_the_place_of_the_tasks():
    kernel = FakeKernel()
    one, other = event("a"), event("b")
    opened(kernel, one, other, tids=(ANY,), cgroup_fds={one: 33})
    assert places(kernel) == [("a", 33, 0), ("a", 33, 1), ("b", ANY, 0), ("b", ANY, 1)]


def test_the_side_band_of_whole_cpus_has_no_cgroup(monkeypatch):
    monkeypatch.setattr("perfpy.capture.sample_counters.online_cpus", lambda: (0, 1))
    kernel = FakeKernel()
    one, side_band = event("a"), event("dummy:u", system_wide=True)
    opened(kernel, one, side_band, tids=(ANY,), cgroup_fds={one: 33, side_band: 33})
    assert places(kernel) == [("a", 33, 0), ("a", 33, 1), ("dummy:u", ANY, 0), ("dummy:u", ANY, 1)]
    assert [counter.flags & FLAG_PID_CGROUP for counter in kernel.counters] == [FLAG_PID_CGROUP] * 2 + [0] * 2


def test_members_are_opened_in_their_leaders_group():
    kernel = FakeKernel()
    leader = event("a")
    opened(kernel, leader, event("b", led_by=leader))
    assert [counter.group_fd for counter in kernel.counters] == [-1, -1, kernel.counters[0].fd, kernel.counters[1].fd]


def test_cycles_without_a_pmu_become_a_clock_with_a_message():
    kernel = FakeKernel(refuse={"cycles:P": errno.ENOENT})
    (cycles,), warnings = opened(kernel, event("cycles:P", HardwareId.CPU_CYCLES, PerfType.HARDWARE, 3, precise_max=True))
    assert warnings == ["no hardware cycle counter here; using task-clock instead"]
    assert (cycles.name, cycles.attr.config) == ("task-clock:ppp", SoftwareId.TASK_CLOCK)
    assert (cycles.event.name, cycles.event.attr.config) == ("cycles:P", HardwareId.CPU_CYCLES)


def test_on_whole_cpus_it_is_the_cpu_clock():
    kernel = FakeKernel(refuse={"cycles": errno.EOPNOTSUPP})
    (cycles,), _ = opened(kernel, event("cycles", HardwareId.CPU_CYCLES, PerfType.HARDWARE), tids=(ANY,))
    assert cycles.attr.config == SoftwareId.CPU_CLOCK


def test_no_clock_replaces_a_precision_that_the_pmu_lacks():
    kernel = FakeKernel(refuse={"cycles:ppp": errno.EOPNOTSUPP})
    with pytest.raises(KernelRefusedError, match="cycles:ppp"):
        opened(kernel, event("cycles:ppp", HardwareId.CPU_CYCLES, PerfType.HARDWARE, 3))


def test_an_event_that_nothing_helps_is_an_error_and_leaves_nothing_open():
    kernel = FakeKernel(refuse={"b": errno.ENOENT})
    with pytest.raises(KernelRefusedError):
        opened(kernel, event("a"), event("b"))
    assert all(counter.closed for counter in kernel.counters)


def test_a_weak_group_falls_apart():
    class Picky(FakeKernel):
        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            if group_fd != -1:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = Picky()
    leader = event("a", weak=True)
    events, _ = opened(kernel, leader, event("b", led_by=leader, weak=True))
    assert all(one.is_leader for one in events)
    assert [counter.event for counter in kernel.counters if not counter.closed] == ["a", "a", "b", "b"]


def test_each_event_of_a_weak_group_that_does_not_fit_counts_alone_and_starts_with_the_program():
    class Small(FakeKernel):
        """Two counters."""

        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            if sum(counter.group_fd == group_fd for counter in self.counters if not counter.closed) and group_fd != -1:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = Small()
    leader = event("a", weak=True)
    leader = leader._replace(attr=leader.attr.copy(enable_on_exec=1))
    members = [event(name, led_by=leader, weak=True)._replace(attr=EventAttr(type=PerfType.SOFTWARE)) for name in "bcd"]
    opened(kernel, leader, *members, cpus=(0,))
    left = [counter for counter in kernel.counters if not counter.closed]
    assert sorted(counter.event for counter in left) == ["a", "b", "c", "d"]
    assert all(counter.group_fd == -1 and counter.attr.disabled and counter.attr.enable_on_exec for counter in left)


class Gone(FakeKernel):
    """Thread 8 ended before its counter was opened."""

    def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
        if pid == 8:
            raise KernelRefusedError("perf_event_open", errno.ESRCH, event=event)
        return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)


def test_threads_that_ended_are_omitted_while_others_live():
    kernel = Gone()
    opened(kernel, event("a"), tids=(7, 8), skip_missing=True)
    assert places(kernel) == [("a", 7, 0), ("a", 7, 1)]
    with pytest.raises(KernelRefusedError):
        opened(Gone(), event("a"), tids=(8,), skip_missing=True)
    with pytest.raises(KernelRefusedError):
        opened(Gone(), event("a"), tids=(7, 8))


def test_filters_are_set_on_every_counter():
    kernel = FakeKernel()
    opened(kernel, event("a", filter="id == 1"))
    assert [counter.filter for counter in kernel.counters] == ["id == 1", "id == 1"]


class Foreign(FakeKernel):
    """Thread 8 is one of a process with privileges, such as ssh-agent."""

    def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
        if pid == 8:
            raise KernelRefusedError("perf_event_open", errno.EACCES, event=event, cause="process 8 belongs to another user")
        return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)


def test_threads_without_permission_are_omitted_from_a_users_threads():
    kernel = Foreign()
    lines: list[str] = []
    counters = SampleCounters(kernel, [event("a")], (0, 1), (7, 8), skip_foreign=True, tell=lines.append)
    counters.open()
    counters.warn_of_skipped(lines.append)
    assert ["1 thread of" in line and "CAP_PERFMON" in line for line in lines] == [True]
    assert places(kernel) == [("a", 7, 0), ("a", 7, 1)]
    with pytest.raises(KernelRefusedError, match="another user"):
        opened(Foreign(), event("a"), tids=(7, 8), skip_missing=True)
    with pytest.raises(KernelRefusedError, match="another user"):
        opened(Foreign(), event("a"), tids=(8,), skip_foreign=True)


# The attrs for record's options equal those of perf 6.12.


COMMAND = Target("command", (), (0, 1))
SYSTEM = Target("system", (), (0, 1))
PLAIN = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.PERIOD


def software(name: str, config: int, **terms: Any) -> Event:
    return Event(name, EventAttr(type=PerfType.SOFTWARE, config=config), terms=EventTerms(**terms))


def clock(**terms: object) -> Event:
    return software("cpu-clock", SoftwareId.CPU_CLOCK, **terms)


def faults() -> Event:
    return software("page-faults", SoftwareId.PAGE_FAULTS)


def configured(*events: Event, target: Target = COMMAND, **options: Any) -> list[EventAttr]:
    return [event.attr for event in configure_sampling(list(events), record_options(**options), target, FakeKernel())]


def test_a_program_is_sampled_at_4000_hz_from_its_exec_on():
    (attr,) = configured(clock())
    assert attr.sample_type == PLAIN
    assert (attr.freq, attr.sample_freq, attr.disabled, attr.enable_on_exec, attr.inherit) == (1, 4000, 1, 1, 1)
    assert attr.read_format == ReadFormat.ID | ReadFormat.LOST


def test_each_occurrence_is_sampled_of_events_that_the_kernel_counts_only():
    """A period of 1 would interrupt the program at each tick of a clock, or at each cycle."""
    each, by_time = configured(faults(), clock(), each_occurrence=True)
    assert (each.sample_period, each.freq) == (1, 0)
    assert (by_time.sample_freq, by_time.freq) == (4000, 1)


def test_the_first_event_carries_the_side_band():
    first, second = configured(clock(), faults())
    assert (first.mmap, first.mmap2, first.comm, first.comm_exec, first.task, first.ksymbol, first.bpf_event) == (1,) * 7
    assert (second.mmap, second.mmap2, second.comm, second.task) == (0,) * 4


def test_a_period_needs_no_period_in_the_sample():
    (attr,) = configured(clock(), period=100_000)
    assert (attr.freq, attr.sample_period) == (0, 100_000)
    assert not attr.sample_type & SampleType.PERIOD


def test_a_whole_system_has_a_dummy_for_the_side_band_that_is_on_at_once():
    event, dummy = configured(clock(), target=SYSTEM)
    assert dummy.config == SoftwareId.DUMMY
    assert (dummy.disabled, dummy.mmap, dummy.sample_period, dummy.freq) == (0, 1, 1, 0)
    assert (event.mmap, event.enable_on_exec, event.disabled) == (0, 0, 1)
    assert event.sample_type & SampleType.IDENTIFIER
    assert event.sample_type & SampleType.CPU


def test_a_first_dummy_carries_the_side_band_and_keeps_its_options():
    dummy, event = configured(software("dummy", SoftwareId.DUMMY), clock(), target=SYSTEM, callchain=Callchain("fp"))
    assert (dummy.disabled, dummy.mmap, dummy.freq, dummy.sample_freq) == (0, 1, 1, 4000)
    assert dummy.sample_type & SampleType.CALLCHAIN
    assert (event.mmap, event.disabled) == (0, 1)


def test_the_dummy_takes_no_call_chains():
    event, dummy = configured(clock(), target=SYSTEM, callchain=Callchain("fp"))
    assert event.sample_type & SampleType.CALLCHAIN
    assert not dummy.sample_type & SampleType.CALLCHAIN


def test_with_a_delay_the_side_band_starts_with_the_program_and_the_event_does_not():
    event, dummy = configured(clock(), delay=10)
    assert (event.enable_on_exec, dummy.enable_on_exec, dummy.disabled) == (0, 1, 1)


@pytest.mark.parametrize(
    ("target", "delay", "expected"),
    [
        (COMMAND, 0, (0, 0)),
        (COMMAND, 10, (1, 1)),  # from the program's start on
        (Target("pid", (7,), (0, 1)), 0, (0, 0)),
    ],
)
def test_with_several_kinds_of_cores_a_dummy_has_the_side_band_of_all(
    tmp_path: Path, target: Target, delay: int, expected: tuple[int, int]
) -> None:
    """Each event covers the cores of one kind only."""
    sysfs = sysfs_tree.intel_hybrid(tmp_path).machine().sysfs
    core, atom = (clock()._replace(cpus=cpus) for cpus in ((0,), (16,)))
    events = configure_sampling([core, atom], record_options(delay=delay), target, FakeKernel(), sysfs)
    assert [event.name for event in events] == ["cpu-clock", "cpu-clock", "dummy:u"]
    first, second, dummy = (event.attr for event in events)
    assert (first.mmap, second.mmap, dummy.mmap, dummy.comm, dummy.task) == (0, 0, 1, 1, 1)
    assert (dummy.disabled, dummy.enable_on_exec) == expected
    assert events[2].cpus is None
    assert not events[2].system_wide


@pytest.mark.parametrize("kind", ["cpu", "system"])
def test_with_some_cpus_the_side_band_is_that_of_all(kind: str) -> None:
    """Tasks migrate. -a with -C is a system of some CPUs."""
    target = Target(kind, (), (1,))
    assert configure_sampling([clock()], RecordOptions(), target, FakeKernel())[1].system_wide
    dummy = software("dummy", SoftwareId.DUMMY)
    assert configure_sampling([dummy, clock()], RecordOptions(), target, FakeKernel())[0].system_wide
    assert not configure_sampling([dummy], RecordOptions(), target, FakeKernel())[0].system_wide


def test_side_band_of_all_cpus_has_rings_of_its_own_beside_those_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to write the records of one CPU into the ring of another one."""
    monkeypatch.setattr(Ring, "map", lambda *_args, **_options: Ring(bytearray(2 * mmap.PAGESIZE)))
    monkeypatch.setattr(sample_counters, "online_cpus", lambda: (0, 1, 2))
    events = [clock(), new_dummy(SWITCHES, system_wide=True), new_dummy(TRACKING)]
    kernel = FakeKernel()
    counters = SampleCounters(kernel, events, (ANY,), (7, 8), tell=print)
    counters.open()
    counters.map(1)
    assert len(counters.rings) == 2 + 3
    assert [(one.target.tid, one.target.cpu, one.ring) for one in counters.opened] == [
        (7, ANY, 0), (8, ANY, 1), (ANY, 0, 2), (ANY, 1, 3), (ANY, 2, 4), (7, ANY, 0), (8, ANY, 1)
    ]  # fmt: skip
    assert len(counters.fds()) == 4  # whose end is that of a thread


def test_an_event_apart_has_rings_of_its_own_if_memory_may_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full rings of stacks leave room for the records of other events."""
    room: list[Ring] = []

    def new_ring(*_args: Any, **_options: Any) -> Ring:
        if not room:
            raise KernelRefusedError("mmap", errno.EPERM, cause="no", remedy="no")
        return room.pop()

    monkeypatch.setattr(Ring, "map", new_ring)
    for rings in ([0, 1, 2, 3], [0, 1, 0, 1]):
        room[:] = [Ring(bytearray(2 * mmap.PAGESIZE)) for _ in {*rings}]
        counters = SampleCounters(FakeKernel(), [clock(), new_dummy(SWITCHES)], (0, 1), (7,), tell=print)
        counters.open()
        counters.map(1, apart=counters.events[1])
        assert [one.ring for one in counters.opened] == rings
        assert len(counters.rings) == len(counters.ring_fds()) == len({*rings})


def test_dwarf_copies_registers_stack_and_addresses():
    (attr,) = configured(clock(), callchain=Callchain("dwarf", stack_size=4096))
    expected = SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER | SampleType.ADDR | SampleType.DATA_SRC
    assert attr.sample_type & expected == expected
    assert (attr.sample_stack_user, attr.exclude_callchain_user, attr.mmap_data) == (4096, 1, 1)
    assert attr.sample_regs_user


def test_a_group_that_is_read_follows_its_leader():
    leader = clock()._replace(sample_read=True)
    first, second = configured(leader, faults()._replace(led_by=leader, sample_read=True))
    assert first.read_format & ReadFormat.GROUP
    assert (first.inherit, second.freq, second.sample_period, second.disabled) == (0, 0, 0, 0)
    assert first.sample_type == second.sample_type == PLAIN | SampleType.READ | SampleType.ID


def core(name: str, config: int, *, must_be_grouped: bool = False) -> Event:
    return Event(name, EventAttr(type=PerfType.RAW, config=config), pmu="cpu", sample_read=True, must_be_grouped=must_be_grouped)


@pytest.mark.parametrize(
    ("group", "sampler"),
    [
        ([core("mem-loads-aux", 0x8203), core("mem-loads", 0x1CD), core("cycles", 0x3C)], "mem-loads"),
        ([core("slots", 0x400, must_be_grouped=True), core("retiring", 0x8000, must_be_grouped=True), core("cycles", 0x3C)], "cycles"),
        ([core("slots", 0x400, must_be_grouped=True), core("retiring", 0x8000, must_be_grouped=True)], "retiring"),
        ([core("slots", 0x400, must_be_grouped=True), core("cycles", 0x3C)], "slots"),
        ([core("cycles", 0x3C), core("instructions", 0xC0)], "cycles"),
    ],
)
def test_the_second_event_samples_where_the_leader_is_there_for_the_others(
    group: list[Event], sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel wants mem-loads-aux before mem-loads, and slots before topdown metrics; neither is what the user samples."""
    monkeypatch.setattr("perfpy.capture.sample_attrs._has_event", lambda _pmu, _name: True)
    events = [group[0], *(event._replace(led_by=group[0]) for event in group[1:])]
    attrs = configured(*events)
    assert [event.name for event, attr in zip(events, attrs, strict=False) if attr.sample_period] == [sampler]
    assert len({attr.sample_type for attr in attrs[: len(events)]}) == 1


def test_an_event_can_leave_out_the_branches_that_the_others_have():
    without, own = (clock()._replace(terms=EventTerms(branch_type=(kind,))) for kind in ("no", "call"))
    branches = [attr.sample_type & SampleType.BRANCH_STACK for attr in configured(without, own, clock(), branch_filter=BranchSample.ANY)]
    assert list(map(bool, branches)) == [False, True, True]


def test_call_stacks_of_the_hardware_are_branch_records_of_user_code():
    (attr,) = configured(clock(), callchain=Callchain("lbr"))
    assert attr.sample_type & SampleType.CALLCHAIN
    assert attr.sample_type & SampleType.BRANCH_STACK
    assert attr.branch_sample_type == parse_branch_filter("u,stack,no_cycles,no_flags,hw_index")
    event = clock()._replace(terms=EventTerms(call_graph="lbr"))
    assert configured(event)[0].branch_sample_type == attr.branch_sample_type


def test_frame_pointers_are_walked_where_the_hardware_has_no_call_stacks():
    options = record_options(callchain=Callchain("lbr"))
    kernel_only = clock()._replace(attr=EventAttr(type=PerfType.SOFTWARE, exclude_user=1))
    (attr,) = configured(kernel_only, callchain=Callchain("lbr"))
    assert (attr.branch_sample_type, bool(attr.sample_type & SampleType.CALLCHAIN)) == (0, True)
    assert [text.partition(",")[0] for text in sampling_warnings([clock(), kernel_only], options)] == [
        "--call-graph lbr has callers of user code only"
    ]
    (attr,) = configured(clock(), callchain=Callchain("lbr"), branch_filter=BranchSample.ANY)
    assert attr.branch_sample_type == BranchSample.ANY
    options = record_options(callchain=Callchain("lbr"), branch_filter=BranchSample.ANY)
    assert list(sampling_warnings([clock()], options)) == ["--call-graph lbr excludes branch filters; walking frame pointers instead"]


def test_inexact_periods_of_l3_misses_are_told():
    events = [
        Event("fetch", EventAttr(type=11, config=1 << 59), pmu="ibs_fetch"),
        Event("op", EventAttr(type=12, config=1 << 59), pmu="ibs_op"),
    ]
    (text,) = sampling_warnings(events, RecordOptions())
    assert text.startswith("'fetch' samples L3 misses only")


def test_events_of_one_sample_type_are_distinguished_by_id():
    assert all(attr.sample_type == PLAIN | SampleType.ID for attr in configured(clock(), faults()))


def test_events_of_different_sample_types_have_their_id_at_a_fixed_place():
    tracepoint = Event("a:b", EventAttr(type=PerfType.TRACEPOINT, config=7), tracepoint=("a", "b"))
    for attr in configured(clock(), tracepoint):
        assert attr.sample_type & (SampleType.ID | SampleType.IDENTIFIER) == SampleType.IDENTIFIER


def test_a_kernel_without_fixed_ids_gets_the_others():
    tracepoint = Event("a:b", EventAttr(type=PerfType.TRACEPOINT, config=7), tracepoint=("a", "b"))
    old = FakeKernel(refuse={"": 22})
    events = configure_sampling([clock(), tracepoint], RecordOptions(), COMMAND, old)
    assert all(event.attr.sample_type & SampleType.ID for event in events)


def test_a_tracepoint_is_sampled_at_each_hit_with_its_data():
    event = Event("a:b", EventAttr(type=PerfType.TRACEPOINT, config=7), tracepoint=("a", "b"))
    (attr,) = configured(event)
    assert (attr.sample_period, attr.freq) == (1, 0)
    assert attr.sample_type == PLAIN | SampleType.RAW | SampleType.CPU


@pytest.mark.parametrize(
    ("terms", "field", "value"),
    [
        ({"period": 5}, "sample_period", 5),
        ({"freq": 7}, "freq", 1),
        ({"inherit": False}, "inherit", 0),
        ({"overwrite": True}, "write_backward", 1),
        ({"max_stack": 9}, "sample_max_stack", 9),
    ],
)
def test_terms_overrule_options(terms, field, value):
    (attr,) = configured(clock(**terms), freq=99)
    assert getattr(attr, field) == value


@pytest.mark.parametrize(("options", "expected"), [({"period": 9}, (9, 0)), ({"freq": 99}, (5, 0)), ({}, (5, 0))])
def test_only_a_period_of_the_options_precedes_the_one_that_a_named_event_proposes(options, expected):
    (attr,) = configured(clock(period=5, proposes_period=True), **options)
    assert (attr.sample_period, attr.freq) == expected


def test_the_term_no_call_graph_overrules_the_option():
    (attr,) = configured(clock(call_graph="no"), callchain=Callchain("dwarf"))
    assert not attr.sample_type & (SampleType.CALLCHAIN | SampleType.STACK_USER)
    assert attr.sample_regs_user == 0


@pytest.mark.parametrize("mode", ["no", "fp"])
def test_the_call_graph_of_an_event_keeps_registers_that_the_user_chose(mode):
    (attr,) = configured(clock(call_graph=mode), user_regs=0x100)
    assert attr.sample_type & SampleType.REGS_USER
    assert attr.sample_regs_user == 0x100


@pytest.mark.parametrize("mode", ["no", "fp", "dwarf"])
def test_an_event_with_a_call_graph_of_its_own_has_no_branches_of_the_hardwares_call_stack(mode):
    (attr,) = configured(clock(call_graph=mode), callchain=Callchain("lbr"))
    assert not attr.sample_type & SampleType.BRANCH_STACK
    assert not attr.branch_sample_type & (BranchSample.USER | BranchSample.CALL_STACK)
    (attr,) = configured(clock(call_graph=mode), callchain=Callchain("lbr"), branch_filter=BranchSample.ANY)
    assert attr.sample_type & SampleType.BRANCH_STACK


def test_threads_on_any_cpu_have_no_times_by_default():
    (attr,) = configured(clock(), per_thread=True)
    (timed,) = configured(clock(), per_thread=True, time=True)
    assert not attr.sample_type & SampleType.TIME
    assert timed.sample_type & SampleType.TIME
    assert attr.inherit == 0


def test_flags_that_are_one_bit_each():
    (attr,) = configured(
        clock(), switch_events=True, namespaces=True, all_cgroups=True, buildid_mmap=True, bpf_events=False, clockid=1, all_user=True
    )
    assert (attr.context_switch, attr.namespaces, attr.cgroup, attr.build_id, attr.bpf_event) == (1, 1, 1, 1, 0)
    assert (attr.use_clockid, attr.clockid, attr.exclude_kernel) == (1, 1, 1)


# Ring buffers are as large as the events need, and as the user may lock.


@pytest.mark.parametrize(("allowed", "pages"), [("516", 128), ("4", 1), ("1000", 128), ("2052", 512), (None, 128)])
def test_rings_are_as_large_as_a_user_may_lock(tmp_path, allowed, pages):
    if allowed:
        (tmp_path / "sys" / "kernel").mkdir(parents=True)
        (tmp_path / "sys" / "kernel" / "perf_event_mlock_kb").write_text(allowed + "\n")
    assert default_pages(ProcFs(str(tmp_path))) == pages


MAY_LOCK = 1 << 14
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
CYCLES = EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES, sample_period=99, freq=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)
STACKS = int(SampleType.STACK_USER)


def megabytes(attrs: list[EventAttr], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capabilities: int = MAY_LOCK) -> float:
    """The size of a ring on a machine of two CPUs, whose users may lock perf's 516 kB."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    settings = tmp_path / "sys" / "kernel"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "perf_event_mlock_kb").write_text("516\n")
    (settings / "perf_event_paranoid").write_text("2\n")
    return pages_for(attrs, ProcFs(str(tmp_path)), capabilities) * 4096 / (1 << 20)


@pytest.mark.parametrize(
    ("attr", "size"),
    [
        (CLOCK, 0.5),
        (CLOCK.copy(sample_period=20000), 8),
        (CLOCK.copy(sample_type=STACKS), 8),
        (CLOCK.copy(sample_type=STACKS, sample_stack_user=8192, sample_period=4), 2),
        (CLOCK.copy(sample_type=STACKS, sample_stack_user=16384, sample_period=99), 2),
        (CLOCK.copy(sample_type=STACKS, sample_stack_user=16384, sample_period=199), 4),
        (CLOCK.copy(sample_type=STACKS, sample_stack_user=8192), 8),
        (CLOCK.copy(sample_type=STACKS, sample_period=99, freq=0), 8),
        (CYCLES.copy(sample_type=STACKS, sample_period=99), 8),
        (FAULTS, 8),
        (FAULTS.copy(sample_period=4000, freq=1), 0.5),
        (FAULTS.copy(sample_type=STACKS), 32),
    ],
)
def test_the_size_of_rings_follows_the_rate_of_an_event(
    attr: EventAttr, size: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert megabytes([attr, DUMMY], tmp_path, monkeypatch) == size


def test_where_memory_is_locked_for_users_rings_are_perfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert megabytes([FAULTS.copy(sample_type=STACKS)], tmp_path, monkeypatch, capabilities=0) == 0.5


# --affinity: the CPUs on which ring buffers are read.


def counters(*cpus: int) -> SampleCounters:
    """One ring buffer for each CPU."""
    opened = [SimpleNamespace(ring=ring, target=CounterTarget(cpu, -1)) for ring, cpu in enumerate(cpus)]
    return cast("SampleCounters", SimpleNamespace(cpus=cpus, opened=opened))


def test_each_ring_is_read_on_its_cpu_and_moves_only_where_it_must(monkeypatch: pytest.MonkeyPatch):
    moves: list[Any] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: moves.append((pid, set(cpus))))
    move = mover("cpu", counters(0, 3))
    for ring in (0, 0, 1, 0):
        move(ring)
    assert moves == [(0, {0}), (0, {3}), (0, {0})]


def test_rings_of_threads_are_read_anywhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_setaffinity", None)
    move = mover("cpu", counters(-1))
    move(0)


def test_an_offline_cpu_is_read_from_where_one_is(monkeypatch: pytest.MonkeyPatch):
    def refuse(_pid: int, _cpus: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    move = mover("cpu", counters(7))
    move(0)


@pytest.mark.parametrize("is_calm", [True, False])
def test_stacks_of_switches_are_copied_for_chosen_tasks(is_calm):
    """Recordings for the sake of some processes: other tasks switch ten thousand times a second on a busy machine."""
    kind = SampleType.CALLCHAIN | SampleType.RAW
    stacked = EventAttr(
        type=PerfType.TRACEPOINT,
        config=370,
        sample_period=1,
        sample_type=int(kind | SampleType.REGS_USER | SampleType.STACK_USER),
        sample_regs_user=7,
        sample_stack_user=8192,
    )
    switch = Event("sched:sched_switch", stacked, tracepoint=("sched", "sched_switch"))
    waking = Event("sched:sched_waking", stacked.copy(config=371), tracepoint=("sched", "sched_waking"))
    call = Event("raw_syscalls:sys_enter", EventAttr(type=PerfType.TRACEPOINT, config=372), tracepoint=("raw_syscalls", "sys_enter"))
    clock = Event("cpu-clock", stacked.copy(type=PerfType.SOFTWARE))
    of_tasks, some, of_all, wakes, all_wakes, calls, last = copy_stacks_of_chosen([switch, waking, call, clock], is_calm=is_calm)
    assert [one.of_chosen for one in (of_tasks, some, of_all, wakes, all_wakes, calls, last)] == [1, 0, 0, 1, 0, not is_calm, 0]
    assert all(one.attr.sample_stack_user == 8192 for one in (of_tasks, some, wakes, last))
    assert (some.attr.freq, of_tasks.attr.freq) == (not is_calm, 0)
    assert of_all.attr.sample_type == kind
    assert (of_all.attr.sample_stack_user, of_all.attr.sample_regs_user) == (0, 0)
    assert all_wakes.attr.sample_type == (kind if is_calm else SampleType.RAW)


def test_events_of_chosen_tasks_are_opened_for_those_that_are_left():
    kernel = Gone()
    counters = SampleCounters(kernel, [event("all"), event("chosen", of_chosen=True)], (0, 1), (ANY,), chosen=(7, 8), tell=print)
    counters.open()
    assert places(kernel) == [("all", ANY, 0), ("all", ANY, 1), ("chosen", 7, 0), ("chosen", 7, 1)]
