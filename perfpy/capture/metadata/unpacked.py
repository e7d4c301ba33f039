"""Decompress the records of perfpy's own complete files without numpy, some megabytes at a time.

perfpy.perfdata.container.compression writes them.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER: Final = struct.Struct("=IHH")
_PIECE: Final = 4 << 20


def unpack_records(data: memoryview) -> Iterator[memoryview]:
    """Yield pieces of whole records."""
    stream = _decompressor()
    buffer = bytearray()
    offset = 0
    while offset + 8 <= len(data):
        kind, _, size = _HEADER.unpack_from(data, offset)
        if size < 8 or offset + size > len(data):
            break
        if kind == RecordType.COMPRESSED:
            buffer += stream.decompress(data[offset + 8 : offset + size])
        else:
            buffer += data[offset : offset + size]  # it comes between two compressed pieces, each of which ends with a record
        offset += size
        if len(buffer) >= _PIECE:
            end = _whole(buffer)
            yield memoryview(bytes(buffer[:end]))
            del buffer[:end]
    yield memoryview(bytes(buffer[: _whole(buffer)]))


def _whole(records: bytearray) -> int:
    """Return the end of the last whole record."""
    header, offset, end = _HEADER.unpack_from, 0, len(records)
    while offset + 8 <= end:
        size = header(records, offset)[2]
        if size < 8 or offset + size > end:
            break
        offset += size
    return offset


def _decompressor() -> Any:
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor()
