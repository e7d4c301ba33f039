"""Compress records into COMPRESSED records: one zstd stream in pieces, the reverse of perfpy.perfdata.records.decompression.

Each piece is flushed, so that a reader gets all its records. Layout: { header; char data[]; }, not padded, as perf 6.12
writes and reads it (newer versions also have COMPRESSED2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import with_header
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.container.writer import Slice

_MOST: Final = 0xFFFF - 8  # the longest payload of a record


class Packer:
    """The compressor of one recording.

    Attributes:
        taken: uncompressed bytes so far.
        given: compressed bytes so far.
    """

    def __init__(self, level: int) -> None:
        from perfpy.untrusted.expansion import ExpansionError, zstd_library  # only compressed recordings need it

        try:
            compressor = zstd_library().ZstdCompressor
        except ExpansionError as error:
            raise PerfError(f"compression: {error}") from None
        self._make: Any = lambda: compressor(level=level)
        self._zstd: Any = self._make()
        self._flush = compressor.FLUSH_BLOCK
        self.bytes_in = 0
        self.bytes_out = 0

    def restart(self) -> None:
        """Begin a new zstd stream, for a new output file."""
        self._zstd = self._make()

    def pack(self, *slices: Slice) -> Iterator[bytes]:
        """Yield COMPRESSED records that hold these bytes."""
        for piece in slices:
            packed = self._zstd.compress(piece, self._flush)
            self.bytes_in += len(piece)
            self.bytes_out += len(packed)
            for offset in range(0, len(packed), _MOST):
                yield with_header(RecordType.COMPRESSED, 0, packed[offset : offset + _MOST], NATIVE_ENDIAN)

    @property
    def ratio(self) -> float:
        """Uncompressed bytes per compressed byte."""
        return self.bytes_in / self.bytes_out if self.bytes_out else 0.0
