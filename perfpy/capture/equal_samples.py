"""Samples of one size that follow each other: looked at together, without numpy, whose import alone would cost as much as many thousands.

What enters: the data section of a recording, and where in it samples of one size seem to
begin. What leaves: how far they go, the different beginnings among them, and their first and last
time.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER: Final = struct.Struct("=IHH")
_LEAST: Final = 128
_MOST: Final = 4096  # records: what they are is looked at when all were found
_PIECE: Final = 1 << 20  # bytes: that are looked at together
_WORTH_A_COPY: Final = 512  # bytes: of larger samples, such as those with stacks, only what is looked at is touched
_LARGER: Final = 4
_WORTH_IT: Final = 3  # times as many samples as different ones


class Run(NamedTuple):
    """So many samples. beginnings: the different words in front of their times, one after the other; first, last: of the
    times; has_repeats: most of them begin like others, so that it pays to look at many together.
    """

    samples: int
    beginnings: bytes
    first: int
    last: int
    has_repeats: bool


class EqualSamples:
    """Runs in one piece of a file. words: how many stand in front of a sample's time, or of what comes after where it has none."""

    def __init__(self, data: memoryview, words: int, *, has_time: bool) -> None:
        self._data = data
        self._words = words
        self._has_time = has_time
        self._most = _LEAST

    def run(self, offset: int, size: int) -> Run:
        """The samples from `offset` on, where one is, that take `size` bytes each, as far as one look goes."""
        count = min(self._most, (len(self._data) - offset) // size, max(_PIECE // size, 1))
        found = self._beginnings(offset, size, count)
        if all(_is_sample(one, size) for (one,) in found):
            self._most = min(self._most * _LARGER, _MOST) if len(found) * _WORTH_IT <= count else _LEAST
        else:
            self._most = _LEAST
            count = next(number for number in range(count) if not _is_sample(self._data[offset + number * size :], size))
            found = self._beginnings(offset, size, count)
        times = self._times(offset, size, count)
        has_repeats = len(found) * _WORTH_IT <= count
        return Run(count, b"".join(one for (one,) in found), min(times), max(times), has_repeats=has_repeats)

    def _beginnings(self, offset: int, size: int, count: int) -> set[tuple[bytes]]:
        front = 8 * self._words
        return set(struct.Struct(f"{front}s{size - front}x").iter_unpack(self._data[offset : offset + count * size]))

    def _times(self, offset: int, size: int, count: int) -> Sequence[int]:
        if not self._has_time:
            return (0,)
        run = self._data[offset : offset + count * size]
        if size > _WORTH_A_COPY:
            return [time for (time,) in struct.Struct(f"={8 * self._words}xQ{size - 8 * self._words - 8}x").iter_unpack(run)]
        words = array("Q")
        words.frombytes(run)
        return words[self._words :: size >> 3]


def _is_sample(record: bytes | memoryview, size: int) -> bool:
    kind, _, its_size = _HEADER.unpack_from(record)
    return bool(kind == RecordType.SAMPLE and its_size == size)
