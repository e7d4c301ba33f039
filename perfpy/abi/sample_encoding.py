"""Encode one SAMPLE record; the mirror of perfpy.abi.sample_decoding, which documents the layout."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.attr import Reading, encode_read
from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import BranchSample, RecordType, SampleType
from perfpy.abi.framing import pad_to_words, with_header
from perfpy.abi.sample_decoding import BRANCH_FLAGS
from perfpy.abi.sample_layout import FIXED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr

    Words = NDArray[np.uint64]


_U64: Final = (1 << 64) - 1
_WORDS_BEFORE_READ: Final = (
    (SampleType.IDENTIFIER, "Q", ("identifier",)),
    (SampleType.IP, "Q", ("ip",)),
    (SampleType.TID, "ii", ("pid", "tid")),
    (SampleType.TIME, "Q", ("time",)),
    (SampleType.ADDR, "Q", ("addr",)),
    (SampleType.ID, "Q", ("id",)),
    (SampleType.STREAM_ID, "Q", ("stream_id",)),
    (SampleType.CPU, "i4x", ("cpu",)),
    (SampleType.PERIOD, "Q", ("period",)),
)


def encode_sample(attr: EventAttr, values: Mapping[str, Any], endian: str = "<") -> bytes:
    """Return the SAMPLE record of these values, named as the columns. Missing fields are 0 or empty.

    Numbers include "misc". callchain, user_regs and intr_regs are sequences of numbers (registers: one for each bit of the mask, or none);
    raw, user_stack and aux are bytes; branch_stack is a list of (from, to, flags) with flags in little-endian bit order; read is a list of
    Reading. Raises ValueError if the record would exceed 64 kB.
    """
    writer = _SampleWriter(attr, values, endian)
    return with_header(RecordType.SAMPLE, values.get("misc", 0), writer.body(), endian)


class _SampleWriter:
    """Writes the fields of one sample in layout order."""

    def __init__(self, attr: EventAttr, values: Mapping[str, Any], endian: str) -> None:
        self._attr = attr
        self._values = values
        self._endian = endian

    def body(self) -> bytes:
        kind = self._attr.sample_type
        parts = [self._pack(code, *(self._values.get(name, 0) for name in names)) for bit, code, names in _WORDS_BEFORE_READ if kind & bit]
        variable: tuple[tuple[int, Callable[[], bytes]], ...] = (
            (SampleType.READ, self._read),
            (SampleType.CALLCHAIN, lambda: self._encode_counted(self._list("callchain"))),
            (SampleType.RAW, self._raw),
            (SampleType.BRANCH_STACK, self._branches),
            (SampleType.REGS_USER, lambda: self._registers("user_regs")),
            (SampleType.STACK_USER, self._stack),
            (SampleType.WEIGHT | SampleType.WEIGHT_STRUCT, self._weight),
            (SampleType.DATA_SRC, lambda: self._word("data_src")),
            (SampleType.TRANSACTION, lambda: self._word("transaction")),
            (SampleType.REGS_INTR, lambda: self._registers("intr_regs")),
            (SampleType.PHYS_ADDR, lambda: self._word("phys_addr")),
            (SampleType.CGROUP, lambda: self._word("cgroup")),
            (SampleType.DATA_PAGE_SIZE, lambda: self._word("data_page_size")),
            (SampleType.CODE_PAGE_SIZE, lambda: self._word("code_page_size")),
            (SampleType.AUX, lambda: self._encode_sized(self._values.get("aux", b""))),
        )
        return b"".join(parts + [write() for bits, write in variable if kind & bits])

    def _pack(self, code: str, *numbers: int) -> bytes:
        return struct.pack(self._endian + code, *numbers)

    def _list(self, name: str) -> Sequence[Any]:
        values: Sequence[Any] = self._values.get(name, ())
        return values

    def _words(self, numbers: Sequence[int]) -> bytes:
        return self._pack(f"{len(numbers)}Q", *(int(number) & _U64 for number in numbers))

    def _word(self, name: str) -> bytes:
        return self._words((self._values.get(name, 0),))

    def _encode_counted(self, numbers: Sequence[int]) -> bytes:
        return self._words((len(numbers), *numbers))

    def _encode_sized(self, data: bytes) -> bytes:
        return self._words((len(pad_to_words(data)),)) + pad_to_words(data)

    def _read(self) -> bytes:
        return encode_read(list(self._list("read")) or [Reading(0)], self._attr.read_format, self._endian)

    def _raw(self) -> bytes:
        data: bytes = self._values.get("raw", b"")
        data += bytes(-(4 + len(data)) % 8)
        return self._pack("I", len(data)) + data

    def _branches(self) -> bytes:
        entries = self._list("branch_stack")
        sampled = self._attr.branch_sample_type
        index = self._word("branch_hw_index") if sampled & BranchSample.HW_INDEX else b""
        words = [word for start, to, flags in entries for word in (start, to, self._flags(flags))]
        counters = self._words(self._list("branch_counters")) if sampled & BranchSample.COUNTERS else b""
        return self._words((len(entries),)) + index + self._words(words) + counters

    def _flags(self, flags: int) -> int:
        """Return a branch's flags in the recorded machine's order: bit fields start at the end of the word that comes first."""
        if self._endian == "<":
            return flags
        word, shift = 0, 0
        for _, width in BRANCH_FLAGS:
            word |= (flags >> shift & ((1 << width) - 1)) << (64 - shift - width)
            shift += width
        return word

    def _registers(self, name: str) -> bytes:
        registers = self._list(name)
        abi = self._values.get(name + "_abi", 2 if registers else 0)
        return self._words((abi, *(registers if abi else ())))

    def _stack(self) -> bytes:
        data: bytes = self._values.get("user_stack", b"")
        if not data:
            return self._words((0,))
        return self._encode_sized(data) + self._words((len(data),))

    def _weight(self) -> bytes:
        weight = self._values.get("weight", 0)
        if self._attr.sample_type & SampleType.WEIGHT_STRUCT:
            weight |= self._values.get("ins_lat", 0) << 32 | self._values.get("retire_lat", 0) << 48
        return self._words((weight,))


# Encode many SAMPLE records of one attr from columns; the mirror of perfpy.abi.sample_decoding, which documents the layout. Registers,
# stack copies, readings and AUX data are not written; written_attr() clears them.

_NOT_WRITTEN: Final = SampleType.READ | SampleType.REGS_USER | SampleType.STACK_USER | SampleType.REGS_INTR | SampleType.AUX
_LAST_WORDS: Final = (
    (SampleType.DATA_SRC, "data_src"), (SampleType.TRANSACTION, "transaction"), (SampleType.PHYS_ADDR, "phys_addr"),
    (SampleType.CGROUP, "cgroup"), (SampleType.DATA_PAGE_SIZE, "data_page_size"), (SampleType.CODE_PAGE_SIZE, "code_page_size"),
)  # fmt: skip
_LONGEST: Final = 0xFFFF
_RAW_HEAD: Final = 4


def written_attr(attr: EventAttr) -> EventAttr:
    """Return the attr of the records that encode_rows() writes."""
    branches = attr.branch_sample_type & ~int(BranchSample.COUNTERS)
    kind = attr.sample_type & ~int(_NOT_WRITTEN)
    return attr.copy(sample_type=kind, branch_sample_type=branches, sample_regs_user=0, sample_regs_intr=0, sample_stack_user=0)


def encode_rows(attr: EventAttr, columns: Mapping[str, Any], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode `count` samples in this machine's byte order. Return their bytes, and int64[count + 1] byte offsets.

    `attr` comes from written_attr(). Missing columns are 0 or empty. Raises ValueError if a record would exceed 64 kB.
    """
    fields = [np.zeros(count, np.uint64), *_fields(attr, columns, count)]
    lengths = [np.diff(field.offsets) if isinstance(field, Ragged) else np.ones(count, np.int64) for field in fields]
    starts = np.cumsum([np.zeros(count, np.int64), *lengths], axis=0)
    if count and int(starts[-1].max()) * 8 > _LONGEST:
        raise ValueError("a sample would be longer than 64 kB")
    offsets = np.concatenate([[0], np.cumsum(starts[-1])]).astype(np.int64)
    words = np.zeros(int(offsets[-1]), np.uint64)
    misc = columns.get("misc", np.zeros(count, np.uint16)).astype(np.uint64)
    words[offsets[:-1]] = np.uint64(RecordType.SAMPLE) | misc << np.uint64(32) | (starts[-1] * 8).astype(np.uint64) << np.uint64(48)
    for field, within, length in zip(fields[1:], starts[1:], lengths[1:], strict=False):
        begin = offsets[:-1] + within
        if isinstance(field, Ragged):
            words[slices_index(begin, length)[0]] = field.values
        else:
            words[begin] = field
    return words.view(np.uint8), offsets * 8


def _fields(attr: EventAttr, columns: Mapping[str, Any], count: int) -> list[Words | Ragged]:
    """Return the fields in layout order, one or several words for each sample."""
    kind = attr.sample_type
    fields: list[Words | Ragged] = [_fixed_words(columns, names, count) for bit, names in FIXED_FIELDS if kind & bit]
    if kind & SampleType.CALLCHAIN:
        fields += _counted_words(columns.get("callchain"), count)
    if kind & SampleType.RAW:
        fields.append(_raw(columns.get("raw"), count))
    if kind & SampleType.BRANCH_STACK:
        entries, *_ = branches = _counted_words(_as_words(columns.get("branch_stack")), count)
        branches[0] = entries // np.uint64(3) if not isinstance(entries, Ragged) else entries
        if attr.branch_sample_type & BranchSample.HW_INDEX:
            branches.insert(1, _word(columns, "branch_hw_index", count))
        fields += branches
    if kind & (SampleType.WEIGHT | SampleType.WEIGHT_STRUCT):
        fields.append(_weight(columns, count, parts=bool(kind & SampleType.WEIGHT_STRUCT)))
    return fields + [_word(columns, name, count) for bit, name in _LAST_WORDS if kind & bit]


def _word(columns: Mapping[str, Any], name: str, count: int) -> Words:
    column = columns.get(name)
    return np.zeros(count, np.uint64) if column is None else column.astype(np.uint64)


def _fixed_words(columns: Mapping[str, Any], names: tuple[str, ...], count: int) -> Words:
    if len(names) == 1:
        return _word(columns, names[0], count)
    low, high = (_word(columns, name, count) & np.uint64(0xFFFFFFFF) for name in names)
    return low | high << np.uint64(32) if sys.byteorder == "little" else high | low << np.uint64(32)


def _counted_words(column: Ragged | None, count: int) -> list[Words | Ragged]:
    if column is None:
        return [np.zeros(count, np.uint64)]
    return [np.diff(column.offsets).astype(np.uint64), Ragged(column.values.astype(np.uint64), column.offsets)]


def _as_words(column: Ragged | None) -> Ragged | None:
    """Return branches as plain words, three for each branch."""
    return None if column is None else Ragged(np.ascontiguousarray(column.values).view(np.uint64), column.offsets * 3)


def _raw(column: Ragged | None, count: int) -> Ragged:
    """Return the size in 4 bytes, the data, and zeros up to a full word, which count as data."""
    lengths = np.zeros(count, np.int64) if column is None else np.diff(column.offsets)
    words = _RAW_HEAD + lengths + 7 >> 3
    offsets = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
    data = np.zeros(int(offsets[-1]), np.uint64).view(np.uint8)
    begin = offsets[:-1] * 8
    data.view(np.uint32)[begin >> 2] = (words * 8 - _RAW_HEAD).astype(np.uint32)
    if column is not None:
        data[slices_index(begin + _RAW_HEAD, lengths)[0]] = column.values
    return Ragged(data.view(np.uint64), offsets)


def _weight(columns: Mapping[str, Any], count: int, *, parts: bool) -> Words:
    weight = _word(columns, "weight", count)
    if parts:
        weight = weight | _word(columns, "ins_lat", count) << np.uint64(32) | _word(columns, "retire_lat", count) << np.uint64(48)
    return weight
