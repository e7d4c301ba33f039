"""File header, pipe header and attr table: encode, decode, and refuse with a reason."""

from __future__ import annotations

import struct

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.perfdata.header import MAGIC_V1, AttrEntry, FileHeader, FileSection, PipeHeader, decode_attr_table, decode_header


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
