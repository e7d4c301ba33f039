"""Records -> COMPRESSED records: one zstd stream in pieces, the mirror of perfpy.perfdata.records.decompression.

What enters: whole records, in pieces no longer than a ring. What leaves:
COMPRESSED records; each piece is flushed, so that a reader has every record
of it. Layout: { header; char data[]; }, not padded, as perf 6.12 writes and
reads it (newer ones know COMPRESSED2, too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import with_header
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.container.writer import Slice

_MOST: Final = 0xFFFF - 8  # what a record holds


class Packer:
    """Compresses one recording. taken, given: bytes in and out so far."""

    def __init__(self, level: int) -> None:
        from perfpy.untrusted.expansion import ExpansionError, zstd_library  # only compressed recordings need it

        try:
            compressor = zstd_library().ZstdCompressor
        except ExpansionError as error:
            raise PerfError(f"compression: {error}") from None
        self._make: Any = lambda: compressor(level=level)
        self._zstd: Any = self._make()
        self._flush = compressor.FLUSH_BLOCK
        self.taken = 0
        self.given = 0

    def restart(self) -> None:
        """Another file begins: a stream of its own."""
        self._zstd = self._make()

    def pack(self, *slices: Slice) -> Iterator[bytes]:
        """The records that hold these bytes."""
        for piece in slices:
            packed = self._zstd.compress(piece, self._flush)
            self.taken += len(piece)
            self.given += len(packed)
            for offset in range(0, len(packed), _MOST):
                yield with_header(RecordType.COMPRESSED, 0, packed[offset : offset + _MOST], NATIVE_ENDIAN)

    @property
    def ratio(self) -> float:
        """Bytes in for each byte out."""
        return self.taken / self.given if self.given else 0.0
