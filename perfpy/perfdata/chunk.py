"""Chunk: some records in a row, in one buffer.

What enters: a buffer and where the records begin in it. What leaves: a Chunk,
with types and sizes taken from the headers, { u32 type; u16 misc; u16 size; }.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.sample_cursor import realigned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class Chunk(NamedTuple):
    """Some records in a row.

    data: a buffer, valid until the next chunk is asked for; starts: where each
    record begins in it, always a multiple of 8; types, sizes: from their
    headers; offsets: where they are in the file (a record that was compressed:
    where the compressed one is).
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    types: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def rows(self, index: NDArray[np.intp]) -> Chunk:
        """Only the given records."""
        return Chunk(self.data, self.starts[index], self.types[index], self.sizes[index], self.offsets[index])

    def record(self, row: int) -> bytes:
        """The bytes of one record, header included."""
        start = int(self.starts[row])
        return self.data[start : start + int(self.sizes[row])].tobytes()


def make_chunk(data: NDArray[np.uint8], starts: NDArray[np.int64], offsets: NDArray[np.int64], endian: str) -> Chunk:
    """The chunk of the records at `starts`; where these are not multiples of 8, of a copy in which they are."""
    if (starts & 7).any():
        data, starts = realigned(data, starts, endian)
    headers = data[: len(data) & ~7].view(endian + "u8")[starts >> 3].astype(np.uint64, copy=False)
    if endian == "<":
        types, sizes = headers.astype(np.uint32), headers >> np.uint64(48)
    else:
        types, sizes = (headers >> np.uint64(32)).astype(np.uint32), headers & np.uint64(0xFFFF)
    return Chunk(data, starts, types, sizes.astype(np.int64), offsets)


def holds_types(types: NDArray[np.uint32], wanted: Iterable[int]) -> bool:
    """Whether any of the types is among the wanted ones."""
    return any(bool((types == number).any()) for number in wanted)
