"""Tests of how a dump handles truncated recordings, with and without perf's statistics, and the ends of threads."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import perf_records, records
from perfpy.abi.flags import ReadFormat
from perfpy.abi.newer_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.records import SampleId
from perfpy.perfdata.features import Feature
from perfpy.recording import Recording
from perfpy.views.dump.recording import coresight_text, is_read_to_the_end, write_dump
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
    feature = perf_records.HeaderFeature(0, Feature.HOSTNAME, b"\x08\0\0\0machine\0")
    end_of_features = perf_records.HeaderFeature(0, 32, b"")
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


# Tests of the CoreSight trace units in dumps.


ETMV4 = 0x4040404040404040


def test_each_word_has_its_name() -> None:
    assert coresight_text([1, 0x800000001, 0, ETMV4, 12, 8, 0x40, 0x10, 1, 2, 3, 0, 0xCC, 0x47724A13]).splitlines() == [
        "\tHeader version\t\t       1",
        "\tPMU type/num cpus\t       800000001",
        "\tSnapshot\t\t       0",
        "\tMagic number\t\t       4040404040404040",
        "\tCPU\t\t\t       12",
        "\tNR_TRC_PARAMS\t\t       8",
        "\tTRCCONFIGR\t\t       40",
        "\tTRCTRACEIDR\t\t       10",
        "\tTRCIDR0\t\t\t       1",
        "\tTRCIDR1\t\t\t       2",
        "\tTRCIDR2\t\t\t       3",
        "\tTRCIDR8\t\t\t       0",
        "\tTRCAUTHSTATUS\t\t       cc",
        "\tTRCDEVARCH                     47724a13",
    ]


def test_the_number_of_parameters_in_version_0_depends_on_the_unit() -> None:
    lines = coresight_text([0, 2, 0, ETMV4, 0, *range(7), 0x3030303030303030, 1, *range(4)]).splitlines()
    names = "TRCCONFIGR TRCTRACEIDR TRCIDR0 TRCIDR1 TRCIDR2 TRCIDR8 TRCAUTHSTATUS"
    assert [line.split()[0] for line in lines[5:12]] == names.split()
    assert [line.split() for line in lines[13:15]] == [["CPU", "1"], ["ETMCR", "0"]]
    assert len(lines) == 3 + 9 + 6


def test_truncated_or_unknown_data_end_the_text() -> None:
    assert coresight_text([]) == ""
    assert coresight_text([1, 2]).count("\n") == 2
    assert coresight_text([1, 1, 0, 0x77, 1, 1, 5]).count("\n") == 3
    assert coresight_text([1, 1, 0, ETMV4, 1, 1 << 63, 5]).count("\n") == 7
    assert coresight_text([1, 2, 0, *([ETMV4, 0, 10, *range(10)] * 2)]).count("\n") == 3 + 2 * 12
