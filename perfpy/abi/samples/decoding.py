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

Columns have the names of these fields; see SampleLayout.decode. The mirror for one sample is perfpy.abi.samples.encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.abi.flags import MISC_CPUMODE_MASK, SampleType
from perfpy.abi.samples.branches import BRANCH_DTYPE
from perfpy.abi.samples.cursor import Cursor, realign_records
from perfpy.abi.samples.fields import READ_DTYPE, variable_decoders
from perfpy.abi.samples.fixed_fields import FIXED_FIELDS
from perfpy.abi.samples.record_starts import RecordStarts

if TYPE_CHECKING:
    from collections.abc import Collection

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
        self._decode_variable(cursor, columns, requested_fields)
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

    def _decode_variable(self, cursor: Cursor, columns: Columns, fields: frozenset[str] | None) -> None:
        needed = [fields is None or not fields.isdisjoint(names) for names, _ in self._decoders]
        last = max((i for i, need in enumerate(needed) if need), default=-1)
        for need, (_, decode_field) in zip(needed[: last + 1], self._decoders, strict=False):
            decode_field(cursor, columns, need)


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
