"""The order of delivery of all samples of a source, collected chunk by chunk while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.perfdata.records.batches import StoredBatch
from perfpy.perfdata.records.delivery.order import delivery_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.delivery.keys import KeyedSamples

_WORD_BITS: Final = 64
_FEW_RUNS: Final = 256  # of ascending keys; up to this number merging the runs is faster than sorting


class SampleOrder(NamedTuple):
    """The samples of a source in order of delivery.

    Attributes:
        arrival: the position of each sample in the order of the source; None if both orders are the same.
        key: uint64[n], settled delivery keys.
        time: int64[n], nanoseconds.
    """

    arrival: NDArray[np.integer] | None
    key: NDArray[np.uint64]
    time: NDArray[np.int64]


class OrderCollector:
    """The keys and times of the samples read so far."""

    def __init__(self) -> None:
        self._keys: list[NDArray[np.uint64]] = []
        self._times: list[NDArray[np.uint64]] = []
        self._offsets: list[tuple[NDArray[np.integer], int | NDArray[np.int64]]] = []
        self.count = 0

    def add(self, samples: KeyedSamples) -> None:
        """Add the samples of the next chunk."""
        chunk = samples.chunk
        self._keys.append(samples.keys)
        self._times.append(samples.keys if samples.keys is samples.times else samples.times)
        self._offsets.append((chunk.starts.astype(np.uint32), chunk.shift))  # a chunk has less than 4 GB
        self.count += len(samples.keys)

    def order(self, settle: Callable[[StoredBatch], NDArray[np.uint64]]) -> SampleOrder:
        """Return the order of all samples, and forget them. settle: returns the settled keys of a batch."""
        settled = [
            settle(StoredBatch(Columns(len(key)), np.zeros(0, np.int32), key, time, starts + shift))
            for key, time, (starts, shift) in zip(self._keys, self._times, self._offsets, strict=True)
        ]
        self._offsets.clear()
        are_settled = all(new is old for new, old in zip(settled, self._keys, strict=True))
        late = any(key is not time and not np.array_equal(key, time) for key, time in zip(self._keys, self._times, strict=True))
        if self.count and are_settled and not late:
            key = _joined(self._keys)
            self._times.clear()
            del settled
            return _order_by_time(key)
        key, time, final = _joined(self._keys), _joined(self._times), _joined(settled)
        rows = delivery_order(key, time)
        if rows is None:
            return SampleOrder(None, final, time.view(np.int64))
        return SampleOrder(rows, final[rows], time[rows].view(np.int64))


def _joined(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Concatenate the parts, and forget them."""
    joined = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.uint64)])
    parts.clear()
    return joined


def _order_by_time(key: NDArray[np.uint64]) -> SampleOrder:
    """Return the order of samples whose keys are their times. Sorting numbers is faster than sorting indexes."""
    descents = int(np.count_nonzero(key[1:] < key[:-1]))
    if not descents:
        return SampleOrder(None, key, key.view(np.int64))
    lowest, bits = key.min(), np.uint64(len(key).bit_length())
    if int(key.max() - lowest).bit_length() + int(bits) > _WORD_BITS:
        rows = np.argsort(key, kind="stable")
        return SampleOrder(rows, key[rows], key[rows].view(np.int64))
    packed = key - lowest
    packed <<= bits
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort(kind="stable" if descents < _FEW_RUNS else None)
    arrival = (packed & np.uint64((1 << int(bits)) - 1)).astype(np.int32 if len(key) < 1 << 31 else np.int64)
    packed >>= bits
    packed += lowest
    return SampleOrder(arrival, packed, packed.view(np.int64))
