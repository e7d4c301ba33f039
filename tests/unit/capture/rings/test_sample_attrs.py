"""The attrs for record's options equal those of perf 6.12."""

from __future__ import annotations

from typing import Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.capture.option_values import Callchain
from perfpy.capture.record_options import RecordOptions
from perfpy.capture.rings.sample_attrs import configure_sampling
from perfpy.capture.targets import Target
from perfpy.events.event import Event, EventTerms
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

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


def test_the_term_no_call_graph_overrules_the_option():
    (attr,) = configured(clock(call_graph="no"), callchain=Callchain("dwarf"))
    assert not attr.sample_type & (SampleType.CALLCHAIN | SampleType.STACK_USER)
    assert attr.sample_regs_user == 0


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
