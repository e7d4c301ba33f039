"""Rows of earlier windows fade by an eighth per interval, and leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph, ChainOptions, ReportOptions
from perfpy.fleet.folding import FoldingRequest, fold_recording
from perfpy.fleet.merged_profile import MergedProfile
from perfpy.live.fading_rows import add_window, fade
from tests.builders.perfdata import USUAL as USUAL_FIELDS
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.fleet.portable.profile import PortableProfile

KERNEL_MARK, USER_MARK = -128, -512


def profile_of(path: Path, rows: dict[int, int], sort: str = "comm,symbol") -> PortableProfile:
    """Return the profile of samples: address -> period, each with a caller."""
    builder = PerfDataBuilder(attrs=[usual_attr(USUAL_FIELDS | perfpy.SampleType.CALLCHAIN)])
    for time, (ip, period) in enumerate(rows.items(), 1):
        chain = [USER_MARK & (1 << 64) - 1, ip, 0x9000]
        builder.sample(ip=ip, pid=ip, tid=ip, time=time, period=period, misc=2, callchain=chain)
    path.write_bytes(builder.file())
    options = ReportOptions(columns=ColumnOptions(sort=sort), chains=ChainOptions(CallGraph()))
    profile = fold_recording(str(path), FoldingRequest(lambda _recording: (options, None)))
    assert profile is not None
    return profile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


def test_an_interval_leaves_seven_eighths_rounded_down(path: Path) -> None:
    faded = fade(profile_of(path, {0x1000: 800, 0x2000: 15}))
    assert sorted(faded.folded.period.tolist()) == [13, 700]


def test_a_row_without_weight_disappears_with_all_that_it_used(path: Path) -> None:
    profile = profile_of(path, {0x1000: 800, 0x2000: 1, 0x3000: 1})
    faded = fade(profile)
    assert faded.folded.period.tolist() == [700]
    assert len(faded.comms) == 1 < len(profile.comms)
    assert len(faded.chain_lengths) == 1 < len(profile.chain_lengths)
    assert len(faded.frames["ip"]) == 2 < len(profile.frames["ip"])
    assert len(faded.last_comms) == 1 < len(profile.last_comms)


def test_a_faded_profile_still_reports(path: Path) -> None:
    merged = MergedProfile(fade(profile_of(path, {0x1000: 800, 0x2000: 1})))
    assert merged.folded.period.tolist() == [700]
    assert [hex(ip) for ip in merged.symbolizer.frames.ip.tolist()] == ["0x1000", "0x9000"]


def test_everything_fades_in_the_end(path: Path) -> None:
    profile = profile_of(path, {0x1000: 1_000_000, 0x2000: 5})
    for _ in range(150):
        profile = fade(profile)
    assert (len(profile.folded), len(profile.frames["ip"]), len(profile.dsos), profile.comms) == (0, 0, 0, [])


def test_a_window_adds_to_the_rest(path: Path) -> None:
    history = profile_of(path, {0x1000: 800, 0x2000: 80})
    window = profile_of(path, {0x1000: 100, 0x3000: 8})
    periods = add_window(history, window).folded.period.tolist()
    assert sorted(periods) == [8, 70, 800]


def test_without_history_the_window_is_all(path: Path) -> None:
    window = profile_of(path, {0x1000: 100})
    assert add_window(None, window) is window


def test_many_rows_are_limited_to_the_heaviest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.live.fading_rows._MOST_ROWS", 3)
    faded = fade(profile_of(path, {0x1000 * number: 80 * number for number in range(1, 8)}))
    assert sorted(faded.folded.period.tolist()) == [350, 420, 490]
