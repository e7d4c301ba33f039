"""The records of a perf.data, in the order of the file, a chunk of them at a time.

What enters: a ByteSource and the range of its data. What leaves: Chunks, whose
buffer is used again for the next one: memory stays the same however long the
file. Compressed records are unpacked on the way (decompression.py); the trace
data that follows AUXTRACE and HEADER_TRACING_DATA records is stepped over.
The offsets of a chunk's records are kept packed (RecordOffsets).
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.chunk import COMPRESSED_TYPES, Chunk, make_chunk
from perfpy.perfdata.records.walk import PAYLOAD_TYPES, Walk, walk, walk_over_payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.container.source import ByteSource
    from perfpy.perfdata.records.decompression import Unpacker

_WORTH = 16  # records of one size in a row, on average, from which on runs are kept instead of sizes


class RecordOffsets(NamedTuple):
    """first: the first start; distances: from one start to the next, in words; counts: how often each step is taken (None: once)."""

    first: int
    distances: NDArray[np.uint16]
    counts: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The memory that is held."""
        return self.distances.nbytes + (0 if self.counts is None else self.counts.nbytes)

    def starts(self) -> NDArray[np.int64]:
        """The starts in bytes."""
        distances = self.distances if self.counts is None else np.repeat(self.distances, self.counts)
        starts = np.empty(len(distances) + 1, np.int64)
        starts[0] = self.first >> 3
        np.cumsum(distances, out=starts[1:])
        starts[1:] += starts[0]
        return starts << 3


def packed(starts: NDArray[np.int64]) -> RecordOffsets | None:
    """The starts (bytes, at least one), packed; None where that cannot be: they are no multiples of 8, or too far apart."""
    distances = np.diff(starts) >> 3
    if np.bitwise_or.reduce(starts) & 7 or (len(distances) and int(distances.max()) > 0xFFFF):
        return None
    small = distances.astype(np.uint16)
    lasts = np.flatnonzero(small[1:] != small[:-1])
    if len(lasts) * _WORTH > len(small):
        return RecordOffsets(int(starts[0]), small, None)
    ends = np.append(lasts, len(small) - 1) + 1 if len(small) else np.zeros(0, np.int64)
    return RecordOffsets(int(starts[0]), small[ends - 1], np.diff(ends, prepend=0))


CHUNK_SIZE: Final = 1 << 20
STACKS_CHUNK_SIZE: Final = 1 << 25  # of samples with copies of stacks: some thousands of them
# in a file there are so many chunks, at least, up to a size: each costs the same array operations, however many samples it has
_CHUNKS: Final = 16
_CHUNK_MOST: Final = 1 << 22
_CHUNKS_OF_STACKS: Final = 4  # memory holds one of them
_STACKS_CHUNK_MOST: Final = 1 << 27
_MEMORY_FOR_OFFSETS: Final = 1 << 23  # of larger files the rest is walked again


def chunk_size(size: int, *, has_stacks: bool) -> int:
    """The chunks to read a file in; size: the file's; has_stacks: whether its samples have copies of stacks."""
    if has_stacks:
        return max(STACKS_CHUNK_SIZE, min(size // _CHUNKS_OF_STACKS, _STACKS_CHUNK_MOST) & ~7)
    return max(CHUNK_SIZE, min(size // _CHUNKS, _CHUNK_MOST) & ~7)


class Damage(NamedTuple):
    """Where and why the records could not be read further. is_end: because the file ends inside the last record."""

    offset: int
    reason: str
    is_end: bool = False


class _KnownChunk(NamedTuple):
    """A chunk as it was found: its offset and size in the file; starts: where its records begin (None: to be found again)."""

    offset: int
    size: int
    starts: RecordOffsets | None


class RecordStream:
    """All records between two offsets of a source.

    damage: why the last run over the chunks ended before `end`, or None;
    unpacked: how many compressed records of each type that run unpacked;
    unpack_limit: how many bytes one of them holds at most (None: not known).
    """

    def __init__(
        self, source: ByteSource, begin: int, end: int, endian: str, *, chunk_size: int = CHUNK_SIZE, unpack_limit: int | None = None
    ) -> None:
        self.source = source
        self.begin = begin
        self.end = end
        self.endian = endian
        self.damage: Damage | None = None
        self.unpacked: Counter[int] = Counter()
        self._chunk_size = chunk_size
        self._unpack_limit = unpack_limit
        self._known: list[_KnownChunk] | None = None

    @property
    def is_known(self) -> bool:
        """Whether any chunk can be read without those before it: an earlier run has found them all, and none is compressed."""
        return self._known is not None

    def chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Every record from the first to the last whole one; may be called again, and then from any chunk on."""
        if self._known is not None:
            return self._known_chunks(self._known[first:])
        return islice(self._all_chunks(), first, None)

    def _all_chunks(self) -> Iterator[Chunk]:
        """The chunks, compressed records unpacked; without these, it is noted for the next run where the chunks are."""
        self.damage = None
        self.unpacked.clear()
        unpacker: Unpacker | None = None
        known: list[_KnownChunk] = []
        for chunk in self._plain_chunks(known):
            if not chunk.holds(COMPRESSED_TYPES):
                yield chunk
                continue
            unpacker = unpacker or self._unpacker()
            for kind in COMPRESSED_TYPES:
                self.unpacked[kind] += int((chunk.types == kind).sum())
            yield from unpacker.unpack(chunk)
            if unpacker.failure:
                self.damage = Damage(*unpacker.failure)
                return
        if not unpacker:
            self._known = known
        elif unpacker.left_over and not self.damage:
            self.damage = Damage(self.end, "the compressed records end inside a record")

    def _unpacker(self) -> Unpacker:
        from perfpy.perfdata.records.decompression import Unpacker

        return Unpacker(self.endian, self._chunk_size, self._unpack_limit)

    def _plain_chunks(self, known: list[_KnownChunk]) -> Iterator[Chunk]:
        """The records as they stand in the file; where the chunks are is added to `known`."""
        buffer = self._buffer()
        offset, memory = self.begin, 0
        while offset < self.end:
            wanted = min(len(buffer), self.end - offset)
            data = self._read(buffer, offset, wanted)
            chunk, found = self._walked(data, offset)
            if len(chunk):
                starts = packed(found.starts) if memory < _MEMORY_FOR_OFFSETS else None
                memory += starts.nbytes if starts else 0
                known.append(_KnownChunk(offset, min(found.end, len(data)), starts))
                yield chunk
            if found.bad_size is not None:
                self.damage = Damage(offset + found.end, f"record of {found.bad_size} bytes")
                return
            if len(data) < wanted or offset + len(data) >= self.end:
                self._check_end(offset + found.end, offset + len(data))
                return
            offset += found.end

    def _known_chunks(self, known: list[_KnownChunk]) -> Iterator[Chunk]:
        """The records of chunks that an earlier run has found, each of them; `damage` stays what it was then."""
        buffer = self._buffer()
        for found_chunk in known:
            data = self._read(buffer, found_chunk.offset, found_chunk.size)
            if len(data) < found_chunk.size:
                self.damage = Damage(found_chunk.offset + len(data), "the file has been cut since it was read first")
            if found_chunk.starts and len(data) == found_chunk.size:
                yield Chunk(data, found_chunk.starts.starts(), self.endian, found_chunk.offset)
            else:
                yield self._walked(data, found_chunk.offset)[0]

    def _read(self, buffer: NDArray[np.uint8], offset: int, size: int) -> NDArray[np.uint8]:
        """Bytes of the file, in the buffer; of large chunks, most bytes of which nobody looks at, mapped."""
        if self._chunk_size >= STACKS_CHUNK_SIZE and not offset & 7:
            return np.frombuffer(self.source.mapped(offset, size), np.uint8)
        return buffer[: self.source.read_into(buffer.data[:size], offset)]

    def _buffer(self) -> NDArray[np.uint8]:
        """Room for a chunk: for at least one record of the largest size there is."""
        return np.empty(min(self._chunk_size, max(1 << 16, (self.end - self.begin + 7) & ~7)), np.uint8)

    def _walked(self, data: NDArray[np.uint8], offset: int) -> tuple[Chunk, Walk]:
        found = walk(data, self.endian)
        chunk = make_chunk(data, found.starts, offset, self.endian)
        if chunk.holds(PAYLOAD_TYPES):
            found = walk_over_payloads(data, self.endian)
            chunk = make_chunk(data, found.starts, offset, self.endian)
        return chunk, found

    def _check_end(self, stopped: int, available: int) -> None:
        """Note what is missing when the records end at `stopped` and the bytes at `available`."""
        missing = max(self.end, stopped) - available
        if missing > 0:
            self.damage = Damage(min(stopped, available), f"the file is cut, {missing} bytes are missing")
        elif stopped < available:
            self.damage = Damage(stopped, "the last record is cut", is_end=True)
