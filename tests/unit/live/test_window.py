"""The samples of an interval as a SampleSource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import RecordType
from perfpy.abi.records import Cgroup, Lost, Namespaces
from perfpy.live import window as window_module
from perfpy.live.window import LiveWindow
from perfpy.perfdata.events import FileEvent
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    import pytest

KERNEL, USER = 1, 2


def window(**options: object) -> LiveWindow:
    return LiveWindow([FileEvent(usual_attr(), (), "cpu-clock:u", 0)], {}, **options)  # type: ignore[arg-type]


def samples(*times: int, pid: int = 5, misc: int = USER) -> PerfDataBuilder:
    builder = PerfDataBuilder()
    for time in times:
        builder.sample(ip=0x1000 + time, pid=pid, tid=pid, time=time, period=1, misc=misc)
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
