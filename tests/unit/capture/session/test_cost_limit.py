"""--max-cpu lowers the rate of samples until recording costs no more; if that does not help, events pause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.sample_counters import SampleCounters
from perfpy.capture.session import cost_limit
from perfpy.capture.session.cost_limit import CostLimit
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel

if TYPE_CHECKING:
    from collections.abc import Callable

CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.CPU_CLOCK, freq=1, sample_period=4000)
CYCLES = EventAttr(type=PerfType.HARDWARE, config=0, freq=1, sample_period=4000)
MISSES = EventAttr(type=PerfType.HARDWARE, config=3, sample_period=1000)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, config=5, sample_period=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)


class Recording:
    """Record events for ten seconds, on a simulated clock. cost is the CPU time per second as a function of the rate that is left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, attr: EventAttr, cost: Callable[[float], float], **limits: Any) -> None:
        self.kernel = FakeKernel()
        counters = SampleCounters(self.kernel, [Event("sampled", attr), Event("dummy", DUMMY)], (0, 1), (-1,), tell=print)
        counters.open()
        counters.enable()
        self.told: list[str] = []
        self.now, self.spent, self.rested = 100.0, 0.0, 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now, process_time=lambda: self.spent)
        monkeypatch.setattr(cost_limit, "time", clock)
        limit = CostLimit(counters, counters.events, 0.02, self.told.append, **limits)
        while self.now < 110.0:
            is_on = self.kernel.named("sampled")[0].counting
            assert self.kernel.named("dummy")[0].counting
            self.spent += cost(self.rate(attr)) * 0.01 if is_on else 0.0
            self.rested += 0 if is_on else 0.01
            self.now += 0.01
            if limit.wait(self.now) == 0.0:
                limit.ring(self.now)

    def periods(self) -> list[int]:
        """The periods set on the first counter, in order."""
        first = self.kernel.named("sampled")[0].fd
        return [int(call[2]) for call in self.kernel.calls if call[0] == "set_period" and call[1] == first]  # type: ignore[call-overload]

    def rate(self, attr: EventAttr) -> float:
        """The share of samples that are still taken."""
        if not self.periods():
            return 1.0
        last = self.periods()[-1]
        if attr is CLOCK:
            return 1e9 / last / 4000
        return last / 4000 if attr.freq else 1000 / last


def test_a_cheap_recording_stays_unchanged(monkeypatch):
    recording = Recording(monkeypatch, CLOCK, lambda rate: 0.019 * rate, may_rest=True)
    assert (recording.periods(), recording.told, recording.rested) == ([], [], 0)


@pytest.mark.parametrize("attr", [CLOCK, CYCLES, MISSES])
def test_the_frequency_is_lowered_with_a_message(monkeypatch, attr):
    recording = Recording(monkeypatch, attr, lambda rate: 0.1 * rate, may_rest=True)
    assert len(recording.periods()) == 1
    assert recording.rate(attr) == pytest.approx(0.16, rel=0.01)
    assert recording.told[0].startswith("note: recording takes 10.0% of a CPU, more than --max-cpu 2.0%; now sampling sampled ")
    assert recording.told[0].endswith("once in 6250" if attr is MISSES else "at 640 Hz")
    assert len(recording.told) == 1
    assert not recording.rested
    counters = {call[1] for call in recording.kernel.calls if call[0] == "set_period"}
    assert counters == {counter.fd for counter in recording.kernel.named("sampled")}


def test_events_pause_if_a_lower_frequency_is_not_enough(monkeypatch):
    recording = Recording(monkeypatch, CLOCK, lambda _rate: 0.1, may_rest=True)
    assert recording.spent / 10 == pytest.approx(0.02, rel=0.3)
    assert len(recording.periods()) == 1
    assert recording.told[1].endswith("now pausing part of the time")
    assert len(recording.told) == 2


def test_tracepoints_are_sampled_at_each_hit_so_they_only_rest(monkeypatch):
    recording = Recording(monkeypatch, TRACEPOINT, lambda _rate: 0.1, may_rest=True)
    assert recording.spent / 10 == pytest.approx(0.02, rel=0.3)
    assert not recording.periods()
    assert len(recording.told) == 1


def test_events_that_others_switch_do_not_rest(monkeypatch):
    recording = Recording(monkeypatch, CLOCK, lambda _rate: 0.1, may_rest=False)
    assert not recording.rested
    assert recording.told[1].endswith("lower -F or --off-cpu-limit")
