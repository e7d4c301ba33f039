"""The raw data of many samples of one tracepoint: their fields as columns.

What enters: the bytes in which the raw data lie, and where each sample's
begin and end there. What leaves: numpy columns of numbers, lists of bytes.
Nothing is read from beyond a sample's end: what is not there is 0 or empty,
whatever offsets and sizes the tracepoint's format claims.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoints.event_format import TraceField

#: sizes that numbers have
NUMBER_SIZES: Final = (1, 2, 4, 8)
_SHORT: Final = 256  # bytes: longer strings are rare, and mostly NULs
_LARGEST: Final = 1 << 16  # no record is longer: an offset beyond that is in none


class TraceRows:
    """Raw data, a row each. values: uint8; starts, sizes: int64; endian: "<" or ">"."""

    def __init__(self, values: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], endian: str) -> None:
        self.endian = endian
        self.sizes = sizes
        self._values = values
        self._starts = starts
        self._shortest = int(sizes.min()) if len(sizes) else 0
        self._data_ranges: dict[TraceField, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def part(self, first: int, end: int) -> TraceRows:
        """Some rows that follow each other."""
        return TraceRows(self._values, self._starts[first:end], self.sizes[first:end], self.endian)

    def number(self, offset: int, size: int) -> NDArray[np.uint64]:
        """The unsigned number at an offset of each row; 0 where it is not inside, or of a size that no number has."""
        if size not in NUMBER_SIZES or not 0 <= offset <= _LARGEST:
            return np.zeros(len(self), np.uint64)
        if offset + size <= self._shortest:
            return self._at_every_byte(f"u{size}")[self._starts + offset].astype(np.uint64, copy=False)
        return self.number_at(np.full(len(self), offset, np.int64), size)

    def number_at(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
        """The unsigned number at an offset of its own in each row; 0 where it is not inside, or of a size that no number has."""
        numbers = np.zeros(len(self), np.uint64)
        if size in NUMBER_SIZES:
            inside = np.flatnonzero((offsets >= 0) & (offsets + size <= self.sizes))
            if len(inside):
                numbers[inside] = self._at_every_byte(f"u{size}")[self._starts[inside] + offsets[inside]]
        return numbers

    def _at_every_byte(self, dtype: str) -> NDArray[Any]:
        """The bytes as numbers of some type, one beginning at each byte."""
        kind = np.dtype(self.endian + dtype)
        return np.ndarray((len(self._values) - kind.itemsize + 1,), kind, np.ascontiguousarray(self._values), strides=(1,))

    def data_range(self, field: TraceField) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(offsets, lengths) of the data that a dynamic field points to; length 0 where they are not all there."""
        if field not in self._data_ranges:
            word = self.number(field.offset, field.size).astype(np.int64)
            offset = word & 0xFFFF
            length = self.sizes - offset if field.size == 2 else word >> 16 & 0xFFFF
            base = field.offset + field.size if field.is_relative else 0
            whole = (offset + length <= self.sizes) & (length > 0)
            self._data_ranges[field] = np.where(offset > self.sizes, 0, offset) + base, np.where(whole, length, 0)
        return self._data_ranges[field]

    def strings(self, offset: int, size: int) -> list[bytes]:
        """Up to so many bytes from an offset on, of each row, perhaps without the NULs at their end."""
        offset, size = min(offset, _LARGEST), min(size, _LARGEST)
        if 0 < size <= _SHORT and offset + size <= self._shortest:
            texts: list[bytes] = self._at_every_byte(f"S{size}")[self._starts + offset].tolist()
            return texts
        return self.slices(np.full(len(self), offset, np.int64), np.full(len(self), size, np.int64))

    def slices(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[bytes]:
        """Some bytes of each row; none from beyond its end."""
        first = np.minimum(offsets, self.sizes)
        starts = self._starts + first - self._low
        data = self._bytes
        ends = starts + np.minimum(lengths, self.sizes - first)
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @cached_property
    def raws(self) -> list[bytes]:
        """Each row's bytes."""
        return self.slices(np.zeros(len(self), np.int64), self.sizes)

    @cached_property
    def _low(self) -> int:
        return int(self._starts.min()) if len(self) else 0

    @cached_property
    def _bytes(self) -> bytes:
        """What lies between the first and the last row, these included."""
        end = int((self._starts + self.sizes).max()) if len(self) else 0
        return self._values[self._low : end].tobytes()
