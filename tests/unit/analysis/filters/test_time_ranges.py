"""The language of --time, and the samples in its ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import SampleType
from perfpy.analysis.filters.time_ranges import RecordedTimes, TimeRanges, parse_time_ranges, ranges_of
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.container.feature_values import SampleTime
from perfpy.perfdata.container.features import Feature
from tests.builders.perfdata import simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5,2", ((1_500_000_000, 2_000_000_000),)),
        ("1,", ((SECOND, 0),)),
        (",2.25", ((0, 2_250_000_000),)),
        ("1,2 3,4", ((SECOND, 2 * SECOND), (3 * SECOND, 4 * SECOND))),
        ("10%/2", ((1_100, 1_199),)),
        ("25%", ((1_000, 1_249),)),
        ("0%-50%,90%-100%", ((1_000, 1_499), (1_900, 2_000))),
    ],
)
def test_time_ranges(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert parse_time_ranges(text, 1_000, 2_000).ranges == expected


@pytest.mark.parametrize("text", ["x", "2,1", "110%/1", "50%-10%", "1,2 1.5,3", "1, 3,4", "%", "50%,", "5", "101%"])
def test_time_ranges_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="Invalid time string"):
        parse_time_ranges(text, 1_000, 2_000)


def test_shares_of_unknown_times_are_refused(tmp_path: Path) -> None:
    (tmp_path / "timeless.data").write_bytes(simple_recording(attrs=[usual_attr(SampleType.IP | SampleType.TID)]).file())
    with perfpy.open(tmp_path / "timeless.data") as recording:
        with pytest.raises(PerfError, match="have no time"):
            ranges_of("10%-50%", recording.times())
        assert ranges_of("1,2", recording.times()).ranges == ((SECOND, 2 * SECOND),)


def test_the_end_of_a_single_range_is_in_and_times_of_zero_are() -> None:
    times = np.array([0, 5, 10, 20, 21], np.uint64)
    assert TimeRanges(((10, 20),)).mask(times).tolist() == [True, False, True, True, False]
    assert TimeRanges(((5, 10), (10, 20))).mask(times).tolist() == [False, True, True, True, False]


def test_begin_and_end_come_from_the_header_or_else_from_samples(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    for built, times in ((simple_recording(2), None), (simple_recording(2).feature(Feature.SAMPLE_TIME, SampleTime(5, 9)), (5, 9))):
        path.write_bytes(built.file())
        with perfpy.open(path) as recording:
            sampled = (int(recording.samples["time"].min()), int(recording.samples["time"].max()))
            assert recording.times() == RecordedTimes(str(path), *(times or sampled))
