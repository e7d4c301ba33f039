"""Decode the variable part after the fixed fields of a side-band record.

Each decoder gets the fixed fields and the remaining bytes, and returns all fields of the record's class (perfpy.abi.records). Layouts:
include/uapi/linux/perf_event.h, enum perf_event_type.
"""

import struct
from typing import Any

from perfpy.abi.framing import text


def nothing(fixed: tuple[Any, ...], _tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Return the fixed fields of a record without a variable part."""
    return fixed


def one_text(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Decode a C string."""
    return (*fixed, text(tail))


def raw(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Keep the bytes undecoded."""
    return (*fixed, tail)


def namespaces(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """Decode { u64 dev, inode; }, repeated as the last fixed field counts."""
    pid, tid, count = fixed
    values = _u64s(tail, 2 * count, endian)
    return pid, tid, tuple(zip(values[::2], values[1::2], strict=True))


def text_poke(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Decode the bytes before and after, whose lengths are fixed fields."""
    addr, old, new = fixed
    if old + new > len(tail):
        raise ValueError(f"text poke of {old} + {new} bytes in a record with room for {len(tail)}")
    return addr, tail[:old], tail[old : old + new]


def decode_deferred_callchain(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """Decode addresses, as many as the last fixed field counts."""
    cookie, count = fixed
    return cookie, _u64s(tail, count, endian)


def _u64s(tail: bytes, count: int, endian: str) -> tuple[int, ...]:
    if count * 8 > len(tail):
        raise ValueError(f"{count} values in a record with room for {len(tail) // 8}")
    return struct.unpack_from(f"{endian}{count}Q", tail)


def pack_u64s(values: tuple[int, ...], endian: str) -> bytes:
    """Encode values as consecutive u64."""
    return struct.pack(f"{endian}{len(values)}Q", *values)
