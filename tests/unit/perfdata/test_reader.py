"""Files and their samples, as a reader sees them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.abi import perf_records, records
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.framing import HeaderBuildId
from perfpy.abi.records import SampleId
from perfpy.analysis.named_samples import NamedSamples, Naming
from perfpy.analysis.report.options import ReportOptions
from perfpy.analysis.report.report import make_report
from perfpy.analysis.stacks import StackOptions, make_stacks
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.header import HEADER_SIZE, AttrEntry, EventDesc, EventGroup, Feature, FileHeader, FileSection
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.delivery import delivery_order
from perfpy.perfdata.sample_source import SampleSource, SourceHeader
from tests.builders.perfdata import USUAL, PerfDataBuilder, header_of, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.recording import Recording


# PerfData reads files of every kind, and skips damaged parts with a warning.


def opened(tmp_path: Path, data: bytes) -> PerfData:
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    return PerfData(path)


def column(data: PerfData, name: str) -> list[Any]:
    return [value for batch in data.batches([name]) for value in batch.columns[name].tolist()]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("shape", ["file", "pipe", "version 1", "compressed", "compressed again", "short attrs", "long attrs"])
def test_the_same_recording_is_read_from_every_shape(tmp_path: Path, shape: str, endian: str) -> None:
    built = simple_recording(50, endian=endian)
    if shape.startswith("compressed"):
        built.compressed(7, second_form=shape.endswith("again"))
    if shape == "version 1":
        built.version = 1
    sizes = {"version 1": 72, "short attrs": 64, "long attrs": 200}
    data = built.pipe() if shape == "pipe" else built.file(attr_size=sizes.get(shape))
    with opened(tmp_path, data) as file:
        assert file.endian == endian
        assert file.is_pipe == (shape == "pipe")
        assert column(file, "ip") == list(range(0x1000, 0x1000 + 50))
        assert column(file, "tid") == [7] * 50
        others = [side.record for side in file.side_band() if isinstance(side.record, (records.Comm, records.Mmap2))]
        assert [type(record).__name__ for record in others] == ["Comm", "Mmap2"]
        assert [record.filename for record in others if isinstance(record, records.Mmap2)] == ["/bin/busy"]
        assert file.record_index.type_counts[RecordType.SAMPLE] == 50
        assert (file.record_index.first, file.record_index.last) == (200, 690)
        assert not file.warnings


def test_features_and_names_come_with_the_events(tmp_path: Path) -> None:
    built = simple_recording(1, attrs=[usual_attr(USUAL | SampleType.ID), usual_attr(USUAL | SampleType.ID, config=1)], ids=[(1, 2), (3,)])
    built.feature(Feature.HOSTNAME, "vm")
    built.feature(Feature.EVENT_DESC, (EventDesc(built.attrs[0], "first", (1, 2)), EventDesc(built.attrs[1], "second", (3,))))
    built.feature(Feature.GROUP_DESC, (EventGroup("grp", 0, 2),))
    built.features[200] = b"of a newer perf"
    file = opened(tmp_path, built.file())
    assert file.features["hostname"] == "vm"
    assert [(event.name, event.ids, event.leader, event.group_name) for event in file.events] == [
        ("first", (1, 2), 0, "grp"),
        ("second", (3,), 0, ""),
    ]
    assert sorted(file.feature_sections) == [Feature.HOSTNAME, Feature.EVENT_DESC, Feature.GROUP_DESC, 200]
    assert not file.warnings


def test_a_recording_ended_here_at_the_time_of_its_file_if_host_and_kernel_are_ours(tmp_path: Path) -> None:
    here = os.uname()
    features = {Feature.HOSTNAME: here.nodename, Feature.OSRELEASE: here.release, Feature.ARCH: here.machine}
    path = tmp_path / "perf.data"
    for changed, is_here in ((None, True), (Feature.HOSTNAME, False), (Feature.OSRELEASE, False), (Feature.ARCH, False)):
        built = simple_recording()
        for number, value in features.items():
            built.feature(number, "another" if number is changed else value)
        path.write_bytes(built.file())
        os.utime(path, (7, 7))
        with PerfData(path) as file:
            assert file.ended_here == (7.0 if is_here else 0.0)
    with opened(tmp_path, simple_recording().file()) as file:
        assert file.ended_here == 0.0, "it does not name its machine"


def test_samples_find_their_events_by_id_and_differ_in_their_fields(tmp_path: Path) -> None:
    kinds = USUAL | SampleType.IDENTIFIER
    built = PerfDataBuilder(attrs=[usual_attr(kinds), usual_attr(kinds | SampleType.CALLCHAIN)], ids=[(11, 12), (21,)])
    built.sample(0, time=10, ip=1).sample(1, time=11, ip=2, callchain=[7, 8]).sample(0, time=12, ip=3, identifier=12)
    built.sample(0, time=13, ip=4, identifier=0).sample(0, time=14, ip=5, identifier=999)
    file = opened(tmp_path, built.file())
    (batch,) = file.batches()
    assert batch.event.tolist() == [0, 1, 0, 0]
    assert batch.columns["ip"].tolist() == [1, 2, 3, 4]
    assert batch.columns["callchain"].lengths.tolist() == [0, 2, 0, 0]
    assert file.record_index.sample_counts == {0: 3, 1: 1, -1: 1}
    assert any("unknown events" in warning for warning in file.warnings)


def test_records_are_delivered_by_time_within_rounds_and_late_ones_after_their_round(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for time in (30, 10, 20):
        built.sample(time=time)
    built.round()
    for time in (40, 25):
        built.sample(time=time)
    built.round()  # delivers up to 30
    built.sample(time=5).sample(time=45).round()  # delivers up to 40: 5 is late
    built.sample(time=50)
    file = opened(tmp_path, built.file())
    keys = [key for batch in file.batches([]) for key in batch.key.tolist()]
    assert column(file, "time") == [10, 20, 25, 30, 5, 40, 45, 50]
    assert keys == [10, 20, 25, 30, 31, 40, 45, 50]


def test_side_band_takes_effect_by_its_key(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    built.sample(time=100, ip=1)
    built.record(records.Comm(0, 7, 7, "late", SampleId(pid=7, tid=7, time=50)))
    built.round().sample(time=200).round()
    built.record(perf_records.ThreadMap(0, ((7, "x"),)))
    file = opened(tmp_path, built.file())
    assert [(type(side.record).__name__, side.key) for side in file.side_band()] == [("Comm", 50), ("ThreadMap", 101)]


def test_without_sample_id_all_a_file_is_delivered_as_it_stands(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(sample_id_all=0)])
    built.sample(time=30).record(records.Comm(0, 7, 7, "x")).sample(time=10)
    file = opened(tmp_path, built.file())
    assert column(file, "time") == [30, 10]
    (side,) = file.side_band()
    (batch,) = file.batches([])
    assert batch.key[0] < side.key <= batch.key[1]


def test_batches_of_a_long_file_are_whole_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda _, **__: 1 << 16)
    rng = np.random.default_rng(1)
    times = rng.permutation(20_000) + 1
    built = PerfDataBuilder()
    for block in np.split(times, 200):
        for time in np.sort(block).tolist():
            built.sample(time=time, ip=time)
    file = opened(tmp_path, built.file())
    assert column(file, "ip") == list(range(1, 20_001))
    ordered = PerfDataBuilder()
    for time in range(1, 20_001):
        ordered.sample(time=time)
        if time % 100 == 0:
            ordered.round()
    batches = [len(batch) for batch in opened(tmp_path, ordered.file()).batches([])]
    assert sum(batches) == 20_000
    assert max(batches) < 5_000


@pytest.mark.parametrize("cut", [1, 30, 500])
def test_a_cut_file_is_read_to_its_last_whole_record(tmp_path: Path, cut: int) -> None:
    whole = simple_recording(50).file()
    file = opened(tmp_path, whole[:-cut])
    assert len(column(file, "ip")) == 50 - -(-cut // 40)
    assert any("truncated" in warning for warning in file.warnings)


def test_a_killed_recording_is_read_to_its_end(tmp_path: Path) -> None:
    built = simple_recording(50)
    file = opened(tmp_path, built.file(data_size=0) + b"\x09\0\0")
    assert len(column(file, "ip")) == 50
    assert "was not finished" in file.warnings[0]


def test_a_killed_recording_is_read_beyond_its_last_mark(tmp_path: Path) -> None:
    built = simple_recording(50)
    file = opened(tmp_path, built.file(data_size=len(built.body) - 400) + b"\x09\0\0")
    assert len(column(file, "ip")) == 50
    assert "was not finished" in file.warnings[0]


def test_a_table_of_events_after_the_data_ends_a_recording_without_features(tmp_path: Path) -> None:
    """perf inject writes the table last if its input is a pipe."""
    built = simple_recording(50)
    data = FileSection(HEADER_SIZE, len(built.body))
    entry = AttrEntry(built.attrs[0], FileSection(data.end, 0)).encode(built.endian)
    header = FileHeader(built.endian, built.version, len(entry), FileSection(data.end, len(entry)), data, FileSection(0, 0), ())
    file = opened(tmp_path, header.encode() + bytes(built.body) + entry)
    assert len(column(file, "ip")) == 50
    assert file.warnings == []


def test_damage_in_the_middle_keeps_the_records_before_it(tmp_path: Path) -> None:
    built = simple_recording(5).raw(header_of(RecordType.SAMPLE, 3)).sample(time=900)
    file = opened(tmp_path, built.file())
    assert len(column(file, "ip")) == 5
    assert "record of 3 bytes" in file.warnings[0]


def test_a_sample_too_short_for_its_event_is_omitted(tmp_path: Path) -> None:
    built = simple_recording(3).raw(header_of(RecordType.SAMPLE, 16) + bytes(8)).sample(ip=9, time=900)
    file = opened(tmp_path, built.file())
    assert column(file, "ip") == [0x1000, 0x1001, 0x1002, 9]
    assert any("skipped" in warning for warning in file.warnings)


def test_foreign_record_types_are_skipped_with_a_note(tmp_path: Path) -> None:
    built = simple_recording(3).raw(header_of(0x8003, 24) + bytes(16)).sample(ip=9, time=900)
    file = opened(tmp_path, built.file())
    assert len(column(file, "ip")) == 4
    assert any("type 32771" in warning for warning in file.warnings)


def test_auxtrace_data_between_records_is_skipped_with_a_warning(tmp_path: Path) -> None:
    built = simple_recording(3)
    for _ in range(3):
        built.record(perf_records.Auxtrace(0, 1000, 0, 0, 0, 7, 1)).raw(b"\xff" * 1000).sample(ip=9, time=900)
    file = opened(tmp_path, built.file())
    assert len(column(file, "ip")) == 6
    assert file.warnings == ["hardware traces in 3 AUXTRACE records are not decoded or shown"]


def test_records_of_odd_sizes_are_read(tmp_path: Path) -> None:
    built = simple_recording(3).raw(header_of(RecordType.COMM, 8 + 8 + 3 + 16) + bytes(8) + b"ab\0" + bytes(16))
    built.sample(ip=9, time=900)
    assert column(opened(tmp_path, built.file()), "ip") == [0x1000, 0x1001, 0x1002, 9]


def test_compressed_records_that_are_damaged_end_the_reading_with_a_warning(tmp_path: Path) -> None:
    built = simple_recording(400).compressed(5)
    data = bytearray(built.file())
    data[-20] ^= 0xFF
    data[-200] ^= 0xFF
    file = opened(tmp_path, bytes(data))
    assert len(column(file, "ip")) < 400
    assert file.warnings


def test_a_folder_of_thread_files_is_one_recording(tmp_path: Path) -> None:
    folder = tmp_path / "perf.data"
    folder.mkdir()
    main = simple_recording(0)
    (folder / "data").write_bytes(main.file())
    for number in (0, 1, 10):
        thread = PerfDataBuilder()
        for time in range(1000 + number, 1100, 11):
            thread.sample(time=time)
        (folder / f"data.{number}").write_bytes(bytes(thread.body))
    with PerfData(folder) as file:
        times = column(file, "time")
    assert times == sorted(times)
    assert len(times) == 28


def test_a_pipe_on_a_file_descriptor_is_spooled(tmp_path: Path) -> None:
    data = simple_recording(2000).pipe()
    code = "import sys; from perfpy.perfdata.reader import PerfData; print(sum(len(b) for b in PerfData('-').batches([])))"
    run = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert run.stdout == b"2000\n"


def test_pipe_records_name_and_group_events(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.ID), usual_attr(USUAL | SampleType.ID, config=3)], ids=[(1,), (2,)])
    built.record(perf_records.EventUpdate(0, perf_records.EVENT_UPDATE_NAME, 2, "mine"))
    built.record(perf_records.EventUpdate(0, perf_records.EVENT_UPDATE_SCALE, 2, 0.5))
    built.record(perf_records.EventUpdate(0, perf_records.EVENT_UPDATE_UNIT, 2, "J"))
    built.record(perf_records.EventUpdate(0, perf_records.EVENT_UPDATE_CPUS, 2, (0, 1)))
    built.sample(1, time=5)
    built.feature(Feature.GROUP_DESC, (EventGroup("{anon_group}", 0, 2),))
    file = opened(tmp_path, built.pipe())
    second = file.events[1]
    assert (second.name, second.scale, second.unit, second.cpus, second.leader) == ("mine", 0.5, "J", (0, 1), 0)


def test_samples_without_event_ids_give_a_warning(tmp_path: Path) -> None:
    built = PerfDataBuilder(attrs=[usual_attr(), usual_attr(config=2)], ids=[(1,), (2,)])
    built.sample(time=1).sample(1, time=2)
    file = opened(tmp_path, built.file())
    (batch,) = file.batches()
    assert batch.event.tolist() == [0, 0]
    assert any("have no event id" in warning for warning in file.warnings)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"#!/bin/sh\n" * 20, "not a perf.data"),
        (simple_recording(1).file()[:110], "beyond the file's 110 bytes"),
    ],
)
def test_unreadable_files_are_refused_in_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(BadPerfDataError, match=reason) as caught:
        opened(tmp_path, data)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPerfDataError, match="folder without a recording"):
        PerfData(tmp_path)


def test_a_file_that_is_not_there_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadPerfDataError, match="record one first"):
        PerfData(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused_on_request(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).file())
    os.chown(path, 12345, 12345)
    with pytest.raises(BadPerfDataError, match="-f"):
        PerfData(path, check_owner=True)
    PerfData(path).close()


@pytest.mark.parametrize("mark", [27, 30, 31, 32, 33])
def test_the_end_mark_of_a_pipes_features_is_no_feature(mark: int, tmp_path: Path) -> None:
    """Every version of perf marks the end by the number after its own features."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    built.record(perf_records.HeaderFeature(0, mark, b""))
    built.sample(ip=1, pid=7, tid=7, time=1, period=1)
    path = tmp_path / "pipe.data"
    path.write_bytes(built.pipe())
    with PerfData(str(path)) as data:
        assert len(data.events) == 1
        assert data.warnings == []


def test_build_ids_of_a_pipe_are_its_feature_too(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    built.record(HeaderBuildId(2, -1, bytes(range(20)), "/bin/busy")).sample(time=1)
    file = opened(tmp_path, built.pipe())
    assert [entry.filename for entry in file.features["build_id"]] == ["/bin/busy"]


@pytest.fixture(params=["plain", "compressed", "threads", "little memory"])
def long_recording(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PerfData:
    """Build samples of two sizes, in rounds, across many chunks; "little memory" is too little to keep the chunks' positions."""
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda _, **__: 1 << 16)
    if request.param == "little memory":
        monkeypatch.setattr("perfpy.perfdata.records.stream._MEMORY_FOR_OFFSETS", 3000)
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    for number in range(6000):
        built.sample(time=number + 1 + number % 2 * 90, ip=number, callchain=[1] * (number % 3))
        if number % 500 == 499:
            built.round()
    if request.param == "compressed":
        built.compressed(200)
    file = opened(tmp_path, built.file())
    if request.param != "threads":
        return file
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data").write_bytes((tmp_path / "perf.data").read_bytes())
    (folder / "data.0").write_bytes(bytes(built.body))
    return PerfData(folder)


def test_a_part_of_a_file_equals_that_part_of_the_whole(long_recording: PerfData) -> None:
    def rows(parts: range | None) -> list[list[Any]]:
        batches = long_recording.stored_batches(["ip", "callchain"], parts)
        return [[b.columns["ip"].tolist(), b.columns["callchain"].lengths.tolist(), b.key.tolist(), b.offset.tolist()] for b in batches]

    whole = rows(None)
    assert len(whole) == len(long_recording.record_index.chunk_reads) > 3
    for parts in ([0, 1, len(whole)], [0, 2, 2, 3, len(whole)]):
        assert [row for first, end in pairwise(parts) for row in rows(range(first, end))] == whole
    assert rows(None) == whole


def test_the_second_reading_of_a_file_equals_the_first(long_recording: PerfData) -> None:
    def records_of(data: PerfData) -> list[tuple[Any, ...]]:
        keyed = ((k, k.chunk) for stream in data.records.chunks() for k in stream)
        return [tuple(part.tolist() for part in (c.offsets, c.types, c.sizes, k.keys, k.times)) for k, c in keyed]

    first = records_of(long_recording)
    assert records_of(long_recording) == first
    assert sum(len(chunk[0]) for chunk in first) >= 6000


def test_a_file_that_is_cut_while_it_is_read_ends_there(long_recording: PerfData) -> None:
    path = long_recording.records.streams[0].source.path
    count = sum(long_recording.record_index.sample_counts.values())
    os.truncate(path, os.path.getsize(path) // 2)
    assert 0 < sum(len(batch) for batch in long_recording.batches([])) < count
    assert 0 < sum(len(batch.event) for batch in long_recording.stored_batches([])) < count
    assert any("truncated" in warning for warning in long_recording.warnings)


def test_long_waiting_samples_are_not_sorted_repeatedly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda _, **__: 1 << 16)
    sorted_rows = []

    def watched(keys: Any, times: Any) -> Any:
        sorted_rows.append(len(keys))
        return delivery_order(keys, times)

    monkeypatch.setattr("perfpy.perfdata.records.batches.delivery_order", watched)
    built = PerfDataBuilder()
    for start in (1_000_000, 0):  # the clock goes back: the second half is late
        for number in range(10_000):
            built.sample(time=start + number, ip=start + number)
            if number % 1000 == 999:
                built.round()
    file = opened(tmp_path, built.file())
    assert sorted(column(file, "ip")) == [*range(10_000), *range(1_000_000, 1_010_000)]
    assert len(file.record_index.chunk_reads) > 10
    assert sum(sorted_rows) < 2 * 20_000


# Analysis works on any object with the members of SampleSource.


MEMBERS = {name for protocol in (SourceHeader, SampleSource) for name in vars(protocol) if not name.startswith("_")}


class ProtocolOnly:
    """A source with the members of the protocol only."""

    def __init__(self, data: PerfData) -> None:
        self._source = data

    def __getattr__(self, name: str) -> Any:
        if name not in MEMBERS:
            raise AttributeError(f"{name} is no member of SampleSource")
        return getattr(self._source, name)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    with perfpy.open(path) as result:
        yield result


def rows(source: Any, recording: Recording) -> list[Any]:
    """Return the rows of a report, as values."""
    return make_report(source, recording.timeline, recording.symbolizer(), ReportOptions(), jobs=1).top(10)


def test_a_report_needs_no_more_than_the_protocol(recording):
    assert rows(ProtocolOnly(recording.data), recording) == rows(recording.data, recording) != []


def test_stacks_need_no_more_than_the_protocol(recording):
    def folded(source: Any) -> list[Any]:
        stacks = make_stacks(source, recording.timeline, recording.symbolizer(), StackOptions())
        return [(part.event, part.total) for part in stacks]

    assert folded(ProtocolOnly(recording.data)) == folded(recording.data) != []


def test_named_columns_need_no_more_than_the_protocol(recording):
    def columns(source: Any) -> dict[str, list[Any]]:
        samples = NamedSamples(source, None, lambda: Naming(recording.timeline, recording.symbolizer()))
        return {name: column.tolist() for name, column in samples.to_dict(["ip", "time", "comm", "symbol"]).items()}

    assert columns(ProtocolOnly(recording.data)) == columns(recording.data)


def test_perf_data_implements_the_protocol(recording):
    source: SampleSource = recording.data
    assert source.sample_counts.total() == 20
    assert 0 < source.sample_times[0] < source.sample_times[1]
    assert sum(len(batch.event) for batch in source.stored_batches([], range(source.part_count))) == 20
    (*_, last) = source.batches([])
    assert 0 < source.share_read(last) <= 1


# Small recordings can be read without numpy, as far as their side-band is concerned.


TASKS = (RecordType.COMM, RecordType.FORK)


def disordered(seed: int) -> PerfDataBuilder:
    """Names and forks between samples and rounds, with times that go back, or without time; of one or two events."""
    rng = random.Random(seed)
    sample_type = rng.choice((USUAL, USUAL | SampleType.IDENTIFIER, USUAL & ~SampleType.TIME, SampleType.TIME | SampleType.CPU))
    attr = usual_attr(sample_type, sample_id_all=rng.random() < 0.9)
    built = PerfDataBuilder([attr], [(5,)], endian=rng.choice("<>"))
    if sample_type & SampleType.IDENTIFIER:
        built.attrs.append(attr.copy(sample_type=sample_type | SampleType.PERIOD | SampleType.RAW))
        built.ids.append((6, 7))
    for number in range(60):
        event, time = rng.randrange(len(built.attrs)), max(0, 1000 + 10 * number - rng.choice((0, 0, 5, 300, 5000)))
        at = SampleId(pid=number, tid=number, time=time, identifier=built.ids[event][0], cpu=0)
        match rng.randrange(4):
            case 0:
                built.round()
            case 1:
                built.sample(event, ip=1, pid=7, tid=7, time=time, period=1, raw=b"")
            case 2:
                built.record(records.Comm(0, number, number, f"name{number}", at), event)
            case _:
                built.record(records.Fork(0, number, 1, number, 1, time, at), event)
    return built


@pytest.mark.parametrize("seed", range(60))
def test_few_records_are_those_of_the_side_band_in_its_order(tmp_path: Path, seed: int) -> None:
    with opened(tmp_path, disordered(seed).file()) as data:
        few = data.few_records(TASKS)
        assert few == [side.record for side in data.side_band(TASKS)]
        assert not data.warnings


@pytest.mark.parametrize("seed", range(60))
def test_few_records_of_a_damaged_recording_are_right_or_left_to_those_who_warn(tmp_path: Path, seed: int) -> None:
    built, rng = disordered(seed), random.Random(seed)
    for _ in range(rng.choice((1, 3, 20))):
        built.body[rng.randrange(len(built.body))] = rng.choice((0, 8, 255, rng.randrange(256)))
    with opened(tmp_path, built.file()[: -rng.choice((1, 8, 1000)) or None] if rng.random() < 0.3 else built.file()) as data:
        before = list(data.warnings)
        few = data.few_records(TASKS)
        if few is not None:
            assert few == [side.record for side in data.side_band(TASKS)]
            assert data.warnings == before


def test_unusual_recordings_have_no_few_records(tmp_path: Path) -> None:
    """Those that need numpy, and those of which a warning tells."""
    plain = simple_recording(3).file()
    without_ids = PerfDataBuilder([usual_attr(), usual_attr()]).sample(ip=1, time=1)
    elsewhere = PerfDataBuilder([usual_attr(USUAL | SampleType.ID), usual_attr(USUAL | SampleType.ID | SampleType.ADDR)], [(1,), (2,)])
    unusual = {
        "pipe": simple_recording(3).pipe(),
        "compressed": simple_recording(3).compressed().file(),
        "foreign": simple_recording(3).raw(header_of(0x8001, 8)).file(),
        "cut": simple_recording(3).raw(header_of(RecordType.COMM, 400)).file(),
        "too short": simple_recording(3).raw(header_of(RecordType.COMM, 8)).file(),
        "odd size": simple_recording(3).raw(header_of(RecordType.COMM, 12) + bytes(4)).file(),
        "no size": simple_recording(3).raw(bytes(8)).file(),
        "trace": simple_recording(3).record(perf_records.Auxtrace(0, 0, 0, 0, 0, 0, 0)).file(),
        "no ids": without_ids.file(),
        "ids elsewhere": elsewhere.file(),
        "large": simple_recording(3).raw(header_of(RecordType.FINISHED_INIT, 8) * (1 << 16)).file(),
    }
    with opened(tmp_path, plain) as data:
        assert data.few_records(TASKS)
    for name, content in unusual.items():
        with opened(tmp_path, content) as data:
            assert data.few_records(TASKS) is None, name
