"""Finding the records in a buffer: from one header to the next, thousands at a time where possible.

What enters: a buffer that starts at a record. What leaves: where each whole
record begins, and why the walk ended. Layout: struct perf_event_header
{ u32 type; u16 misc; u16 size; }; a record's size leads to the next one.

Records of one size in a row are proved by one comparison: each stands where
the one before it ends, and has that size again (2 ns a record). Where sizes
vary, all words that look like the header of a SAMPLE are found at once (of any
record, where others are many). Where one's size leads exactly to the next one,
the two are linked; whoever is reached by links from a true record is true,
whatever else looks like a header (8 to 40 ns a record). Only what breaks such
runs is walked record by record (110 ns each), and where records are large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.byteorder import as_number
from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_SIZE: Final = 8

#: record type -> bytes of the number after its header that says how much data follows the record
PAYLOAD_TYPES: Final[dict[int, int]] = {RecordType.AUXTRACE: 8, RecordType.HEADER_TRACING_DATA: 4}

_SAMPLE: Final = int(RecordType.SAMPLE)
_TYPES: Final = 128  # above all types of records
_WORTH: Final = 32  # records in a run, on average, from which on linking is faster than walking
_PATIENCE: Final = 4  # runs of records of one size that may be short before that is given up
_PROBE: Final = 1 << 13  # words that are walked first: a record of any size and more
_LARGE: Final = 64  # words of a record, on average, from which on walking is faster than linking
_WORTH_STEPPING: Final = 400  # records of one size in a row, on average, from which on stepping is faster than linking


class Walk(NamedTuple):
    """starts: byte offsets of the whole records; end: where the walk stopped; bad_size: the size it stopped at, if that was no size."""

    starts: NDArray[np.int64]
    end: int
    bad_size: int | None = None


def walk(data: NDArray[np.uint8], endian: str) -> Walk:
    """The records of `data`, up to the last whole one.

    data must be aligned to 8 bytes in memory. Records whose size is no
    multiple of 8 are found too, only slower.
    """
    words = (len(data) & ~7) >> 3
    sizes = data[: words << 3].view(endian + "u2")[3::4]
    parts, index = _stepped(sizes)
    if index < words and index + (int(sizes[index]) >> 3) <= words:
        more, index = _linked(data, sizes, endian, index)
        parts += more
    starts = np.concatenate(parts) << 3 if parts else np.zeros(0, np.int64)
    end = index << 3
    if end + HEADER_SIZE > len(data):
        return Walk(starts, end)
    size = int(sizes[index])
    if size < HEADER_SIZE:
        return Walk(starts, end, size)
    if end + size > len(data):
        return Walk(starts, end)
    rest = _walk_bytes(data, endian, end)
    return Walk(np.concatenate([starts, rest.starts]), rest.end, rest.bad_size)


def _stepped(sizes: NDArray[np.uint16]) -> tuple[list[NDArray[np.int64]], int]:
    """(runs of records of one size each, where they end) from the first word on, all in words; ends where such runs are short."""
    parts: list[NDArray[np.int64]] = []
    index, found, words = 0, 0, len(sizes)
    while index < words:
        size = int(sizes[index])
        step = size >> 3
        if size < HEADER_SIZE or size & 7 or (len(parts) > _PATIENCE and found < _WORTH_STEPPING * len(parts)):
            break
        count = min(_alike(sizes[index::step], size), (words - index) // step)
        if not count:
            break
        parts.append(np.arange(index, index + count * step, step))
        index += count * step
        found += count
    return parts, index


def _alike(sizes: NDArray[np.uint16], size: int) -> int:
    """How many sizes from the first on are the given one; looks a little further each time."""
    index, span = 1, 32
    while index < len(sizes):
        others = sizes[index : index + span] != size
        first = int(others.argmax())
        if others[first]:
            return index + first
        index += span
        span *= 8
    return len(sizes)


def _linked(data: NDArray[np.uint8], sizes: NDArray[np.uint16], endian: str, index: int) -> tuple[list[NDArray[np.int64]], int]:
    """(runs of records, where they end) from word `at` on, all in words."""
    words = len(sizes)
    found, after = _loop(sizes, index, min(words, index + _PROBE))
    if after - index > _LARGE * len(found):  # with copies of stacks: fewer records than words to search
        more, after = _loop(sizes, after, words)
        return [found, more], after
    # the lower half of every word, copied: that is searched twice as fast as every other half
    types = data[: words << 3].view("<u8").astype(np.uint32) if endian == "<" else data[: words << 3].view(">u4")[0::2]
    marks = types == _SAMPLE
    runs = _runs(marks, sizes, index)
    if runs.are_short:  # many other records between the samples, as in a recording of many processes
        marks = types - np.uint32(1) < _TYPES
        runs = _runs(marks, sizes, index)
    if runs.are_short:
        found, index = _loop(sizes, index, words)
        return [found], index
    heads, ends, lasts = runs
    parts: list[NDArray[np.int64]] = []
    while index < words:
        found, index = _loop(sizes, index, words, marks)
        parts.append(found)
        first = int(heads.searchsorted(index))
        if first == len(heads) or heads[first] != index:
            break
        last = int(lasts[lasts.searchsorted(first)])
        if ends[last] > words or sizes[heads[last]] & 7:
            parts.append(heads[first:last])
            return parts, int(heads[last])
        parts.append(heads[first : last + 1])
        index = int(ends[last])
    return parts, index


class _Runs(NamedTuple):
    """Words that look like headers, in words: where they are, where their records end, and which are the last ones of runs."""

    heads: NDArray[np.int64]
    ends: NDArray[np.int64]
    lasts: NDArray[np.intp]

    @property
    def are_short(self) -> bool:
        """Whether walking record by record is faster."""
        return len(self.lasts) * _WORTH > len(self.heads)


def _runs(marks: NDArray[np.bool_], sizes: NDArray[np.uint16], index: int) -> _Runs:
    """The runs of marked words, from word `at` on."""
    heads = rows_where(marks[index:]) + index
    lengths = sizes[heads]
    plausible = lengths >= HEADER_SIZE  # the number 9 in a word of its own is no header
    if not plausible.all():
        heads, lengths = heads[plausible], lengths[plausible]
    ends = heads + (lengths >> 3)
    # the last one of each run: its end is not the beginning of the next one
    return _Runs(heads, ends, np.append(rows_where((ends[:-1] != heads[1:]) | (lengths[:-1] & 7 != 0)), len(heads) - 1))


def _loop(sizes: NDArray[np.uint16], index: int, words: int, marks: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], int]:
    """One record after the other, in words; with `marks`, only up to the next word that has one."""
    # at odd addresses, or in the other byte order, Python reads no element of a buffer
    is_readable = sizes.dtype.isnative and sizes.flags.aligned
    native = (sizes if is_readable else sizes.astype(np.uint16)).data if marks is None else None
    found: list[int] = []
    append = found.append
    while index < words:
        if marks is not None and marks[index]:
            break
        size = native[index] if native is not None else int(sizes[index])
        following = index + (size >> 3)
        if size < HEADER_SIZE or size & 7 or following > words:
            break
        append(index)
        index = following
    return np.array(found, np.int64), index


def _walk_bytes(data: NDArray[np.uint8], endian: str, offset: int) -> Walk:
    """One record after the other, at any byte."""
    view = data.data
    low, high = (6, 7) if endian == "<" else (7, 6)
    found: list[int] = []
    bad_size = None
    while offset + HEADER_SIZE <= len(data):
        size = view[offset + low] | view[offset + high] << 8
        if size < HEADER_SIZE:
            bad_size = size
            break
        if offset + size > len(data):
            break
        found.append(offset)
        offset += size
    return Walk(np.array(found, np.int64), offset, bad_size)


def walk_over_payloads(data: NDArray[np.uint8], endian: str) -> Walk:
    """As walk(), but steps over the data that follows AUXTRACE and HEADER_TRACING_DATA records outside of their size.

    `end` lies beyond the buffer when such data reaches beyond it.
    """
    header = HEADER[endian].unpack_from
    found: list[int] = []
    offset = 0
    while offset + HEADER_SIZE <= len(data):
        kind, _, size = header(data.data, offset)
        if size < HEADER_SIZE:
            return Walk(np.array(found, np.int64), offset, size)
        if offset + size > len(data):
            break
        found.append(offset)
        width = PAYLOAD_TYPES.get(kind, 0)
        payload = as_number(data[offset + 8 : offset + min(size, 8 + width)].tobytes(), endian)
        if kind == RecordType.HEADER_TRACING_DATA and payload <= size - HEADER_SIZE - width:
            payload = 0  # simpleperf has the data inside of the record
        offset += size + payload
    return Walk(np.array(found, np.int64), offset)
