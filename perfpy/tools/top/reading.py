"""Read ring buffers while reports are computed: the records between two updates, in bounded memory.

One thread reads the ring buffers, another computes. RingRecords are all that passes from the first to the second.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import HEADER
from perfpy.errors import OutputFailedError
from perfpy.perfdata.records.stream import Chunk, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perfpy.capture.synthesis import RecordedFeatures
    from perfpy.live.rings import LiveRings
    from perfpy.perfdata.records.delivery import RawRecords


_MOST_WAITING: Final = 64 << 20  # bytes of records that wait for an update
_WAITING_PER_CPU: Final = 8 << 20  # of these; 4,000 samples a second with callchains are 1 MB
_MOST_SIDE_BAND: Final = 64 << 20  # bytes of waiting records, beyond which mappings are dropped: their names may be 4 kB long
_LEAST_WAITING: Final = 4 << 20  # however slow updates are
_LEAST_RATE: Final = 1 / 16  # of the samples per second
_MAPPINGS: Final = (RecordType.MMAP, RecordType.MMAP2)
_FIRST_SPOOLED: Final = 2 << 20  # bytes of records to convert, before it is known how long that takes
_LEAST_SPOOLED: Final = 1 << 20


class RingRecords(NamedTuple):
    """The records between two updates.

    Attributes:
        time: CLOCK_MONOTONIC in nanoseconds, just before the ring buffers were read for the last time.
        records: as bytes.
        further: the records of one more read of all ring buffers; only for converted records.
        dropped: the number of samples for which there was no memory.
        is_last: whether nothing follows.
    """

    time: int
    records: bytes
    further: bytes
    dropped: int
    is_last: bool


class Spooled(Protocol):
    """Records as another process sees them, in pieces."""

    def look(self, records: bytes) -> None:
        """Show records that were just read."""

    def close_piece(self) -> None:
        """Begin the next piece."""

    def release_pieces(self) -> None:
        """Release the pieces of earlier updates."""


class RingReader:
    """Keeps the records of ring buffers until an update takes them. One thread uses it.

    Args:
        rings: the open events.
        spooled: the process that looks at the records, None for none.
        adapts_rate: take fewer samples per second while most are dropped.
        most: bytes beyond which samples are dropped; the side-band is kept, up to 64 MB. None: by the number of CPUs.
    """

    def __init__(self, rings: LiveRings, spooled: Spooled | None = None, most: int | None = None, *, adapts_rate: bool = False) -> None:
        self._rings = rings
        self._spooled = spooled
        if most is None:
            most = min(max(2, os.cpu_count() or 1) * _WAITING_PER_CPU, _MOST_WAITING)
        self._most = _FIRST_SPOOLED if spooled is not None else most
        self._least = _LEAST_SPOOLED if spooled is not None else min(_LEAST_WAITING, most)
        self._limit = most if spooled is None else _MOST_WAITING
        self._pieces: list[bytes] = []
        self._size = 0
        self._dropped = self._dropped_size = 0
        self._adapts_rate, self._rate = adapts_rate, 1.0

    @property
    def size(self) -> int:
        """The bytes of records that wait for an update."""
        return self._size

    def drain(self) -> None:
        """Empty the ring buffers before they are full."""
        data = self._rings.read()
        if not data:
            return
        if self._size + len(data) > self._most:
            before = len(data)
            data, dropped = without_samples(data)
            self._dropped += dropped
            self._dropped_size += before - len(data)
            if self._size + len(data) > _MOST_SIDE_BAND:
                data, dropped = without_records(data, _MAPPINGS)
                self._dropped += dropped
        self._pieces.append(data)
        self._size += len(data)
        if self._spooled is not None:
            self._spooled.look(data)

    def forget_samples(self) -> None:
        """Drop the samples so far without counting them."""
        kept = [without_samples(piece)[0] for piece in self._pieces]
        self._pieces, self._size, self._dropped = kept, sum(map(len, kept)), 0

    def adapt(self, size: int, seconds: float, interval: float) -> None:
        """Let no more records wait than an update takes in an interval, so that updates and their memory do not grow on a busy machine.

        Args:
            size: bytes of the records of an update.
            seconds: that it took.
            interval: seconds between two updates.
        """
        if size >= self._least // 4:
            most = int(size / max(seconds, 1e-3) * interval)
            self._most = max(self._least, min(most, 2 * self._most, self._limit))

    def take(self, *, last: bool = False) -> RingRecords:
        """Read the ring buffers, and return all records since the last call. last: nothing follows."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if self._spooled is not None:
            self._spooled.release_pieces()
        if self._adapts_rate:
            self._adapt_rate()
        records, further = self._next_piece(), b"" if self._spooled is None else self._next_piece()
        dropped, self._dropped = self._dropped, 0
        return RingRecords(now, records, further, dropped, last)

    def _adapt_rate(self) -> None:
        """Take fewer samples if most were dropped, more if none was and there is room: dropped samples cost time, too."""
        dropped, self._dropped_size = self._dropped_size, 0
        rate = self._rate
        if dropped > self._size:
            rate = max(rate / 2, _LEAST_RATE)
        elif not dropped and self._size < self._most // 4:
            rate = min(rate * 2, 1.0)
        if rate != self._rate:
            self._rate = rate
            self._rings.change_rate(rate)

    def _next_piece(self) -> bytes:
        self.drain()
        data, self._pieces, self._size = b"".join(self._pieces), [], 0
        if self._spooled is not None:
            self._spooled.close_piece()
        return data


def without_samples(data: bytes) -> tuple[bytes, int]:
    """Return records without the samples among them, and the number of samples."""
    return without_records(data, (RecordType.SAMPLE,))


def without_records(data: bytes, types: Collection[int]) -> tuple[bytes, int]:
    """Return records without those of some types, and the number of these."""
    array = np.frombuffer(data, np.uint8)
    chunk = Chunk(array, walk(array, NATIVE_ENDIAN).starts, NATIVE_ENDIAN, 0)
    others = chunk.rows(np.flatnonzero(~np.isin(chunk.types, list(types))))
    words = np.frombuffer(data, np.uint64, len(data) >> 3)
    kept = words[slices_index(others.starts >> 3, others.sizes.astype(np.int64) >> 3)[0]].tobytes()
    return kept, len(chunk) - len(others)


_AT_ONCE = 1 << 16  # bytes


class Retained:
    """The samples of the last seconds, as bytes.

    Args:
        seconds: how long samples are retained, 0 for not at all.
        most: bytes beyond which the oldest are dropped.
    """

    def __init__(self, seconds: float, most: int = 1 << 28) -> None:
        self._nanoseconds = int(seconds * 1e9)
        self._most = most
        self._pieces: deque[tuple[int, int, bytes]] = deque()  # first and last time, records
        self._size = 0

    def add(self, first: int, last: int, samples: bytes) -> None:
        """Add the samples of an interval, and drop those that are too old."""
        if not self._nanoseconds or not samples:
            return
        self._pieces.append((first, last, samples))
        self._size += len(samples)
        while self._pieces and (self._pieces[0][1] < last - self._nanoseconds or self._size > self._most):
            self._size -= len(self._pieces.popleft()[2])

    @property
    def is_wanted(self) -> bool:
        """Whether samples are retained at all."""
        return self._nanoseconds > 0

    @property
    def first(self) -> int:
        """The time of the first sample, 0 without samples."""
        return self._pieces[0][0] if self._pieces else 0

    @property
    def last(self) -> int:
        """The time of the last sample, 0 without samples."""
        return self._pieces[-1][1] if self._pieces else 0

    def __len__(self) -> int:
        return self._size

    def pieces(self) -> Iterator[bytes]:
        """Yield the samples."""
        return (samples for _, _, samples in self._pieces)


def write_snapshot(
    path: str, rings: LiveRings, side_band: RawRecords, retained: Retained, features: RecordedFeatures, images: Mapping[str, bytes]
) -> int:
    """Write a recording; an existing one becomes PATH.old. Return its size.

    Raises OutputFailedError; the existing one then has its name again, so that the next attempt does not replace PATH.old by a cut file.

    images: of Python functions, by their paths, to store in it.
    """
    from perfpy.capture.session.output import RecordOutput  # not needed for the first screen
    from perfpy.perfdata.header import KEPT_FILES
    from perfpy.perfdata.kept_files import encode
    from perfpy.perfdata.writer import WrittenEvent

    counters, attrs = rings.recorded
    output = RecordOutput(path)
    with output.find_destination():
        try:
            output.begin([WrittenEvent(attr, counters.ids(event)) for event, attr in zip(counters.events, attrs, strict=True)], {})
            for piece in (*_records(side_band), *retained.pieces()):
                output.write(piece)
            stored = {KEPT_FILES: encode(images, NATIVE_ENDIAN)} if images else {}
            output.finish(features.collect(tracing=rings.tracing_data(), times=(retained.first, retained.last)) | stored)
        except OutputFailedError:
            output.abandon()
            raise
    return output.size


def _records(side_band: RawRecords) -> Iterator[bytes]:
    """Yield the side-band as bytes, many records at once."""
    pending: list[bytes] = []
    size = 0
    for raw in side_band:
        pending += (HEADER[NATIVE_ENDIAN].pack(raw.type, raw.misc, len(raw.body) + HEADER[NATIVE_ENDIAN].size), raw.body)
        size += len(raw.body)
        if size >= _AT_ONCE:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)
