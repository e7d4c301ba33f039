"""Decode SAMPLE records into columns; the only decoder of samples.

Layout: PERF_RECORD_SAMPLE in include/uapi/linux/perf_event.h:

    struct { struct perf_event_header header;
      u64 identifier        (IDENTIFIER)      u64 addr       (ADDR)
      u64 ip                (IP)              u64 id         (ID)
      u32 pid, tid          (TID)             u64 stream_id  (STREAM_ID)
      u64 time              (TIME)            u32 cpu, res   (CPU)
                                              u64 period     (PERIOD)
      struct read_format    (READ)
      u64 nr, ips[nr]       (CALLCHAIN)
      u32 size; char data[] (RAW)
      u64 nr; u64 hw_idx (HW_INDEX); { u64 from, to, flags } [nr]; u64 counters[nr] (COUNTERS)   (BRANCH_STACK)
      u64 abi, regs[]       (REGS_USER)
      u64 size; char data[size]; u64 dyn_size (STACK_USER)
      u64 weight (WEIGHT or WEIGHT_STRUCT), data_src (DATA_SRC), transaction (TRANSACTION)
      u64 abi, regs[]       (REGS_INTR)
      u64 phys_addr (PHYS_ADDR), cgroup (CGROUP), data_page_size, code_page_size
      u64 size; char data[] (AUX) }

Columns have the names of these fields; see SampleLayout.decode. The mirror for one sample is perfpy.abi.sample_encoding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices
from perfpy.abi.flags import MISC_CPUMODE_MASK, BranchSample, ReadFormat, SampleType
from perfpy.abi.framing import as_number
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.sample_layout import FIXED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr


__all__ = ["BRANCH_DTYPE", "READ_DTYPE", "SampleLayout"]


_INT: Final = np.int32
_BEFORE_RAW: Final = SampleType.READ | SampleType.CALLCHAIN  # variable fields


class SampleLayout:
    """The layout of the samples of one attr. `names` has the columns that decode() can return, in layout order."""

    def __init__(self, attr: EventAttr, endian: str = "<") -> None:
        self.endian = endian
        sample_type = attr.sample_type
        self._fixed: list[tuple[str, int, int]] = []  # name, word from the record's start, half (-1: the whole word)
        word = 1
        for bit, names in FIXED_FIELDS:
            if sample_type & bit:
                if len(names) == 1:
                    self._fixed.append((names[0], word, -1))
                else:
                    self._fixed.extend((name, word, half) for half, name in enumerate(names) if name)
                word += 1
        self._fixed_words = word
        #: the word that begins with the size of raw data; None without raw data, or if their position varies
        self.raw_word = word if sample_type & SampleType.RAW and not sample_type & _BEFORE_RAW else None
        self._decoders = variable_decoders(attr, endian)
        self.names: tuple[str, ...] = (
            "misc",
            "cpumode",
            *(name for name, _, _ in self._fixed),
            *(name for names, _ in self._decoders for name in names),
        )

    @property
    def fixed_words(self) -> int:
        """The number of words before the variable fields, header included."""
        return self._fixed_words

    def word_of(self, name: str) -> int | None:
        """Return the 8-byte word of a fixed field, counted from the record's start; None if samples lack it."""
        return next((word for field, word, _ in self._fixed if field == name), None)

    def half_of(self, name: str) -> int | None:
        """Return the byte of a fixed field of 32 bits, counted from the record's start; None if samples lack it."""
        return next(((word << 3) + (half << 2) for field, word, half in self._fixed if field == name and half >= 0), None)

    def decode(
        self,
        buf: NDArray[np.uint8],
        offsets: NDArray[np.int64] | RecordStarts,
        fields: Collection[str] | None = None,
        *,
        late: bool = False,
    ) -> Columns:
        """Decode the SAMPLE records that start at `offsets` (bytes) in `buf`.

        Args:
            fields: names of the columns (default: all); names that samples of this attr lack are ignored
            late: return callchain, raw and user_stack as Slices, which need `buf`

        Columns are uint64, except pid, tid and cpu (int32), misc (uint16) and cpumode (the low bits of misc, uint8). Ragged columns:
        callchain (uint64), raw, user_stack, aux (uint8), branch_stack (BRANCH_DTYPE, flags in little-endian bit order), branch_counters,
        user_regs, intr_regs (uint64, the mask's bits from the lowest), read (READ_DTYPE, one row for each counter). Samples whose record is
        too short are marked in `damaged`. Raises ValueError if a record exceeds `buf`.

        >>> from perfpy.abi.attr import EventAttr
        >>> from perfpy.abi.flags import SampleType
        >>> attr = EventAttr(sample_type=SampleType.IP | SampleType.TID)
        >>> record = np.array([9 | 2 << 32 | 24 << 48, 0x1000, 7 | 8 << 32], "<u8").view(np.uint8)
        >>> columns = SampleLayout(attr).decode(record, np.array([0]))
        >>> int(columns["ip"][0]), int(columns["tid"][0]), int(columns["cpumode"][0])
        (4096, 8, 2)
        """
        buf, begins = _align_buffer(buf, offsets, self.endian)
        headers, starts = buf.view(self.endian + "u2"), begins.starts >> 3
        ends = starts + (begins.column(headers, 6) >> 3)
        if len(ends) and (int(ends.max()) << 3 > len(buf) or int(starts.min()) < 0):
            raise ValueError("a sample record reaches beyond the buffer")
        requested_fields = None if fields is None else frozenset(fields)
        columns = Columns(len(starts))
        _decode_misc(headers, begins, columns, requested_fields)
        cursor = Cursor(buf, self.endian, starts, ends, late=late)
        self._decode_fixed(cursor, begins, columns, requested_fields)
        needed = [requested_fields is None or not requested_fields.isdisjoint(names) for names, _ in self._decoders]
        last = max((i for i, need in enumerate(needed) if need), default=-1)
        for need, (_, decode_field) in zip(needed[: last + 1], self._decoders, strict=False):
            decode_field(cursor, columns, need)
        columns.damaged = cursor.damaged
        return columns

    def _decode_fixed(self, cursor: Cursor, begins: RecordStarts, columns: Columns, fields: frozenset[str] | None) -> None:
        starts, lengths = cursor.skip(self._fixed_words)
        if cursor.damaged is not None:
            begins = RecordStarts(np.where(lengths > 0, starts, 0) << 3)
            if not len(cursor.words) >= self._fixed_words:
                return self._zeros(columns, fields)
        halves = cursor.words.view(self.endian + "u4")
        for name, word, half in self._fixed:
            if fields is not None and name not in fields:
                continue
            if half < 0:
                column = begins.column(cursor.words, word << 3).astype(np.uint64, copy=False)
            else:
                column = begins.column(halves, (word << 3) + (half << 2)).astype(np.uint32, copy=False).view(_INT)
            if cursor.damaged is not None:
                column[cursor.damaged] = 0
            columns[name] = column
        return None

    def _zeros(self, columns: Columns, fields: frozenset[str] | None) -> None:
        for name, _, half in self._fixed:
            if fields is None or name in fields:
                columns[name] = np.zeros(columns.rows, np.uint64 if half < 0 else _INT)


def _align_buffer(buf: NDArray[np.uint8], offsets: NDArray[np.int64] | RecordStarts, endian: str) -> tuple[NDArray[np.uint8], RecordStarts]:
    """Return a buffer of complete words, and the starts of the records, aligned to words."""
    begins = offsets if isinstance(offsets, RecordStarts) else RecordStarts(offsets)
    if np.bitwise_or.reduce(begins.starts) & 7 or buf.ctypes.data & 7:
        buf, moved = realign_records(buf, begins.starts, endian)
        begins = RecordStarts(moved)
    return buf[: len(buf) & ~7], begins


def _decode_misc(headers: NDArray[np.uint16], begins: RecordStarts, columns: Columns, fields: frozenset[str] | None) -> None:
    """Decode misc, and the cpumode in it. `headers` is the buffer."""
    if fields is not None and not fields & {"misc", "cpumode"}:
        return
    misc = begins.column(headers, 4).astype(np.uint16, copy=False)
    if fields is None or "misc" in fields:
        columns["misc"] = misc
    if fields is None or "cpumode" in fields:
        columns["cpumode"] = (misc & MISC_CPUMODE_MASK).astype(np.uint8)


# Decode the variable fields of samples, one decoder for each field, in layout order. Layout: PERF_RECORD_SAMPLE in
# include/uapi/linux/perf_event.h.

READ_DTYPE: Final = np.dtype([("value", "u8"), ("enabled", "u8"), ("running", "u8"), ("id", "u8"), ("lost", "u8")])


def variable_decoders(attr: EventAttr, endian: str) -> list[tuple[tuple[str, ...], FieldDecoder]]:
    """Return (column names, decoder) of every field after the fixed ones, in layout order."""
    makers: tuple[tuple[int, Callable[[], tuple[tuple[str, ...], FieldDecoder]]], ...] = (
        (SampleType.READ, lambda: (("read",), _read_decoder(attr.read_format))),
        (SampleType.CALLCHAIN, lambda: (("callchain",), _callchain)),
        (SampleType.RAW, lambda: (("raw",), _raw)),
        (SampleType.BRANCH_STACK, lambda: branch_decoder(attr.branch_sample_type, endian)),
        (SampleType.REGS_USER, lambda: _registers_decoder("user_regs", attr.sample_regs_user)),
        (SampleType.STACK_USER, lambda: (("user_stack",), _user_stack)),
        (SampleType.WEIGHT | SampleType.WEIGHT_STRUCT, lambda: _weight_decoder(attr.sample_type)),
        (SampleType.DATA_SRC, lambda: _word_decoder("data_src")),
        (SampleType.TRANSACTION, lambda: _word_decoder("transaction")),
        (SampleType.REGS_INTR, lambda: _registers_decoder("intr_regs", attr.sample_regs_intr)),
        (SampleType.PHYS_ADDR, lambda: _word_decoder("phys_addr")),
        (SampleType.CGROUP, lambda: _word_decoder("cgroup")),
        (SampleType.DATA_PAGE_SIZE, lambda: _word_decoder("data_page_size")),
        (SampleType.CODE_PAGE_SIZE, lambda: _word_decoder("code_page_size")),
        (SampleType.AUX, lambda: (("aux",), _aux)),
    )
    return [make() for bits, make in makers if attr.sample_type & bits]


def _word_decoder(name: str) -> tuple[tuple[str, ...], FieldDecoder]:
    def decoder(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        if is_requested:
            columns[name] = cursor.word()
        else:
            cursor.skip(1)

    return (name,), decoder


def _weight_decoder(sample_type: int) -> tuple[tuple[str, ...], FieldDecoder]:
    """Decode WEIGHT, one number, or WEIGHT_STRUCT, three in one word: u32 weight, u16 ins_lat, u16 retire_lat from the low end."""
    if not sample_type & SampleType.WEIGHT_STRUCT:
        return _word_decoder("weight")

    def decoder(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        word = cursor.word()
        if not is_requested:
            return
        columns["weight"] = word & np.uint64(0xFFFFFFFF)
        columns["ins_lat"] = word >> np.uint64(32) & np.uint64(0xFFFF)
        columns["retire_lat"] = word >> np.uint64(48)

    return ("weight", "ins_lat", "retire_lat"), decoder


def _read_decoder(read_format: int) -> FieldDecoder:
    """Decode struct read_format: { u64 nr; times; { u64 value; id; lost } [nr] } with GROUP, else { u64 value; times; id; lost }."""
    times = [n for n, bit in (("enabled", ReadFormat.TOTAL_TIME_ENABLED), ("running", ReadFormat.TOTAL_TIME_RUNNING)) if read_format & bit]
    member = ["value"] + [name for name, bit in (("id", ReadFormat.ID), ("lost", ReadFormat.LOST)) if read_format & bit]

    def group(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        counts = cursor.count()
        columns_of_times = {name: cursor.word() for name in times}
        starts, lengths = cursor.skip(counts * len(member))
        if is_requested:
            rows = gather(cursor.words, starts, lengths)
            values = np.zeros(len(rows.values) // len(member), READ_DTYPE)
            for i, name in enumerate(member):
                values[name] = rows.values[i :: len(member)]
            for name, column in columns_of_times.items():
                values[name] = np.repeat(column, lengths // len(member))
            columns["read"] = Ragged(values, rows.offsets // len(member))

    def single(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        values = np.zeros(columns.rows, READ_DTYPE)
        for name in ("value", *times, *member[1:]):
            values[name] = cursor.word()
        if is_requested:
            columns["read"] = Ragged(values, np.arange(columns.rows + 1, dtype=np.int64))

    return group if read_format & ReadFormat.GROUP else single


def _callchain(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
    starts, lengths = cursor.skip(cursor.count())
    if is_requested:
        rows = Slices(cursor.words, starts, lengths)
        columns["callchain"] = rows if cursor.late else rows.gather()


def _raw(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
    over = cursor.position >= cursor.ends
    sizes = cursor.halves[2 * np.where(over, 0, cursor.position)].astype(np.int64)
    starts, words = cursor.skip(np.where(over, -1, (sizes + 11) >> 3))
    if is_requested:
        rows = Slices(cursor.bytes, (starts << 3) + 4, np.where(words > 0, sizes, 0))
        columns["raw"] = rows if cursor.late else rows.gather()


def _registers_decoder(name: str, mask: int) -> tuple[tuple[str, ...], FieldDecoder]:
    count = mask.bit_count()

    def decoder(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        abi = cursor.word()
        starts, lengths = cursor.skip(np.where(abi != 0, count, 0))
        if is_requested:
            columns[name] = gather(cursor.words, starts, lengths)
            columns[name + "_abi"] = abi

    return (name, name + "_abi"), decoder


def _user_stack(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
    """Decode { u64 size; char data[size]; u64 dyn_size }. Only dyn_size bytes are valid; there is no dyn_size if size is 0."""
    sizes = cursor.count()
    dumped = sizes != 0
    starts, words = cursor.skip(np.where(sizes < 0, -1, ((sizes + 7) >> 3) + dumped))
    if is_requested:
        last = np.where(words > 0, starts + words - 1, 0)
        valid = np.minimum(cursor.words[last].astype(np.uint64), sizes.astype(np.uint64)).astype(np.int64)
        rows = Slices(cursor.bytes, starts << 3, np.where(words > 0, valid, 0))
        columns["user_stack"] = rows if cursor.late else rows.gather()


def _aux(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
    sizes = cursor.count()
    starts, words = cursor.skip(np.where(sizes < 0, -1, (sizes + 7) >> 3))
    if is_requested:
        columns["aux"] = Slices(cursor.bytes, starts << 3, np.where(words > 0, sizes, 0)).gather()


# A cursor over many samples at once, which decodes the next field of each. A field is never read beyond the end of its record; a sample
# that is too short is marked as damaged.


class Cursor:
    """The position of the next field of each sample, in 8-byte words of the buffer, bounded by the records' ends.

    With `late`, callchains, raw data and user stacks may stay in the buffer.
    """

    def __init__(
        self, buffer: NDArray[np.uint8], endian: str, starts: NDArray[np.int64], ends: NDArray[np.int64], *, late: bool = False
    ) -> None:
        self.late = late
        self.bytes = buffer
        self.words = buffer.view(endian + "u8")
        self.halves = buffer.view(endian + "u4")
        self.position = starts
        self.ends = ends
        self.damaged: NDArray[np.bool_] | None = None

    def _mark(self, bad: NDArray[np.bool_]) -> None:
        self.damaged = bad if self.damaged is None else self.damaged | bad

    def word(self) -> NDArray[np.uint64]:
        """Return the next word of each sample; 0 beyond the end of its record."""
        over = self.position >= self.ends
        if not over.any():
            values = self.words[self.position].astype(np.uint64, copy=False)
            self.position = self.position + 1
            return values
        self._mark(over)
        values = self.words[np.where(over, 0, self.position)].astype(np.uint64, copy=False)
        self.position = np.minimum(self.position + 1, self.ends)
        return np.where(over, np.uint64(0), values)

    def skip(self, counts: NDArray[np.int64] | int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Skip `counts` words. Return (starts, lengths); a sample with fewer words is damaged and has the length 0."""
        starts = self.position
        lengths = np.broadcast_to(np.asarray(counts, np.int64), starts.shape)
        ends = starts + counts
        over = ends > self.ends
        if not isinstance(counts, int):
            over |= counts < 0
        if over.any():
            self._mark(over)
            lengths = np.where(over, 0, lengths)
            ends = np.where(over, self.ends, ends)
        self.position = ends
        return starts, lengths

    def count(self) -> NDArray[np.int64]:
        """Return the next word as a count. A count that no record can hold becomes -1, which skip() rejects."""
        values = self.word()
        return np.where(values > 0xFFFF, np.uint64(0xFFFFFFFFFFFFFFFF), values).astype(np.int64)


def gather(words: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Ragged:
    """Return the spans as rows in this machine's byte order. Starts and lengths count elements of `words`."""
    return Slices(words, starts, lengths).gather()


#: decodes one variable field at the cursor into `columns`, or only skips it
FieldDecoder = Callable[[Cursor, Columns, bool], None]


def realign_records(buf: NDArray[np.uint8], offsets: NDArray[np.int64], endian: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy the records to multiples of 8, each padded with zeros to a multiple of 8."""
    parts, positions, offset = [], [], 0
    for start in offsets.tolist():
        if not 0 <= start <= len(buf) - 8:
            raise ValueError("a record reaches beyond the buffer")
        size = as_number(buf[start + 6 : start + 8].tobytes(), endian)
        if start + size > len(buf):
            raise ValueError("a record reaches beyond the buffer")
        record = buf[start : start + size].tobytes()
        parts.append(record.ljust((size + 7) & ~7, b"\0"))
        positions.append(offset)
        offset += len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8), np.array(positions, np.int64)


# Read the same field of many records in one buffer. Records of one size mostly form long runs. A run is read with a stride instead of an
# index, in half the time and without evicting the buffer from the processor's cache.

_WORTH: Final = 512  # average records in a run that make strides worthwhile
_SHORTEST: Final = 8


class _LongRows(NamedTuple):
    """Runs of records of equal size.

    Attributes:
        step: the size of a record in bytes
        begins, ends: record numbers of each run
    """

    step: int
    begins: list[int]
    ends: list[int]


class RecordStarts:
    """The starts of records: ascending byte offsets, multiples of 8."""

    __slots__ = ("_rows", "starts")

    def __init__(self, starts: NDArray[np.int64]) -> None:
        self.starts = starts
        self._rows = _rows_of(starts) if len(starts) >= _WORTH else None

    def column(self, values: NDArray[Any], offset: int) -> NDArray[Any]:
        """Return a copy of the values at `offset` bytes after each start. `values` is the buffer as numbers of one size.

        >>> RecordStarts(np.array([0, 8, 24])).column(np.arange(6, dtype="<u8"), 8).tolist()
        [1, 2, 4]
        """
        width = values.itemsize
        if self._rows is None:
            return values[offset // width :].take(self.starts >> width.bit_length() - 1)
        step, begins, ends = self._rows
        column = np.empty(len(self.starts), values.dtype)
        for begin, end, start in zip(begins, ends, self.starts[begins].tolist(), strict=True):
            column[begin:end] = values[(start + offset) // width :: step // width][: end - begin]
        return column


def _rows_of(starts: NDArray[np.int64]) -> _LongRows | None:
    """Return the runs of records; None if they are short, or their records differ in size."""
    step = int(starts[1]) - int(starts[0])
    if step < _SHORTEST or step & 7:
        return None
    others = (starts[1:] - starts[:-1] != step).nonzero()[0]
    if (len(others) + 1) * _WORTH > len(starts):
        return None
    borders = (others + 1).tolist()
    return _LongRows(step, [0, *borders], [*borders, len(starts)])


# Decode the BRANCH_STACK field of samples into the columns branch_stack, branch_hw_index and branch_counters. Layout: struct
# perf_branch_stack and struct perf_branch_entry in include/uapi/linux/perf_event.h:
#
#     u64 nr; u64 hw_idx (HW_INDEX); struct { u64 from, to, flags; } entries[nr]; u64 counters[nr] (COUNTERS)
#     flags: mispred 1, predicted 1, in_tx 1, abort 1, cycles 16, type 4, spec 2, new_type 4, priv 3, reserved 31

__all__ = ["BRANCH_DTYPE", "BRANCH_FLAGS", "branch_decoder"]

BRANCH_DTYPE: Final = np.dtype([("from", "u8"), ("to", "u8"), ("flags", "u8")])


def branch_decoder(sampled: int, endian: str) -> tuple[tuple[str, ...], FieldDecoder]:
    """Return (column names, decoder) for a branch_sample_type."""
    has_index = bool(sampled & BranchSample.HW_INDEX)
    has_counters = bool(sampled & BranchSample.COUNTERS)

    def decoder(cursor: Cursor, columns: Columns, is_requested: bool) -> None:
        counts = cursor.count()
        index = cursor.word() if has_index else None
        starts, lengths = cursor.skip(3 * counts)
        if is_requested:
            rows = gather(cursor.words, starts, lengths)
            entries = np.ascontiguousarray(rows.values).view(BRANCH_DTYPE)
            if endian == ">":
                entries["flags"] = _little_endian_flags(entries["flags"])
            columns["branch_stack"] = Ragged(entries, rows.offsets // 3)
            if index is not None:
                columns["branch_hw_index"] = index
        if has_counters:
            starts, lengths = cursor.skip(lengths // 3)
            if is_requested:
                columns["branch_counters"] = gather(cursor.words, starts, lengths)

    names = ("branch_stack", *(("branch_hw_index",) if has_index else ()), *(("branch_counters",) if has_counters else ()))
    return names, decoder


def _little_endian_flags(flags: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Convert a big-endian machine's bit fields, which start at the highest bit, to little-endian order."""
    out = np.zeros_like(flags)
    shift = 0
    for _, width in BRANCH_FLAGS:
        part = flags >> np.uint64(64 - shift - width) & np.uint64((1 << width) - 1)
        out |= part << np.uint64(shift)
        shift += width
    return out


# The parts of a branch entry's flag word. Layout: struct perf_branch_entry in include/uapi/linux/perf_event.h.

#: name and width of the parts, from the lowest bit (from the highest on big-endian machines)
BRANCH_FLAGS: Final = (
    ("mispred", 1),
    ("predicted", 1),
    ("in_tx", 1),
    ("abort", 1),
    ("cycles", 16),
    ("type", 4),
    ("spec", 2),
    ("new_type", 4),
    ("priv", 3),
)


def stack_words(columns: Columns, row: int) -> NDArray[np.uint64]:
    """Return the copy of a sample's stack."""
    stacks = columns["user_stack"]
    if isinstance(stacks, Slices) and not int(stacks.starts[row]) & 7:
        start, length = int(stacks.starts[row]), int(stacks.lengths[row]) & ~7
        return stacks.words[start : start + length].view(np.uint64)
    data = stacks.take(np.array([row])).gather().values
    return np.frombuffer(data[: len(data) & ~7].tobytes(), np.uint64)
