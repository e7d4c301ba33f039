"""Who has the GIL, by the addresses of Python frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import MISC_SWITCH_OUT
from perfpy.abi.recorded_marks import FIRST_ADDRESS, MAPPED_SIZE, GilState, mapping_of
from perfpy.abi.records import Exit, Namespaces, SampleId, Switch, SwitchCpuWide
from perfpy.analysis.dimensions import gil_states
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.errors import PerfError
from perfpy.perfdata.features import CpuCount, Feature
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.report.report import Report


NATIVE = 0x7F00_0000_0000


def states(*chains: list[int]) -> list[int]:
    offsets = np.cumsum([0, *map(len, chains)])
    values = [value for chain in chains for value in chain]
    result: list[int] = gil_states(Ragged(np.array(values, np.uint64), offsets.astype(np.int64))).tolist()
    return result


def test_the_innermost_python_frame_has_the_state():
    assert [states([NATIVE, mapping_of(state) + 0x20, NATIVE, FIRST_ADDRESS + 0x40])[0] for state in GilState] == [0, 1, 2, 3]


def test_chains_without_python_have_none():
    assert states([], [NATIVE], [FIRST_ADDRESS - 1, (1 << 64) - 512], [mapping_of(GilState.WAITS) + 5], []) == [0, 0, 0, 3, 0]
    assert states([FIRST_ADDRESS + len(GilState) * MAPPED_SIZE]) == [0]
    assert states() == []


def test_every_state_has_its_own_mapping():
    ends = [mapping_of(state) + MAPPED_SIZE for state in GilState]
    assert [mapping_of(state) for state in GilState] == [FIRST_ADDRESS, *ends[:-1]]


# The number of running threads at each sample, and the sample's share of the wall clock.


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


# The cgroup namespace of a thread at the time of a sample.


def test_the_newest_namespace_of_a_thread_counts(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for time, tid, inode in ((10, MAIN, 0xA0), (30, MAIN, 0xB0), (5, OTHER, 0xA0)):
        stamp = SampleId(pid=MAIN, tid=tid, time=time, cpu=0)
        built.record(Namespaces(0, MAIN, tid, ((3, 1),) * 6 + ((4, inode),), stamp))
    for time, tid in ((20, MAIN), (40, MAIN), (50, MAIN), (60, OTHER), (70, 9), (1, MAIN)):
        built.sample(pid=MAIN, tid=tid, time=time, ip=0x1000, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(tmp_path / "perf.data") as recording:
        rows = recording.report("cgroup_id").top()
    assert {row.texts["cgroup_id"]: row.values["samples"][0] for row in rows} == {"4/0xa0": 2, "4/0xb0": 2, "0/0x0": 2}
