"""Decode the variable fields of samples, one decoder for each field, in layout order.

Layout: PERF_RECORD_SAMPLE in include/uapi/linux/perf_event.h (drawn in perfpy.abi.samples.decoding).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices
from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.abi.samples.branches import branch_decoder
from perfpy.abi.samples.cursor import Cursor, FieldDecoder, gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.attr import EventAttr

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
