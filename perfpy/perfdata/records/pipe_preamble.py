"""Read the events and features of a pipe, from records among the others."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import perf_records
from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER, HeaderBuildId
from perfpy.perfdata.events import Preamble
from perfpy.perfdata.header import PIPE_HEADER_SIZE, Feature, FileSection, PipeHeader, key_of
from perfpy.perfdata.records.stream import RecordStream

if TYPE_CHECKING:
    from perfpy.abi.perf_records import NewerRecord
    from perfpy.perfdata.events import Warn
    from perfpy.perfdata.records.stream import Chunk
    from perfpy.perfdata.source import ByteSource

_KINDS = frozenset(
    (
        RecordType.HEADER_ATTR,
        RecordType.EVENT_UPDATE,
        RecordType.HEADER_BUILD_ID,
        RecordType.HEADER_FEATURE,
        RecordType.HEADER_TRACING_DATA,
    ),
)
_MOST_OF_UPDATES = 1 << 21


class PipePreamble:
    """A reader of a pipe's header records, up to its first sample."""

    def __init__(self, source: ByteSource, header: PipeHeader, warn: Warn) -> None:
        self._source = source
        self._endian = header.endian
        self._warn = warn
        self._build_ids: list[HeaderBuildId] = []
        self._update_size = 0  # CPUs and characters
        early, begin = early_features(source, PIPE_HEADER_SIZE, header.endian)
        self._preamble = Preamble(FileSection(begin, source.size - begin))
        for number, section in early:
            self._add_feature(number, section)

    def read(self) -> Preamble:
        """Read up to the first chunk with samples."""
        data = self._preamble.data
        for chunk in RecordStream(self._source, data.offset, data.end, self._endian).chunks():
            for row in np.flatnonzero(chunk.types >= RecordType.HEADER_ATTR).tolist():
                self._add_record(chunk, row)
            if (chunk.types == RecordType.SAMPLE).any():
                break
        if self._build_ids:
            key = key_of(Feature.BUILD_ID)
            self._preamble.features[key] = (*self._preamble.features.get(key, ()), *self._build_ids)
        return self._preamble

    def _add_record(self, chunk: Chunk, row: int) -> None:
        kind, offset = int(chunk.types[row]), int(chunk.offsets[row])
        if kind not in _KINDS:
            return
        record = chunk.record(row)
        _, misc, _ = HEADER[self._endian].unpack_from(record)
        try:
            value = perf_records.decode(kind, misc, record[8:], self._endian)
            self._add_value(value, offset + len(record))
            if kind == RecordType.HEADER_ATTR:
                self._preamble.attr_records.append(record)
        except ValueError as error:
            self._warn(f"at offset {offset:#x}: {error}; skipped")

    def _add_value(self, value: perf_records.UserRecord | NewerRecord, end: int) -> None:
        preamble = self._preamble
        if isinstance(value, perf_records.HeaderAttr):
            if value.attr.unknown.strip(b"\0"):
                raise ValueError(
                    f"event attr of {value.attr.size} bytes has fields that this version of perfpy does not know; use a newer one"
                )
            preamble.events.append((value.attr, value.ids))
        elif isinstance(value, perf_records.EventUpdate):
            self._update_size += len(value.value) if isinstance(value.value, (tuple, str)) else 1
            if self._update_size > _MOST_OF_UPDATES:
                raise ValueError("EVENT_UPDATE records longer than all events' names and CPUs can be")
            preamble.updates.append(value)
        elif isinstance(value, HeaderBuildId):
            self._build_ids.append(value)
        elif isinstance(value, perf_records.HeaderFeature):
            self._add_feature(value.feat_id, value.data)
        elif isinstance(value, perf_records.HeaderTracingData):
            preamble.feature_sections[Feature.TRACING_DATA] = FileSection(end, value.size)
            preamble.add_feature(Feature.TRACING_DATA, self._source.read(end, value.size), self._endian, self._warn)

    def _add_feature(self, number: int, data: bytes) -> None:
        self._preamble.feature_sections[number] = FileSection(0, len(data))
        # A feature without data is the end mark: the first number that the writing perf did not know.
        self._preamble.add_feature(number, data, self._endian, self._warn if data else _ignore_warning)


def _ignore_warning(_text: str) -> None:
    """Ignore warnings about the end mark."""


# Feature records of pipes from perf 3.x. The perf 3.x of Google's machines and of ChromeOS wrote the features of a pipe in front of its
# events, in record types that perf gave other meanings later: 69 was the host's name, and is ID_INDEX now. perf stops at these files.

_FIRST: Final = 69  # the type of the host's name; the others follow in the order of their features
_HEADER_SIZE: Final = HEADER["<"].size
_FEATURES: Final = {_FIRST + number - Feature.HOSTNAME: number for number in range(Feature.HOSTNAME, Feature.NUMA_TOPOLOGY + 1)} | {
    81: Feature.PMU_MAPPINGS
}


def early_features(source: ByteSource, begin: int, endian: str) -> tuple[list[tuple[int, bytes]], int]:
    """Return (number, section) of each feature, and the offset of the next record; nothing and `begin` for today's records."""
    features: list[tuple[int, bytes]] = []
    if _is_host_name(_record(source, begin, endian), endian):
        while (record := _record(source, begin, endian)) and (kind := HEADER[endian].unpack_from(record)[0]) in _FEATURES:
            features.append((int(_FEATURES[kind]), record[_HEADER_SIZE:]))
            begin += len(record)
    return features, begin


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
