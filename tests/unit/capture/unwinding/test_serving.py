"""The file of a killed recorder is completed: each piece is in it once, whenever the recorder ended."""

from __future__ import annotations

import os

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.records import NO_ID, Comm, encode
from perfpy.capture.unwinding import process
from perfpy.capture.unwinding.process import DISK, MEMORY, Extent, PublishedExtents, Spool
from perfpy.capture.unwinding.serving import Rescue
from perfpy.perfdata.features import Feature, encode_feature
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import FINISHED_ROUND, FileWriter, WrittenEvent

FEATURES = {Feature.HOSTNAME: encode_feature(Feature.HOSTNAME, "box")}


def comm(name: str) -> bytes:
    return encode(Comm(0, 1, 1, name), NO_ID, NATIVE_ENDIAN)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perf.data")


@pytest.fixture
def writer(path):
    writer = FileWriter(path)
    writer.begin([WrittenEvent(EventAttr(type=1, sample_type=7), (11,))], {})
    writer.write(comm("before"))
    writer.mark()
    yield writer
    writer.close()


def rescue_of(path: str, *pieces: str) -> Rescue:
    rescue = Rescue(path)
    rescue.features = FEATURES
    for name in pieces:
        rescue.keep([comm(name)])
    return rescue


def tell(rescue: Rescue, writer: FileWriter) -> None:
    rescue.written(os.fstat(writer.fd).st_ino, writer.size)


def put(writer: FileWriter, name: str) -> None:
    writer.write(comm(name), FINISHED_ROUND)
    writer.mark()


def read(path: str) -> list[str]:
    with PerfData(path) as data:
        assert data.features["hostname"] == "box"
        names = [side.record.comm for side in data.side_band()]
        assert not data.warnings
    return names


def test_pieces_handed_over_and_not_written_are_written(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    rescue.finish([[comm("three"), comm("four")], [comm("five")]])
    assert read(path) == ["before", "one", "two", "three", "four", "five"]


def test_half_a_piece_counts_for_nothing(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    writer.write(comm("two")[:-3])
    rescue.finish([])
    assert read(path) == ["before", "one", "two"]


def test_a_marked_but_unpublished_piece_is_written_once(path, writer):
    rescue = rescue_of(path, "one", "two", "three")
    put(writer, "one")
    tell(rescue, writer)
    put(writer, "two")
    rescue.finish([])
    assert read(path) == ["before", "one", "two", "three"]


def test_before_the_first_round_all_is_written(path, writer):
    rescue_of(path, "one").finish([])
    assert read(path) == ["before", "one"]


def test_another_file_of_the_same_name_gets_its_own_records(path, writer):
    rescue = rescue_of(path, "one", "two")
    put(writer, "one")
    tell(rescue, writer)
    os.rename(path, path + ".1")
    second = FileWriter(path)
    second.begin([WrittenEvent(EventAttr(type=1, sample_type=7), (11,))], {})
    second.write(comm("once more") * 50)
    second.mark()
    rescue.finish([])
    assert read(path) == ["once more"] * 50 + ["two"]


@pytest.mark.parametrize("content", [b"", b"PERFILE2", b"x" * 300])
def test_a_file_that_is_no_recording_stays_unchanged(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=r"empty|short|magic|header|no "):
        rescue_of(path, "one").finish([])
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_link_in_its_place_is_not_followed(path, writer, tmp_path):
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        rescue_of(path, "one").finish([])
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_the_open_piece_can_be_found_by_another_process(tmp_path):
    spool = Spool(str(tmp_path), 8192)
    published_extents = PublishedExtents(spool.open_piece)
    assert published_extents.extents() == []
    spool.write([bytes(5000)])
    spool.write([bytes(5000)])
    assert published_extents.extents() == [Extent(MEMORY, 0, 8192), Extent(DISK, 0, 1808)]
    spool.close_piece()
    assert published_extents.extents() == []
    spool.close()


def test_features_come_through():
    features = {1: b"", 24: b"abc", 7: bytes(9)}
    assert process.decode_features(process.encode_features(features)) == features


def test_the_file_is_completed_in_the_folder_that_was_opened(tmp_path, writer):
    """Others may exchange the folder for one with another recording of the same name."""
    (tmp_path / "a").mkdir()
    os.rename(tmp_path / "perf.data", tmp_path / "a/perf.data")
    (tmp_path / "dir").symlink_to("a")
    rescue = rescue_of(str(tmp_path / "dir/perf.data"), "one")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/perf.data").write_bytes((tmp_path / "a/perf.data").read_bytes())
    (tmp_path / "dir").unlink()
    (tmp_path / "dir").symlink_to("b")
    before = (tmp_path / "b/perf.data").read_bytes()
    tell(rescue, writer)
    rescue.keep([comm("two")])
    rescue.finish([])
    assert read(str(tmp_path / "a/perf.data")) == ["before", "two"]
    assert (tmp_path / "b/perf.data").read_bytes() == before
