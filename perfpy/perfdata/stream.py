"""The records of a perf.data, in the order of the file, a chunk of them at a time.

What enters: a Source and the range of its data. What leaves: Chunks, whose
buffer is used again for the next one: memory stays the same however long the
file. Compressed records are unpacked on the way (compressed.py); the trace
data that follows AUXTRACE and HEADER_TRACING_DATA records is stepped over.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.chunk import Chunk, holds_types, make_chunk
from perfpy.perfdata.compressed import COMPRESSED_TYPES, Unpacker
from perfpy.perfdata.walk import PAYLOAD_TYPES, walk, walk_over_payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.source import Source

CHUNK_SIZE: Final = 1 << 20


class Damage(NamedTuple):
    """Where and why the records could not be read further. is_end: because the file ends inside the last record."""

    offset: int
    reason: str
    is_end: bool = False


class RecordStream:
    """All records between two offsets of a source.

    damage: why the last run over the chunks ended before `end`, or None;
    unpacked: how many compressed records of each type that run unpacked.
    """

    def __init__(self, source: Source, begin: int, end: int, endian: str, *, chunk_size: int = CHUNK_SIZE) -> None:
        self.source = source
        self.begin = begin
        self.end = end
        self.endian = endian
        self.damage: Damage | None = None
        self.unpacked: Counter[int] = Counter()
        self._chunk_size = chunk_size

    def chunks(self) -> Iterator[Chunk]:
        """Every record from the first to the last whole one; may be called again."""
        self.damage = None
        self.unpacked.clear()
        unpacker: Unpacker | None = None
        for chunk in self._plain_chunks():
            if not holds_types(chunk.types, COMPRESSED_TYPES):
                yield chunk
                continue
            unpacker = unpacker or Unpacker(self.endian, self._chunk_size)
            for kind in COMPRESSED_TYPES:
                self.unpacked[kind] += int((chunk.types == kind).sum())
            yield from unpacker.unpack(chunk)
            if unpacker.failure:
                self.damage = Damage(*unpacker.failure)
                return
        if unpacker and unpacker.left_over and not self.damage:
            self.damage = Damage(self.end, "the compressed records end inside a record")

    def _plain_chunks(self) -> Iterator[Chunk]:
        """The records as they stand in the file."""
        # room for at least one record of the largest size there is
        buffer = np.empty(min(self._chunk_size, max(1 << 16, (self.end - self.begin + 7) & ~7)), np.uint8)
        at = self.begin
        while at < self.end:
            wanted = min(len(buffer), self.end - at)
            data = buffer[: self.source.read_into(buffer.data[:wanted], at)]
            found = walk(data, self.endian)
            chunk = make_chunk(data, found.starts, found.starts + at, self.endian)
            if holds_types(chunk.types, PAYLOAD_TYPES):
                found = walk_over_payloads(data, self.endian)
                chunk = make_chunk(data, found.starts, found.starts + at, self.endian)
            if len(found.starts):
                yield chunk
            if found.bad_size is not None:
                self.damage = Damage(at + found.end, f"record of {found.bad_size} bytes")
                return
            if len(data) < wanted or at + len(data) >= self.end:
                self._check_end(at + found.end, at + len(data))
                return
            at += found.end

    def _check_end(self, stopped: int, available: int) -> None:
        """Note what is missing when the records end at `stopped` and the bytes at `available`."""
        missing = max(self.end, stopped) - available
        if missing > 0:
            self.damage = Damage(min(stopped, available), f"the file is cut, {missing} bytes are missing")
        elif stopped < available:
            self.damage = Damage(stopped, "the last record is cut", is_end=True)
