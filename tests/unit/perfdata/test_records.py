"""Records of a file: scans, order and side-band."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfpy
from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED, PerfType, RecordType, SampleType, SoftwareId, names_of
from perfpy.abi.framing import with_header
from perfpy.abi.records import SampleId
from perfpy.cli import run
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.header import EventDesc, Feature
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.delivery import BULK, UNKNOWN_EVENT, EqualTimes, EventTable, RawRecord, Rounds
from perfpy.perfdata.records.scans import DeferredCallchains
from perfpy.recording import Recording
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


# Delivery keys of chunks equal those of perf's rule, followed record by record; equal times are ordered by offset.


LATEST = (1 << 64) - 1
#: a time, 0 for a record without, None for a FINISHED_ROUND
RECORDS = st.lists(st.one_of(st.none(), st.integers(0, 20), st.sampled_from([LATEST - 1, LATEST])), max_size=30)


def keys_one_by_one(records: list[int | None]) -> list[int]:
    floor = limit = latest = 0
    keys = []
    for time in records:
        if time is None:
            floor, limit = max(floor, limit), latest
        lowest = min(floor, LATEST - 1) + 1 if floor else 0
        keys.append(max(time or 0, lowest))
        latest = max(latest, time or 0)
    return keys


@given(st.lists(RECORDS, max_size=4))
def test_keys_follow_the_rounds_across_chunks(chunks: list[list[int | None]]):
    rounds = Rounds()
    results: list[int] = []
    for chunk in chunks:
        ends = [place for place, time in enumerate(chunk) if time is None]
        times = np.array([time or 0 for time in chunk], np.uint64)
        results += rounds.keys(times, np.array(ends, np.int64)).tolist()
    assert results == keys_one_by_one([time for chunk in chunks for time in chunk])


def ties(*records: tuple[int, int, int]) -> EqualTimes:
    """(key, time, offset) each."""
    key, time, offset = np.array(records, np.int64).reshape(-1, 3).T
    return EqualTimes(key.astype(np.uint64), time.astype(np.uint64), offset)


def settled(of: EqualTimes, *places: tuple[int, int]) -> list[int]:
    keys, offsets = zip(*places, strict=True)
    result: list[int] = of.settle(np.array(keys, np.uint64), np.array(offsets, np.int64)).tolist()
    return result


def test_a_sample_before_a_record_of_its_key_comes_before_it() -> None:
    actual_ties = ties((5, 5, 10), (20, 20, 100), (20, 20, 110), (30, 30, 50))
    assert settled(actual_ties, (7, 20), (20, 90), (20, 120), (30, 60)) == [7, 19, 20, 30]


def test_a_late_record_comes_before_all_samples_of_its_key() -> None:
    assert settled(ties((20, 15, 100), (20, 0, 100)), (20, 90)) == [20]


def test_nothing_changes_without_ties() -> None:
    keys = np.array([1, 2], np.uint64)
    assert ties((5, 5, 10)).settle(keys, np.array([1, 2])) is keys
    assert ties().settle(keys[:0], np.array([], np.int64)).tolist() == []


def test_a_sample_has_the_name_that_its_task_had_in_the_file(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    built.record(records.Comm(0, 7, 7, "before", SampleId(pid=7, tid=7, time=100)))
    built.sample(ip=1, pid=7, tid=7, time=200, period=1, misc=2)
    built.record(records.Comm(0, 7, 7, "behind", SampleId(pid=7, tid=7, time=200)))
    built.sample(ip=2, pid=7, tid=7, time=200, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(tmp_path / "perf.data") as recording:
        timeline = recording.timeline
        names = [timeline.comms[i] for batch in recording.batches() for i in timeline.comm_ids(batch.columns["tid"], batch.key)]
        assert names == ["before", "behind"]
        assert [type(record).__name__ for record in recording.records()] == ["Comm", "Sample", "Comm", "Sample"]


# The event of each record, by its id.


ATTR = EventAttr(sample_type=SampleType.IDENTIFIER | SampleType.IP)


def table(*ids: tuple[int, ...]) -> EventTable:
    """Return a table of events with these ids."""
    return EventTable([FileEvent(ATTR, tuple(own), f"e{index}", index) for index, own in enumerate(ids)], "<")


@pytest.mark.parametrize("far", [0, 1 << 40], ids=["near each other", "far apart"])
def test_ids_are_found_near_and_far_apart(far: int) -> None:
    events = table((7, 9), (8,), (10 + far, 8))
    ids = np.array([7, 8, 9, 10 + far, 0, 6, 11 + far, (1 << 64) - 1], np.uint64)
    index = events.index_of(ids)
    assert index.tolist() == [0, 1, 0, 2, 0, UNKNOWN_EVENT, UNKNOWN_EVENT, UNKNOWN_EVENT]
    assert events.index_of(ids[:4]).tolist() == index[:4].tolist()  # all ids known


def test_the_first_event_may_have_the_id_0() -> None:
    assert table((4,), (0, 5)).index_of(np.array([0, 4, 5], np.uint64)).tolist() == [0, 0, 1]


# Deferred user callchains are appended to the samples that wait for them.


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


# The side-band comes in order, whether kept in memory or read again.


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
