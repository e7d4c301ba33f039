"""Add records and stored files to a finished recording of perfpy without risk for its contents.

Without records, the section is appended, and its reserved entry in the table is filled in last. With records, a new file replaces
the old one when it is complete. A record is added to the round of its time, so that readers can sort without keeping the
whole file in memory.
"""

from __future__ import annotations

import errno
import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import HEADER
from perfpy.abi.sample_id import NO_ID
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.compression import Packer
from perfpy.perfdata.container.features import Feature, encode_feature, key_of
from perfpy.perfdata.container.header import SECTION_SIZE
from perfpy.perfdata.container.kept_files import KEPT_FILES
from perfpy.perfdata.container.writer import FileWriter, WrittenEvent
from perfpy.untrusted.destinations import FileDestination, open_named
from perfpy.untrusted.result_files import UnfinishedFile

if TYPE_CHECKING:
    from perfpy.capture.runtimes.jitted_code import JittedCode
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery.keys import OrderedChunk

_MAPS: Final = (RecordType.MMAP, RecordType.MMAP2)
_PIECE: Final = 1 << 18  # bytes that are compressed at once


def append_section(path: str, data: PerfData, section: bytes) -> None:
    """Append the stored files to a recording whose header has an empty section for them. Raises OutputFailedError."""
    numbers = sorted(data.feature_sections)
    if KEPT_FILES not in numbers:
        raise OutputFailedError(path, "its header has no room for the names")
    entry = data.data.end + SECTION_SIZE * numbers.index(KEPT_FILES)
    try:
        with open(open_named(path, os.O_RDWR), "r+b", buffering=0) as file:
            if not data.is_file(file.fileno()):
                raise OSError(errno.ESTALE, "another file has its name now")
            end = file.seek(0, os.SEEK_END)
            _append(file.fileno(), section, end)
            os.pwrite(file.fileno(), struct.pack("=2Q", end, len(section)), entry)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def _append(fd: int, data: bytes, end: int) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os.ftruncate(fd, end)
        raise


def rewrite(path: str, data: PerfData, code: JittedCode, section: bytes) -> None:
    """Replace a recording by a copy with the code's records and the stored files. Raises OutputFailedError."""
    try:
        with FileDestination(path) as destination:
            with open(destination.open(os.O_RDONLY), "rb") as file:
                if not data.is_file(file.fileno()):
                    raise OSError(errno.ESTALE, "another file has its name now")
            _replace(destination, data, code, section)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def _replace(destination: FileDestination, data: PerfData, code: JittedCode, section: bytes) -> None:
    new = UnfinishedFile(destination, 0o600)
    try:
        _write(FileWriter(destination.path, os.dup(new.fd)), data, code, section)
        new.put()
    finally:
        new.remove()
        new.close()


def _write(writer: FileWriter, data: PerfData, code: JittedCode, section: bytes) -> None:
    packing = data.features.get(key_of(Feature.COMPRESSED))
    try:
        writer.begin([WrittenEvent(event.attr, tuple(event.ids)) for event in data.events], {})
        copy = _Copy(writer, code, Packer(packing.level) if packing else None)
        for stream in data.records.chunks():
            for ordered in stream:
                copy.take(ordered)
        copy.finish()
        features = {number: data.section(number) for number in data.feature_sections} | {KEPT_FILES: section}
        if packing and copy.packer:
            compression = packing._replace(ratio=round(copy.packer.ratio), mmap_len=max(packing.mmap_len, _PIECE))
            features[Feature.COMPRESSED] = encode_feature(Feature.COMPRESSED, compression, data.endian)
        writer.finish(features)
    finally:
        writer.close()


class _Copy:
    """Copies chunks: adds records at the ends of their rounds, and drops mappings that would hide them."""

    def __init__(self, writer: FileWriter, code: JittedCode, packer: Packer | None) -> None:
        self.packer = packer
        self._writer = writer
        self._code = code
        self._pending = deque(code.records)
        self._latest = 0  # the latest time seen

    def take(self, ordered: OrderedChunk) -> None:
        chunk, begin, next_row = ordered.chunk, 0, 0
        special = np.isin(chunk.types, (RecordType.FINISHED_ROUND, *_MAPS))
        for row in np.flatnonzero(special).tolist():
            if chunk.types[row] == RecordType.FINISHED_ROUND:
                self._latest = max(self._latest, int(ordered.times[next_row : row + 1].max()))
                next_row = row + 1
                due = self._due()
                if due:
                    self._put(_rows(chunk, begin, row))
                    self._put(due)
                    begin = row
            elif self._is_dropped(chunk.record(row), int(ordered.times[row])):
                self._put(_rows(chunk, begin, row))
                begin = row + 1
        self._put(_rows(chunk, begin, len(chunk)))
        self._latest = max(self._latest, int(ordered.times[next_row:].max(initial=0)))

    def finish(self) -> None:
        """Write the records later than everything in the recording."""
        self._put([record for _, record in self._pending])

    def _due(self) -> list[bytes]:
        due = []
        while self._pending and self._pending[0][0] <= self._latest:
            due.append(self._pending.popleft()[1])
        return due

    def _is_dropped(self, record: bytes, time: int) -> bool:
        kind, misc, _ = HEADER[NATIVE_ENDIAN].unpack_from(record)
        try:
            mapping = records.decode(kind, misc, record[8:], NO_ID, NATIVE_ENDIAN)
        except (ValueError, struct.error):
            return False
        return isinstance(mapping, (records.Mmap, records.Mmap2)) and self._code.hides(mapping, time)

    def _put(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            if self.packer:
                self._writer.write(*self.packer.pack(piece))
            elif piece:
                self._writer.write(piece)


def _rows(chunk: Chunk, begin: int, end: int) -> list[bytes]:
    """Return the bytes of consecutive records, in pieces of whole records that fit the compression limit."""
    if begin >= end:
        return []
    starts, sizes = chunk.starts[begin:end], chunk.sizes[begin:end].astype(np.int64)
    if bool((starts[1:] != starts[:-1] + sizes[:-1]).any()):
        return [chunk.record(row) for row in range(begin, end)]
    last = int(starts[-1] + sizes[-1])
    cuts = [int(starts[0])]
    while last - cuts[-1] > _PIECE:
        cuts.append(int(starts[np.searchsorted(starts, cuts[-1] + _PIECE, side="right") - 1]))
    return [chunk.data[first:after].tobytes() for first, after in zip(cuts, [*cuts[1:], last], strict=True)]
