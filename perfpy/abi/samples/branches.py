"""Decode the BRANCH_STACK field of samples into the columns branch_stack, branch_hw_index and branch_counters.

Layout: struct perf_branch_stack and struct perf_branch_entry in include/uapi/linux/perf_event.h:

    u64 nr; u64 hw_idx (HW_INDEX); struct { u64 from, to, flags; } entries[nr]; u64 counters[nr] (COUNTERS)
    flags: mispred 1, predicted 1, in_tx 1, abort 1, cycles 16, type 4, spec 2, new_type 4, priv 3, reserved 31
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import BranchSample
from perfpy.abi.samples.branch_flags import BRANCH_FLAGS
from perfpy.abi.samples.cursor import Cursor, FieldDecoder, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
            columns["branch_stack"] = Ragged(_entries(rows.values, endian), rows.offsets // 3)
            if index is not None:
                columns["branch_hw_index"] = index
        if has_counters:
            starts, lengths = cursor.skip(lengths // 3)
            if is_requested:
                columns["branch_counters"] = gather(cursor.words, starts, lengths)

    names = ("branch_stack", *(("branch_hw_index",) if has_index else ()), *(("branch_counters",) if has_counters else ()))
    return names, decoder


def _entries(words: NDArray[np.uint64], endian: str) -> NDArray[Any]:
    entries = np.ascontiguousarray(words).view(BRANCH_DTYPE)
    if endian == ">":
        entries["flags"] = _little_endian_flags(entries["flags"])
    return entries


def _little_endian_flags(flags: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Convert a big-endian machine's bit fields, which start at the highest bit, to little-endian order."""
    out = np.zeros_like(flags)
    shift = 0
    for _, width in BRANCH_FLAGS:
        part = flags >> np.uint64(64 - shift - width) & np.uint64((1 << width) - 1)
        out |= part << np.uint64(shift)
        shift += width
    return out
