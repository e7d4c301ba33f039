"""Frequent switches are sampled up to the limit, with one warning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfpy.capture.off_cpu import limit
from perfpy.capture.off_cpu.limit import SwitchLimit
from perfpy.capture.off_cpu.sources import WaitPlan

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
    monkeypatch.setattr(limit, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    counters, warnings = Counters(), list[str]()
    watched: Any = counters
    one = SwitchLimit(watched, plan, most, warnings.append)
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
