"""The records of a perf.data in the order of the file, chunk by chunk.

The chunks share one buffer: memory does not grow with the file. Compressed records are unpacked (decompression.py);
trace data that follows AUXTRACE and HEADER_TRACING_DATA records is skipped.
The offsets of a chunk's records are kept packed (RecordOffsets).
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import islice

import numpy as np

from perfpy.abi.columns import all_but, are_among, pieces, rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.framing import HEADER, as_number
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass
from perfpy.abi.sample_decoding import RecordStarts, realign_records
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.source import ByteSource


_WORTH = 16  # average records of one size in a row from which on runs are kept instead of sizes


class RecordOffsets(NamedTuple):
    """The starts of a chunk's records, packed.

    Attributes:
        first: the first start, in bytes.
        distances: between starts, in words.
        counts: repetitions of each distance; None for one each.
    """

    first: int
    distances: NDArray[np.uint16]
    counts: NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self.distances.nbytes + (0 if self.counts is None else self.counts.nbytes)

    def starts(self) -> NDArray[np.int64]:
        """Return the starts in bytes."""
        distances = self.distances if self.counts is None else np.repeat(self.distances, self.counts)
        starts = np.empty(len(distances) + 1, np.int64)
        starts[0] = self.first >> 3
        np.cumsum(distances, out=starts[1:])
        starts[1:] += starts[0]
        return starts << 3


def pack_starts(starts: NDArray[np.int64]) -> RecordOffsets | None:
    """Pack the starts (bytes, at least one), or None if they are not multiples of 8, or too far apart."""
    distances = np.diff(starts) >> 3
    if np.bitwise_or.reduce(starts) & 7 or (len(distances) and int(distances.max()) > 0xFFFF):
        return None
    small = distances.astype(np.uint16)
    lasts = np.flatnonzero(small[1:] != small[:-1])
    if len(lasts) * _WORTH > len(small):
        return RecordOffsets(int(starts[0]), small, None)
    ends = np.append(lasts, len(small) - 1) + 1 if len(small) else np.zeros(0, np.int64)
    return RecordOffsets(int(starts[0]), small[ends - 1], np.diff(ends, prepend=0))


CHUNK_SIZE: Final = 1 << 20
STACKS_CHUNK_SIZE: Final = 1 << 25  # of samples with copies of stacks: some thousands of them
# Each file has at least 16 chunks, up to a chunk size: each costs the same array operations, however many samples it has.
_CHUNKS: Final = 16
_CHUNK_MOST: Final = 1 << 22
_CHUNKS_OF_STACKS: Final = 4  # memory holds one of them
_STACKS_CHUNK_MOST: Final = 1 << 27
_MEMORY_FOR_OFFSETS: Final = 1 << 23  # beyond it, chunks are walked again


def chunk_size(size: int, *, has_stacks: bool) -> int:
    """Return the chunk size to read a file with. size: the file's; has_stacks: whether its samples have copies of stacks."""
    if has_stacks:
        return max(STACKS_CHUNK_SIZE, min(size // _CHUNKS_OF_STACKS, _STACKS_CHUNK_MOST) & ~7)
    return max(CHUNK_SIZE, min(size // _CHUNKS, _CHUNK_MOST) & ~7)


class Damage(NamedTuple):
    """The position and reason of damage; is_end: the file ends inside the last record."""

    offset: int
    reason: str
    is_end: bool = False


class _ReadChunk(NamedTuple):
    """A chunk of an earlier run.

    Attributes:
        offset: in the file.
        size: in bytes.
        starts: of its records; None if they must be found again.
    """

    offset: int
    size: int
    starts: RecordOffsets | None


class RecordStream:
    """All records between two offsets of a source.

    Attributes:
        damage: why the last run over the chunks ended before `end`, or None.
        unpacked: the number of compressed records of each type in that run.

    Args:
        source: the file.
        begin, end: offsets in the file.
        endian: "<" or ">".
        chunk_size: bytes of a chunk.
        unpack_limit: bytes that a compressed record unpacks to at most, if known.
    """

    def __init__(
        self, source: ByteSource, begin: int, end: int, endian: str, *, chunk_size: int = CHUNK_SIZE, unpack_limit: int | None = None
    ) -> None:
        self.source = source
        self.begin = begin
        self.end = end
        self.endian = endian
        self.damage: Damage | None = None
        self.unpacked: Counter[int] = Counter()
        self._chunk_size = chunk_size
        self._unpack_limit = unpack_limit
        self._read_chunks: list[_ReadChunk] | None = None

    @property
    def is_known(self) -> bool:
        """Whether any chunk can be read without those before it: an earlier run has found them all, and none is compressed."""
        return self._read_chunks is not None

    def chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Yield the whole records, from any chunk on. Repeated runs are faster."""
        if self._read_chunks is not None:
            return self._reread_chunks(self._read_chunks[first:])
        return islice(self._all_chunks(), first, None)

    def _all_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks, compressed records unpacked; without these, note the chunks for the next run."""
        self.damage = None
        self.unpacked.clear()
        unpacker: Unpacker | None = None
        chunks: list[_ReadChunk] = []
        for chunk in self._plain_chunks(chunks):
            if not chunk.holds(COMPRESSED_TYPES):
                yield chunk
                continue
            unpacker = unpacker or Unpacker(self.endian, self._chunk_size, self._unpack_limit)
            for kind in COMPRESSED_TYPES:
                self.unpacked[kind] += int((chunk.types == kind).sum())
            yield from unpacker.unpack(chunk)
            if unpacker.failure:
                self.damage = Damage(*unpacker.failure)
                return
        if not unpacker:
            self._read_chunks = chunks
        elif unpacker.left_over and not self.damage:
            self.damage = Damage(self.end, "the compressed records end inside a record")

    def _plain_chunks(self, chunks: list[_ReadChunk]) -> Iterator[Chunk]:
        """Yield the records of the file, compressed ones as they are; append the chunks to `chunks`."""
        buffer = self._buffer()
        offset, memory = self.begin, 0
        while offset < self.end:
            size = min(len(buffer), self.end - offset)
            data = self._read(buffer, offset, size)
            chunk, walked = self._walk(data, offset)
            if len(chunk):
                starts = pack_starts(walked.starts) if memory < _MEMORY_FOR_OFFSETS else None
                memory += starts.nbytes if starts else 0
                chunks.append(_ReadChunk(offset, min(walked.end, len(data)), starts))
                yield chunk
            if walked.bad_size is not None:
                self.damage = Damage(offset + walked.end, f"record of {walked.bad_size} bytes")
                return
            if len(data) < size or offset + len(data) >= self.end:
                stopped = offset + walked.end
                available = offset + len(data)
                missing = max(self.end, stopped) - available
                if missing > 0:
                    self.damage = Damage(min(stopped, available), f"the file is truncated, {missing} bytes are missing")
                elif stopped < available:
                    self.damage = Damage(stopped, "the last record is truncated", is_end=True)
                return
            offset += walked.end

    def _reread_chunks(self, chunks: list[_ReadChunk]) -> Iterator[Chunk]:
        """Yield the chunks of an earlier run; `damage` is unchanged."""
        buffer = self._buffer()
        for found_chunk in chunks:
            data = self._read(buffer, found_chunk.offset, found_chunk.size)
            if len(data) < found_chunk.size:
                self.damage = Damage(found_chunk.offset + len(data), "the file was truncated since the first pass")
            if found_chunk.starts and len(data) == found_chunk.size:
                yield Chunk(data, found_chunk.starts.starts(), self.endian, found_chunk.offset)
            else:
                yield self._walk(data, found_chunk.offset)[0]

    def _read(self, buffer: NDArray[np.uint8], offset: int, size: int) -> NDArray[np.uint8]:
        """Return bytes of the file in the buffer; map large chunks, most bytes of which are never read."""
        if self._chunk_size >= STACKS_CHUNK_SIZE and not offset & 7:
            return np.frombuffer(self.source.map_bytes(offset, size), np.uint8)
        return buffer[: self.source.read_into(buffer.data[:size], offset)]

    def _buffer(self) -> NDArray[np.uint8]:
        """Allocate a buffer for a chunk: for at least one record of the largest size."""
        return np.empty(min(self._chunk_size, max(1 << 16, (self.end - self.begin + 7) & ~7)), np.uint8)

    def _walk(self, data: NDArray[np.uint8], offset: int) -> tuple[Chunk, Walk]:
        walked = walk(data, self.endian)
        chunk = make_chunk(data, walked.starts, offset, self.endian)
        if chunk.holds(PAYLOAD_TYPES):
            walked = walk_over_payloads(data, self.endian)
            chunk = make_chunk(data, walked.starts, offset, self.endian)
        return chunk, walked


# Find the records in a buffer: from one header to the next, thousands at a time if possible. Layout: struct perf_event_header { u32 type;
# u16 misc; u16 size; }; a record's size leads to the next one.
#
# Records of one size in a row are proved by one comparison: each begins at the end of the one before, and has that size again (2 ns a
# record). If sizes vary, all words that look like headers are found at once. If the size of one leads exactly to another, the two are
# linked; every word linked from a true record is a true record, whatever else looks like a header (20 to 50 ns a record). The walk goes
# record by record (110 ns each) only where a record does not look like one of the kernel or of perf, and if records are large.

HEADER_SIZE: Final = 8

#: record type -> bytes of the number after its header: the size of the data after the record
PAYLOAD_TYPES: Final[dict[int, int]] = {RecordType.AUXTRACE: 8, RecordType.HEADER_TRACING_DATA: 4}

_RECORDS_LINKED: Final = 100  # average records of a series of links from which on linking is faster than walking
_PATIENCE: Final = 4  # short runs of records of one size before stepping stops
_PROBE: Final = 1 << 13  # words that are walked first: more than a record of any size
_BLOCK: Final = 1 << 15  # words that are examined at once, in the processor's cache
_LARGE: Final = 64  # average words of a record from which on walking is faster than linking
_WORTH_STEPPING: Final = 400  # average records of one size in a row from which on stepping is faster than linking

# by byte order, in a header as a number: a type of 1 and a size of 8; and the bits that are set in no header of the kernel or of perf after
# these are subtracted: of type, misc and size. Sizes from 32 KiB on are left out, so that the highest bit tells of a size below 8, too.
_LEAST_UNSET: Final = {
    "<": (np.uint64(8 << 48 | 1), np.uint64(0x8007 << 48 | 0xFF8 << 32 | 0xFFFFFF80)),
    ">": (np.uint64(1 << 32 | 8), np.uint64(0xFFFFFF80 << 32 | 0xFF8 << 16 | 0x8007)),
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
        while index < words and rounds * _RECORDS_LINKED <= count + _PATIENCE * _RECORDS_LINKED:
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
    least, unset = _LEAST_UNSET[endian]
    marks = np.empty(len(words), np.bool_)
    block = np.empty(min(_BLOCK, len(words)), np.uint64)
    for first in range(0, len(words), _BLOCK):
        part = words[first : first + _BLOCK]
        above = np.subtract(part, least, out=block[: len(part)])
        np.equal(np.bitwise_and(above, unset, out=above), 0, out=marks[first : first + _BLOCK])
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
        partial = rows_where(ends > len(words))  # few: at the end of the buffer
        if len(partial):
            heads, ends = all_but(heads, partial), all_but(ends, partial)
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


# Chunk: consecutive records in one buffer. Types and sizes come from the headers, { u32 type; u16 misc; u16 size; }, on first use.

_SAMPLE: Final = int(RecordType.SAMPLE)
#: records that hold other records, compressed
COMPRESSED_TYPES: Final = (RecordType.COMPRESSED, RecordType.COMPRESSED2)


@dataclass(eq=False, repr=False)
class Chunk:
    """Consecutive records in one buffer.

    Attributes:
        data: the buffer, valid until the next chunk is read.
        starts: int64[n], offsets of the records in the buffer, multiples of 8.
        endian: "<" or ">".
        shift: added to `starts` for the offsets in the file, one number or int64[n].
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    endian: str
    shift: int | NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def _headers(self) -> NDArray[np.uint64]:
        """The header of each record: one reading of the buffer for all of its fields."""
        return self.column("u8", 0)

    @cached_property
    def types(self) -> NDArray[np.uint32]:
        """The type of each record."""
        return self._headers.view(self.endian + "u4")[::2].astype(np.uint32)

    @cached_property
    def sizes(self) -> NDArray[np.uint16]:
        """The size of each record in bytes, header included."""
        return self._headers.view(self.endian + "u2")[3::4].astype(np.uint16)

    @property
    def miscs(self) -> NDArray[np.uint16]:
        """The misc bits of each record."""
        return self._headers.view(self.endian + "u2")[2::4].astype(np.uint16)

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """The rows of the records other than samples."""
        return rows_where(self.types != _SAMPLE)

    def holds(self, types: Iterable[int]) -> bool:
        """Whether any of the records is of one of these types, SAMPLE excluded."""
        present = self.types[self.others]
        return any(bool((present == number).any()) for number in types)

    @cached_property
    def begins(self) -> RecordStarts:
        """The record starts."""
        return RecordStarts(self.starts)

    def column(self, kind: str, offset: int) -> NDArray[Any]:
        """Return the numbers of one kind (u2, u4, u8) at an offset in each record, in the file's byte order."""
        return self.begins.column(self.data[: len(self.data) & ~7].view(self.endian + kind), offset)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets of the records in the file; of an unpacked record, the offset of its COMPRESSED record."""
        return self.starts + self.shift

    def rows(self, index: NDArray[np.intp]) -> Chunk:
        """Select records."""
        shift = self.shift if isinstance(self.shift, int) else self.shift[index]
        chunk = Chunk(self.data, self.starts.take(index), self.endian, shift)
        if "_headers" in self.__dict__:
            chunk._headers = self._headers.take(index)
        return chunk

    def without(self, rows: NDArray[np.integer[Any]]) -> Chunk:
        """Drop records."""
        if not len(rows):
            return self
        shift = self.shift if isinstance(self.shift, int) else all_but(self.shift, rows)
        return Chunk(self.data, all_but(self.starts, rows), self.endian, shift)

    def record(self, row: int) -> bytes:
        """Return the bytes of one record, header included."""
        start = int(self.starts[row])
        return self.data[start : start + int(self.sizes[row])].tobytes()


def make_chunk(data: NDArray[np.uint8], starts: NDArray[np.int64], offsets: int | NDArray[np.int64], endian: str) -> Chunk:
    """Return a chunk of the records at `starts`; copy them if these are not multiples of 8.

    offsets: of `data` in the file, or of each record.
    """
    shift = offsets if isinstance(offsets, int) else offsets - starts
    if np.bitwise_or.reduce(starts) & 7:
        positions = starts
        data, starts = realign_records(data, starts, endian)
        shift = shift + positions - starts
    return Chunk(data, starts, endian, shift)


# Replace COMPRESSED and COMPRESSED2 records by the records inside them. All of them together are one zstd stream: one decompressor reads
# it, and a record may begin in one and end in the next. Layouts: { header; char data[]; } and { header; u64 size; char data[size]; }
# (tools/lib/perf/include/perf/event.h).

_MOST_RATIO: Final = 3072  # user stacks of 64 kB that hardly change have reached 1,723
_ALWAYS: Final = 1 << 23  # bytes that any stream may unpack to
# The cost of unpacking grows with the number of records. One takes some packed bytes, because its time differs from its neighbours'.
_MOST_RECORDS: Final = 8  # for each packed byte
_ALWAYS_RECORDS: Final = 1 << 17
_MOST_FRAMES: Final = 64  # in one record; writers use one frame for all records


def zstd_decompressor() -> Any:
    """Return a new zstd decompressor: the standard library's, or before Python 3.14 its backport."""
    from perfpy.untrusted.expansion import ExpansionError, zstd_library  # only compressed recordings need it

    try:
        return zstd_library().ZstdDecompressor()
    except ExpansionError as error:
        raise PerfError(f"compressed records: {error}") from None


class Unpacker:
    """A decompressor for the compressed records of one stream, in order.

    Attributes:
        left_over: bytes of an incomplete record.
        failure: (offset, reason) once the stream is damaged.

    Args:
        endian: "<" or ">".
        chunk_size: bytes of the chunks to yield, about.
        limit: bytes that one record unpacks to at most, if the file has that number.
    """

    def __init__(self, endian: str, chunk_size: int, limit: int | None = None) -> None:
        self._endian = endian
        self._chunk_size = chunk_size
        self._limit = limit
        self._packed = self._unpacked = 0  # bytes so far
        self._records = 0  # unpacked records so far
        self._zstd = zstd_decompressor()
        self.left_over = b""
        self.failure: tuple[int, str] | None = None

    def unpack(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the records of one chunk, unpacked, in pieces of bounded size."""
        packed = are_among(chunk.types, np.array(COMPRESSED_TYPES))
        borders = np.flatnonzero(np.diff(packed)) + 1
        for run in pieces(np.arange(len(packed)), borders):
            if not packed[run[0]]:
                yield chunk.rows(run)
                continue
            yield from self._unpack_run(chunk.rows(run))
            if self.failure:
                return

    def _unpack_run(self, run: Chunk) -> Iterator[Chunk]:
        """Unpack adjacent compressed records; join their contents up to the chunk size."""
        pieces: list[bytes] = []
        ends: list[int] = []  # of each piece, in the joined bytes
        homes: list[int] = []  # offset of each piece's compressed record
        total = len(self.left_over)
        for row, offset in enumerate(run.offsets.tolist()):
            for piece in self._pieces(self._payload(run.record(row)), offset):
                pieces.append(piece)
                total += len(piece)
                ends.append(total)
                homes.append(offset)
                if total >= self._chunk_size:
                    yield from self._join_pieces(pieces, ends, homes)
                    pieces, ends, homes, total = [], [], [], len(self.left_over)
            if self.failure:
                break
        if pieces:
            yield from self._join_pieces(pieces, ends, homes)

    def _payload(self, record: bytes) -> bytes:
        kind, _, _ = HEADER[self._endian].unpack_from(record)
        if kind == RecordType.COMPRESSED:
            return record[8:]
        size = as_number(record[8:16], self._endian)
        return record[16 : 16 + size]

    def _pieces(self, payload: bytes, offset: int) -> Iterator[bytes]:
        """Yield unpacked pieces no longer than a chunk. Set `failure` if the payload is damaged or exceeds a limit."""
        self._packed += len(payload)
        unpacked = 0
        try:
            for piece in self._inflate(payload):
                unpacked += len(piece)
                self._unpacked += len(piece)
                if self._limit is not None and unpacked > self._limit:
                    self.failure = offset, f"compressed record unpacks to more than {self._limit} bytes, the limit in the file"
                elif self._unpacked > max(_ALWAYS, _MOST_RATIO * self._packed):
                    self.failure = offset, f"compressed records unpack to more than {_MOST_RATIO} times their size"
                if self.failure:
                    return
                yield piece
        except Exception as error:
            # The decompressor's error class belongs to the module in use.
            if type(error).__name__ != "ZstdError" and not isinstance(error, ValueError):
                raise
            self.failure = offset, f"compressed record cannot be unpacked: {error}"

    def _inflate(self, payload: bytes) -> Iterator[bytes]:
        """Yield unpacked pieces. Raises ValueError for too many frames, ZstdError for a damaged one."""
        frames = 0
        while True:
            if self._zstd.eof:
                # A writer may end one frame and begin another.
                payload = self._zstd.unused_data + payload
                if not payload:
                    return
                frames += 1
                if frames > _MOST_FRAMES:
                    raise ValueError(f"more than {_MOST_FRAMES} zstd frames")
                self._zstd = zstd_decompressor()
            piece = self._zstd.decompress(payload, self._chunk_size)
            payload = b""
            if piece:
                yield piece
            if not self._zstd.eof and (self._zstd.needs_input or not piece):
                return

    def _join_pieces(self, pieces: list[bytes], ends: list[int], homes: list[int]) -> Iterator[Chunk]:
        joined = b"".join([self.left_over, *pieces])
        data = np.zeros((len(joined) + 7) & ~7, np.uint8)[: len(joined)]
        data[:] = np.frombuffer(joined, np.uint8)
        records = walk(data, self._endian)
        self.left_over = joined[records.end :]
        if records.bad_size is not None:
            self.failure = homes[-1], f"record of {records.bad_size} bytes inside a compressed one"
        starts = records.starts
        most = max(_ALWAYS_RECORDS, _MOST_RECORDS * self._packed) - self._records
        self._records += len(starts)
        if len(starts) > most:
            self.failure = homes[-1], f"more than {_MOST_RECORDS} records for each byte of the compressed ones"
            starts = starts[:most]
        if len(starts):
            last_bytes = np.append(records.starts[1:], records.end)[: len(starts)] - 1
            offsets = np.array(homes, np.int64)[np.searchsorted(np.array(ends), last_bytes, side="right")]
            yield make_chunk(data, starts, offsets, self._endian)
