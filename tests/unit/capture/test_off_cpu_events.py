"""The events opened for waits, and those that are in the file."""

from __future__ import annotations

from errno import EACCES
from types import SimpleNamespace
from typing import Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.capture import off_cpu_events
from perfpy.capture.off_cpu_events import RawField, WaitPlan, add_wait_events, switch_limit
from perfpy.capture.record_options import Callchain, RecordOptions, SideBandOptions
from perfpy.capture.targets import Target, TargetOptions
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel
from tests.builders.options import record_options

COMMAND, SYSTEM = Target("command", (), (0, 1)), Target("system", (), (0, 1))
FORMAT = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
    "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
    "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
)


class Traces:
    """A tracefs readable by root."""

    def event_id(self, _system: str, event: str) -> int:
        return {"sched_switch": 318, "sched_waking": 320}[event]

    def format(self, _system: str, _event: str) -> str:
        return FORMAT


class NoTraces(Traces):
    """An unreadable tracefs."""

    def event_id(self, _system: str, event: str) -> int:
        raise KernelRefusedError("tracefs", EACCES, cause="no", remedy="no")


def asked(
    monkeypatch: pytest.MonkeyPatch, traces: type[Traces], target: Target = COMMAND, kernel: FakeKernel | None = None, **options: Any
):
    monkeypatch.setattr(off_cpu_events, "Tracefs", traces)
    warnings: list[str] = []
    clock = Event("cpu-clock", EventAttr(type=PerfType.SOFTWARE))
    events, plan = add_wait_events([clock], record_options(off_cpu=True, **options), target, kernel or FakeKernel(), warnings.append)
    assert events[0] is clock
    return events[1:], plan, warnings


def test_tracepoints_give_state_and_waker(monkeypatch):
    (time, switches, wakings), plan, warnings = asked(monkeypatch, Traces)
    assert (time.name, time.attr.config, time.attr.context_switch) == (OFF_CPU_EVENT, SoftwareId.BPF_OUTPUT, 1)
    assert (switches.attr.type, switches.attr.config, wakings.attr.config) == (PerfType.TRACEPOINT, 318, 320)
    assert switches.attr.sample_type & SampleType.CALLCHAIN
    assert not wakings.attr.sample_type & SampleType.CALLCHAIN
    assert plan == WaitPlan(1, 2, 3, RawField(32, 8), RawField(24, 4), 500_000_000, without_kernel=True)
    assert plan.hidden == (2, 3)
    assert not warnings


def test_users_have_the_event_that_needs_no_tracepoint(monkeypatch):
    (_, switches), plan, (warning,) = asked(monkeypatch, NoTraces)
    assert (switches.attr.type, switches.attr.config) == (PerfType.SOFTWARE, SoftwareId.CONTEXT_SWITCHES)
    assert not switches.attr.sample_type & SampleType.RAW
    assert (plan.switches, plan.wakings, plan.state) == (2, -1, None)
    assert "tracepoints" in warning


def test_without_access_to_the_kernel_there_are_no_stacks_and_a_warning(monkeypatch):
    class Refusing(FakeKernel):
        def perf_event_open(self, attr: EventAttr, *_: Any, **__: Any) -> int:
            raise KernelRefusedError("perf_event_open", EACCES, cause="no", remedy="no")

    (time,), plan, (warning,) = asked(monkeypatch, NoTraces, kernel=Refusing())
    assert time.attr.exclude_kernel
    assert (plan.time, plan.hidden) == (1, ())
    assert "perf_event_paranoid" in warning


def test_a_command_is_followed_from_its_exec_on_and_a_machine_when_all_is_open(monkeypatch):
    for target, from_exec in ((COMMAND, 1), (SYSTEM, 0)):
        events, _, _ = asked(monkeypatch, Traces, target)
        assert {(event.attr.disabled, event.attr.enable_on_exec) for event in events} == {(1, from_exec)}


def test_options_choose_the_stacks(monkeypatch):
    (_, switches, _), _, _ = asked(monkeypatch, Traces, callchain=Callchain("dwarf", stack_size=4096))
    assert switches.attr.sample_stack_user == 4096
    assert switches.attr.exclude_callchain_user
    (_, switches, _), plan, _ = asked(monkeypatch, Traces, kernel_callchains=True, threshold=0)
    assert (switches.attr.exclude_callchain_user, plan.without_kernel, plan.threshold) == (1, False, 0)


@pytest.mark.parametrize("options", [{"overwrite": True}, {"tail_synthesize": True}])
def test_contradicting_options_are_reported(options):
    with pytest.raises(UsageError, match="--off-cpu"):
        record_options(off_cpu=True, **options).check()


def test_latency_is_not_for_whole_cpus():
    with pytest.raises(UsageError, match="--latency"):
        RecordOptions(side_band=SideBandOptions(latency=True), target=TargetOptions(all_cpus=True)).check()


# Frequent switches are sampled up to the limit, with one warning.


PLAN = WaitPlan(0, 1, 2, None, None, 0, without_kernel=False)


class Counters:
    """Switches at a steady rate while the events are enabled."""

    def __init__(self) -> None:
        self.events = ["time", "switches", "wakings"]
        self.on = {"switches": True, "wakings": True}
        self.seen = 0.0

    def count(self, _event: str) -> int:
        return int(self.seen)

    def switch(self, event: str, on: bool) -> None:
        self.on[event] = on


def run(rate: float, most: int, monkeypatch: pytest.MonkeyPatch, plan: WaitPlan = PLAN, seconds: float = 10.0) -> tuple[Any, list[str]]:
    clock = [100.0]
    monkeypatch.setattr(off_cpu_events, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    counters, warnings = Counters(), list[str]()
    watched: Any = counters
    one = switch_limit(watched, plan, most, warnings.append)
    while clock[0] < 100.0 + seconds:
        clock[0] += 0.01
        counters.seen += rate * 0.01 if counters.on["switches"] else 0
        one.check()
        assert counters.on["switches"] == counters.on["wakings"]
    return counters, warnings


def test_rates_below_the_limit_stay_unchanged(monkeypatch):
    counters, warnings = run(900, 1000, monkeypatch)
    assert counters.seen == pytest.approx(9000, rel=0.01)
    assert not warnings


@pytest.mark.parametrize("rate", [2000, 50_000])
def test_a_storm_is_sampled_as_often_as_allowed(monkeypatch, rate):
    counters, warnings = run(rate, 1000, monkeypatch)
    between_looks = rate * 0.06  # sampled before the first check
    assert 700 <= counters.seen / 10 <= max(1350, between_looks)
    assert len(warnings) == 1
    assert "--off-cpu-limit" in warnings[0]


def test_without_a_limit_or_stacks_nothing_is_touched(monkeypatch):
    assert run(50_000, 0, monkeypatch)[0].seen == pytest.approx(500_000, rel=0.01)
    assert run(50_000, 10, monkeypatch, PLAN._replace(switches=-1))[0].on["switches"]
