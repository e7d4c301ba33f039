"""Sort keys of branch records: their ends and flags.

See perfpy.analysis.sortkeys.key_columns; the numbers are frame ids of the two ends of a
branch (perfpy.analysis.samples.branches), or the flag word (perfpy.abi.samples.branches).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.samples.locations import ranks, sample_locations
from perfpy.analysis.sortkeys.key_columns import KeyColumn, by_text, byte_width
from perfpy.analysis.sortkeys.location_columns import UNNAMED_WIDTH, symbol_text
from perfpy.analysis.sortkeys.sort_key import ColumnCell, Mode, SortKey

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts

_MISPREDICTED, _PREDICTED, _IN_TRANSACTION, _ABORT = (1 << bit for bit in range(4))
_CYCLES_SHIFT = 4
_CYCLES_MASK = 0xFFFF
_LEVEL_WIDTH = len("[k] ")


def dso(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of files. perf compares them in the reverse order of the samples' files: descending, files without a name first."""
    location_table = texts.locations
    rank = ranks(-location_table.dso_ranks(sample_locations(frames)))

    def wide(i: int) -> int:
        return (
            byte_width(location_table.dso_name(int(frames[i]))) if location_table.symbol[frames[i]] >= 0 else texts.style.unnamed_dso_width
        )

    return KeyColumn(rank, rank, lambda i: location_table.dso_name(int(frames[i])), wide)


def symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of functions. perf compares them by their addresses within any files."""
    location_table = texts.locations
    symbols = location_table.symbol[frames]
    has_symbol = symbols >= 0
    start, end = location_table.symbol_bounds(symbols)
    rank = ranks(
        ~has_symbol, np.where(has_symbol, start.view(np.int64), location_table.ip[frames].view(np.int64)), np.where(has_symbol, end, 0)
    )
    locations = sample_locations(frames)

    def text(i: int) -> str:
        return symbol_text(location_table, int(locations[i]), int(location_table.address[frames[i]]))

    def wide(i: int) -> int:
        return byte_width(location_table.name(int(frames[i]))) + _LEVEL_WIDTH if has_symbol[i] else UNNAMED_WIDTH

    return KeyColumn(rank, rank, text, wide, unnamed=~has_symbol)


def address(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of a branch's end: the function and the offset in it."""
    location_table = texts.locations
    locations = sample_locations(frames)
    rank = ranks(-location_table.dso_ranks(locations), location_table.ip[frames].view(np.int64))

    def text(i: int) -> str:
        inner = int(location_table.address[frames[i]])
        label, symbol = symbol_text(location_table, int(locations[i]), inner), int(location_table.symbol[frames[i]])
        offset = inner - location_table.symbol_start(symbol) if symbol >= 0 and not location_table.symbols.is_data(symbol) else 0
        return f"{label}+{offset:#x}" if offset else label

    return KeyColumn(rank, rank, text, lambda i: 0 if location_table.symbol[frames[i]] >= 0 else UNNAMED_WIDTH)


def source_line(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of source lines at a branch's end."""
    return by_text(texts.source_texts.lines(frames))


def _flags(values: Int64, bits: int, words: dict[int, str]) -> KeyColumn:
    rank = ranks(values & bits)
    return KeyColumn(rank, rank, lambda i: words[int(values[i]) & bits])


def mispredict(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of mispredicted branches."""
    both = _MISPREDICTED | _PREDICTED
    return _flags(values, both, {0: "N/A", _MISPREDICTED: "Y", _PREDICTED: "N", both: "N"})


def abort(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of aborted transactions."""
    return _flags(values, _ABORT, {0: ".", _ABORT: "A"})


def in_transaction(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of branches in transactions."""
    return _flags(values, _IN_TRANSACTION, {0: ".", _IN_TRANSACTION: "T"})


def cycles(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of cycles, compared as unsigned but printed by perf as signed 16-bit numbers."""
    counts = values >> _CYCLES_SHIFT & _CYCLES_MASK
    signed_counts = counts.astype(np.uint16).view(np.int16)
    rank = ranks(-counts)
    return KeyColumn(rank, rank, lambda i: str(int(signed_counts[i])) if counts[i] else "-")


def no_ipc(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of instructions per cycle, which perfpy does not count, as perf shows it if it cannot count them."""
    rank = symbol(texts, frames).same
    has_symbol = texts.locations.symbol[frames] >= 0
    return KeyColumn(rank, rank, lambda i: "0.00  [  0.0%]" if has_symbol[i] else "-")


#: the sort keys of branch records, in perf's order of search
BRANCH_KEYS: Final = (
    SortKey("dso_from", "Source Shared Object", "branch_from", dso, mode=Mode.BRANCH),
    SortKey("dso_to", "Target Shared Object", "branch_to", dso, mode=Mode.BRANCH),
    SortKey("symbol_from", "Source Symbol", "branch_from", symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("symbol_to", "Target Symbol", "branch_to", symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("mispredict", "Branch Mispredicted", "branch_flags", mispredict, mode=Mode.BRANCH),
    SortKey("abort", "Transaction abort", "branch_flags", abort, mode=Mode.BRANCH),
    SortKey("in_tx", "Branch in transaction", "branch_flags", in_transaction, mode=Mode.BRANCH),
    SortKey("cycles", "Basic Block Cycles", "branch_flags", cycles, mode=Mode.BRANCH),
    SortKey("srcline_from", "From Source:Line", "branch_from", source_line, mode=Mode.BRANCH),
    SortKey("srcline_to", "To Source:Line", "branch_to", source_line, mode=Mode.BRANCH),
    SortKey("ipc_lbr", "IPC   [IPC Coverage]", "branch_to", no_ipc, mode=Mode.BRANCH),
    SortKey("addr_from", "Source Address", "branch_from", address, ColumnCell.LOOSE, mode=Mode.BRANCH),
    SortKey("addr_to", "Target Address", "branch_to", address, ColumnCell.LOOSE, mode=Mode.BRANCH),
)
