"""The side-band comes in order, whether kept in memory or read again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import RecordType, names_of
from perfpy.abi.framing import with_header
from perfpy.abi.records import SampleId
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.side_band import BULK
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PerfData:
    """Build switches and names of two CPUs, each in order, across many chunks and rounds."""
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda _, **__: 1 << 16)
    built = PerfDataBuilder()
    for block in range(40):
        for cpu in range(2):
            for number in range(100):
                time = 1 + 1000 * block + 10 * number + 5 * cpu
                built.record(records.Switch(0, SampleId(pid=1, tid=cpu, time=time)))
            built.record(records.Comm(0, 1, cpu, f"comm {block}", SampleId(pid=1, tid=cpu, time=1000 * block + 500 + cpu)))
        built.round()
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return PerfData(path)


def test_all_come_in_order_of_time(data: PerfData) -> None:
    times = [side.record.sample_id.time for side in data.side_band()]
    assert len(times) == 40 * 202
    assert times == sorted(times)
    assert [side.key for side in data.side_band()] == times


def test_only_requested_types_come(data: PerfData) -> None:
    assert {type(side.record) for side in data.side_band([RecordType.COMM])} == {records.Comm}
    assert len(list(data.side_band([RecordType.SWITCH]))) == 8000
    types = {number for number in names_of(RecordType) if number < RecordType.HEADER_ATTR} - BULK
    assert len(list(data.side_band(types))) == 80
    assert len(list(data.side_band([RecordType.FINISHED_ROUND]))) == 40


def test_frequent_records_are_not_kept_in_memory(data: PerfData) -> None:
    assert {raw.type for raw in data.record_index.raw} == {RecordType.COMM}
    side_band = data.side_band()
    assert sum(1 for _ in side_band) == sum(1 for _ in side_band)


def test_untimed_records_of_one_compressed_record_stay_in_their_order(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for comm in ("z", "a", "m"):
        built.record(records.Comm(0, 1, 1, comm, SampleId()))
        built.record(records.Mmap(2, 1, 1, 0, 1, 0, comm, SampleId()))
    path = tmp_path / "perf.data"
    path.write_bytes(built.compressed().file())
    order = [getattr(side.record, "comm", None) or side.record.filename for side in PerfData(path).side_band()]
    assert order == ["z", "z", "a", "a", "m", "m"]


def test_damaged_task_records_are_skipped_with_a_warning(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    built.record(records.Comm(0, 1, 1, "before", SampleId(pid=1, tid=1, time=1)))
    built.raw(with_header(RecordType.FORK, 0, bytes(24), "<"))  # its sample_id is missing
    built.record(records.Comm(0, 1, 1, "behind", SampleId(pid=1, tid=1, time=3)))
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    data = PerfData(path)
    tasks = data.side_band().tasks()
    assert tasks.comms == ["before", "behind"]
    assert tasks.tasks.type.tolist() == [RecordType.COMM] * 2
    assert len(data.warnings) == 1
    assert re.search(r"^at offset 0x[0-9a-f]+: FORK \(7\) record with a body of 24 bytes", data.warnings[0])
