"""COMPRESSED and COMPRESSED2 records -> the records inside them.

What enters: chunks of records as they stand in the file. What leaves: the same
with the compressed ones replaced by what they hold. All of them together are
one zstd stream: one decompressor is kept, and a record may begin in one and
end in the next. Layouts: { header; char data[]; } and { header; u64 size;
char data[size]; } (tools/lib/perf/include/perf/event.h).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.sample_cursor import realigned
from perfpy.perfdata.walk import record_types, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

COMPRESSED_TYPES: Final = (RecordType.COMPRESSED, RecordType.COMPRESSED2)

#: data, starts, types, offsets: the parts of a stream.Chunk
Parts: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]"


def zstd_decompressor() -> Any:
    """A new zstd decompressor: the standard library's, or before Python 3.14 its backport."""
    # only compressed files need it
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor()


def _aligned(data: NDArray[np.uint8], starts: NDArray[np.int64], endian: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return realigned(data, starts, endian) if (starts & 7).any() else (data, starts)


class Unpacker:
    """Unpacks the compressed records of one stream, in order.

    left_over: bytes of a record that has begun; failure: (offset, reason)
    once the stream is damaged.
    """

    def __init__(self, endian: str, chunk_size: int) -> None:
        self._endian = endian
        self._chunk_size = chunk_size
        self._zstd = zstd_decompressor()
        self.left_over = b""
        self.failure: tuple[int, str] | None = None

    def unpack(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], types: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> Iterator[Parts]:
        """The records of one chunk with the compressed ones unpacked, in pieces of bounded size."""
        packed = np.isin(types, COMPRESSED_TYPES)
        borders = np.flatnonzero(np.diff(packed)) + 1
        for run in np.split(np.arange(len(starts)), borders):
            if not packed[run[0]]:
                yield data, starts[run], types[run], offsets[run]
                continue
            yield from self._unpack_run(data, starts[run], types[run], offsets[run])
            if self.failure:
                return

    def _unpack_run(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], types: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> Iterator[Parts]:
        """Compressed records that follow each other: their contents are joined while they stay below the chunk size."""
        pieces: list[bytes] = []
        ends: list[int] = []  # of each piece, in the joined bytes
        homes: list[int] = []  # offset of the compressed record of each piece
        total = len(self.left_over)
        for start, kind, offset in zip(starts.tolist(), types.tolist(), offsets.tolist(), strict=True):
            for piece in self._pieces(self._payload(data, start, kind), offset):
                pieces.append(piece)
                total += len(piece)
                ends.append(total)
                homes.append(offset)
                if total >= self._chunk_size:
                    yield from self._joined(pieces, ends, homes)
                    pieces, ends, homes, total = [], [], [], len(self.left_over)
            if self.failure:
                break
        if pieces:
            yield from self._joined(pieces, ends, homes)

    def _payload(self, data: NDArray[np.uint8], start: int, kind: int) -> bytes:
        order: Any = "little" if self._endian == "<" else "big"
        end = start + int.from_bytes(data[start + 6 : start + 8].tobytes(), order)
        if kind == RecordType.COMPRESSED:
            return data[start + 8 : end].tobytes()
        size = int.from_bytes(data[start + 8 : min(start + 16, end)].tobytes(), order)
        return data[start + 16 : min(start + 16 + size, end)].tobytes()

    def _pieces(self, payload: bytes, offset: int) -> Iterator[bytes]:
        """What the payload unpacks to, never more at once than a chunk."""
        try:
            while True:
                if self._zstd.eof:
                    # a writer may end one frame and begin another
                    payload = self._zstd.unused_data + payload
                    if not payload:
                        return
                    self._zstd = zstd_decompressor()
                piece = self._zstd.decompress(payload, self._chunk_size)
                payload = b""
                if piece:
                    yield piece
                if not self._zstd.eof and (self._zstd.needs_input or not piece):
                    return
        except Exception as error:
            # the decompressor's error class belongs to the module in use
            if type(error).__name__ != "ZstdError":
                raise
            self.failure = offset, f"compressed record cannot be unpacked: {error}"

    def _joined(self, pieces: list[bytes], ends: list[int], homes: list[int]) -> Iterator[Parts]:
        joined = b"".join([self.left_over, *pieces])
        data = np.zeros((len(joined) + 7) & ~7, np.uint8)[: len(joined)]
        data[:] = np.frombuffer(joined, np.uint8)
        found = walk(data, self._endian)
        self.left_over = joined[found.end :]
        if found.bad_size is not None:
            self.failure = homes[-1], f"record of {found.bad_size} bytes inside a compressed one"
        if len(found.starts):
            last_bytes = np.append(found.starts[1:], found.end) - 1
            offsets = np.array(homes, np.int64)[np.searchsorted(np.array(ends), last_bytes, side="right")]
            types = record_types(data, found.starts, self._endian)
            yield *_aligned(data, found.starts, self._endian), types, offsets
