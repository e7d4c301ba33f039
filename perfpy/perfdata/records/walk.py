"""Find the records in a buffer: from one header to the next, thousands at a time if possible.

Layout: struct perf_event_header { u32 type; u16 misc; u16 size; }; a record's size leads to the next one.

Records of one size in a row are proved by one comparison: each begins at the
end of the one before, and has that size again (2 ns a record). If sizes
vary, all words that look like the header of a SAMPLE are found at once (of any
record, if other records are frequent). If the size of one leads exactly to the next,
the two are linked; every word linked from a true record is a true
record, whatever else looks like a header (8 to 40 ns a record). The walk goes record by
record (110 ns each) only at the breaks of runs, and if records are large.
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

_SAMPLE: Final = int(RecordType.SAMPLE)
_TYPES: Final = 128  # above all types of records
_WORTH: Final = 32  # average records in a run from which on linking is faster than walking
_PATIENCE: Final = 4  # short runs of records of one size before stepping stops
_PROBE: Final = 1 << 13  # words that are walked first: more than a record of any size
_LARGE: Final = 64  # average words of a record from which on walking is faster than linking
_WORTH_STEPPING: Final = 400  # average records of one size in a row from which on stepping is faster than linking


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
        linked, index = _link_runs(data, sizes, endian, index)
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


def _link_runs(data: NDArray[np.uint8], sizes: NDArray[np.uint16], endian: str, index: int) -> tuple[list[NDArray[np.int64]], int]:
    """Return runs of records, and their end, from word `index` on, in words."""
    words = len(sizes)
    starts, after = _loop(sizes, index, min(words, index + _PROBE))
    if after - index > _LARGE * len(starts):  # with copies of stacks: fewer records than words to search
        further, after = _loop(sizes, after, words)
        return [starts, further], after
    # The lower half of every word, copied: searching it is twice as fast as searching every other half.
    types = data[: words << 3].view("<u8").astype(np.uint32) if endian == "<" else data[: words << 3].view(">u4")[0::2]
    marks = types == _SAMPLE
    runs = _runs(marks, sizes, index)
    if runs.are_short:  # many other records between the samples, as in a recording of many processes
        marks = types - np.uint32(1) < _TYPES
        runs = _runs(marks, sizes, index)
    if runs.are_short:
        starts, index = _loop(sizes, index, words)
        return [starts], index
    heads, ends, lasts = runs
    parts: list[NDArray[np.int64]] = []
    while index < words:
        starts, index = _loop(sizes, index, words, marks)
        parts.append(starts)
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
    """Words that look like headers.

    Attributes:
        heads: their positions, in words.
        ends: the ends of their records.
        lasts: the indexes of the last heads of runs.
    """

    heads: NDArray[np.int64]
    ends: NDArray[np.int64]
    lasts: NDArray[np.intp]

    @property
    def are_short(self) -> bool:
        """Whether walking record by record is faster."""
        return len(self.lasts) * _WORTH > len(self.heads)


def _runs(marks: NDArray[np.bool_], sizes: NDArray[np.uint16], index: int) -> _Runs:
    """Return the runs of marked words, from word `index` on."""
    heads = rows_where(marks[index:]) + index
    lengths = sizes[heads]
    plausible = lengths >= HEADER_SIZE  # the number 9 in a word of its own is no header
    if not plausible.all():
        heads, lengths = heads[plausible], lengths[plausible]
    ends = heads + (lengths >> 3)
    # The end of the last head of a run is not the next head.
    return _Runs(heads, ends, np.append(rows_where((ends[:-1] != heads[1:]) | (lengths[:-1] & 7 != 0)), len(heads) - 1))


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
