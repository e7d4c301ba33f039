"""The records of a perf.data, in the order of the file, a chunk of them at a time.

What enters: a Source and the range of its data. What leaves: Chunks, whose
buffer is used again for the next one: memory stays the same however long the
file. Compressed records are unpacked on the way (compressed.py); the trace
data that follows AUXTRACE and HEADER_TRACING_DATA records is stepped over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.sample_cursor import realigned
from perfpy.perfdata.compressed import COMPRESSED_TYPES, Unpacker
from perfpy.perfdata.walk import Walk, record_types, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.source import Source

CHUNK_SIZE: Final = 4 << 20


class Chunk(NamedTuple):
    """Some records in a row.

    data: a buffer, valid until the next chunk is asked for; starts: where each
    record begins in it, always a multiple of 8; types: their types; offsets: where they are in the
    file (a record that was compressed: where the compressed one is).
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    types: NDArray[np.uint32]
    offsets: NDArray[np.int64]


class Damage(NamedTuple):
    """Where and why the records could not be read further."""

    offset: int
    reason: str


class RecordStream:
    """All records between two offsets of a source.

    damage: why the last run over the chunks ended before `end`, or None.
    """

    def __init__(self, source: Source, begin: int, end: int, endian: str, *, chunk_size: int = CHUNK_SIZE) -> None:
        self.source = source
        self.begin = begin
        self.end = end
        self.endian = endian
        self.damage: Damage | None = None
        self._chunk_size = chunk_size
        self._buffer: NDArray[np.uint8] | None = None

    def chunks(self) -> Iterator[Chunk]:
        """Every record from the first to the last whole one; may be called again."""
        self.damage = None
        unpacker: Unpacker | None = None
        for chunk in self._plain_chunks():
            if not np.isin(chunk.types, COMPRESSED_TYPES).any():
                yield chunk
                continue
            unpacker = unpacker or Unpacker(self.endian, self._chunk_size)
            for unpacked in unpacker.unpack(chunk.data, chunk.starts, chunk.types, chunk.offsets):
                yield Chunk(*unpacked)
            if unpacker.failure:
                self.damage = Damage(*unpacker.failure)
                return
        if unpacker and unpacker.left_over and not self.damage:
            self.damage = Damage(self.end, "the compressed records end inside a record")

    def _plain_chunks(self) -> Iterator[Chunk]:
        """The records as they stand in the file."""
        if self._buffer is None:
            # of at least one record of the largest size there is
            self._buffer = np.empty(min(self._chunk_size, max(1 << 16, (self.end - self.begin + 7) & ~7)), np.uint8)
        buffer = self._buffer
        at = self.begin
        while at < self.end:
            wanted = min(len(buffer), self.end - at)
            have = self.source.read_into(buffer.data[:wanted], at)
            found, skip = self._walk_over_payloads(buffer[:have])
            types = record_types(buffer[:have], found.starts, self.endian)
            if len(found.starts):
                data, starts = buffer[:have], found.starts
                if (starts & 7).any():
                    data, starts = realigned(data, starts, self.endian)
                yield Chunk(data, starts, types, found.starts + at)
            if found.bad_size is not None:
                self.damage = Damage(at + found.end, f"record of {found.bad_size} bytes")
                return
            if have < wanted or at + have >= self.end:
                self._check_end(at + found.end + skip, at + have)
                return
            at += found.end + skip

    def _check_end(self, stopped: int, available: int) -> None:
        if available < self.end or stopped > available:
            self.damage = Damage(
                min(stopped, available), f"the file is cut: {self.end - available or stopped - available} bytes are missing"
            )
        elif stopped < available:
            self.damage = Damage(stopped, "the last record is cut")

    def _walk_over_payloads(self, data: NDArray[np.uint8]) -> tuple[Walk, int]:
        """The records of a buffer, and how many bytes to skip behind them because of a payload that reaches beyond it."""
        parts = []
        at = 0
        while True:
            found = walk(data, self.endian, at)
            payload = self._first_payload(data, found.starts)
            if payload is None:
                parts.append(found.starts)
                return Walk(np.concatenate(parts), found.end, found.bad_size), 0
            last, size = payload
            parts.append(found.starts[: last + 1])
            start = int(found.starts[last])
            end = start + int.from_bytes(data[start + 6 : start + 8].tobytes(), "little" if self.endian == "<" else "big")
            at = end + size
            if at >= len(data):
                return Walk(np.concatenate(parts), end), size

    def _first_payload(self, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> tuple[int, int] | None:
        """(index, size) of the first record that is followed by data outside of it."""
        types = record_types(data, starts, self.endian)
        carriers = np.flatnonzero((types == RecordType.AUXTRACE) | (types == RecordType.HEADER_TRACING_DATA))
        for index in carriers.tolist():
            start = int(starts[index])
            width = 8 if types[index] == RecordType.AUXTRACE else 4
            size = int.from_bytes(data[start + 8 : start + 8 + width].tobytes(), "little" if self.endian == "<" else "big")
            if size:
                return index, size
        return None
