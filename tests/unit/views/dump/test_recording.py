"""Tests of how a dump handles truncated recordings, with and without perf's statistics, and the ends of threads."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import ReadFormat
from perfpy.abi.perf_records import user_records
from perfpy.abi.perf_records.newer_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.sample_id import SampleId
from perfpy.perfdata.container.features import Feature
from perfpy.recording import Recording
from perfpy.views.dump.recording import is_read_to_the_end, write_dump
from tests.builders.perfdata import header_of, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


def reaches_the_end(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    with Recording(str(path)) as recording:
        write_dump(recording, io.BytesIO())
        return is_read_to_the_end(recording)


def test_a_reading_is_shown_with_all_fields(tmp_path: Path) -> None:
    attr = usual_attr(read_format=ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.ID | ReadFormat.LOST)
    built = simple_recording(0, attrs=[attr], ids=[(7,)]).record(records.Read(0, 3, 4, struct.pack("<4Q", 50, 60, 7, 2), SampleId()))
    (tmp_path / "perf.data").write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "perf.data")) as recording:
        write_dump(recording, out)
    assert b": 3 4 cpu-clock:u 50\n... time enabled : 60\n... id           : 7\n... lost         : 2\n" in out.getvalue()


def test_records_of_newer_perf_versions_are_shown_like_there(tmp_path: Path) -> None:
    built = simple_recording(0)
    built.record(BpfMetadata(0, "bpf_prog_abc", (("version", "7"), ("commit", "dead\x1bbeef"))))
    built.record(SchedstatCpu(0, 99, 1, 17, tuple(range(1, 10)))).record(SchedstatCpu(0, 99, 1, 18, ()))
    built.record(SchedstatDomain(0, 99, 1, 15, 3, tuple(range(36))))
    (tmp_path / "perf.data").write_bytes(built.file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "perf.data")) as recording:
        write_dump(recording, out)
    metadata = "PERF_RECORD_BPF_METADATA prog bpf_prog_abc\n  entry 0:              version = 7\n  entry 1:               commit = dead"
    counts = " ".join(map(str, range(36)))
    for text in (
        metadata,
        "beef\n: unhandled!\n",
        "PERF_RECORD_SCHEDSTAT_CPU\ncpu1 1 2 3 4 5 6 7 8 9 : unhandled!\n",
        "PERF_RECORD_SCHEDSTAT_CPU\ncpu1 Unsupported /proc/schedstat version 18.\n: unhandled!\n",
        f"PERF_RECORD_SCHEDSTAT_DOMAIN\ndomain3 {counts} : unhandled!\n",
    ):
        assert text in out.getvalue().decode()


@pytest.mark.parametrize("missing", [0, 1, 30, 35])
def test_a_pipe_may_end_inside_a_record(tmp_path: Path, missing: int) -> None:
    data = simple_recording(3).pipe()
    assert reaches_the_end(tmp_path / "cut", data[: len(data) - missing])


@pytest.mark.parametrize("missing", [1, 30])
def test_a_file_must_not_end_inside_a_record(tmp_path: Path, missing: int) -> None:
    data = simple_recording(3).file(data_size=10_000)
    assert not reaches_the_end(tmp_path / "cut", data[: len(data) - missing])


@pytest.mark.parametrize("record", [header_of(0, 16) + bytes(8), header_of(80, 16) + bytes(6) + b"\x77\x00", header_of(80, 12) + bytes(4)])
def test_a_pipe_must_not_end_after_records_that_perf_rejects(tmp_path: Path, record: bytes) -> None:
    data = simple_recording(3).raw(record).sample().pipe()
    assert reaches_the_end(tmp_path / "whole", data)
    assert not reaches_the_end(tmp_path / "cut", data[:-1])


def test_a_pipe_with_features_may_end_inside_a_record(tmp_path: Path) -> None:
    feature = user_records.HeaderFeature(0, Feature.HOSTNAME, b"\x08\0\0\0machine\0")
    end_of_features = user_records.HeaderFeature(0, 32, b"")
    data = simple_recording(3).record(feature).record(end_of_features).sample().pipe()
    assert reaches_the_end(tmp_path / "cut", data[:-1])


def test_a_record_without_a_size_ends_the_dump(tmp_path: Path) -> None:
    assert not reaches_the_end(tmp_path / "bad", simple_recording(3).raw(header_of(9, 3)).pipe())


def test_a_thread_keeps_its_name_after_its_end(tmp_path: Path) -> None:
    built = simple_recording(1).record(records.Exit(0, 7, 1, 7, 1, 300, SampleId(pid=7, tid=7, time=300)))
    (tmp_path / "data").write_bytes(built.sample(misc=1, ip=1, pid=7, tid=7, time=400).file())
    out = io.BytesIO()
    with Recording(str(tmp_path / "data")) as recording:
        write_dump(recording, out)
    assert out.getvalue().count(b" ... thread: busy:7\n") == 2
