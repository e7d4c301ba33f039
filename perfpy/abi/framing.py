"""The parts common to all records: the header, numbers in either byte order, strings and padding.

Layout: struct perf_event_header { u32 type; u16 misc; u16 size; } in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct

from perfpy.abi.light_types import NamedTuple

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


# Encode and decode the record with the build-id of a mapped file. Pipes have it among perf's own records (perfpy.abi.perf_records), files
# in their BUILD_ID feature, so reading any header needs it. Layout: struct perf_record_header_build_id in
# tools/lib/perf/include/perf/event.h.

MISC_BUILD_ID_SIZE: Final = 1 << 15  # the 21st byte of build_id holds its length


class HeaderBuildId(NamedTuple):
    """{ s32 pid; u8 build_id[20]; u8 size; u8 reserved[3]; char filename[]; }"""

    misc: int
    pid: int
    build_id: bytes
    filename: str


def decode_build_id(misc: int, body: bytes, endian: str) -> HeaderBuildId:
    """Decode a body, which must have the fixed fields (28 bytes)."""
    (pid,) = struct.unpack_from(endian + "i", body)
    size = body[24] if misc & MISC_BUILD_ID_SIZE else 20
    return HeaderBuildId(misc, pid, body[4 : 4 + min(size, 20)], text(body[28:]))


def encode_build_id(r: HeaderBuildId, endian: str) -> bytes:
    """Encode the body of a record."""
    return struct.pack(endian + "i20sB3x", r.pid, r.build_id, len(r.build_id)) + encode_padded_name(r.filename)


# Names of threads (comm) as the kernel keeps them.

LONGEST_COMM: Final = 15  #: bytes: TASK_COMM_LEN without the NUL


def cut_comm(name: str) -> str:
    """Return the first bytes of a name that the kernel keeps, possibly within a character.

    >>> cut_comm("gnome-terminal-server"), cut_comm("sh")
    ('gnome-terminal-', 'sh')
    """
    return name.encode(errors="surrogateescape")[:LONGEST_COMM].decode(errors="surrogateescape")
