"""A cursor over many samples at once, which decodes the next field of each.

A field is never read beyond the end of its record; a sample that is too short is marked as damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices
from perfpy.abi.framing import as_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Cursor:
    """The position of the next field of each sample, in 8-byte words of the buffer, bounded by the records' ends.

    With `late`, callchains, raw data and user stacks may stay in the buffer.
    """

    def __init__(
        self, buffer: NDArray[np.uint8], endian: str, starts: NDArray[np.int64], ends: NDArray[np.int64], *, late: bool = False
    ) -> None:
        self.late = late
        self.bytes = buffer
        self.words = buffer.view(endian + "u8")
        self.halves = buffer.view(endian + "u4")
        self.position = starts
        self.ends = ends
        self.damaged: NDArray[np.bool_] | None = None

    def _mark(self, bad: NDArray[np.bool_]) -> None:
        self.damaged = bad if self.damaged is None else self.damaged | bad

    def word(self) -> NDArray[np.uint64]:
        """Return the next word of each sample; 0 beyond the end of its record."""
        over = self.position >= self.ends
        if not over.any():
            values = self.words[self.position].astype(np.uint64, copy=False)
            self.position = self.position + 1
            return values
        self._mark(over)
        values = self.words[np.where(over, 0, self.position)].astype(np.uint64, copy=False)
        self.position = np.minimum(self.position + 1, self.ends)
        return np.where(over, np.uint64(0), values)

    def skip(self, counts: NDArray[np.int64] | int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Skip `counts` words. Return (starts, lengths); a sample with fewer words is damaged and has the length 0."""
        starts = self.position
        lengths = np.broadcast_to(np.asarray(counts, np.int64), starts.shape)
        ends = starts + counts
        over = ends > self.ends
        if not isinstance(counts, int):
            over |= counts < 0
        if over.any():
            self._mark(over)
            lengths = np.where(over, 0, lengths)
            ends = np.where(over, self.ends, ends)
        self.position = ends
        return starts, lengths

    def count(self) -> NDArray[np.int64]:
        """Return the next word as a count. A count that no record can hold becomes -1, which skip() rejects."""
        values = self.word()
        return np.where(values > 0xFFFF, np.uint64(0xFFFFFFFFFFFFFFFF), values).astype(np.int64)


def gather(words: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Ragged:
    """Return the spans as rows in this machine's byte order. Starts and lengths count elements of `words`."""
    return Slices(words, starts, lengths).gather()


#: decodes one variable field at the cursor into `columns`, or only skips it
FieldDecoder = Callable[[Cursor, Columns, bool], None]


def realign_records(buf: NDArray[np.uint8], offsets: NDArray[np.int64], endian: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy the records to multiples of 8, each padded with zeros to a multiple of 8."""
    parts, positions, offset = [], [], 0
    for start in offsets.tolist():
        if not 0 <= start <= len(buf) - 8:
            raise ValueError("a record reaches beyond the buffer")
        size = as_number(buf[start + 6 : start + 8].tobytes(), endian)
        if start + size > len(buf):
            raise ValueError("a record reaches beyond the buffer")
        record = buf[start : start + size].tobytes()
        parts.append(record.ljust((size + 7) & ~7, b"\0"))
        positions.append(offset)
        offset += len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8), np.array(positions, np.int64)
