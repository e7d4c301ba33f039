"""Encode many SAMPLE records of one attr from columns; the mirror of perfpy.abi.samples.decoding, which documents the layout.

Registers, stack copies, readings and AUX data are not written; written_attr() clears them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import BranchSample, RecordType, SampleType
from perfpy.abi.samples.fixed_fields import FIXED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr

    Words = NDArray[np.uint64]

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
    lengths = [_length(field, count) for field in fields]
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


def _length(field: Words | Ragged, count: int) -> NDArray[np.int64]:
    return np.diff(field.offsets) if isinstance(field, Ragged) else np.ones(count, np.int64)


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
