"""Windows of running measurements, their rings and their priority."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, RecordType, SoftwareId
from perfpy.abi.records import Cgroup, Lost, Namespaces
from perfpy.capture.targets import OfflineCpuError
from perfpy.live import priority
from perfpy.live import window as window_module
from perfpy.live.priority import HigherPriority
from perfpy.live.rings import LiveRings
from perfpy.live.window import LiveWindow
from perfpy.perfdata.events import FileEvent
from tests.builders.options import record_options
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


# The samples of an interval as a SampleSource.


KERNEL, USER = 1, 2


def window(**options: object) -> LiveWindow:
    return LiveWindow([FileEvent(usual_attr(), (), "cpu-clock:u", 0)], {}, **options)  # type: ignore[arg-type]


def samples(*times: int, pid: int = 5, misc: int = USER) -> PerfDataBuilder:
    builder = PerfDataBuilder()
    for moment in times:
        builder.sample(ip=0x1000 + moment, pid=pid, tid=pid, time=moment, period=1, misc=misc)
    return builder


def times(live: LiveWindow) -> list[int]:
    return [int(time) for batch in live.batches(["time"]) for time in batch.columns["time"]]


def test_samples_are_delivered_by_time() -> None:
    live = window()
    live.begin(bytes(samples(3, 1, 2).body))
    assert times(live) == [1, 2, 3]


def test_samples_newer_than_the_read_wait_for_the_next_window() -> None:
    live = window()
    live.begin(bytes(samples(1, 9, 2).body), until=5)
    assert (times(live), live.counts.samples) == ([1, 2], 2)
    live.begin(bytes(samples(7).body), until=20)
    assert (times(live), live.counts.samples) == ([7, 9], 2)


def test_a_window_without_samples_has_no_batches() -> None:
    live = window()
    live.begin(bytes(samples(1).body))
    live.begin(b"")
    assert (times(live), live.counts.samples, live.sample_times) == ([], 0, (0, 0))


def test_own_samples_are_neither_shown_nor_counted() -> None:
    live = window(own=7)
    live.begin(bytes(samples(1, 2).body + samples(3, 4, 5, pid=7).body))
    assert (times(live), live.counts.samples) == ([1, 2], 2)


def test_hidden_samples_are_counted_but_not_delivered() -> None:
    live = window(hidden=[KERNEL])
    live.begin(bytes(samples(1, 2).body + samples(3, misc=KERNEL).body))
    assert (times(live), live.counts.samples, live.counts.kernel) == ([1, 2], 3, 1)


def test_samples_of_dropped_events_are_neither_delivered_nor_held_back() -> None:
    live = window(dropped=[0])
    live.begin(bytes(samples(1, 9).body), until=5)
    assert (times(live), live.counts.samples) == ([], 0)
    live.begin(b"", until=20)
    assert times(live) == []


def test_lost_records_are_counted_once() -> None:
    live = window()
    live.begin(bytes(samples(1).record(Lost(0, 1, 42)).body))
    assert live.counts.lost == 42
    live.begin(bytes(samples(2).body))
    assert live.counts.lost == 0
    assert [*live.side_band([RecordType.LOST])] == []


def test_columns_belong_to_the_events() -> None:
    live = window()
    assert set(live.column_names) >= {"ip", "pid", "tid", "time", "period"}
    assert live.no_samples().rows == 0


def test_cgroups_and_namespaces_of_dead_tasks_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_module, "_WORTH_FORGETTING", 40)
    monkeypatch.setattr(window_module, "_MOST_LASTING", 60)
    live, sizes = window(), []
    live._forgotten_at = 40
    for generation in range(30):
        builder = PerfDataBuilder()
        for number in range(20):
            builder.record(Cgroup(0, number % 4, f"/service{number % 4}"))
            builder.record(Namespaces(0, 100 + 20 * generation + number, 5, ()))
        live.begin(bytes(builder.record(Lost(0, 1, 1)).body))
        sizes.append(len(live._others.bodies))
    assert max(sizes[10:]) <= max(sizes[:10])
    assert {side.record.path for side in live.side_band() if isinstance(side.record, Cgroup)} == {f"/service{n}" for n in range(4)}


# The open events of a live view.


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


# A higher priority for some time, for users who may have it.


def test_all_threads_return_to_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "getpriority", lambda _kind, _who: 3)
    monkeypatch.setattr(os, "setpriority", lambda _kind, who, value: calls.append((who, value)))
    with HigherPriority(10) as higher:
        assert calls == [(0, -7)]
        higher.include(4321)
        higher.end()
        assert {(threading.get_native_id(), 3), (4321, 3)} <= {*calls}
        assert (threading.get_native_id(), 3) in calls
        count = len(calls)
    assert len(calls) == count


def test_users_without_permission_keep_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def refuse(_kind: int, _who: int, value: int) -> None:
        calls.append(value)
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    with HigherPriority(10):
        pass
    assert len(calls) == 1


def test_children_get_the_priority_and_return_to_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended does not keep the others from it."""
    calls: list[tuple[int, int]] = []

    def change(_kind: int, who: int, value: int) -> None:
        if who == 11:
            raise ProcessLookupError
        calls.append((who, value))

    monkeypatch.setattr(os, "getpriority", lambda _kind, _who: 0)
    monkeypatch.setattr(os, "setpriority", change)
    with HigherPriority(10, also=[11, 12]):
        assert calls == [(0, -10), (12, -10)]
    assert (12, 0) in calls


class Scheduler:
    """The kernel's scheduling policies of tasks, as far as os changes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, load: str) -> None:
        self.policies: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "setpriority", lambda *_values: None)
        monkeypatch.setattr(os, "sched_setscheduler", lambda tid, policy, _param: self.policies.append((tid, policy)))
        monkeypatch.setattr(priority, "_LOAD", load)


@pytest.mark.parametrize(
    ("text", "is_realtime"), [("0.1 9 9 2/90 7", False), ("0.1 9 9 9999/99999 7", True), ("9999 9 9 1/90 7", True), ("?", False)]
)
def test_only_busy_machines_need_realtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, is_realtime: bool) -> None:
    load = tmp_path / "loadavg"
    load.write_text(text)
    scheduler = Scheduler(monkeypatch, str(load))
    with HigherPriority(10, realtime=60.0) as higher:
        assert scheduler.policies == [(0, os.SCHED_RR)] * is_realtime
        higher.include(4321)
        higher.end()
        ended = dict(scheduler.policies[1:])
        assert {threading.get_native_id(), 4321} <= ended.keys() if is_realtime else not ended
        assert {*ended.values()} <= {os.SCHED_OTHER}
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_alarm_ends_realtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work that takes longer than planned must not keep others from the CPU."""
    load = tmp_path / "loadavg"
    load.write_text("9999 9 9 1/90 7")
    scheduler = Scheduler(monkeypatch, str(load))
    before = signal.getsignal(signal.SIGALRM)
    with HigherPriority(10, realtime=0.01):
        end = time.monotonic() + 10
        while len(scheduler.policies) < 2 and time.monotonic() < end:
            sum(range(1000))
        assert scheduler.policies[1][1] == os.SCHED_OTHER
        assert signal.getsignal(signal.SIGALRM) == before


def test_other_threads_get_no_alarm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the main thread can handle it, so the policy stays."""
    load = tmp_path / "loadavg"
    load.write_text("9999 9 9 1/90 7")
    scheduler = Scheduler(monkeypatch, str(load))

    def work() -> None:
        with HigherPriority(10, realtime=0.01):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not scheduler.policies
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_offline_cpu_has_the_status_of_the_command() -> None:
    """perf top and perf trace return other statuses for it than perf record."""
    for status in (255, 234):
        with pytest.raises(OfflineCpuError) as refusal:
            LiveRings([], (), record_options(cpu="9999"), print, offline_status=status)
        assert refusal.value.exit_code == status
