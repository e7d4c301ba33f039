"""The open events of a live view."""

from __future__ import annotations

from types import SimpleNamespace

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.live.rings import LiveRings


def test_a_clock_s_rate_is_a_period_for_the_kernel() -> None:
    """The kernel has turned its frequency into a period: 250 would be nanoseconds, and a hundred thousand samples a second."""
    periods: list[int] = []
    hardware = EventAttr(type=PerfType.HARDWARE, config=0, sample_period=500, freq=1)
    attrs = [
        hardware,
        EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.CPU_CLOCK, sample_period=500, freq=1),
        EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=500, freq=1),
        EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=500, freq=0),
        EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.CPU_CLOCK),
    ]
    rings = object.__new__(LiveRings)
    rings.counters = SimpleNamespace(  # type: ignore[assignment]
        opened=[SimpleNamespace(event=SimpleNamespace(attr=attr), counter=SimpleNamespace(set_period=periods.append)) for attr in attrs]
    )
    rings.change_rate(0.5)
    assert periods == [250, 4_000_000, 4_000_000]
