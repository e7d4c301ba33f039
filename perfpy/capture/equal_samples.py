"""Runs of samples of one size, read together. numpy is not used, because its import takes as long as many thousands of samples."""

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
_MOST: Final = 4096  # records read before their type is checked
_PIECE: Final = 1 << 20  # bytes read together
_WORTH_A_COPY: Final = 512  # bytes; of larger samples, for example with stacks, only the needed words are read
_LARGER: Final = 4
_WORTH_IT: Final = 3  # samples for each distinct beginning


class Run(NamedTuple):
    """A run of samples.

    Attributes:
        samples: their number.
        beginnings: the distinct words before their times, concatenated.
        first, last: of the times.
        has_repeats: whether most beginnings repeat, so that reading runs saves time.
    """

    samples: int
    beginnings: bytes
    first: int
    last: int
    has_repeats: bool


class EqualSamples:
    """Runs in one piece of a file. words is the number of words before a sample's time, or before the next field without a time."""

    def __init__(self, data: memoryview, words: int, *, has_time: bool) -> None:
        self._data = data
        self._words = words
        self._has_time = has_time
        self._most = _LEAST

    def run(self, offset: int, size: int) -> Run:
        """Read the samples of `size` bytes from `offset`, where a sample begins, up to the limit of one run."""
        count = min(self._most, (len(self._data) - offset) // size, max(_PIECE // size, 1))
        beginnings = self._beginnings(offset, size, count)
        if all(_is_sample(beginning, size) for (beginning,) in beginnings):
            self._most = min(self._most * _LARGER, _MOST) if len(beginnings) * _WORTH_IT <= count else _LEAST
        else:
            self._most = _LEAST
            count = next(number for number in range(count) if not _is_sample(self._data[offset + number * size :], size))
            beginnings = self._beginnings(offset, size, count)
        times = self._times(offset, size, count)
        has_repeats = len(beginnings) * _WORTH_IT <= count
        return Run(count, b"".join(beginning for (beginning,) in beginnings), min(times), max(times), has_repeats=has_repeats)

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
