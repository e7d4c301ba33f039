"""The raw data of many samples of one tracepoint, with their fields as columns.

Nothing is read beyond a sample's end: missing data is 0 or empty, whatever offsets and sizes the tracepoint's format claims.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoints.event_format import TraceField

#: valid sizes of numbers
NUMBER_SIZES: Final = (1, 2, 4, 8)
_SHORT: Final = 256  # bytes; longer strings are rare and consist mostly of NULs
_LARGEST: Final = 1 << 16  # the size limit of records; larger offsets are in no record


class TraceRows:
    """Raw data, one row for each sample.

    Args:
        values: uint8
        starts, sizes: int64; the position of each row in `values`
        endian: "<" or ">"
    """

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
        """Return consecutive rows."""
        return TraceRows(self._values, self._starts[first:end], self.sizes[first:end], self.endian)

    def number(self, offset: int, size: int) -> NDArray[np.uint64]:
        """Return the unsigned number at an offset of each row; 0 if it is not inside the row, or `size` is invalid."""
        if size not in NUMBER_SIZES or not 0 <= offset <= _LARGEST:
            return np.zeros(len(self), np.uint64)
        if offset + size <= self._shortest:
            return self._at_every_byte(f"u{size}")[self._starts + offset].astype(np.uint64, copy=False)
        return self.number_at(np.full(len(self), offset, np.int64), size)

    def number_at(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
        """Return the unsigned number at each row's own offset; 0 if it is not inside the row, or `size` is invalid."""
        numbers = np.zeros(len(self), np.uint64)
        if size in NUMBER_SIZES:
            inside = np.flatnonzero((offsets >= 0) & (offsets + size <= self.sizes))
            if len(inside):
                numbers[inside] = self._at_every_byte(f"u{size}")[self._starts[inside] + offsets[inside]]
        return numbers

    def _at_every_byte(self, dtype: str) -> NDArray[Any]:
        """Return the bytes as numbers of a type, one starting at each byte."""
        kind = np.dtype(self.endian + dtype)
        return np.ndarray((len(self._values) - kind.itemsize + 1,), kind, np.ascontiguousarray(self._values), strides=(1,))

    def data_range(self, field: TraceField) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return offsets and lengths of the data of a dynamic field; length 0 if it is incomplete."""
        if field not in self._data_ranges:
            word = self.number(field.offset, field.size).astype(np.int64)
            offset = word & 0xFFFF
            length = self.sizes - offset if field.size == 2 else word >> 16 & 0xFFFF
            base = field.offset + field.size if field.is_relative else 0
            whole = (offset + length <= self.sizes) & (length > 0)
            self._data_ranges[field] = np.where(offset > self.sizes, 0, offset) + base, np.where(whole, length, 0)
        return self._data_ranges[field]

    def strings(self, offset: int, size: int) -> list[bytes]:
        """Return up to `size` bytes from an offset of each row, possibly without trailing NULs."""
        offset, size = min(offset, _LARGEST), min(size, _LARGEST)
        if 0 < size <= _SHORT and offset + size <= self._shortest:
            texts: list[bytes] = self._at_every_byte(f"S{size}")[self._starts + offset].tolist()
            return texts
        return self.slices(np.full(len(self), offset, np.int64), np.full(len(self), size, np.int64))

    def slices(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[bytes]:
        """Return a slice of each row, truncated at the row's end."""
        first = np.minimum(offsets, self.sizes)
        starts = self._starts + first - self._low
        data = self._bytes
        ends = starts + np.minimum(lengths, self.sizes - first)
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @cached_property
    def raws(self) -> list[bytes]:
        """Return the bytes of each row."""
        return self.slices(np.zeros(len(self), np.int64), self.sizes)

    @cached_property
    def _low(self) -> int:
        return int(self._starts.min()) if len(self) else 0

    @cached_property
    def _bytes(self) -> bytes:
        """The bytes from the first to the last row."""
        end = int((self._starts + self.sizes).max()) if len(self) else 0
        return self._values[self._low : end].tobytes()
