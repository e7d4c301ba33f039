"""READ records that are too short for what their event reads: left out, and shown as bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import ReadFormat
from perfpy.recording import Recording
from perfpy.views.dump.recording import write_dump
from perfpy.views.report.text import thread_count_lines
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

ONE = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.ID


def recording(path: Path, read_format: int, values: bytes) -> Recording:
    built = PerfDataBuilder(attrs=[usual_attr(read_format=read_format, sample_id_all=0)], ids=[(1,)])
    path.write_bytes(built.record(records.Read(0, 7, 8, values)).sample(time=5, period=1).file())
    return Recording(str(path))


def whole(value: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in (value, 50, 1))


@pytest.mark.parametrize(
    ("read_format", "values"), [(ONE, whole(99)[:-8]), (ONE, b""), (ONE | ReadFormat.GROUP, bytes(8)), (ONE | ReadFormat.GROUP, b"")]
)
def test_a_short_reading_is_dumped_without_values(tmp_path: Path, read_format: int, values: bytes) -> None:
    out = io.BytesIO()
    with recording(tmp_path / "perf.data", read_format, values) as opened:
        write_dump(opened, out)
        assert [line.split() for line in thread_count_lines(opened)] == [["#", "PID", "TID"], ["7", "8"]]
    text = out.getvalue().decode()
    assert "PERF_RECORD_READ\n" in text
    assert "PERF_RECORD_SAMPLE" in text


def test_a_whole_reading_is_shown(tmp_path: Path) -> None:
    out = io.BytesIO()
    with recording(tmp_path / "perf.data", ONE, whole(99)) as opened:
        write_dump(opened, out)
        assert [line.split() for line in thread_count_lines(opened)] == [["#", "PID", "TID", "cpu-clock:u"], ["7", "8", "99"]]
    assert "PERF_RECORD_READ: 7 8 cpu-clock:u 99\n... time enabled : 50\n... id           : 1\n" in out.getvalue().decode()
