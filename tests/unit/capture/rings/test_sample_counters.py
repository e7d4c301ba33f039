"""The targets on which counters of a recording are opened, and refusals."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import HardwareId, PerfType, SoftwareId
from perfpy.capture.rings.sample_counters import SampleCounters
from perfpy.capture.targets import ANY
from perfpy.errors import KernelRefusedError
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel

if TYPE_CHECKING:
    from perfpy.capture.opening import OpenEvent


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


def test_an_event_of_some_cpus_is_opened_on_these():
    kernel = FakeKernel()
    opened(kernel, event("a", cpus=(1,)), tids=(ANY,))
    assert places(kernel) == [("a", ANY, 1)]


def test_a_cgroup_takes_the_place_of_the_tasks():
    kernel = FakeKernel()
    one, other = event("a"), event("b")
    opened(kernel, one, other, tids=(ANY,), cgroup_fds={one: 33})
    assert places(kernel) == [("a", 33, 0), ("a", 33, 1), ("b", ANY, 0), ("b", ANY, 1)]


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
    assert [counter.event for counter in kernel.counters] == ["a", "a", "b", "b"]


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
