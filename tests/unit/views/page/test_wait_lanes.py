"""Lanes of waits: the run queue, and the locks of each holder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import perfpy
from perfpy.views.page import wait_lanes
from perfpy.views.page.wait_lanes import WaitLane, make_wait_lanes, wait_lane_data
from tests.builders.kernel_events import recording_of_locks
from tests.builders.many_threads import recording_of_switches

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def lanes_of(data: bytes, folder: Path) -> list[WaitLane]:
    path = folder / "perf.data"
    path.write_bytes(data)
    with perfpy.open(path) as recording:
        return make_wait_lanes(recording.data)


def test_each_holder_has_a_lane_and_the_rest_shares_one(tmp_path: Path):
    lanes = lanes_of(recording_of_locks(), tmp_path)
    assert [(lane.name, lane.number) for lane in lanes] == [
        ("alpha 100: locks", 10), ("gamma 102: locks", 9), ("beta 101: locks", 9), ("other locks", 1),
    ]  # fmt: skip
    assert [round(lane.total / 1e6, 2) for lane in lanes] == [86.42, 33.33, 32.1, 1.23]
    assert all((lane.begin <= lane.end).all() and lane.kind == "lock" for lane in lanes)


def test_switches_have_a_lane_of_the_run_queue(tmp_path: Path):
    (lane,) = lanes_of(recording_of_switches(4, 24, named=True, one_process=True), tmp_path)
    assert (lane.kind, lane.name) == ("cpu", "run queue")
    assert lane.total == int((lane.end - lane.begin).sum()) > 0


def test_of_too_many_waits_the_longest_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wait_lanes, "_MOST_WAITS", 2)
    begin = np.array([0, 10, 20, 30])
    (lane,) = wait_lanes._lane("lock", "a", "", begin, begin + np.array([5, 1, 9, 2]))
    assert (lane.begin.tolist(), lane.total, lane.number) == ([0, 20], 17, 4)


def test_times_before_the_first_sample_count_from_there():
    lane = WaitLane("lock", "a", "mutex", np.array([500, 3000]), np.array([2000, 5000]), 3500, 2)
    (values,) = wait_lane_data([lane], 1000, 1000)
    assert values["rows"]["begin"]["n"] == 2
    assert wait_lane_data([], 0, 1) == []
