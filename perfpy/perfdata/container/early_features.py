"""Feature records of pipes before pipes had feature records.

The perf 3.x of Google's machines and of ChromeOS wrote the features of a pipe
in front of its events, in record types of its own that the kernel's perf gave
other meanings later: 69 was the host's name, and is ID_INDEX now. perf stops
at such a file.

What enters: a ByteSource and where its records begin. What leaves: the feature
sections, and where the records that everybody knows begin.
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
    """((number, section) of each feature, where the next record begins); nothing and `begin` where the records are today's."""
    if not _is_host_name(_record(source, begin, endian), endian):
        return [], begin
    found = []
    for record in _records(source, begin, endian):
        kind, _, _ = HEADER[endian].unpack_from(record)
        found.append((int(_FEATURES[kind]), record[_HEADER_SIZE:]))
        begin += len(record)
    return found, begin


def _records(source: ByteSource, offset: int, endian: str) -> Iterator[bytes]:
    """The whole records of the old types from `at` on."""
    while record := _record(source, offset, endian):
        kind, _, _ = HEADER[endian].unpack_from(record)
        if kind not in _FEATURES:
            return
        yield record
        offset += len(record)


def _record(source: ByteSource, offset: int, endian: str) -> bytes:
    """The record at an offset; b"" where none is whole."""
    header = source.read(offset, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE:
        return b""
    _, _, size = HEADER[endian].unpack(header)
    record = source.read(offset, size)
    return record if _HEADER_SIZE <= size == len(record) else b""


def _is_host_name(record: bytes, endian: str) -> bool:
    """Whether it is { u32 length; char name[length]; } of type 69: no ID_INDEX has a count that fits, or stands first in a pipe."""
    if len(record) < _HEADER_SIZE + 4 or HEADER[endian].unpack_from(record)[0] != _FIRST:
        return False
    (length,) = struct.unpack_from(f"{endian}I", record, _HEADER_SIZE)
    name = record[_HEADER_SIZE + 4 :]
    return bool(length == len(name) and name[:1] != b"\0" and name.endswith(b"\0"))
