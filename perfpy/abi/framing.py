"""The parts common to all records: the header, and the padding of strings and ends.

Layout: struct perf_event_header { u32 type; u16 misc; u16 size; } in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

HEADER: Final = {"<": struct.Struct("<IHH"), ">": struct.Struct(">IHH")}  # type, misc, size


def with_header(type: int, misc: int, body: bytes, endian: str) -> bytes:
    """Return a record: perf_event_header and body. Raises ValueError if it exceeds the header's 16-bit size."""
    size = 8 + len(body)
    if size > 0xFFFF:
        raise ValueError(f"record of {size} bytes, a record holds at most 65535")
    return HEADER[endian].pack(type, misc, size) + body


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
