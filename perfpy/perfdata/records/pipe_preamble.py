"""Read the events and features of a pipe, from records among the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi import perf_records
from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER, HeaderBuildId
from perfpy.perfdata.events import Preamble
from perfpy.perfdata.features import Feature, early_features, key_of
from perfpy.perfdata.header import PIPE_HEADER_SIZE, FileSection, PipeHeader
from perfpy.perfdata.records.stream import RecordStream

if TYPE_CHECKING:
    from perfpy.abi.newer_records import NewerRecord
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
