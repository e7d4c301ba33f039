"""What follows the fixed fields of a side-band record: bytes <-> field values.

What enters: the fixed fields already decoded and the bytes after them. What
leaves: the values of all fields of the record's class (perfpy.abi.records),
and from pack_u64s() bytes again.
Layouts: include/uapi/linux/perf_event.h, enum perf_event_type.
"""

import struct
from typing import Any

from perfpy.abi.framing import text


def nothing(fixed: tuple[Any, ...], _tail: bytes, _endian: str) -> tuple[Any, ...]:
    """All fields are fixed."""
    return fixed


def one_text(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """A C string."""
    return (*fixed, text(tail))


def raw(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Bytes for somebody else to read."""
    return (*fixed, tail)


def namespaces(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """{ u64 dev, inode; } as often as the last fixed field says."""
    pid, tid, count = fixed
    values = _u64s(tail, 2 * count, endian)
    return pid, tid, tuple(zip(values[::2], values[1::2], strict=True))


def text_poke(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """The bytes before and after, whose lengths are fixed fields."""
    addr, old, new = fixed
    if old + new > len(tail):
        raise ValueError(f"text poke of {old} + {new} bytes in a record with room for {len(tail)}")
    return addr, tail[:old], tail[old : old + new]


def deferred(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """Addresses, as many as the last fixed field says."""
    cookie, count = fixed
    return cookie, _u64s(tail, count, endian)


def _u64s(tail: bytes, count: int, endian: str) -> tuple[int, ...]:
    if count * 8 > len(tail):
        raise ValueError(f"{count} values in a record with room for {len(tail) // 8}")
    return struct.unpack_from(f"{endian}{count}Q", tail)


def pack_u64s(values: tuple[int, ...], endian: str) -> bytes:
    """Values as u64, one after the other."""
    return struct.pack(f"{endian}{len(values)}Q", *values)
