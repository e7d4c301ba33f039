"""Records before they are decoded: an array and one bytes object, as a system-wide recording has very many of them.

What enters: chunks of records. What leaves: RawRecords, which hands out single
RawRecords as it is iterated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.abi.framing import HEADER
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery_order import delivery_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery_keys import OrderedChunk

_HEADER_SIZE: Final = HEADER["<"].size
_AT_ONCE: Final = 4096  # records that become values together
_ROW: Final = np.dtype(
    [("key", "u8"), ("time", "u8"), ("offset", "i8"), ("type", "u4"), ("misc", "u2"), ("event", "i4"), ("size", "u2"), ("start", "i8")]
)


class RawRecord(NamedTuple):
    """A record before it is decoded. event: index of the event it belongs to; body: what follows its header."""

    key: int
    time: int
    offset: int
    type: int
    misc: int
    event: int
    body: bytes


def delivered_at(raw: RawRecord) -> tuple[int, int, int]:
    """What records are sorted by (stably: of one compressed record all come from the same offset)."""
    return raw.key, raw.time, raw.offset


class RawRecords:
    """Records, a row each.

    rows: the fields of RawRecord but the body; `start` and `size` say where
    that is in `bodies`, in bytes: each begins at a multiple of 8.
    """

    def __init__(self, rows: NDArray[np.void], bodies: bytes) -> None:
        self.rows = rows
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RawRecord]:
        bodies = self.bodies
        for first in range(0, len(self), _AT_ONCE):
            for key, time, offset, kind, misc, event, size, start in self.rows[first : first + _AT_ONCE].tolist():
                yield RawRecord(key, time, offset, kind, misc, event, bodies[start : start + size])

    def of_types(self, types: Collection[int]) -> RawRecords:
        """Only records of some types."""
        return RawRecords(self.rows[np.isin(self.rows["type"], list(types))], self.bodies)

    def in_order(self) -> RawRecords:
        """The records in order of delivery, as delivered_at says."""
        key, time, offset = (np.ascontiguousarray(self.rows[name]) for name in ("key", "time", "offset"))
        if len(offset) and bool((offset[1:] < offset[:-1]).any()):  # of several files
            return RawRecords(self.rows[np.lexsort((offset, time, key))], self.bodies)
        order = delivery_order(key, time)
        return self if order is None else RawRecords(self.rows[order], self.bodies)

    @classmethod
    def of_chunk(cls, ordered: OrderedChunk, chosen: NDArray[np.bool_]) -> RawRecords:
        """Those records of a chunk that are no samples, as far as they are chosen."""
        index = ordered.chunk.others[chosen]
        chunk = ordered.chunk.rows(index)
        rows = np.zeros(len(index), _ROW)
        rows["key"], rows["time"], rows["offset"] = ordered.keys[index], ordered.times[index], chunk.offsets
        rows["type"], rows["misc"] = chunk.types, chunk.miscs
        rows["event"] = ordered.other_events[chosen]
        rows["size"] = chunk.sizes - np.uint16(_HEADER_SIZE)
        bodies, rows["start"] = _bodies(chunk)
        return cls(rows, bodies)

    @classmethod
    def joined(cls, parts: Sequence[RawRecords]) -> RawRecords:
        """Those of all parts, one part after the other."""
        rows = np.concatenate([np.zeros(0, _ROW), *(part.rows for part in parts)])
        before = np.cumsum([0, *(len(part.bodies) for part in parts)])[:-1]
        rows["start"] += np.repeat(before, [len(part) for part in parts])
        return cls(rows, b"".join(part.bodies for part in parts))


def _bodies(chunk: Chunk) -> tuple[bytes, NDArray[np.int64]]:
    """What follows the headers of the records of a chunk, each padded to a multiple of 8 bytes; and where each begins in that."""
    words = (chunk.sizes.astype(np.int64) + 7 >> 3) - 1
    index, offsets = slices_index((chunk.starts >> 3) + 1, words)
    data = chunk.data[: len(chunk.data) & ~7]
    if len(index) and index[-1] >= len(data) >> 3:  # the last one is none of the kernel's, which are padded
        data = np.concatenate([chunk.data, np.zeros(-len(chunk.data) % 8, np.uint8)])
    return data.view(np.uint64)[index].tobytes(), offsets[:-1] << 3
