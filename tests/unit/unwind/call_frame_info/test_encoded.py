"""Numbers of call frame information: whatever was written is read back, and nothing is read from beyond the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.unwind.call_frame_info.encoded import ByteReader
from tests.builders.call_frames import sleb, uleb


def reader(data: bytes, **values: int) -> ByteReader:
    return ByteReader(data, "<", values.pop("word", 8), **values)


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_numbers_round_trip(number):
    assert reader(uleb(number)).uleb() == number


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_round_trip(number):
    assert reader(sleb(number)).sleb() == number


@given(st.binary(max_size=12))
def test_random_bytes_give_a_number_or_raise(data):
    for read in (ByteReader.uleb, ByteReader.sleb, ByteReader.text):
        number = reader(data)
        try:
            read(number)
        except ValueError:
            continue
        assert number.position <= len(data)


def test_a_number_ends_where_its_reader_does():
    limited = reader(b"\x80\x01", end=1)
    with pytest.raises(ValueError, match="beyond the end"):
        limited.uleb()


@pytest.mark.parametrize(
    ("encoding", "data", "value"),
    [
        (0x00, b"\x10\0\0\0\0\0\0\0", 0x10),
        (0x1B, b"\xf0\xff\xff\xff", 0x1000 - 16),  # relative to where it stands
        (0x3B, b"\x10\0\0\0", 0x2010),  # relative to the data
        (0x0A, b"\xff\xff", (1 << 64) - 1),
        (0x01, b"\x80\x01", 0x80),
        (0x09, b"\x7f", (1 << 64) - 1),
        (0x9B, b"\x10\0\0\0", 0),  # says where the pointer is, not what
    ],
)
def test_pointers_are_relative_to_the_origin_in_their_encoding(encoding, data, value):
    assert reader(data).pointer(encoding, 0x1000, 0x2000) == value


def test_pointers_of_32_bits_wrap_around():
    assert reader(b"\xf0\xff\xff\xff", word=4).pointer(0x1B, 0, 0) == 0xFFFFFFF0
