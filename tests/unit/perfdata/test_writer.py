"""Written files are readable, and end after whole records on a full disk."""

from __future__ import annotations

import errno
import os
import struct
import sys

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.perf_records import HeaderTracingData, decode
from perfpy.abi.records import NO_ID, Comm, encode
from perfpy.capture.record_options import compression_of_unwound
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata import kept_files
from perfpy.perfdata.header import Feature, FileHeader, FileSection, PipeHeader, decode_attr_table, decode_header, encode_feature
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.stream import zstd_decompressor
from perfpy.perfdata.writer import FINISHED_ROUND, FileWriter, Packer, PipeWriter, WrittenEvent
from perfpy.untrusted import expansion

EVENTS = [WrittenEvent(EventAttr(type=1, sample_type=7), (11, 12)), WrittenEvent(EventAttr(type=2, sample_type=7), (13,))]
FEATURES = {Feature.HOSTNAME: encode_feature(Feature.HOSTNAME, "box"), Feature.ARCH: encode_feature(Feature.ARCH, "z80")}


def comm(name: str) -> bytes:
    return encode(Comm(0, 1, 1, name), NO_ID, NATIVE_ENDIAN)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perf.data")


def written(path, *records):
    writer = FileWriter(path)
    writer.begin(EVENTS, {})
    for record in records:
        writer.write(*record)
    return writer


def test_a_finished_file_reads_back(path):
    writer = written(path, [comm("one")], [comm("two")[:5], comm("two")[5:]], [FINISHED_ROUND])
    writer.finish(FEATURES)
    writer.close()
    with open(path, "rb") as file:
        data = file.read()
    header = decode_header(data)
    assert isinstance(header, FileHeader)
    assert header.features == (Feature.HOSTNAME, Feature.ARCH)
    assert data[header.data.offset : header.data.end] == comm("one") + comm("two") + FINISHED_ROUND
    table = decode_attr_table(data[header.attrs.offset : header.attrs.end], header.attr_size, NATIVE_ENDIAN)
    assert [struct.unpack_from(f"{entry.ids.size // 8}Q", data, entry.ids.offset) for entry in table] == [(11, 12), (13,)]
    with PerfData(path) as read:
        assert (read.features["hostname"], read.features["arch"]) == ("box", "z80")
        assert [event.ids for event in read.events] == [(11, 12), (13,)]
        assert [side.record.comm for side in read.side_band()] == ["one", "two"]


def test_the_file_of_a_killed_recorder_has_its_head(path):
    written(path, [comm("one")])
    with open(path, "rb") as file:
        header = decode_header(file.read())
    assert isinstance(header, FileHeader)
    assert header.data.size == 0
    assert header.attrs.size == 2 * header.attr_size


def test_a_marked_file_has_the_size_of_its_data(path):
    writer = FileWriter(path)
    writer.begin([WrittenEvent(EventAttr(), (7,))], {})
    writer.write(FINISHED_ROUND)
    writer.mark()
    writer.write(FINISHED_ROUND)
    with open(path, "rb") as file:
        header = decode_header(file.read())
    assert isinstance(header, FileHeader)
    assert header.data.size == len(FINISHED_ROUND)
    assert header.data.end == os.path.getsize(path) - len(FINISHED_ROUND)
    writer.close()


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(OutputFailedError, match="No such file or directory"):
        FileWriter(str(tmp_path / "nowhere" / "perf.data"))


def test_a_full_disk_keeps_whole_records_and_the_file_readable(path, monkeypatch):
    writer = written(path, [comm("one")])
    real = os.writev

    def full(fd, slices):
        real(fd, [b"".join(slices)[: len(comm("two")) + 3]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OutputFailedError, match="the recording up to here is kept"):
        writer.write(comm("two"), comm("three"))
    monkeypatch.setattr(os, "writev", real)
    data = writer.data
    writer.finish({})
    writer.close()
    with PerfData(path) as read:
        assert next(side.record.comm for side in read.side_band()) == "one"
    assert data.size % 8 == 0


def test_no_room_for_the_features_leaves_a_file_without_them(path, monkeypatch):
    writer = written(path, [comm("one")])
    monkeypatch.setattr(os, "writev", lambda fd, slices: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OutputFailedError):
        writer.finish(FEATURES)
    monkeypatch.undo()
    writer.close()
    with open(path, "rb") as file:
        header = decode_header(file.read())
    assert isinstance(header, FileHeader)
    assert (header.features, header.data.size) == ((), len(comm("one")))


def test_nothing_is_said_to_be_kept_if_the_head_did_not_fit(path, monkeypatch):
    def full(fd, slices):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = FileWriter(str(path))
    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OutputFailedError, match=r"No space left on device; free some space$"):
        writer.begin([WrittenEvent(EventAttr(), (1,))], {})
    writer.close()


def test_a_disk_that_is_full_when_the_file_is_closed_is_reported(path, monkeypatch):
    """As NFS does it."""
    writer = FileWriter(str(path))
    fd, close = writer.fd, os.close

    def full(closed):
        close(closed)
        if closed == fd:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "close", full)
    with pytest.raises(OutputFailedError, match="No space left on device"):
        writer.close()
    writer.close()  # once is enough


def test_short_writes_are_continued(path, monkeypatch):
    writer = written(path)
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, slices: real(fd, [b"".join(slices)[:7]]))
    writer.write(comm("one"), comm("two"))
    monkeypatch.undo()
    assert writer.data == FileSection(writer.data.offset, len(comm("one") + comm("two")))


def test_a_pipe_has_events_features_and_formats_in_front():
    reading, writing = os.pipe()
    writer = PipeWriter(writing)
    writer.begin(EVENTS, FEATURES | {Feature.TRACING_DATA: b"12345", Feature.BUILD_ID: b"left out"})
    writer.write(comm("one"))
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    assert isinstance(decode_header(data), PipeHeader)
    kinds, at = [], 16
    while at < len(data):
        kind, misc, size = struct.unpack_from("=IHH", data, at)
        kinds.append(kind)
        if kind == RecordType.HEADER_TRACING_DATA:
            record = decode(kind, misc, data[at + 8 : at + size], NATIVE_ENDIAN)
            assert isinstance(record, HeaderTracingData)
            size += record.size
        at += size
    features = [RecordType.HEADER_FEATURE] * 3  # two, and the mark after the last
    assert kinds == [RecordType.HEADER_ATTR] * 2 + features + [RecordType.HEADER_TRACING_DATA, RecordType.COMM]


def test_packed_records_are_one_stream(path):
    packer = Packer(1)
    writer = FileWriter(path)
    writer.begin(EVENTS, {})
    writer.write(*packer.pack(comm("one") * 3000, comm("two")))
    writer.write(*packer.pack(comm("three")))
    writer.finish({})
    writer.close()
    with PerfData(path) as read:
        names = [side.record.comm for side in read.side_band()]
    assert (len(names), names[0], names[-2:]) == (3002, "one", ["two", "three"])
    assert packer.ratio > 1


def test_a_marked_file_has_its_features_until_more_is_written(path):
    writer = written(path, [comm("one")])
    writer.mark_with(FEATURES)
    with PerfData(path) as read:
        assert (read.features["hostname"], [side.record.comm for side in read.side_band()]) == ("box", ["one"])
    writer.write(comm("two") * 20)
    writer.finish({Feature.ARCH: FEATURES[Feature.ARCH]})
    writer.close()
    with PerfData(path) as read:
        assert read.features == {"arch": "z80"}
        assert [side.record.comm for side in read.side_band()] == ["one", *["two"] * 20]


# Compression without zstd installed: features that need it fail with one line, others work.


@pytest.fixture
def without_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    for package in ("compression", "backports"):
        if package in sys.modules:
            monkeypatch.delattr(sys.modules[package], "zstd", raising=False)


@pytest.mark.usefixtures("without_zstd")
def test_features_that_need_zstd_fail_with_one_line():
    with pytest.raises(PerfError, match=r"^compression: zstd is missing; install backports\.zstd"):
        Packer(1)
    with pytest.raises(PerfError, match=r"^compressed records: zstd is missing; install backports\.zstd"):
        zstd_decompressor()
    with pytest.raises(expansion.ExpansionError, match=r"install backports\.zstd"):
        expansion.expand("zstd", b"", 10)


@pytest.mark.usefixtures("without_zstd")
def test_other_features_work_without_zstd():
    assert compression_of_unwound() == 0
    text = b"7f0000001000 10 py::f:/a.py\n" * 100
    section = kept_files.encode({"/tmp/perf-7.map": text}, "<")
    assert len(section) < len(text)
    warnings: list[str] = []
    files = kept_files.KeptFiles(lambda offset, size: section[offset : offset + size], len(section), "<", warnings.append)
    assert (files.get("/tmp/perf-7.map"), warnings) == (text, [])


def test_records_of_unwound_stacks_are_compressed_with_zstd():
    assert compression_of_unwound() == 1
