"""Compressed bytes become what is inside, and never more than they may."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import struct
import sys
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.untrusted.expansion import ExpansionError, allowance, expand

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.compress, "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd.compress}
KINDS = sorted(COMPRESS)
MB = 1 << 20


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=2000), times=st.integers(1, 50))
def test_compressed_data_round_trip(kind: str, data: bytes, times: int):
    assert expand(kind, COMPRESS[kind](data * times)) == data * times


@pytest.mark.parametrize("kind", KINDS)
def test_data_longer_than_a_piece_round_trip(kind: str):
    data = os.urandom(MB) + bytes(MB)
    assert expand(kind, memoryview(COMPRESS[kind](data))) == data


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_consecutive_parts_are_joined(kind: str):
    compress = COMPRESS[kind]
    assert expand(kind, compress(b"one") + compress(b"") + compress(b"two") + bytes(8)) == b"onetwo"


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_inclusive(kind: str):
    data = COMPRESS[kind](bytes(1000))
    assert expand(kind, data, 1000) == bytes(1000)
    with pytest.raises(ExpansionError, match="become more than 999"):
        expand(kind, data, 999)
    with pytest.raises(ExpansionError):
        expand(kind, data, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_data_beyond_the_limit_take_no_more_memory_than_the_limit(kind: str):
    bomb = COMPRESS[kind](bytes(64 * MB))
    tracemalloc.start()
    try:
        with pytest.raises(ExpansionError):
            expand(kind, bomb, MB)
        assert tracemalloc.get_traced_memory()[1] < 12 * MB  # the dictionary of xz takes 8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_data_cut_anywhere_are_refused(kind: str):
    data = COMPRESS[kind](b"some text, " * 20)
    for size in range(len(data)):
        with pytest.raises(ExpansionError):
            expand(kind, data[:size])


@pytest.mark.parametrize("kind", KINDS)
@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_damaged_data_raise_or_stay_within_the_limit(kind: str, at: int, bit: int):
    data = bytearray(COMPRESS[kind](os.urandom(150)))
    data[at % len(data)] ^= 1 << bit
    with contextlib.suppress(ExpansionError):
        assert len(expand(kind, bytes(data), 4096)) <= 4096


def test_a_dictionary_of_gigabytes_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    data = bytearray(lzma.compress(b"x", filters=filters))
    at = data.index(b"\x21\x01", 12)  # the filter's number and the size of its properties: one byte, the size of the dictionary
    data[at + 2] = 40  # 4 GB
    header = bytes(data[12 : 12 + (data[12] + 1) * 4 - 4])
    data[12 + len(header) : 12 + len(header) + 4] = struct.pack("<I", zlib.crc32(header))
    with pytest.raises(ExpansionError, match="emory"):
        expand("xz", bytes(data))


def test_thousands_of_empty_parts_are_refused():
    with pytest.raises(ExpansionError, match="parts"):
        expand("gzip", gzip.compress(b"") * 5000)


def test_the_allowance_grows_with_the_size_between_its_bounds():
    assert allowance(10) == 4 * MB
    assert allowance(MB) == 32 * MB
    assert allowance(100 * MB) == 256 * MB
