"""The order of delivery of all samples of a source, collected chunk by chunk while they are read."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.perfdata.records.batches import StoredBatch
from perfpy.perfdata.records.delivery.order import delivery_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery.keys import KeyedSamples

_WORD_BITS: Final = 64
_INT32_END: Final = 1 << 31
_FEW_RUNS: Final = 256  # of ascending keys; up to this number merging the runs is faster than sorting


class SampleOrder(NamedTuple):
    """The samples of a source in order of delivery.

    Attributes:
        arrival: the position of each sample in the order of the source; None if both orders are the same.
        key: uint64[n], settled delivery keys.
        time: int64[n], nanoseconds.
    """

    arrival: NDArray[np.integer[Any]] | None
    key: NDArray[np.uint64]
    time: NDArray[np.int64]


class OrderCollector:
    """The keys and times of the samples read so far."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []
        self._late: dict[int, NDArray[np.uint64]] = {}  # the times of chunks whose keys differ from them
        self._offsets: list[tuple[NDArray[np.integer[Any]], int | NDArray[np.int64]]] = []
        self.count = 0

    def add(self, samples: KeyedSamples) -> None:
        """Add the samples of the next chunk."""
        chunk = samples.chunk
        if samples.keys is not samples.times and not np.array_equal(samples.keys, samples.times):
            self._late[len(self._keys)] = samples.times
        self._keys.append(samples.keys)
        self._offsets.append((chunk.starts.astype(np.uint32), chunk.shift))  # a chunk has less than 4 GB
        self.count += len(samples.keys)

    def order(self, settle: Callable[[StoredBatch], NDArray[np.uint64]]) -> SampleOrder:
        """Return the order of all samples, and forget them. settle: returns the settled keys of a batch."""
        keys = self._keys
        times = [self._late.get(number, key) for number, key in enumerate(keys)]
        settled = [
            settle(StoredBatch(Columns(len(key)), np.zeros(0, np.int32), key, time, starts.astype(np.int64) + shift))
            for key, time, (starts, shift) in zip(keys, times, self._offsets, strict=True)
        ]
        self._offsets.clear()
        if keys and not self._late and all(new is old for new, old in zip(settled, keys, strict=True)):
            times.clear()
            settled.clear()
            return _order_by_time(keys)
        key, time, final = _joined(keys), _joined(times), _joined(settled)
        rows = delivery_order(key, time)
        if rows is None:
            return SampleOrder(None, final, time.view(np.int64))
        return SampleOrder(rows, final[rows], time[rows].view(np.int64))


def _joined(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.uint64)])


def _order_by_time(parts: list[NDArray[np.uint64]]) -> SampleOrder:
    """Return the order of samples whose keys are their times; empties `parts`. Sorting numbers is faster than sorting indexes."""
    descents = sum(int(np.count_nonzero(part[1:] < part[:-1])) for part in parts)
    filled = [part for part in parts if len(part)]
    descents += sum(int(after[0] < before[-1]) for before, after in pairwise(filled))
    count = sum(map(len, filled))
    lowest = min((int(part.min()) for part in filled), default=0)
    highest = max((int(part.max()) for part in filled), default=0)
    bits = count.bit_length()
    is_narrow = (highest - lowest).bit_length() + bits <= _WORD_BITS
    if not descents or not is_narrow:
        key = _joined(parts)
        rows = np.argsort(key, kind="stable") if descents else None
        key = key if rows is None else key[rows]
        return SampleOrder(rows, key, key.view(np.int64))
    packed = np.empty(count, np.uint64)
    begin = 0
    for part in filled:
        rows_of_part = packed[begin : begin + len(part)]
        np.subtract(part, np.uint64(lowest), out=rows_of_part)
        rows_of_part <<= np.uint64(bits)
        rows_of_part |= np.arange(begin, begin + len(part), dtype=np.uint64)
        begin += len(part)
    parts.clear()
    filled.clear()
    packed.sort(kind="stable" if descents < _FEW_RUNS else None)
    arrival: NDArray[np.integer[Any]] = (packed & np.uint64((1 << bits) - 1)).astype(np.int32 if count < _INT32_END else np.int64)
    packed >>= np.uint64(bits)
    packed += np.uint64(lowest)
    return SampleOrder(arrival, packed, packed.view(np.int64))
