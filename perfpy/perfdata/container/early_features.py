"""Read the feature records of pipes from perf 3.x.

The perf 3.x of Google's machines and of ChromeOS wrote the features of a pipe
in front of its events, in record types that perf gave other meanings later: 69
was the host's name, and is ID_INDEX now. perf stops at these files.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.framing import HEADER
from perfpy.perfdata.container.features import Feature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.container.source import ByteSource

_FIRST: Final = 69  # the type of the host's name; the others follow in the order of their features
_HEADER_SIZE: Final = HEADER["<"].size
_FEATURES: Final = {_FIRST + number - Feature.HOSTNAME: number for number in range(Feature.HOSTNAME, Feature.NUMA_TOPOLOGY + 1)} | {
    81: Feature.PMU_MAPPINGS
}


def early_features(source: ByteSource, begin: int, endian: str) -> tuple[list[tuple[int, bytes]], int]:
    """Return (number, section) of each feature, and the offset of the next record; nothing and `begin` for today's records."""
    if not _is_host_name(_record(source, begin, endian), endian):
        return [], begin
    features = []
    for record in _records(source, begin, endian):
        kind, _, _ = HEADER[endian].unpack_from(record)
        features.append((int(_FEATURES[kind]), record[_HEADER_SIZE:]))
        begin += len(record)
    return features, begin


def _records(source: ByteSource, offset: int, endian: str) -> Iterator[bytes]:
    """Yield the whole records of the old types from `offset` on."""
    while record := _record(source, offset, endian):
        kind, _, _ = HEADER[endian].unpack_from(record)
        if kind not in _FEATURES:
            return
        yield record
        offset += len(record)


def _record(source: ByteSource, offset: int, endian: str) -> bytes:
    """Return the record at an offset; b"" if it is truncated."""
    header = source.read(offset, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE:
        return b""
    _, _, size = HEADER[endian].unpack(header)
    record = source.read(offset, size)
    return record if _HEADER_SIZE <= size == len(record) else b""


def _is_host_name(record: bytes, endian: str) -> bool:
    """Whether the record is { u32 length; char name[length]; } of type 69: no ID_INDEX has a count that fits, or comes first in a pipe."""
    if len(record) < _HEADER_SIZE + 4 or HEADER[endian].unpack_from(record)[0] != _FIRST:
        return False
    (length,) = struct.unpack_from(f"{endian}I", record, _HEADER_SIZE)
    name = record[_HEADER_SIZE + 4 :]
    return bool(length == len(name) and name[:1] != b"\0" and name.endswith(b"\0"))
