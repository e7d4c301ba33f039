"""Whole stacks of a recording: with filters, by CPU time or by the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.records import Comm, Switch
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.recording import Recording
from perfpy.views.stacks.exports import folded_lines
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Record one thread for two samples; then a second one runs beside it."""
    built = PerfDataBuilder()
    for tid, name in ((7, "first"), (8, "second")):
        built.record(Comm(0, 7, tid, name, SampleId(pid=7, tid=tid, time=1)))
    steps: list[Any] = [(10, 7), (20, 7), Switch(0, SampleId(pid=7, tid=8, time=30)), (40, 7), (50, 8)]
    for step in steps:
        if type(step) is tuple:
            built.sample(pid=7, tid=step[1], time=step[0], ip=0x1000, period=100, misc=2)
        else:
            built.record(step)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return Recording(path)


def lines(recording: Recording, sample_filter: SampleFilter | None = None, *, timed: bool = False, latency: bool = False) -> list[str]:
    return [line for part in recording.stacks(sample_filter=sample_filter, timed=timed, latency=latency) for line in folded_lines(part)]


def test_every_sample_is_in_a_stack(recording: Recording) -> None:
    assert lines(recording) == ["first;[unknown] 300", "second;[unknown] 100"]


@pytest.mark.parametrize("timed", [False, True])
def test_filters_omit_samples(recording: Recording, timed: bool) -> None:
    assert lines(recording, SampleFilter(comms=("second",)), timed=timed) == ["second;[unknown] 100"]
    assert lines(recording, SampleFilter(tids=(7,)), timed=timed) == ["first;[unknown] 300"]
    assert lines(recording, SampleFilter(symbols=("main",)), timed=timed) == []
    assert lines(recording, SampleFilter(symbol_part="mai"), timed=timed) == []
    assert lines(recording, SampleFilter(parallelism=(2,)), timed=timed) == ["first;[unknown] 100", "second;[unknown] 100"]


def test_single_samples_pass_the_filters(recording: Recording) -> None:
    (part,) = recording.stacks(sample_filter=SampleFilter(comms=("second",)), timed=True)
    assert part.timed is not None
    assert part.timed.time.tolist() == [50]


def test_shares_of_the_wall_clock_are_less_where_two_threads_ran(recording: Recording) -> None:
    assert lines(recording, latency=True) == ["first;[unknown] 250", "second;[unknown] 50"]
    assert recording.stacks(latency=True)[0].event.endswith("(wall clock)")


def test_single_samples_have_their_shares_of_the_wall_clock(recording: Recording) -> None:
    assert lines(recording, timed=True, latency=True) == lines(recording, latency=True)
    (part,) = recording.stacks(timed=True, latency=True)
    assert part.timed is not None
    assert list(zip(part.timed.time.tolist(), part.timed.weight.tolist(), strict=True)) == [(10, 100), (20, 100), (40, 50), (50, 50)]
