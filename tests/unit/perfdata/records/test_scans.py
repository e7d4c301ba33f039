"""Deferred user callchains are appended to the samples that wait for them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED, PerfType, SampleType, SoftwareId
from perfpy.abi.records import SampleId
from perfpy.cli import run
from perfpy.perfdata.features import EventDesc, Feature
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.delivery import RawRecord
from perfpy.perfdata.records.scans import DeferredCallchains
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


KERNEL = 0xFFFFFFFF81000000


def raw(cookie: int, *frames: int, count: int | None = None) -> RawRecord:
    words = [cookie, len(frames) if count is None else count, *frames]
    return RawRecord(0, 0, 0, 22, 0, 0, b"".join(word.to_bytes(8, "little") for word in words))


def chains(*rows: list[int]) -> Ragged:
    return Ragged(np.array([word for row in rows for word in row], np.uint64), np.cumsum([0, *map(len, rows)]).astype(np.int64))


def joined(deferred: list[RawRecord], *rows: list[int]) -> list[list[int]]:
    return [row.tolist() for row in DeferredCallchains(deferred, "<").join(chains(*rows))]


def test_frames_replace_the_cookie():
    result = joined([raw(77, CONTEXT_USER, 1, 2)], [CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 77])
    assert result == [[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, CONTEXT_USER, 1, 2]]


def test_samples_of_one_system_call_share_their_frames():
    result = joined([raw(5, 1), raw(6, 2, 3)], [CONTEXT_USER_DEFERRED, 6], [9], [CONTEXT_USER_DEFERRED, 5], [CONTEXT_USER_DEFERRED, 6])
    assert result == [[CONTEXT_USER_DEFERRED, 2, 3], [9], [CONTEXT_USER_DEFERRED, 1], [CONTEXT_USER_DEFERRED, 2, 3]]


def test_a_cookie_without_record_is_dropped():
    assert joined([], [KERNEL, CONTEXT_USER_DEFERRED, 77]) == [[KERNEL, CONTEXT_USER_DEFERRED]]
    assert joined([raw(1, 2)], [KERNEL, CONTEXT_USER_DEFERRED, 77]) == [[KERNEL, CONTEXT_USER_DEFERRED]]


def test_a_count_beyond_the_record_is_limited():
    assert joined([raw(5, 1, 2, count=1 << 62), RawRecord(0, 0, 0, 22, 0, 0, b"short")], [CONTEXT_USER_DEFERRED, 5]) == [
        [CONTEXT_USER_DEFERRED, 1, 2]
    ]


def test_whole_callchains_come_out_of_a_file(tmp_path):
    attr = usual_attr(USUAL | SampleType.CALLCHAIN, defer_callchain=1, defer_output=1)
    builder = PerfDataBuilder([attr])
    builder.sample(ip=KERNEL, pid=1, tid=1, time=10, callchain=[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 3])
    builder.sample(ip=0x100, pid=1, tid=1, time=20, callchain=[CONTEXT_USER, 0x100])
    builder.record(records.CallchainDeferred(0, 3, (CONTEXT_USER, 0x400, 0x500), SampleId(pid=1, tid=1, time=30)))
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    with perfpy.open(path) as recording:
        results = [row.tolist() for row in recording.samples["callchain"]]
        longest = max(len(recording.stacks()[0].chain_of(index)) for index in range(2))
    assert results == [[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, CONTEXT_USER, 0x400, 0x500], [CONTEXT_USER, 0x100]]
    assert longest == 3


# Waits in the raw data of perf 7's off-CPU samples.


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
