"""Delivery keys of chunks equal those of perf's rule, followed record by record; equal times are ordered by offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.records.delivery import UNKNOWN_EVENT, EqualTimes, EventTable, Rounds
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path


LATEST = (1 << 64) - 1
#: a time, 0 for a record without, None for a FINISHED_ROUND
RECORDS = st.lists(st.one_of(st.none(), st.integers(0, 20), st.sampled_from([LATEST - 1, LATEST])), max_size=30)


def keys_one_by_one(records: list[int | None]) -> list[int]:
    floor = limit = latest = 0
    keys = []
    for time in records:
        if time is None:
            floor, limit = max(floor, limit), latest
        lowest = min(floor, LATEST - 1) + 1 if floor else 0
        keys.append(max(time or 0, lowest))
        latest = max(latest, time or 0)
    return keys


@given(st.lists(RECORDS, max_size=4))
def test_keys_follow_the_rounds_across_chunks(chunks: list[list[int | None]]):
    rounds = Rounds()
    results: list[int] = []
    for chunk in chunks:
        ends = [place for place, time in enumerate(chunk) if time is None]
        times = np.array([time or 0 for time in chunk], np.uint64)
        results += rounds.keys(times, np.array(ends, np.int64)).tolist()
    assert results == keys_one_by_one([time for chunk in chunks for time in chunk])


def ties(*records: tuple[int, int, int]) -> EqualTimes:
    """(key, time, offset) each."""
    key, time, offset = np.array(records, np.int64).reshape(-1, 3).T
    return EqualTimes(key.astype(np.uint64), time.astype(np.uint64), offset)


def settled(of: EqualTimes, *places: tuple[int, int]) -> list[int]:
    keys, offsets = zip(*places, strict=True)
    result: list[int] = of.settle(np.array(keys, np.uint64), np.array(offsets, np.int64)).tolist()
    return result


def test_a_sample_before_a_record_of_its_key_comes_before_it() -> None:
    actual_ties = ties((5, 5, 10), (20, 20, 100), (20, 20, 110), (30, 30, 50))
    assert settled(actual_ties, (7, 20), (20, 90), (20, 120), (30, 60)) == [7, 19, 20, 30]


def test_a_late_record_comes_before_all_samples_of_its_key() -> None:
    assert settled(ties((20, 15, 100), (20, 0, 100)), (20, 90)) == [20]


def test_nothing_changes_without_ties() -> None:
    keys = np.array([1, 2], np.uint64)
    assert ties((5, 5, 10)).settle(keys, np.array([1, 2])) is keys
    assert ties().settle(keys[:0], np.array([], np.int64)).tolist() == []


def test_a_sample_has_the_name_that_its_task_had_in_the_file(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    built.record(records.Comm(0, 7, 7, "before", SampleId(pid=7, tid=7, time=100)))
    built.sample(ip=1, pid=7, tid=7, time=200, period=1, misc=2)
    built.record(records.Comm(0, 7, 7, "behind", SampleId(pid=7, tid=7, time=200)))
    built.sample(ip=2, pid=7, tid=7, time=200, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(tmp_path / "perf.data") as recording:
        timeline = recording.timeline
        names = [timeline.comms[i] for batch in recording.batches() for i in timeline.comm_ids(batch.columns["tid"], batch.key)]
        assert names == ["before", "behind"]
        assert [type(record).__name__ for record in recording.records()] == ["Comm", "Sample", "Comm", "Sample"]


# The event of each record, by its id.


ATTR = EventAttr(sample_type=SampleType.IDENTIFIER | SampleType.IP)


def table(*ids: tuple[int, ...]) -> EventTable:
    """Return a table of events with these ids."""
    return EventTable([FileEvent(ATTR, tuple(own), f"e{index}", index) for index, own in enumerate(ids)], "<")


@pytest.mark.parametrize("far", [0, 1 << 40], ids=["near each other", "far apart"])
def test_ids_are_found_near_and_far_apart(far: int) -> None:
    events = table((7, 9), (8,), (10 + far, 8))
    ids = np.array([7, 8, 9, 10 + far, 0, 6, 11 + far, (1 << 64) - 1], np.uint64)
    index = events.index_of(ids)
    assert index.tolist() == [0, 1, 0, 2, 0, UNKNOWN_EVENT, UNKNOWN_EVENT, UNKNOWN_EVENT]
    assert events.index_of(ids[:4]).tolist() == index[:4].tolist()  # all ids known


def test_the_first_event_may_have_the_id_0() -> None:
    assert table((4,), (0, 5)).index_of(np.array([0, 4, 5], np.uint64)).tolist() == [0, 0, 1]
