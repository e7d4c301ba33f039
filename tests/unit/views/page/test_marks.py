"""Marks of a page: moments of threads, from records and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_SWITCH_OUT
from perfpy.abi.records import SampleId
from perfpy.perfdata.records.side_band import SideRecord
from perfpy.views.page import marks
from perfpy.views.page import marks as marks_module
from perfpy.views.page.marks import Mark, Marks, WaitLane, make_marks, make_wait_lanes, mark_data, wait_lane_data
from tests.builders.kernel_events import recording_of_locks
from tests.builders.many_threads import recording_of_switches
from tests.builders.stacks import At, timed_stacks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest


MS = 1_000_000


class Source:
    """A recording with these records."""

    def __init__(self, *found: Any) -> None:
        self._found = found

    def side_band(self, types: Sequence[int] | None = None) -> Any:
        return [SideRecord(record, 0, 0) for record in self._found]

    def payload_texts(self, symbols: object = None) -> None:
        return None


def at(time: int, pid: int = 7, tid: int = 7) -> SampleId:
    return SampleId(pid=pid, tid=tid, time=time)


def test_records_of_a_tasks_life_are_marks() -> None:
    marks = make_marks(
        Source(
            records.Fork(0, 8, 7, 8, 7, 20 * MS),
            records.Fork(0, 7, 7, 9, 7, 30 * MS),
            records.Comm(MISC_COMM_EXEC, 8, 8, "ls", at(40 * MS, 8, 8)),
            records.Switch(MISC_SWITCH_OUT, at(50 * MS)),
            records.Exit(0, 8, 7, 8, 7, 60 * MS),
        ),
        [],
    )
    assert marks.rows == [
        Mark(20 * MS, 7, 7, "fork", "process 8"),
        Mark(30 * MS, 7, 7, "thread", "9"),
        Mark(40 * MS, 8, 8, "exec", "ls"),
        Mark(50 * MS, 7, 7, "switch", "out"),
        Mark(60 * MS, 8, 8, "exit", ""),
    ]


def test_synthesized_records_are_none() -> None:
    assert make_marks(Source(records.Comm(0, 1, 1, "old", at(0)), records.Fork(0, 1, 0, 1, 0, 0)), []).rows == []


def test_samples_of_events_that_happen_are_marks_and_samples_of_time_are_not() -> None:
    faults = timed_stacks([At("app;main;grow", 5 * MS, 1, 7, 9)], "page-faults:u", in_seconds=False)
    clock = timed_stacks([At("app;main;grow", 5 * MS, 1, 7, 9)])
    assert make_marks(Source(), [faults, clock]).rows == [Mark(5 * MS, 7, 9, "page-faults:u", "grow")]


def test_a_part_of_a_recording_has_marks_of_its_threads_only() -> None:
    clock = timed_stacks([At("app;main", 5 * MS, 1, 7, 7)])
    source = Source(*(records.Fork(0, 8, pid, 8, pid, time * MS) for pid, time in ((7, 4), (6, 4), (7, 9))))
    assert [mark.time for mark in make_marks(source, [clock], sampled_only=True).rows] == [4 * MS]


def test_of_very_many_marks_some_are_kept_evenly_and_the_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "MOST_MARKS", 10)
    faults = timed_stacks([At("app;main", number * MS, 1) for number in range(1, 101)], "faults", in_seconds=False)
    marks = make_marks(Source(), [faults])
    assert [mark.time // MS for mark in marks.rows] == list(range(1, 101, 10))
    assert marks.notes == ["the page has 10 of 100 marks, evenly chosen"]


def test_marks_before_the_first_sample_are_omitted() -> None:
    marks = Marks([Mark(1 * MS, 7, 7, "fork", "a"), Mark(3 * MS, 7, 7, "exit", "")], 2)
    data = mark_data(marks, 2 * MS, 1000, {7 << 32 | 7: 0})
    assert (data["kinds"], data["texts"], data["rows"]["time"]) == (["exit"], [""], {"n": 1, "all": 1000})


# Lanes of waits: the run queue, and the locks of each holder.


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
    monkeypatch.setattr(marks, "_MOST_WAITS", 2)
    begin = np.array([0, 10, 20, 30])
    (lane,) = marks._lane("lock", "a", "", begin, begin + np.array([5, 1, 9, 2]))
    assert (lane.begin.tolist(), lane.total, lane.number) == ([0, 20], 17, 4)


def test_times_before_the_first_sample_count_from_there():
    lane = WaitLane("lock", "a", "mutex", np.array([500, 3000]), np.array([2000, 5000]), 3500, 2)
    (values,) = wait_lane_data([lane], 1000, 1000)
    assert values["rows"]["begin"]["n"] == 2
    assert wait_lane_data([], 0, 1) == []
