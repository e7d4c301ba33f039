"""A PMCU's counts of a recording: pieces, losses, cut ends, damage."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.errors import BadPerfDataError
from tests.builders import pmcu

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.auxtrace.recorded_pmcu import PmcuTrace

EVENTS = [0x10, 0x11, 0x12]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


def trace_of(recording: perfpy.Recording) -> PmcuTrace:
    assert recording.pmcu is not None
    return recording.pmcu


def test_pieces_are_one_stream(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data, cuts=(4096, 4096 + 320)))
    with perfpy.open(path) as recording:
        columns = trace_of(recording).to_dict()
        assert trace_of(recording).name == "hisi_pmcu_sccl0"
        assert len(trace_of(recording)) == 20
        assert recording.warnings == []
    assert columns["count"].tolist() == [pmcu.value_of(sample, cpu, event) for sample in range(20) for event in EVENTS for cpu in range(8)]
    assert columns["time"][-1] == pytest.approx(19 * 0.002)


def test_padding_of_a_piece_is_no_data(path: Path) -> None:
    """A piece is padded to 8 bytes in the file; the next one begins where its own offset says."""
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data, cuts=(1004, 2012)))
    with perfpy.open(path) as recording:
        assert trace_of(recording).to_dict()["count"][-1] == pmcu.value_of(19, 7, 0x12)


def test_the_number_of_samples_is_the_requested_one(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 20), config=2 << 32 | 15))
    with perfpy.open(path) as recording:
        assert len(trace_of(recording)) == 15


def test_zeros_mean_128_samples_3_ms_apart(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data([1], 140), config=0))
    with perfpy.open(path) as recording:
        assert (len(trace_of(recording)), trace_of(recording).period_ms) == (128, 3)


def test_a_cut_end_is_a_warning_with_its_offset(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data[:-8]))
    with perfpy.open(path) as recording:
        trace = trace_of(recording)
        assert len(trace) == 19
        (warning,) = recording.warnings
    begin = trace.in_file(len(data) - 320)
    assert warning == f"offset {begin:#x}: the AUX data end inside sample 19, which is left out"
    assert path.read_bytes()[begin : begin + 4] == (1000).to_bytes(4, "little")


def test_lost_data_is_reported(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 20), cuts=(4096,), lost=1))
    with perfpy.open(path) as recording:
        assert recording.pmcu
        assert "lost data 1 times of 2" in recording.warnings[0]


def test_a_bad_header_is_an_error_with_file_and_offset(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.header([1, 2], buffer_size=4096, counters=2, cpus=7)))
    with perfpy.open(path) as recording, pytest.raises(BadPerfDataError, match="7 CPUs") as caught:
        _ = recording.pmcu
    assert path.read_bytes()[caught.value.offset or 0] == 7
    assert str(path) in str(caught.value)


def test_a_hole_is_an_error_with_its_offset(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    built = pmcu.recording(data, cuts=(4096,))
    second = struct.pack("<QQQ", len(data) - 4096, 4096, 0)
    assert built.count(second) == 1
    path.write_bytes(built.replace(second, struct.pack("<QQQ", len(data) - 4096, 8192, 0)))
    with perfpy.open(path) as recording, pytest.raises(BadPerfDataError, match="go on at 0x2000"):
        _ = recording.pmcu


def test_no_aux_data_is_no_sample(path: Path) -> None:
    path.write_bytes(pmcu.recording(b""))
    with perfpy.open(path) as recording:
        assert len(trace_of(recording)) == 0
        assert trace_of(recording).to_dict() == {}


def test_another_tracer_of_the_same_number_is_not_decoded(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 2), mapping="vpa_dtl"))
    with perfpy.open(path) as recording:
        assert recording.pmcu is None
        assert recording.data.record_index
        assert "not decoded" in recording.warnings[0]
