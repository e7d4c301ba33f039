"""Inputs are handled while the ring buffers never become empty."""

from __future__ import annotations

import os
import signal
import time

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.control import Control
from perfpy.capture.sample_counters import SampleCounters
from perfpy.capture.session.attention import Attention, OutputSwitch, Regularly, Wakeups
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel


def event(name: str, config: int = SoftwareId.CPU_CLOCK) -> Event:
    return Event(name, EventAttr(type=PerfType.SOFTWARE, config=config, disabled=1))


@pytest.fixture
def signals():
    with Wakeups((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)) as caught:
        yield caught


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def attend(signals, kernel):
    """Return a function that begins an Attention of two events and a dummy; `.told` has its lines."""
    ends = os.pipe()

    def make(delay=0, control: Control | None = None) -> Attention:
        counters = SampleCounters(kernel, [event("a"), event("b"), event("dummy", SoftwareId.DUMMY)], (0,), (7,), tell=print)
        counters.open()
        warnings: list[str] = []
        attention = Attention(signals, counters, OutputSwitch(None, 0), control=control, tell=warnings.append)
        attention.told = warnings  # type: ignore[attr-defined]
        attention.begin([ends[0]], delay)
        return attention

    yield make
    for fd in ends:
        os.close(fd)


def counting(kernel: FakeKernel) -> list[str]:
    return [counter.event for counter in kernel.counters if counter.counting]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_seen_though_there_is_no_time_to_wait(attend, number):
    attention = attend()
    attention.look(wait=False)
    os.kill(os.getpid(), number)
    assert attention.has_signal
    attention.look(wait=False)
    assert (attention.stopping, attention.signal, attention.has_signal) == (True, number, False)


def test_without_a_signal_the_kernel_is_polled_once_in_a_moment(attend, monkeypatch):
    """The clock advances by the time of the passes over the ring buffers."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    attention = attend(delay=((10, 50), (70, 90)))
    attention.look(wait=False)
    assert attention.told == []
    now[0] += 0.11
    attention.look(wait=False)
    assert attention.told == ["Events enabled", "Events disabled", "Events enabled", "Events disabled"]


def test_the_end_of_the_last_range_is_the_end(attend, kernel):
    attention = attend(delay=((0, 1), (2, 3)))
    while not attention.stopping:
        attention.look(wait=True)
    assert attention.told == ["Events enabled", "Events disabled"] * 2
    assert (attention.signal, counting(kernel)) == (0, [])


def test_one_delay_has_no_end(attend, kernel):
    attention = attend(delay=1)
    attention.look(wait=True)
    attention.look(wait=True) if not attention.told else None
    assert (attention.told, attention.stopping) == (["Events enabled"], False)
    assert counting(kernel) == ["a", "b"]  # side-band was never disabled


def test_control_switches_events_by_name(attend, kernel, tmp_path):
    os.mkfifo(tmp_path / "control")
    with Control(f"fifo:{tmp_path}/control") as control:
        attention = attend(delay=-1, control=control)
        (tmp_path / "control").write_bytes(b"enable b\nenable x\nsnapshot\nevlist\n")
        attention.look(wait=True)
        assert counting(kernel) == ["b"]
        assert attention.told == ["Event b enabled", "failed: can't find 'x' event", "a\nb\ndummy"]
        assert not attention.stopping
        (tmp_path / "control").write_bytes(b"stop\n")
        attention.look(wait=True)
        assert (attention.stopping, attention.signal) == (True, 0)


def test_an_abandoned_control_is_not_read_forever(attend):
    reading, writing = os.pipe()
    os.close(writing)
    with Control(f"fd:{reading}") as control:
        attention = attend(delay=100_000, control=control)
        attention.look(wait=True)  # reports the end of the target
        attention._timetable = type(attention._timetable)(300, time.monotonic())
        attention.look(wait=True)
        assert attention.told == ["Events enabled"], "it waited for the clock this time"
    os.close(reading)


def test_a_signal_is_caught_from_when_it_is_added_on():
    before = signal.getsignal(signal.SIGCHLD)
    with Wakeups((signal.SIGUSR2,)) as caught:
        os.kill(os.getpid(), signal.SIGCHLD)
        assert caught.read() == set()
        caught.add(signal.SIGCHLD)
        os.kill(os.getpid(), signal.SIGCHLD)
        assert caught.read() == {signal.SIGCHLD}
    assert signal.getsignal(signal.SIGCHLD) == before


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Wakeups((signal.SIGHUP,)) as caught:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not caught.arrived
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_reads_of_the_ring_buffers_come_soon():
    """Programs that move their text do it when they start."""
    alarm, now, times = Regularly(1.0, 0.125), 0.0, []
    for _ in range(6):
        now += alarm.wait(now)
        times.append(now)
        alarm.ring(now)
    assert times == [0, 0.125, 0.375, 0.875, 1.875, 2.875]
