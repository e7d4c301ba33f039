"""Find the records in a buffer: from one header to the next, thousands at a time if possible.

Layout: struct perf_event_header { u32 type; u16 misc; u16 size; }; a record's size leads to the next one.

Records of one size in a row are proved by one comparison: each begins at the
end of the one before, and has that size again (2 ns a record). If sizes
vary, all words that look like headers are found at once. If the size of one leads exactly to another,
the two are linked; every word linked from a true record is a true
record, whatever else looks like a header (20 to 50 ns a record). The walk goes record by
record (110 ns each) only where a record does not look like one of the kernel or of perf, and if records are large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER, as_number
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_SIZE: Final = 8

#: record type -> bytes of the number after its header: the size of the data after the record
PAYLOAD_TYPES: Final[dict[int, int]] = {RecordType.AUXTRACE: 8, RecordType.HEADER_TRACING_DATA: 4}

_WORTH: Final = 100  # average records of a series of links from which on linking is faster than walking
_PATIENCE: Final = 4  # short runs of records of one size before stepping stops
_PROBE: Final = 1 << 13  # words that are walked first: more than a record of any size
_BLOCK: Final = 1 << 15  # words that are examined at once, in the processor's cache
_LARGE: Final = 64  # average words of a record from which on walking is faster than linking
_WORTH_STEPPING: Final = 400  # average records of one size in a row from which on stepping is faster than linking

# by byte order, in a header as a number: a type of 1; the bits that no record of the kernel or of perf sets in type - 1, misc and size; the
# least number with a size of 8 in its highest bits
_ONE_UNSET_LEAST: Final = {
    "<": (np.uint64(1), np.uint64(7 << 48 | 0xFF8 << 32 | 0xFFFFFF80), np.uint64(8 << 48)),
    ">": (np.uint64(1 << 32), np.uint64(0xFFFFFF80 << 32 | 0xFF8 << 16 | 7), np.uint64(0)),
}
_SIZE_SHIFT: Final = np.uint64(48)
_SIZE_MASK: Final = np.uint64(0xFFFF)


class Walk(NamedTuple):
    """The records of a buffer.

    Attributes:
        starts: int64[n], offsets of the whole records.
        end: the offset where the walk stopped.
        bad_size: the size in the header there, if it is invalid.
    """

    starts: NDArray[np.int64]
    end: int
    bad_size: int | None = None


def walk(data: NDArray[np.uint8], endian: str) -> Walk:
    """Find the records of `data`, up to the last whole one.

    data must be aligned to 8 bytes in memory. Records whose size is no
    multiple of 8 are found too, only slower.
    """
    words = (len(data) & ~7) >> 3
    sizes = data[: words << 3].view(endian + "u2")[3::4]
    parts, index = _step_runs(sizes)
    if index < words and index + (int(sizes[index]) >> 3) <= words:
        linked, index = _link_records(data, sizes, endian, index)
        parts += linked
    starts = np.concatenate(parts) << 3 if parts else np.zeros(0, np.int64)
    end = index << 3
    if end + HEADER_SIZE > len(data):
        return Walk(starts, end)
    size = int(sizes[index])
    if size < HEADER_SIZE:
        return Walk(starts, end, size)
    if end + size > len(data):
        return Walk(starts, end)
    remaining = _walk_bytes(data, endian, end)
    return Walk(np.concatenate([starts, remaining.starts]), remaining.end, remaining.bad_size)


def _step_runs(sizes: NDArray[np.uint16]) -> tuple[list[NDArray[np.int64]], int]:
    """Return runs of records of one size each, and their end, from the first word on, in words. Stop when runs are short."""
    parts: list[NDArray[np.int64]] = []
    index, record_count, words = 0, 0, len(sizes)
    while index < words:
        size = int(sizes[index])
        step = size >> 3
        if size < HEADER_SIZE or size & 7 or (len(parts) > _PATIENCE and record_count < _WORTH_STEPPING * len(parts)):
            break
        count = min(_alike(sizes[index::step], size), (words - index) // step)
        if not count:
            break
        parts.append(np.arange(index, index + count * step, step))
        index += count * step
        record_count += count
    return parts, index


def _alike(sizes: NDArray[np.uint16], size: int) -> int:
    """Count how many sizes from the first on equal `size`, in growing steps."""
    index, span = 1, 32
    while index < len(sizes):
        others = sizes[index : index + span] != size
        first = int(others.argmax())
        if others[first]:
            return index + first
        index += span
        span *= 8
    return len(sizes)


def _link_records(data: NDArray[np.uint8], sizes: NDArray[np.uint16], endian: str, index: int) -> tuple[list[NDArray[np.int64]], int]:
    """Return parts of the records from word `index` on, and the end of the last part, in words."""
    words, numbers = len(sizes), data[: len(sizes) << 3].view(endian + "u8")
    parts: list[NDArray[np.int64]] = []
    if _are_small(numbers, sizes, endian, index):  # with copies of stacks: fewer records than words to search
        links = _HeaderLinks(numbers, endian)
        rounds = count = 0
        while index < words and rounds * _WORTH <= count + _PATIENCE * _WORTH:
            starts, index = _loop(sizes, index, words, links.marks)
            followed, index = links.follow(index)
            parts += [starts, followed]
            if not len(followed):
                break
            rounds += 1
            count += len(followed)
    starts, index = _loop(sizes, index, words)
    return [*parts, starts], index


def _are_small(numbers: NDArray[np.uint64], sizes: NDArray[np.uint16], endian: str, index: int) -> bool:
    """Return whether the records from word `index` on have few words on average, by the first of them."""
    starts, count = _HeaderLinks(numbers[index : index + _PROBE], endian).follow(0)
    if 2 * count < _PROBE:  # large records, or others than those of the kernel or of perf
        starts, end = _loop(sizes, index, min(len(sizes), index + _PROBE))
        count = end - index
    return count < _LARGE * len(starts)


def _marked_words(words: NDArray[np.uint64], endian: str) -> NDArray[np.bool_]:
    """Mark the words with a number from 1 to 128 in the place of a header's type, no unused bit of its misc field, and a size in words."""
    one, unset, least = _ONE_UNSET_LEAST[endian]
    marks = np.empty(len(words), np.bool_)
    block = np.empty(min(_BLOCK, len(words)), np.uint64)
    for first in range(0, len(words), _BLOCK):
        part, marked = words[first : first + _BLOCK], marks[first : first + _BLOCK]
        less = np.subtract(part, one, out=block[: len(part)])
        np.equal(np.bitwise_and(less, unset, out=less), 0, out=marked)
        if least:  # numbers below it are most of the words, pairs of small ones excluded
            marked &= part >= least
    return marks


class _HeaderLinks:
    """Words that look like headers, each linked to the one where its record ends.

    A run is a sequence of heads that are linked each to the next. At its end, the links lead over words that look like headers by
    chance.

    Args:
        words: the buffer as numbers.
        endian: their byte order.

    Attributes:
        marks: the words that look like headers (_marked_words).
    """

    def __init__(self, words: NDArray[np.uint64], endian: str) -> None:
        self.marks = _marked_words(words, endian)
        heads = rows_where(self.marks)
        headers = words.take(heads).astype(np.uint64, copy=False)
        lengths = (headers >> _SIZE_SHIFT if endian == "<" else headers & _SIZE_MASK).view(np.int64)
        ends = heads + (lengths >> 3)
        is_whole = (lengths >= HEADER_SIZE) & (ends <= len(words))
        if not is_whole.all():
            rows = rows_where(is_whole)
            heads, ends = heads.take(rows), ends.take(rows)
        self._heads = heads
        self._ends = ends
        lasts = rows_where(self._ends[:-1] != heads[1:])
        self._lasts = np.append(lasts, len(heads) - 1) if len(heads) else lasts  # of runs
        self._targets = heads.searchsorted(self._ends[self._lasts])  # the head after each run
        is_linked = heads.take(self._targets, mode="clip") == self._ends[self._lasts]
        self._next_run = np.where(is_linked, self._lasts.searchsorted(self._targets), -1).tolist()

    def follow(self, index: int) -> tuple[NDArray[np.int64], int]:
        """Return the records from the head at word `index` on, and the end of the last one; none if there is no head."""
        first = int(self._heads.searchsorted(index))
        if first == len(self._heads) or self._heads[first] != index:
            return self._heads[:0], index
        run = int(self._lasts.searchsorted(first))
        runs: list[int] = []
        while run >= 0:
            runs.append(run)
            run = self._next_run[run]
        lasts = self._lasts[runs]
        followed = self._heads[first : lasts[-1] + 1]
        if len(runs) > 1:
            begins = lasts[:-1] + 1
            skipped = self._targets[runs[:-1]] - begins
            before = skipped.cumsum() - skipped
            is_record = np.ones(len(followed), np.bool_)
            is_record[np.repeat(begins - first - before, skipped) + np.arange(skipped.sum())] = False
            followed = followed[is_record]
        return followed, int(self._ends[lasts[-1]])


def _loop(sizes: NDArray[np.uint16], index: int, words: int, marks: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], int]:
    """Walk record by record, in words; with `marks`, up to the next marked word."""
    # Python cannot read elements of a buffer at odd addresses or in the other byte order.
    is_readable = sizes.dtype.isnative and sizes.flags.aligned
    native = (sizes if is_readable else sizes.astype(np.uint16)).data if marks is None else None
    starts: list[int] = []
    append = starts.append
    while index < words:
        if marks is not None and marks[index]:
            break
        size = native[index] if native is not None else int(sizes[index])
        following = index + (size >> 3)
        if size < HEADER_SIZE or size & 7 or following > words:
            break
        append(index)
        index = following
    return np.array(starts, np.int64), index


def _walk_bytes(data: NDArray[np.uint8], endian: str, offset: int) -> Walk:
    """Walk record by record, from any byte on."""
    view = data.data
    low, high = (6, 7) if endian == "<" else (7, 6)
    starts: list[int] = []
    bad_size = None
    while offset + HEADER_SIZE <= len(data):
        size = view[offset + low] | view[offset + high] << 8
        if size < HEADER_SIZE:
            bad_size = size
            break
        if offset + size > len(data):
            break
        starts.append(offset)
        offset += size
    return Walk(np.array(starts, np.int64), offset, bad_size)


def walk_over_payloads(data: NDArray[np.uint8], endian: str) -> Walk:
    """Walk like walk(), but skip the data that follows AUXTRACE and HEADER_TRACING_DATA records outside of their size.

    `end` lies beyond the buffer if the data does.
    """
    header = HEADER[endian].unpack_from
    starts: list[int] = []
    offset = 0
    while offset + HEADER_SIZE <= len(data):
        kind, _, size = header(data.data, offset)
        if size < HEADER_SIZE:
            return Walk(np.array(starts, np.int64), offset, size)
        if offset + size > len(data):
            break
        starts.append(offset)
        width = PAYLOAD_TYPES.get(kind, 0)
        payload = as_number(data[offset + 8 : offset + min(size, 8 + width)].tobytes(), endian)
        if kind == RecordType.HEADER_TRACING_DATA and payload <= size - HEADER_SIZE - width:
            payload = 0  # simpleperf has the data inside of the record
        offset += size + payload
    return Walk(np.array(starts, np.int64), offset)
