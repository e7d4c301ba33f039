"""The raw data of a chunk's samples where they lie in the buffer.

Layout: u32 size; char data[size] in a SAMPLE record (perfpy.abi.samples.decoding). Raw data begin 4 bytes after a multiple of 8, so the
buffer is read as 32-bit words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.samples.decoding import SampleLayout
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.tracepoints.event_format import TraceField

_HALF: Final = 4


class RawData(NamedTuple):
    """Raw data of samples as 32-bit words, valid as long as the buffer.

    Attributes:
        words: uint32, the buffer, in the recording's byte order.
        begins: int64[n], the first word of each sample's raw data.
        shortest: the number of bytes that all samples have at least.
        lengths: int64[n], bytes.
    """

    words: NDArray[np.uint32]
    begins: NDArray[np.int64]
    shortest: int
    lengths: NDArray[np.int64]

    def has(self, field: TraceField) -> bool:
        """Whether `numbers` can read the field."""
        is_number = not field.is_array and not field.is_dynamic and field.size in (_HALF, 2 * _HALF)
        return is_number and not field.offset % _HALF

    def numbers(self, field: TraceField) -> NDArray[Any]:
        """Return the field of each sample: int32[n], int64[n] for unsigned and longer ones, uint64[n]; 0 where the data are too short."""
        if field.offset + field.size > self.shortest:
            return self._numbers_inside(field)
        index = self.begins + (field.offset >> 2)
        low = self.words.take(index)
        if field.size == _HALF:
            return _signed(low, is_signed=field.is_signed)
        index += 1
        return self._joined(low, self.words.take(index), is_signed=field.is_signed)

    def _numbers_inside(self, field: TraceField) -> NDArray[Any]:
        """Read the samples whose data are long enough."""
        is_inside = self.lengths >= field.offset + field.size
        some = self._replace(begins=self.begins[is_inside], shortest=field.offset + field.size).numbers(field)
        column = np.zeros(len(self.begins), some.dtype)
        column[is_inside] = some
        return column

    def _joined(self, first: NDArray[np.uint32], second: NDArray[np.uint32], *, is_signed: bool) -> NDArray[Any]:
        """Return 64-bit numbers from their halves in memory order."""
        low, high = (first, second) if self.words.dtype.newbyteorder("<") == self.words.dtype else (second, first)
        numbers: NDArray[np.uint64] = high.astype(np.uint64)
        numbers <<= np.uint64(32)
        numbers |= low
        return numbers.view(np.int64) if is_signed else numbers

    def gather(self) -> Ragged:
        """Return a copy of the raw data."""
        return Slices(self.words.view(np.uint8), self.begins << 2, self.lengths).gather()


def _signed(column: NDArray[np.uint32], *, is_signed: bool) -> NDArray[Any]:
    native = column.astype(np.uint32, copy=False)
    return native.view(np.int32) if is_signed else native.astype(np.int64)


def raw_in_place(samples: Chunk, layout: SampleLayout) -> RawData | None:
    """Return the raw data of samples of one layout; None if their position varies, or if a sample is too short for them."""
    word = layout.raw_word
    if word is None or not len(samples) or samples.data.ctypes.data & 7:
        return None
    words = samples.data[: len(samples.data) & ~7].view(samples.endian + "u4")
    sizes = samples.sizes
    if (word + 1) << 3 > int(sizes.min()):
        return None
    begins = (samples.starts >> 2) + 2 * word
    lengths = words.take(begins).astype(np.int64)
    begins += 1
    shortest, before = int(lengths.min()), (word << 3) + _HALF
    if before + int(lengths.max()) > int(sizes.min()) and bool((before + lengths > sizes).any()):
        return None
    return RawData(words, begins, shortest, lengths)


def raw_of_column(raw: Ragged | Slices, endian: str) -> RawData | None:
    """Return the raw data of a decoded column; None if they are not aligned to 32-bit words."""
    if isinstance(raw, Slices):
        data, begins, lengths = raw.words, raw.starts, raw.lengths
    else:
        data, begins, lengths = raw.values, raw.offsets[:-1], raw.lengths
    if data.itemsize != 1 or int(np.bitwise_or.reduce(begins, initial=0)) & (_HALF - 1):
        return None
    shortest = int(lengths.min()) if len(lengths) else 0
    return RawData(data[: len(data) & -_HALF].view(endian + "u4"), begins >> 2, shortest, lengths)
