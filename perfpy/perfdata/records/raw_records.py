"""Records before they are decoded, as one array and one bytes object: system-wide recordings have very many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.abi.framing import HEADER
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.records.delivery.order import delivery_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.delivery.keys import OrderedChunk

_HEADER_SIZE: Final = HEADER["<"].size
_AT_ONCE: Final = 4096  # records decoded together
_ROW: Final = np.dtype(
    [("key", "u8"), ("time", "u8"), ("offset", "i8"), ("type", "u4"), ("misc", "u2"), ("event", "i4"), ("size", "u2"), ("start", "i8")]
)


class RawRecord(NamedTuple):
    """One record before it is decoded.

    Attributes:
        key: its delivery key.
        time: nanoseconds, 0 for none.
        offset: in the file.
        type: its record type.
        misc: the header's misc bits.
        event: index of its event.
        body: the bytes after the header.
    """

    key: int
    time: int
    offset: int
    type: int
    misc: int
    event: int
    body: bytes


def delivered_at(raw: RawRecord) -> tuple[int, int, int]:
    """Return the sort key of order of delivery. The sort is stable: all records of one compressed record have its offset."""
    return raw.key, raw.time, raw.offset


class RawRecords:
    """Raw records, a row each.

    Attributes:
        rows: the fields of RawRecord except the body; `start` and `size` locate that in `bodies`, in bytes. Starts are multiples of 8.
        bodies: the bodies of all records.
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
        """Select records by type."""
        return RawRecords(self.rows[np.isin(self.rows["type"], list(types))], self.bodies)

    def in_order(self) -> RawRecords:
        """Sort the records by delivered_at."""
        key, time, offset = (np.ascontiguousarray(self.rows[name]) for name in ("key", "time", "offset"))
        if len(offset) and bool((offset[1:] < offset[:-1]).any()):  # several files
            return RawRecords(self.rows[np.lexsort((offset, time, key))], self.bodies)
        order = delivery_order(key, time)
        return self if order is None else RawRecords(self.rows[order], self.bodies)

    def compact(self) -> RawRecords:
        """Return the same records without the bytes of records that were dropped."""
        words = (self.rows["size"].astype(np.int64) + 7) >> 3
        index, offsets = slices_index(self.rows["start"] >> 3, words)
        data = np.frombuffer(self.bodies, np.uint64, len(self.bodies) >> 3)
        rows = self.rows.copy()
        rows["start"] = offsets[:-1] << 3
        return RawRecords(rows, data[index].tobytes())

    @classmethod
    def of_chunk(cls, ordered: OrderedChunk, chosen: NDArray[np.bool_]) -> RawRecords:
        """Return the chosen records of a chunk. chosen: a mask of chunk.others."""
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
    def concat(cls, parts: Sequence[RawRecords]) -> RawRecords:
        """Concatenate records."""
        rows = np.concatenate([np.zeros(0, _ROW), *(part.rows for part in parts)])
        before = np.cumsum([0, *(len(part.bodies) for part in parts)])[:-1]
        rows["start"] += np.repeat(before, [len(part) for part in parts])
        return cls(rows, b"".join(part.bodies for part in parts))


def _bodies(chunk: Chunk) -> tuple[bytes, NDArray[np.int64]]:
    """Return the bodies of a chunk's records, each padded to a multiple of 8 bytes, and the start of each."""
    words = (chunk.sizes.astype(np.int64) + 7 >> 3) - 1
    index, offsets = slices_index((chunk.starts >> 3) + 1, words)
    data = chunk.data[: len(chunk.data) & ~7]
    if len(index) and index[-1] >= len(data) >> 3:  # the last record is not the kernel's, whose records are padded
        data = np.concatenate([chunk.data, np.zeros(-len(chunk.data) % 8, np.uint8)])
    return data.view(np.uint64)[index].tobytes(), offsets[:-1] << 3
