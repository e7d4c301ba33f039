"""Waits in the raw data of perf 7's off-CPU samples."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import CONTEXT_USER, PerfType, SampleType, SoftwareId
from perfpy.cli import run
from perfpy.perfdata.container.feature_values import EventDesc
from perfpy.perfdata.container.features import Feature
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

COMMON = (
    SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD | SampleType.CALLCHAIN
)
CLOCK = usual_attr(int(COMMON), config=SoftwareId.TASK_CLOCK)
OFF = EventAttr(
    type=PerfType.SOFTWARE,
    config=SoftwareId.BPF_OUTPUT,
    sample_type=int(COMMON | SampleType.RAW | SampleType.CGROUP),
    sample_period=1,
    sample_id_all=1,
)


def embedded(pid: int, tid: int, period: int, *ips: int, cut: int = 0) -> bytes:
    data = struct.pack(f"<IIQQ{len(ips)}QQ", pid, tid, period, len(ips), *ips, 9)
    data = data[: len(data) - cut]
    return data + bytes(-(len(data) + 4) % 8)


def recording(folder: Path, *raws: bytes, name: str = "offcpu-time") -> Path:
    built = PerfDataBuilder(attrs=[CLOCK, OFF], ids=[(1,), (2,)])
    built.sample(0, ip=0x401000, pid=5, tid=5, time=1000, period=10, callchain=[CONTEXT_USER, 0x401000], misc=2)
    for number, raw in enumerate(raws):
        built.sample(1, time=2000 + number, cpu=1, period=1, callchain=[CONTEXT_USER], cgroup=7, raw=raw, misc=1)
    built.feature(Feature.EVENT_DESC, (EventDesc(CLOCK, "task-clock", (1,)), EventDesc(OFF, name, (2,))))
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path


@pytest.mark.parametrize("fields", [None, ["pid", "tid", "period", "ip", "cgroup", "callchain"]])
def test_a_sample_belongs_to_the_waiting_thread(tmp_path, fields):
    waits = [
        embedded(5, 6, 777, CONTEXT_USER, 0x402000, 0x403000),
        embedded(8, 9, 888, CONTEXT_USER, 0x404000),
    ]
    with PerfData(str(recording(tmp_path, *waits))) as data:
        (batch,) = data.batches(fields)
    columns = batch.columns
    assert columns["pid"].tolist() == [5, 5, 8]
    assert columns["tid"].tolist() == [5, 6, 9]
    assert columns["period"].tolist() == [10, 777, 888]
    assert columns["ip"].tolist() == [0x401000, 0x402000, 0x404000]
    assert columns["cgroup"].tolist() == [0, 9, 9]
    chains = [chain.tolist() for chain in columns["callchain"]]
    assert chains == [[CONTEXT_USER, 0x401000], [CONTEXT_USER, 0x402000, 0x403000], [CONTEXT_USER, 0x404000]]


@pytest.mark.parametrize("field", ["pid", "period", "callchain"])
def test_columns_can_be_read_one_by_one(tmp_path, field):
    with PerfData(str(recording(tmp_path, embedded(5, 6, 777, CONTEXT_USER, 0x402000)))) as data:
        (some,), (everything,) = data.batches([field]), data.batches(None)
    assert [str(value) for value in some.columns[field]] == [str(value) for value in everything.columns[field]]


@pytest.mark.parametrize(
    "raw", [b"", bytes(20), embedded(5, 6, 777, CONTEXT_USER, 0x402000, cut=16), struct.pack("<IIQQ", 1, 2, 3, 1 << 60)]
)
def test_samples_without_a_wait_in_their_raw_data_are_unchanged(tmp_path, raw):
    with PerfData(str(recording(tmp_path, raw))) as data:
        (batch,) = data.batches(None)
    assert batch.columns["period"].tolist() == [10, 1]
    assert batch.columns["cgroup"].tolist() == [0, 7]


def test_other_events_of_bpf_programs_keep_their_raw_data(tmp_path):
    with PerfData(str(recording(tmp_path, embedded(5, 6, 777, CONTEXT_USER, 0x402000), name="mine"))) as data:
        (batch,) = data.batches(None)
    assert batch.columns["period"].tolist() == [10, 1]


def test_script_and_report_show_the_wait(tmp_path, capsys):
    path = recording(tmp_path, embedded(5, 6, 777_000_000, CONTEXT_USER, 0x402000))
    assert run(["script", "-i", str(path)]) == 0
    output = capsys.readouterr().out
    assert "777000000 offcpu-time" in output
    assert "402000" in output
    assert "BPF output" not in output
    assert run(["report", "--stdio", "--with-off-cpu", "-i", str(path)]) == 0
    output = capsys.readouterr().out
    assert "0.777000" in output
    assert "on CPU" not in output
