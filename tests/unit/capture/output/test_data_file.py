"""The end of a file: scans of plain and compressed records, marks of mappings without build-ids, and truncated attrs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.records import Mmap2
from perfpy.abi.sample_id import NO_ID
from perfpy.abi.samples.encoding import encode_sample
from perfpy.capture.dso_hits import DsoHits
from perfpy.capture.output.data_file import looks_at_chains, scan_part, truncate_attr
from perfpy.capture.output.output import OutputPart
from perfpy.capture.record_options import RecordOptions, SamplingOptions
from perfpy.perfdata.container.compression import Packer
from tests.builders.perfdata import usual_attr

ON_DISK = (0xFE, 0, 349700, 0)  # maj, min, ino, generation of a file; 0xfe would be the size of a build-id
BUILD_ID = bytes(range(1, 21))


def mapping(name: str, misc: int, place: tuple[int, int, int, int] = (0, 0, 0, 0), build_id: bytes = b"") -> bytes:
    return records.encode(Mmap2(misc | MISC_USER, 1, 1, 0x400000, 0x1000, 0, *place, 5, 2, name, build_id), NO_ID, NATIVE_ENDIAN)


def scanned(path, *parts: bytes, packed: bool = False, begin: int = 24) -> DsoHits:
    path.write_bytes(bytes(begin) + b"".join(parts))
    fd = os.open(path, os.O_RDWR)
    hits = DsoHits([usual_attr()])
    content = path.read_bytes()
    scan_part(memoryview(content)[begin:], OutputPart(fd, begin, len(content), []), hits, packed=packed)
    os.close(fd)
    return hits


def test_a_mapping_with_a_wrong_build_id_flag_is_corrected(tmp_path):
    wrong = mapping("/lib/wrong", MISC_MMAP_BUILD_ID, ON_DISK)
    right = mapping("/lib/right", MISC_MMAP_BUILD_ID, build_id=BUILD_ID)
    plain = mapping("/lib/plain", 0, ON_DISK)
    hits = scanned(tmp_path / "file", plain, wrong, right)
    assert {dso.name: dso.build_id for dso in hits.dsos.values()} == {"/lib/plain": b"", "/lib/wrong": b"", "/lib/right": BUILD_ID}
    assert (tmp_path / "file").read_bytes()[24:] == plain + mapping("/lib/wrong", 0, ON_DISK) + right


@pytest.mark.parametrize("place", [ON_DISK, (8, 1, 12345, 7), (8, 1, 1 << 40, 0), (0, 39, 77, 0), (0x103, 1, 5, 0)])
def test_numbers_of_a_file_are_no_build_id(place):
    record = records.decode(10, MISC_MMAP_BUILD_ID | MISC_USER, mapping("/lib/x", 0, place)[8:], NO_ID, NATIVE_ENDIAN)
    assert isinstance(record, Mmap2)
    assert (record.misc, record.maj, record.min, record.ino, record.ino_generation, record.build_id) == (MISC_USER, *place, b"")


def test_hit_files_of_compressed_recordings_are_found(tmp_path):
    packer = Packer(1)
    samples = [encode_sample(usual_attr(), {"ip": 0x400010, "pid": 1, "time": time}, NATIVE_ENDIAN) for time in range(1, 5000)]
    first = b"".join(packer.pack(mapping("/lib/hit", 0, ON_DISK), *samples[:2000]))
    between = mapping("/lib/other", 0, ON_DISK)
    rest = b"".join(packer.pack(*samples[2000:]))
    hits = scanned(tmp_path / "file", first, between, rest, packed=True)
    assert (hits.samples, hits.first_time, hits.last_time) == (4999, 1, 4999)
    assert [dso.name for dso in hits.hit()] == ["/lib/hit", "/lib/other"]


def test_callchains_are_checked_whether_or_not_a_person_reads_the_hint():
    chains = usual_attr(int(SampleType.CALLCHAIN))
    for notes in (False, True):
        assert looks_at_chains(RecordOptions(notes=notes), [chains])
    assert not looks_at_chains(RecordOptions(quiet=True, notes=True), [chains])
    assert not looks_at_chains(RecordOptions(sampling=SamplingOptions(unwind=True)), [chains])
    assert not looks_at_chains(RecordOptions(), [chains, usual_attr()])


@pytest.mark.parametrize(
    ("release", "config3", "size"), [("6.18.1", 0, 136), ("6.3.0-1-x", 0, 136), ("6.1.0-56-arm64", 0, 128), ("6.1.0", 1, 136)]
)
def test_a_perf_as_old_as_the_kernel_reads_the_attrs(monkeypatch, release, config3, size):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    attr = EventAttr(type=1, config3=config3)
    assert truncate_attr(attr).size == size
    assert len(truncate_attr(attr).pack("<")) == size
    assert truncate_attr(attr) == attr
