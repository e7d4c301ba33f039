"""Encode and decode the record with the build-id of a mapped file.

Pipes have it among perf's own records (perfpy.abi.perf_records.user_records), files in their BUILD_ID feature, so
reading any header needs it. Layout: struct perf_record_header_build_id in tools/lib/perf/include/perf/event.h.
"""

from __future__ import annotations

import struct

from perfpy.abi.framing import encode_padded_name, text
from perfpy.abi.startup import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

MISC_BUILD_ID_SIZE: Final = 1 << 15  # the 21st byte of build_id holds its length


class HeaderBuildId(NamedTuple):
    """{ s32 pid; u8 build_id[20]; u8 size; u8 reserved[3]; char filename[]; }"""

    misc: int
    pid: int
    build_id: bytes
    filename: str


def decode(misc: int, body: bytes, endian: str) -> HeaderBuildId:
    """Decode a body, which must have the fixed fields (28 bytes)."""
    (pid,) = struct.unpack_from(endian + "i", body)
    size = body[24] if misc & MISC_BUILD_ID_SIZE else 20
    return HeaderBuildId(misc, pid, body[4 : 4 + min(size, 20)], text(body[28:]))


def encode(r: HeaderBuildId, endian: str) -> bytes:
    """Encode the body of a record."""
    return struct.pack(endian + "i20sB3x", r.pid, r.build_id, len(r.build_id)) + encode_padded_name(r.filename)
