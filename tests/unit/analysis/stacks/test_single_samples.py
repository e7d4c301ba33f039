"""Single samples as columns: all of them, or merged if they differ only in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import CONTEXT_USER, MISC_USER, SampleType
from perfpy.analysis.stacks.single_samples import SampleColumns
from perfpy.perfdata.records.stream import RecordStream
from perfpy.recording import Recording
from perfpy.views.page.profile_data import profile_data
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


def alike(times: list[int], rows: list[int], weights: list[int]) -> SampleColumns:
    """Return samples of one thread."""
    same = np.zeros(len(times), np.int32)
    ones = np.ones(len(times), np.int32)
    return SampleColumns(np.array(rows, np.int32), same, same, np.array(times), same, np.array(weights), ones, same)


def test_samples_of_one_row_within_a_tick_are_one() -> None:
    flags = alike([1005, 1010, 1100, 1105, 1999], [0, 1, 0, 0, 0], [1, 2, 3, 4, 5]).within(100, 1005)
    assert flags.time.tolist() == [1005, 1005, 1105, 1905]
    assert flags.row.tolist() == [0, 1, 0, 0]
    assert flags.weight.tolist() == [4, 2, 4, 5]
    assert flags.samples.tolist() == [2, 1, 1, 1]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three functions in turns, on two CPUs, 3,000 samples in three seconds."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN | SampleType.CPU, sample_id_all=1)])
    for number in range(3000):
        ip = 0x400000 + 0x1000 * (number % 3)
        where = {"pid": 7, "tid": 7, "cpu": number % 2, "time": 1_000_000 * (number + 1)}
        built.sample(misc=MISC_USER, ip=ip, period=1 + number % 5, callchain=[CONTEXT_USER, ip], **where)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def test_few_samples_stay_unchanged(recording: Path) -> None:
    with Recording(recording) as opened:
        (part,) = opened.stacks(timed=True, most_samples=3000)
    assert part.timed is not None
    assert part.timed.count is None
    assert len(part.timed.time) == 3000


def test_above_the_limit_equal_samples_are_merged(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordStream.__init__, "__kwdefaults__", {"chunk_size": 8192})
    with Recording(recording) as opened:
        (whole,) = opened.stacks(timed=True)
        (part,) = opened.stacks(timed=True, most_samples=200)
    assert whole.timed is not None
    assert part.timed is not None
    assert part.timed.count is not None
    assert len(part.timed.time) <= 2 * 200
    assert int(part.timed.count.sum()) == 3000
    assert (part.timed.time[1:] >= part.timed.time[:-1]).all()
    for cpu in (0, 1):
        here, all_here = part.timed.cpu == cpu, whole.timed.cpu == cpu
        assert int(part.timed.weight[here].sum()) == int(whole.timed.weight[all_here].sum())
        for chain in set(whole.timed.chain.tolist()):
            is_kept, there = here & (part.timed.chain == chain), all_here & (whole.timed.chain == chain)
            assert int(part.timed.weight[is_kept].sum()) == int(whole.timed.weight[there].sum())
    assert profile_data([[part]])["together"] == 1
    assert profile_data([[whole]])["together"] == 0
