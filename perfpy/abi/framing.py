"""The parts common to all records: the header, numbers in either byte order, strings and padding.

Layout: struct perf_event_header { u32 type; u16 misc; u16 size; } in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final, Literal

HEADER: Final = {"<": struct.Struct("<IHH"), ">": struct.Struct(">IHH")}  # type, misc, size
#: "<" or ">", as in struct -> as int.from_bytes names it
ORDERS: Final[dict[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def with_header(type: int, misc: int, body: bytes, endian: str) -> bytes:
    """Return a record: perf_event_header and body. Raises ValueError if it exceeds the header's 16-bit size."""
    size = 8 + len(body)
    if size > 0xFFFF:
        raise ValueError(f"record of {size} bytes, a record holds at most 65535")
    return HEADER[endian].pack(type, misc, size) + body


def as_number(data: bytes, endian: str) -> int:
    """Return all of `data` as one unsigned number.

    >>> as_number(bytes((1, 0)), "<"), as_number(bytes((1, 0)), ">")
    (1, 256)
    """
    return int.from_bytes(data, ORDERS[endian])


def text(data: bytes) -> str:
    """Decode a C string up to its first NUL, as UTF-8 with surrogate escapes."""
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def encode_padded_name(string: str) -> bytes:
    """Encode a C string with its NUL, padded to a multiple of 8 bytes."""
    data = string.encode("utf-8", "surrogateescape")
    return data + bytes(8 - len(data) % 8)


def pad_to_words(data: bytes) -> bytes:
    """Pad bytes with NULs to a multiple of 8."""
    return data + bytes(-len(data) % 8)
