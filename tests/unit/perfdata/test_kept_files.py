"""Files stored inside of a recording."""

from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from perfpy.perfdata.header import KEPT_FILES
from perfpy.perfdata.kept_files import KeptFiles, encode
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"/tmp/perf-77.map": b"7f00 10 py::f:/a.py\n" * 500, "/root/jitted-77-1.so": bytes(range(256)) * 3, "\udcff": b"", "short": b"x"}


def opened(section: bytes, endian: str = "<") -> tuple[KeptFiles, list[str]]:
    warnings: list[str] = []
    return KeptFiles(lambda offset, size: section[offset : offset + size], len(section), endian, warnings.append), warnings


@pytest.mark.parametrize("endian", ["<", ">"])
def test_files_come_back_as_they_were_kept(endian: str):
    files, warnings = opened(encode(FILES, endian), endian)
    assert {name: files.get(name) for name in files} == FILES
    assert (len(files), "short" in files, files.get("else"), warnings) == (4, True, None, [])


def test_repetitive_files_are_compressed():
    assert len(encode(FILES, "<")) < 1500


def test_files_that_compress_beyond_the_expansion_limit_are_stored_uncompressed():
    zeros = bytes(5 << 20)  # zstd makes some hundred bytes of it
    files, warnings = opened(encode({"zeros": zeros}, "<"))
    assert (files.get("zeros") == zeros, warnings) == (True, [])


def test_zlib_is_read_too():
    packed = zlib.compress(b"names" * 100)
    name = struct.pack("<QQHB", 500, len(packed), 1, 1) + b"m"
    files, _ = opened(struct.pack("<8sII", b"perfpy\1\0", 1, len(name)) + name + packed)
    assert files.get("m") == b"names" * 100


def test_a_damaged_file_is_skipped_and_the_others_are_read():
    section = encode(FILES, "<")
    where = section.index(b"\x78\x9c")  # the first zlib stream: small files are not worth loading zstd
    files, warnings = opened(section[: where + 6] + b"\xff\xff\xff" + section[where + 9 :])
    assert files.get("/tmp/perf-77.map") is None
    assert files.get("short") == b"x"
    assert warnings == [warnings[0]]
    assert warnings[0].startswith("'/tmp/perf-77.map' in the recording: ")


def test_a_decompression_bomb_is_refused():
    packed = zlib.compress(bytes(64 << 20))
    name = struct.pack("<QQHB", 64 << 20, len(packed), 1, 1) + b"m"
    files, warnings = opened(struct.pack("<8sII", b"perfpy\1\0", 1, len(name)) + name + packed)
    assert files.get("m") is None
    assert "become more than" in warnings[0]


def test_a_truncated_section_is_refused_or_gives_its_whole_files():
    section = encode(FILES, "<")
    for size in range(0, len(section), 3):
        try:
            files, _ = opened(section[:size])
        except ValueError:
            continue
        assert {files.get(name) for name in files} <= {*FILES.values(), None}


def test_changed_bytes_raise_no_other_error():
    section, chance = encode(FILES, "<"), random.Random(1)
    for _ in range(300):
        changed = bytearray(section)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            files, _ = opened(bytes(changed))
        except ValueError:
            continue
        for name in files:
            files.get(name)


def test_a_recording_lists_its_kept_files(tmp_path: Path):
    builder = PerfDataBuilder().sample(ip=1, pid=77, tid=77, time=5, period=1)
    builder.features[KEPT_FILES] = encode(FILES, "<")
    (tmp_path / "perf.data").write_bytes(builder.file())
    with Recording(str(tmp_path / "perf.data")) as recording:
        kept_files = recording.data.kept_files
        assert kept_files is not None
        assert kept_files.get("short") == b"x"
        assert recording.warnings == []


def test_a_damaged_section_is_a_warning(tmp_path: Path):
    builder = PerfDataBuilder().sample(ip=1, pid=77, tid=77, time=5, period=1)
    builder.features[KEPT_FILES] = b"nothing of that kind"
    (tmp_path / "perf.data").write_bytes(builder.file())
    with Recording(str(tmp_path / "perf.data")) as recording:
        assert recording.data.kept_files is None
        assert "kept files: no section of kept files; skipped" in recording.warnings[0]
