"""The number of running threads at each sample, and the sample's share of the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.records import Exit, Switch, SwitchCpuWide
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ReportOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.errors import PerfError
from perfpy.perfdata.container.feature_values import CpuCount
from perfpy.perfdata.container.features import Feature
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.report.report import Report

MAIN, OTHER = 7, 8


def at(time: int, tid: int = MAIN) -> SampleId:
    return SampleId(pid=MAIN, tid=tid, time=time)


def switch(time: int, tid: int, *, out: bool) -> Switch:
    return Switch(MISC_SWITCH_OUT if out else 0, at(time, tid))


def two_threads() -> PerfDataBuilder:
    """Let MAIN run alone, then with OTHER, which is switched out, comes back and exits."""
    built = PerfDataBuilder().feature(Feature.NRCPUS, CpuCount(4, 4))
    steps: list[Any] = [
        *[(time, MAIN) for time in (10, 20)],
        switch(30, OTHER, out=False),
        *[(time, OTHER) for time in (40, 50)],
        (60, MAIN),
        switch(70, OTHER, out=True),
        (80, MAIN),
        switch(90, OTHER, out=False),
        (100, OTHER),
        Exit(0, MAIN, 1, OTHER, MAIN, 110, at(110, OTHER)),
        (120, MAIN),
    ]
    for step in steps:
        if type(step) is tuple:
            built.sample(pid=MAIN, tid=step[1], time=step[0], ip=0x1000, period=100)
        else:
            built.record(step)
    return built


def report(built: PerfDataBuilder, folder: Path, columns: ColumnOptions, sample_filter: SampleFilter | None = None) -> Report:
    path = folder / "perf.data"
    path.write_bytes(built.file())
    with Recording(path) as recording:
        return recording.report(options=ReportOptions(columns=columns, sample_filter=sample_filter or SampleFilter()))


def rows(found: Report, *metrics: str) -> list[tuple[Any, ...]]:
    histogram = found.histograms[0]
    return [(*row.texts.values(), *(round(histogram.percent(name, row.entry), 1) for name in metrics)) for row in histogram.rows()]


def test_samples_are_separated_by_the_threads_that_ran(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="parallelism"))
    assert [(texts, row.values["samples"]) for texts, row in zip(rows(result), result.top(), strict=True)] == [(("1",), [4]), (("2",), [4])]


def test_shares_of_the_wall_clock_are_halved_while_two_threads_run(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="pid,parallelism", latency=True))
    assert [entry.name for entry in result.layout.fields][:2] == ["latency", "overhead"]
    assert rows(result, "latency", "period") == [
        ("      7::7", "1", 66.7, 50.0),
        ("      8::8", "2", 25.0, 37.5),
        ("      7::7", "2", 8.3, 12.5),
    ]


def test_json_has_shares_of_the_wall_clock_on_request(tmp_path: Path) -> None:
    row = report(two_threads(), tmp_path, ColumnOptions(sort="parallelism", latency=True)).to_dict()["events"][0]["rows"][0]
    assert (row["keys"], row["overhead"]) == ({"parallelism": "1"}, 50)
    assert row["latency"] == pytest.approx(200 / 3)
    assert "latency" not in report(two_threads(), tmp_path, ColumnOptions(sort="parallelism")).to_dict()["events"][0]["rows"][0]


def test_only_samples_of_some_parallelism_are_shown(tmp_path: Path) -> None:
    result = report(two_threads(), tmp_path, ColumnOptions(sort="pid"), SampleFilter(parallelism=(2, 3)))
    assert rows(result, "period") == [("      8::8", 37.5), ("      7::7", 12.5)]


def test_no_more_threads_run_than_there_are_cpus(tmp_path: Path) -> None:
    built = PerfDataBuilder().feature(Feature.NRCPUS, CpuCount(2, 2))
    for tid in range(10, 15):
        built.record(switch(tid, tid, out=False))
    built.sample(pid=MAIN, tid=MAIN, time=100, ip=0x1000, period=1)
    assert rows(report(built, tmp_path, ColumnOptions(sort="parallelism"))) == [("2",)]


@pytest.mark.parametrize("records", [[], [SwitchCpuWide(0, 1, 1, at(5))]], ids=["none", "of whole CPUs"])
def test_without_switches_of_threads_there_is_no_latency(records: list[Any], tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for record in records:
        built.record(record)
    built.sample(pid=MAIN, tid=MAIN, time=100, ip=0x1000, period=1)
    with pytest.raises(PerfError, match="record with --latency, without -a"):
        report(built, tmp_path, ColumnOptions(latency=True))
