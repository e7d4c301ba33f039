"""Write what a live view has seen as a perf.data: the samples of the last minute, and all tasks that they refer to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.framing import HEADER
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.capture.metadata.recorded_features import RecordedFeatures
    from perfpy.live.rings import LiveRings
    from perfpy.perfdata.records.raw_records import RawRecords

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
    from perfpy.capture.output.output import RecordOutput  # not needed for the first screen
    from perfpy.perfdata.container.kept_files import KEPT_FILES, encode
    from perfpy.perfdata.container.writer import WrittenEvent

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
