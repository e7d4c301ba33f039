"""Chunk: consecutive records in one buffer.

Types and sizes come from the headers, { u32 type; u16 misc; u16 size; }, on first use.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import all_but, rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.samples.cursor import realign_records
from perfpy.abi.samples.record_starts import RecordStarts
from perfpy.abi.startup import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_SAMPLE: Final = int(RecordType.SAMPLE)
#: records that hold other records, compressed
COMPRESSED_TYPES: Final = (RecordType.COMPRESSED, RecordType.COMPRESSED2)


@dataclass(eq=False, repr=False)
class Chunk:
    """Consecutive records in one buffer.

    Attributes:
        data: the buffer, valid until the next chunk is read.
        starts: int64[n], offsets of the records in the buffer, multiples of 8.
        endian: "<" or ">".
        shift: added to `starts` for the offsets in the file, one number or int64[n].
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    endian: str
    shift: int | NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def types(self) -> NDArray[np.uint32]:
        """The type of each record."""
        return self.column("u4", 0).astype(np.uint32, copy=False)

    @cached_property
    def sizes(self) -> NDArray[np.uint16]:
        """The size of each record in bytes, header included."""
        return self.column("u2", 6).astype(np.uint16, copy=False)

    @property
    def miscs(self) -> NDArray[np.uint16]:
        """The misc bits of each record."""
        return self.column("u2", 4).astype(np.uint16, copy=False)

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """The rows of the records other than samples."""
        return rows_where(self.types != _SAMPLE)

    def holds(self, types: Iterable[int]) -> bool:
        """Whether any of the records is of one of these types, SAMPLE excluded."""
        present = self.types[self.others]
        return any(bool((present == number).any()) for number in types)

    @cached_property
    def begins(self) -> RecordStarts:
        """The record starts."""
        return RecordStarts(self.starts)

    def column(self, kind: str, offset: int) -> NDArray[Any]:
        """Return the numbers of one kind (u2, u4, u8) at an offset in each record, in the file's byte order."""
        return self.begins.column(self.data[: len(self.data) & ~7].view(self.endian + kind), offset)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets of the records in the file; of an unpacked record, the offset of its COMPRESSED record."""
        return self.starts + self.shift

    def rows(self, index: NDArray[np.intp]) -> Chunk:
        """Select records."""
        shift = self.shift if isinstance(self.shift, int) else self.shift[index]
        return Chunk(self.data, self.starts.take(index), self.endian, shift)

    def without(self, rows: NDArray[np.integer[Any]]) -> Chunk:
        """Drop records."""
        if not len(rows):
            return self
        shift = self.shift if isinstance(self.shift, int) else all_but(self.shift, rows)
        return Chunk(self.data, all_but(self.starts, rows), self.endian, shift)

    def record(self, row: int) -> bytes:
        """Return the bytes of one record, header included."""
        start = int(self.starts[row])
        return self.data[start : start + int(self.sizes[row])].tobytes()


def make_chunk(data: NDArray[np.uint8], starts: NDArray[np.int64], offsets: int | NDArray[np.int64], endian: str) -> Chunk:
    """Return a chunk of the records at `starts`; copy them if these are not multiples of 8.

    offsets: of `data` in the file, or of each record.
    """
    shift = offsets if isinstance(offsets, int) else offsets - starts
    if np.bitwise_or.reduce(starts) & 7:
        positions = starts
        data, starts = realign_records(data, starts, endian)
        shift = shift + positions - starts
    return Chunk(data, starts, endian, shift)
