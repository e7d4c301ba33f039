"""The records of a perf.data in the order of the file, chunk by chunk.

The chunks share one buffer: memory does not grow with the file. Compressed records are unpacked (decompression.py);
trace data that follows AUXTRACE and HEADER_TRACING_DATA records is skipped.
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

_WORTH = 16  # average records of one size in a row from which on runs are kept instead of sizes


class RecordOffsets(NamedTuple):
    """The starts of a chunk's records, packed.

    Attributes:
        first: the first start, in bytes.
        distances: between starts, in words.
        counts: repetitions of each distance; None for one each.
    """

    first: int
    distances: NDArray[np.uint16]
    counts: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self.distances.nbytes + (0 if self.counts is None else self.counts.nbytes)

    def starts(self) -> NDArray[np.int64]:
        """Return the starts in bytes."""
        distances = self.distances if self.counts is None else np.repeat(self.distances, self.counts)
        starts = np.empty(len(distances) + 1, np.int64)
        starts[0] = self.first >> 3
        np.cumsum(distances, out=starts[1:])
        starts[1:] += starts[0]
        return starts << 3


def pack_starts(starts: NDArray[np.int64]) -> RecordOffsets | None:
    """Pack the starts (bytes, at least one); None if they are not multiples of 8, or too far apart."""
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
# Each file has at least 16 chunks, up to a chunk size: each costs the same array operations, however many samples it has.
_CHUNKS: Final = 16
_CHUNK_MOST: Final = 1 << 22
_CHUNKS_OF_STACKS: Final = 4  # memory holds one of them
_STACKS_CHUNK_MOST: Final = 1 << 27
_MEMORY_FOR_OFFSETS: Final = 1 << 23  # beyond it, chunks are walked again


def chunk_size(size: int, *, has_stacks: bool) -> int:
    """Return the chunk size to read a file with. size: the file's; has_stacks: whether its samples have copies of stacks."""
    if has_stacks:
        return max(STACKS_CHUNK_SIZE, min(size // _CHUNKS_OF_STACKS, _STACKS_CHUNK_MOST) & ~7)
    return max(CHUNK_SIZE, min(size // _CHUNKS, _CHUNK_MOST) & ~7)


class Damage(NamedTuple):
    """The position and reason of damage; is_end: the file ends inside the last record."""

    offset: int
    reason: str
    is_end: bool = False


class _ReadChunk(NamedTuple):
    """A chunk of an earlier run.

    Attributes:
        offset: in the file.
        size: in bytes.
        starts: of its records; None if they must be found again.
    """

    offset: int
    size: int
    starts: RecordOffsets | None


class RecordStream:
    """All records between two offsets of a source.

    Attributes:
        damage: why the last run over the chunks ended before `end`, or None.
        unpacked: the number of compressed records of each type in that run.

    Args:
        source: the file.
        begin, end: offsets in the file.
        endian: "<" or ">".
        chunk_size: bytes of a chunk.
        unpack_limit: bytes that a compressed record unpacks to at most, if known.
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
        self._read_chunks: list[_ReadChunk] | None = None

    @property
    def is_known(self) -> bool:
        """Whether any chunk can be read without those before it: an earlier run has found them all, and none is compressed."""
        return self._read_chunks is not None

    def chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Yield the whole records, from any chunk on. Repeated runs are faster."""
        if self._read_chunks is not None:
            return self._reread_chunks(self._read_chunks[first:])
        return islice(self._all_chunks(), first, None)

    def _all_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks, compressed records unpacked; without these, note the chunks for the next run."""
        self.damage = None
        self.unpacked.clear()
        unpacker: Unpacker | None = None
        chunks: list[_ReadChunk] = []
        for chunk in self._plain_chunks(chunks):
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
            self._read_chunks = chunks
        elif unpacker.left_over and not self.damage:
            self.damage = Damage(self.end, "the compressed records end inside a record")

    def _unpacker(self) -> Unpacker:
        from perfpy.perfdata.records.decompression import Unpacker

        return Unpacker(self.endian, self._chunk_size, self._unpack_limit)

    def _plain_chunks(self, chunks: list[_ReadChunk]) -> Iterator[Chunk]:
        """Yield the records of the file, compressed ones as they are; append the chunks to `chunks`."""
        buffer = self._buffer()
        offset, memory = self.begin, 0
        while offset < self.end:
            size = min(len(buffer), self.end - offset)
            data = self._read(buffer, offset, size)
            chunk, walked = self._walk(data, offset)
            if len(chunk):
                starts = pack_starts(walked.starts) if memory < _MEMORY_FOR_OFFSETS else None
                memory += starts.nbytes if starts else 0
                chunks.append(_ReadChunk(offset, min(walked.end, len(data)), starts))
                yield chunk
            if walked.bad_size is not None:
                self.damage = Damage(offset + walked.end, f"record of {walked.bad_size} bytes")
                return
            if len(data) < size or offset + len(data) >= self.end:
                self._check_end(offset + walked.end, offset + len(data))
                return
            offset += walked.end

    def _reread_chunks(self, chunks: list[_ReadChunk]) -> Iterator[Chunk]:
        """Yield the chunks of an earlier run; `damage` is unchanged."""
        buffer = self._buffer()
        for found_chunk in chunks:
            data = self._read(buffer, found_chunk.offset, found_chunk.size)
            if len(data) < found_chunk.size:
                self.damage = Damage(found_chunk.offset + len(data), "the file was truncated since the first pass")
            if found_chunk.starts and len(data) == found_chunk.size:
                yield Chunk(data, found_chunk.starts.starts(), self.endian, found_chunk.offset)
            else:
                yield self._walk(data, found_chunk.offset)[0]

    def _read(self, buffer: NDArray[np.uint8], offset: int, size: int) -> NDArray[np.uint8]:
        """Return bytes of the file in the buffer; map large chunks, most bytes of which are never read."""
        if self._chunk_size >= STACKS_CHUNK_SIZE and not offset & 7:
            return np.frombuffer(self.source.map_bytes(offset, size), np.uint8)
        return buffer[: self.source.read_into(buffer.data[:size], offset)]

    def _buffer(self) -> NDArray[np.uint8]:
        """Allocate a buffer for a chunk: for at least one record of the largest size."""
        return np.empty(min(self._chunk_size, max(1 << 16, (self.end - self.begin + 7) & ~7)), np.uint8)

    def _walk(self, data: NDArray[np.uint8], offset: int) -> tuple[Chunk, Walk]:
        walked = walk(data, self.endian)
        chunk = make_chunk(data, walked.starts, offset, self.endian)
        if chunk.holds(PAYLOAD_TYPES):
            walked = walk_over_payloads(data, self.endian)
            chunk = make_chunk(data, walked.starts, offset, self.endian)
        return chunk, walked

    def _check_end(self, stopped: int, available: int) -> None:
        """Set `damage` if records end at `stopped` and bytes at `available`, before the end."""
        missing = max(self.end, stopped) - available
        if missing > 0:
            self.damage = Damage(min(stopped, available), f"the file is truncated, {missing} bytes are missing")
        elif stopped < available:
            self.damage = Damage(stopped, "the last record is truncated", is_end=True)
