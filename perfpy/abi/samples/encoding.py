"""Encode one SAMPLE record; the mirror of perfpy.abi.samples.decoding, which documents the layout."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import BranchSample, RecordType, SampleType
from perfpy.abi.framing import pad_to_words, with_header
from perfpy.abi.readings import Reading, encode_read
from perfpy.abi.samples.branch_flags import BRANCH_FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfpy.abi.attr import EventAttr

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
