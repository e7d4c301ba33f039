"""The header of a file and its features."""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import perf_records
from perfpy.abi.attr import EventAttr
from perfpy.abi.framing import HeaderBuildId, with_header
from perfpy.perfdata.header import (
    FEATURE_NAMES,
    MAGIC_V1,
    AttrEntry,
    CpuCount,
    CpuLocation,
    CpuTopology,
    Feature,
    FileHeader,
    FileSection,
    NumaNode,
    PipeHeader,
    PmuMapping,
    decode_attr_table,
    decode_feature,
    decode_header,
    encode_feature,
    key_of,
)
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records.pipe_preamble import early_features
from perfpy.perfdata.source import open_source
from tests.builders.perfdata import simple_recording
from tests.builders.specimens import FEATURES

if TYPE_CHECKING:
    from pathlib import Path


# File header, pipe header and attr table: encode, decode, and refuse with a reason.


@pytest.mark.parametrize("endian", "<>")
def test_a_file_header_round_trips(endian: str) -> None:
    header = FileHeader(endian, 2, 144, FileSection(104, 144), FileSection(248, 99), FileSection(0, 0), (2, 3, 64, 129))
    assert decode_header(header.encode()) == header


@pytest.mark.parametrize("endian", "<>")
def test_a_pipe_header_round_trips(endian: str) -> None:
    assert decode_header(PipeHeader(endian).encode()) == PipeHeader(endian)


@pytest.mark.parametrize("endian", "<>")
def test_the_byte_order_of_version_1_follows_from_the_attr_size(endian: str) -> None:
    header = FileHeader(endian, 1, 64 + 16, FileSection(104, 80), FileSection(184, 8), FileSection(0, 0), (2,))
    decoded = decode_header(header.encode())
    assert isinstance(decoded, FileHeader)
    assert (decoded.endian, decoded.version, decoded.features) == (endian, 1, (2,))
    assert header.encode().startswith(MAGIC_V1)


def test_feature_words_of_a_32_bit_big_endian_writer_are_recognised() -> None:
    raw = bytearray(FileHeader(">", 2, 144, FileSection(104, 144), FileSection(248, 0), FileSection(0, 0), ()).encode())
    raw[72:76] = struct.pack(">I", 1 << 2 | 1 << 3)
    decoded = decode_header(bytes(raw))
    assert isinstance(decoded, FileHeader)
    assert decoded.features == (2, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"PERFILE2", "too short"),
        (b"\x7fELF" + bytes(100), "not a perf.data"),
        (b"PERFILE2" + struct.pack("<12Q", 55, *range(11)), "header of 55 bytes"),
        (b"PERFILE2" + struct.pack("<Q", 104), "truncated"),
        (b"PERFFILE" + struct.pack("<2Q", 104, 7) + bytes(80), "version 1"),
    ],
)
def test_invalid_headers_are_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_header(data)


def test_truncated_headers_are_refused() -> None:
    whole = FileHeader("<", 2, 144, FileSection(104, 144), FileSection(248, 99), FileSection(0, 0), (3,)).encode()
    for size in range(len(whole)):
        with pytest.raises(ValueError, match=r"empty|short|truncated"):
            decode_header(whole[:size])


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("size", [64, 72, 112, 136, 144, 160])
def test_an_attr_table_of_any_attr_size_round_trips(endian: str, size: int) -> None:
    entry = AttrEntry(EventAttr(type=1, config=3, sample_period=9, size=size), FileSection(500, 16))
    (decoded,) = decode_attr_table(entry.encode(endian), size + 16, endian)
    assert decoded == entry
    assert decoded.attr.size == size


def test_a_longer_attr_than_is_known_must_end_in_zeros() -> None:
    data = bytearray(AttrEntry(EventAttr(size=160), FileSection(0, 0)).encode())
    assert len(decode_attr_table(bytes(data), 176, "<")) == 1
    data[150] = 1
    with pytest.raises(ValueError, match="use a newer one"):
        decode_attr_table(bytes(data), 176, "<")


@pytest.mark.parametrize(("data", "size"), [(bytes(80), 22), (bytes(81), 80)])
def test_impossible_attr_tables_are_refused(data: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="attr table"):
        decode_attr_table(data, size, "<")


# Feature sections: encode and decode are inverse, and truncated sections are refused.


#: features whose truncation goes unnoticed: raw bytes, empty marks, lists that end with the section, parts missing in older files
OPEN_ENDED = {
    Feature.TRACING_DATA,
    Feature.BRANCH_STACK,
    Feature.STAT,
    Feature.BUILD_ID,
    Feature.CPU_TOPOLOGY,
    Feature.AUXTRACE,
    Feature.CPU_DOMAIN_INFO,
}


def test_there_is_a_value_of_every_feature() -> None:
    assert set(FEATURES) == set(FEATURE_NAMES)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_decode_reverses_encode(feature: int, endian: str) -> None:
    data = encode_feature(feature, FEATURES[feature], endian)
    assert decode_feature(feature, data, endian, cpus=2) == FEATURES[feature]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_a_section_cut_at_any_byte_is_refused(feature: int, endian: str) -> None:
    data = encode_feature(feature, FEATURES[feature], endian)
    for size in range(len(data)):
        if feature in OPEN_ENDED:
            try:
                decode_feature(feature, data[:size], endian, cpus=2)
            except ValueError:
                continue
        else:
            with pytest.raises(ValueError, match=r"expected|entries|left|cut|cache|memory"):
                decode_feature(feature, data[:size], endian, cpus=2)


@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_no_count_makes_more_values_than_there_are_bytes(feature: int) -> None:
    data = bytearray(encode_feature(feature, FEATURES[feature]))
    for at in range(0, len(data) - 3, 4):
        huge = bytes(data[:at]) + b"\xff\xff\xff\x7f" + bytes(data[at + 4 :])
        try:
            decode_feature(feature, huge, cpus=2)
        except ValueError:
            continue


def test_build_ids_of_files_without_a_pid_are_recognised() -> None:
    whole = encode_feature(Feature.BUILD_ID, (HeaderBuildId(1, -1, bytes(range(20)), "[kernel.kallsyms]"),))
    old = whole[:6] + (len(whole) - 4).to_bytes(2, "little") + whole[12:]
    (record,) = decode_feature(Feature.BUILD_ID, old)
    assert (record.filename, record.build_id) == ("[kernel.kallsyms]", bytes(range(20)))


def test_a_cpu_topology_without_places_or_dies_is_read() -> None:
    topology = CpuTopology(("0-1",), ("0-1",), (CpuLocation(0, 0), CpuLocation(1, 0)))
    data = encode_feature(Feature.CPU_TOPOLOGY, topology)
    assert decode_feature(Feature.CPU_TOPOLOGY, data) == topology
    assert decode_feature(Feature.CPU_TOPOLOGY, data[:-16], cpus=2) == topology._replace(cpus=())


def test_an_auxtrace_index_without_its_count_is_read() -> None:
    data = encode_feature(Feature.AUXTRACE, FEATURES[Feature.AUXTRACE])
    assert decode_feature(Feature.AUXTRACE, data[8:]) == FEATURES[Feature.AUXTRACE]


# Pipes with features in records of types 69 to 81, as Google's perf 3.x wrote them.


FRONT = 16  # size of a pipe's header
VALUES = {
    69: (Feature.HOSTNAME, "vm"),
    73: (Feature.NRCPUS, CpuCount(8, 4)),
    77: (Feature.CMDLINE, ("perf", "record", "-o", "-")),
    80: (Feature.NUMA_TOPOLOGY, (NumaNode(0, 100, 50, "0-3"),)),
    81: (Feature.PMU_MAPPINGS, (PmuMapping(4, "cpu"),)),
}


def early_records(endian: str) -> bytes:
    return b"".join(with_header(kind, 0, encode_feature(*value, endian), endian) for kind, value in VALUES.items())


def early_pipe(endian: str) -> bytes:
    whole = simple_recording(5, endian=endian).pipe()
    return whole[:FRONT] + early_records(endian) + whole[FRONT:]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


@pytest.mark.parametrize("endian", "<>")
def test_features_and_following_records_are_read(path: Path, endian: str) -> None:
    path.write_bytes(early_pipe(endian))
    with PerfData(path) as data:
        assert data.features == {key_of(feature): value for feature, value in VALUES.values()}
        assert set(data.feature_sections) == {feature for feature, _ in VALUES.values()}
        assert sum(len(batch) for batch in data.batches()) == 5
        assert len(list(data.side_band())) == len(data.attr_records) + 2
        assert data.warnings == []


def test_records_keep_their_offsets_in_the_file(path: Path) -> None:
    path.write_bytes(early_pipe("<"))
    with PerfData(path) as data:
        assert data.data.offset == FRONT + len(early_records("<"))
        assert data.data.end == data.size


def test_an_id_index_in_front_is_an_id_index(path: Path) -> None:
    index = perf_records.IdIndex(0, tuple(perf_records.IdIndexEntry(number, number, 0, -1 & 0xFFFFFFFF) for number in range(3)))
    whole = simple_recording(5).pipe()
    path.write_bytes(whole[:FRONT] + perf_records.encode(index, "<") + whole[FRONT:])
    with PerfData(path) as data:
        assert data.features == {}
        assert data.data.offset == FRONT
        assert index in [side.record for side in data.side_band()]


def test_a_pipe_truncated_within_its_features_is_read_up_to_there(path: Path) -> None:
    whole = early_pipe("<")
    first = encode_feature(Feature.HOSTNAME, "vm")
    for cut in range(FRONT, FRONT + len(early_records("<"))):
        path.write_bytes(whole[:cut])
        with closing(open_source(path)) as source:
            result, begin = early_features(source, FRONT, "<")
        assert begin <= cut
        assert [number for number, _ in result] == [int(feature) for feature, _ in VALUES.values()][: len(result)]
        assert bool(result) == (cut >= FRONT + 8 + len(first))
