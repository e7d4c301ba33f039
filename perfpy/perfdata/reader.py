"""PerfData: a perf.data file of any kind, read.

What enters: a path, "-", a file descriptor or a binary file. What leaves: the
header, the events, the features, the side-band records and the samples as
batches of columns. Layout: perfpy.perfdata.header and
tools/perf/Documentation/perf.data-file-format.txt.

The file is passed over once for the side-band (on first need) and once for
each iteration over the samples, a chunk at a time.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.errors import BadPerfData
from perfpy.perfdata.batches import Batch, ordered_batches
from perfpy.perfdata.event_names import default_name
from perfpy.perfdata.event_table import EventTable, FileEvent
from perfpy.perfdata.features import EventDesc, Feature, decode_feature
from perfpy.perfdata.header import (
    HEADER_SIZE,
    SECTION_SIZE,
    FileHeader,
    PipeHeader,
    Section,
    decode_attr_table,
    decode_header,
)
from perfpy.perfdata.keyed import KeyedChunk, keyed_chunks
from perfpy.perfdata.source import Origin, open_source
from perfpy.perfdata.stream import RecordStream
from perfpy.perfdata.survey import SideRecord, Survey, decode_side_band, survey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType


class PerfData:
    """A perf.data file.

    path: as it is named in messages; endian: "<" or ">"; header: FileHeader or
    PipeHeader; events: FileEvent values in the file's order; features: name of
    the feature ("hostname", "build_id" ...) -> its value (perfdata.features);
    feature_sections: number -> Section, also of features that are not known
    here; is_pipe; warnings: what was left out and why, in one line each; grows
    while the file is read.

    Raises BadPerfData when there is nothing to read.
    """

    def __init__(self, origin: Origin) -> None:
        if isinstance(origin, (str, os.PathLike)) and os.path.isdir(origin):
            origin = os.path.join(os.fspath(origin), "data")
        self._source = open_source(origin)
        self.path = self._source.path
        self.warnings: list[str] = []
        self.features: dict[str, Any] = {}
        self.feature_sections: dict[int, Section] = {}
        self.events: list[FileEvent] = []
        try:
            self.header = self._decode_header()
            self.endian = self.header.endian
            self._open()
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> PerfData:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Batches and records already handed out stay valid."""
        self._source.close()

    @property
    def is_pipe(self) -> bool:
        """Whether the recording was written to a pipe."""
        return isinstance(self.header, PipeHeader)

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._source.size

    def _fail(self, reason: str, offset: int | None = None) -> BadPerfData:
        return BadPerfData(self.path, reason, offset=offset)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _decode_header(self) -> FileHeader | PipeHeader:
        try:
            return decode_header(self._source.read(0, HEADER_SIZE))
        except ValueError as error:
            raise self._fail(str(error)) from None

    def _open(self) -> None:
        header = self.header
        if isinstance(header, PipeHeader):
            raise self._fail("pipe recordings are not read yet")
        self.data = self._data_section(header)
        attrs = self._read_attrs(header)
        if header.data.size:
            self._read_features(header)
        self.events = self._name_events(attrs)

    def _data_section(self, header: FileHeader) -> Section:
        """Where the records are; a killed recording left its size 0."""
        if header.data.offset > self._source.size:
            raise self._fail(f"the data should begin at {header.data.offset:#x}, the file has {self._source.size} bytes")
        if header.data.size:
            return header.data
        self._warn("data size 0: the recording was not ended properly; read to its last whole record")
        return Section(header.data.offset, self._source.size - header.data.offset)

    def _read_attrs(self, header: FileHeader) -> list[tuple[Any, tuple[int, ...]]]:
        if header.attrs.end > self._source.size:
            raise self._fail("the file ends within its table of events", header.attrs.offset)
        try:
            entries = decode_attr_table(self._source.read(*header.attrs), header.attr_size, self.endian)
        except ValueError as error:
            raise self._fail(str(error), header.attrs.offset) from None
        if not entries:
            raise self._fail("it has no events", header.attrs.offset)
        return [(entry.attr, self._read_ids(entry.ids)) for entry in entries]

    def _read_ids(self, section: Section) -> tuple[int, ...]:
        data = self._source.read(section.offset, section.size)
        if len(data) < section.size or section.size % 8:
            raise self._fail(f"event ids of {section.size} bytes, {len(data)} are there", section.offset)
        order: Any = "little" if self.endian == "<" else "big"
        return tuple(int.from_bytes(data[i : i + 8], order) for i in range(0, len(data), 8))

    def _read_features(self, header: FileHeader) -> None:
        table = self._source.read(header.data.end, SECTION_SIZE * len(header.features))
        order: Any = "little" if self.endian == "<" else "big"
        for index, number in enumerate(header.features):
            entry = table[index * SECTION_SIZE : (index + 1) * SECTION_SIZE]
            if len(entry) < SECTION_SIZE:
                self._warn(f"offset {header.data.end:#x}: the table of features is cut")
                return
            section = Section(int.from_bytes(entry[:8], order), int.from_bytes(entry[8:], order))
            self.feature_sections[number] = section
            if section.end > self._source.size:
                self._warn(f"offset {section.offset:#x}: feature {number} of {section.size} bytes reaches beyond the file; left out")
            else:
                self._read_feature(number, self._source.read(*section))

    def _read_feature(self, number: int, data: bytes) -> None:
        try:
            feature = Feature(number)
        except ValueError:
            return  # listed in feature_sections
        try:
            self.features[feature.key] = decode_feature(feature, data, self.endian)
        except ValueError as error:
            self._warn(f"feature {feature.name}: {error}; left out")

    def _name_events(self, attrs: list[tuple[Any, tuple[int, ...]]]) -> list[FileEvent]:
        described: tuple[EventDesc, ...] = self.features.get("event_desc", ())
        events = []
        for index, (attr, ids) in enumerate(attrs):
            name = described[index].name if index < len(described) else default_name(attr)
            events.append(FileEvent(attr, ids, name, index))
        return events

    @cached_property
    def _table(self) -> EventTable:
        return EventTable(self.events, self.endian)

    @property
    def column_names(self) -> list[str]:
        """The columns that the samples of any event have, in layout order."""
        return list(dict.fromkeys(name for layout in self._table.layouts for name in layout.names))

    def no_samples(self) -> Columns:
        """Every column, without a row."""
        empty = np.zeros(8, np.uint8), np.zeros(0, np.int64)
        return Columns.concat([layout.decode(*empty) for layout in self._table.layouts])

    @cached_property
    def _stream(self) -> RecordStream:
        return RecordStream(self._source, self.data.offset, self.data.end, self.endian)

    def _keyed(self) -> Iterator[KeyedChunk]:
        by_time = self._table.has_times and (self.is_pipe or bool(self.events[0].attr.sample_id_all))
        yield from keyed_chunks(self._stream.chunks(), self._table, by_time=by_time)
        if self._stream.damage:
            offset, reason = self._stream.damage
            self._warn(f"offset {offset:#x}: {reason}; what is before it was read")

    @cached_property
    def survey(self) -> Survey:
        """What the first pass over the file found: counts, times, raw side-band."""
        return survey(self._keyed(), self._table)

    def side_band(self) -> list[SideRecord]:
        """Every record that is neither a SAMPLE nor a FINISHED_ROUND, in order of delivery."""
        return decode_side_band(self.survey.raw, self._table, self._warn)

    def batches(self, fields: Collection[str] | None = None) -> Iterator[Batch]:
        """All samples in order of delivery, some thousands at a time.

        fields: names of the columns wanted (perfpy.abi.samples; None: all). A
        column that only some events' samples have is zeros, or empty rows, for
        the others. Memory is bounded by the disorder of the file, not by its size.
        """
        yield from ordered_batches(self._keyed(), self.survey.later_keys, self._table, fields, self._warn)
