"""Replace COMPRESSED and COMPRESSED2 records by the records inside them.

All of them together are one zstd stream: one decompressor reads it, and a record may begin in one and
end in the next. Layouts: { header; char data[]; } and { header; u64 size;
char data[size]; } (tools/lib/perf/include/perf/event.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER, as_number
from perfpy.errors import PerfError
from perfpy.perfdata.records.chunk import COMPRESSED_TYPES, make_chunk
from perfpy.perfdata.records.walk import walk
from perfpy.untrusted.expansion import ExpansionError, zstd_library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.walk import Walk


_MOST_RATIO: Final = 3072  # user stacks of 64 kB that hardly change have reached 1,723
_ALWAYS: Final = 1 << 23  # bytes that any stream may unpack to
# The cost of unpacking grows with the number of records. One takes some packed bytes, because its time differs from its neighbours'.
_MOST_RECORDS: Final = 8  # for each packed byte
_ALWAYS_RECORDS: Final = 1 << 17
_MOST_FRAMES: Final = 64  # in one record; writers use one frame for all records


def zstd_decompressor() -> Any:
    """Return a new zstd decompressor: the standard library's, or before Python 3.14 its backport."""
    try:
        return zstd_library().ZstdDecompressor()
    except ExpansionError as error:
        raise PerfError(f"compressed records: {error}") from None


class Unpacker:
    """A decompressor for the compressed records of one stream, in order.

    Attributes:
        left_over: bytes of an incomplete record.
        failure: (offset, reason) once the stream is damaged.

    Args:
        endian: "<" or ">".
        chunk_size: bytes of the chunks to yield, about.
        limit: bytes that one record unpacks to at most, if the file has that number.
    """

    def __init__(self, endian: str, chunk_size: int, limit: int | None = None) -> None:
        self._endian = endian
        self._chunk_size = chunk_size
        self._limit = limit
        self._packed = self._unpacked = 0  # bytes so far
        self._records = 0  # unpacked records so far
        self._zstd = zstd_decompressor()
        self.left_over = b""
        self.failure: tuple[int, str] | None = None

    def unpack(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the records of one chunk, unpacked, in pieces of bounded size."""
        packed = np.isin(chunk.types, COMPRESSED_TYPES)
        borders = np.flatnonzero(np.diff(packed)) + 1
        for run in np.split(np.arange(len(packed)), borders):
            if not packed[run[0]]:
                yield chunk.rows(run)
                continue
            yield from self._unpack_run(chunk.rows(run))
            if self.failure:
                return

    def _unpack_run(self, run: Chunk) -> Iterator[Chunk]:
        """Unpack adjacent compressed records; join their contents up to the chunk size."""
        pieces: list[bytes] = []
        ends: list[int] = []  # of each piece, in the joined bytes
        homes: list[int] = []  # offset of each piece's compressed record
        total = len(self.left_over)
        for row, offset in enumerate(run.offsets.tolist()):
            for piece in self._pieces(self._payload(run.record(row)), offset):
                pieces.append(piece)
                total += len(piece)
                ends.append(total)
                homes.append(offset)
                if total >= self._chunk_size:
                    yield from self._join_pieces(pieces, ends, homes)
                    pieces, ends, homes, total = [], [], [], len(self.left_over)
            if self.failure:
                break
        if pieces:
            yield from self._join_pieces(pieces, ends, homes)

    def _payload(self, record: bytes) -> bytes:
        kind, _, _ = HEADER[self._endian].unpack_from(record)
        if kind == RecordType.COMPRESSED:
            return record[8:]
        size = as_number(record[8:16], self._endian)
        return record[16 : 16 + size]

    def _pieces(self, payload: bytes, offset: int) -> Iterator[bytes]:
        """Yield unpacked pieces no longer than a chunk. Set `failure` if the payload is damaged or exceeds a limit."""
        self._packed += len(payload)
        unpacked = 0
        try:
            for piece in self._inflate(payload):
                unpacked += len(piece)
                self._unpacked += len(piece)
                if self._limit is not None and unpacked > self._limit:
                    self.failure = offset, f"compressed record unpacks to more than {self._limit} bytes, the limit in the file"
                elif self._unpacked > max(_ALWAYS, _MOST_RATIO * self._packed):
                    self.failure = offset, f"compressed records unpack to more than {_MOST_RATIO} times their size"
                if self.failure:
                    return
                yield piece
        except Exception as error:
            # The decompressor's error class belongs to the module in use.
            if type(error).__name__ != "ZstdError" and not isinstance(error, ValueError):
                raise
            self.failure = offset, f"compressed record cannot be unpacked: {error}"

    def _inflate(self, payload: bytes) -> Iterator[bytes]:
        """Yield unpacked pieces. Raises ValueError for too many frames, ZstdError for a damaged one."""
        frames = 0
        while True:
            if self._zstd.eof:
                # A writer may end one frame and begin another.
                payload = self._zstd.unused_data + payload
                if not payload:
                    return
                frames += 1
                if frames > _MOST_FRAMES:
                    raise ValueError(f"more than {_MOST_FRAMES} zstd frames")
                self._zstd = zstd_decompressor()
            piece = self._zstd.decompress(payload, self._chunk_size)
            payload = b""
            if piece:
                yield piece
            if not self._zstd.eof and (self._zstd.needs_input or not piece):
                return

    def _join_pieces(self, pieces: list[bytes], ends: list[int], homes: list[int]) -> Iterator[Chunk]:
        joined = b"".join([self.left_over, *pieces])
        data = np.zeros((len(joined) + 7) & ~7, np.uint8)[: len(joined)]
        data[:] = np.frombuffer(joined, np.uint8)
        records = walk(data, self._endian)
        self.left_over = joined[records.end :]
        if records.bad_size is not None:
            self.failure = homes[-1], f"record of {records.bad_size} bytes inside a compressed one"
        yield from self._within_bounds(data, records, ends, homes)

    def _within_bounds(self, data: NDArray[np.uint8], records: Walk, ends: list[int], homes: list[int]) -> Iterator[Chunk]:
        starts = records.starts
        most = max(_ALWAYS_RECORDS, _MOST_RECORDS * self._packed) - self._records
        self._records += len(starts)
        if len(starts) > most:
            self.failure = homes[-1], f"more than {_MOST_RECORDS} records for each byte of the compressed ones"
            starts = starts[:most]
        if len(starts):
            last_bytes = np.append(records.starts[1:], records.end)[: len(starts)] - 1
            offsets = np.array(homes, np.int64)[np.searchsorted(np.array(ends), last_bytes, side="right")]
            yield make_chunk(data, starts, offsets, self._endian)
