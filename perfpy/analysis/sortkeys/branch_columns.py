"""Sort keys of branch records: their ends and flags.

See perfpy.analysis.sortkeys.key_columns; the numbers are frame ids of the two ends of a
branch (perfpy.analysis.samples.branches), or the flag word (perfpy.abi.sample_branches).
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
    known = texts.locations
    rank = ranks(-known.dso_ranks(sample_locations(frames)))

    def wide(i: int) -> int:
        return byte_width(known.dso_name(int(frames[i]))) if known.symbol[frames[i]] >= 0 else texts.style.unnamed_dso_width

    return KeyColumn(rank, rank, lambda i: known.dso_name(int(frames[i])), wide)


def symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of functions. perf compares them by their addresses within any files."""
    known = texts.locations
    symbols = known.symbol[frames]
    named = symbols >= 0
    start, end = known.symbol_bounds(symbols)
    rank = ranks(~named, np.where(named, start.view(np.int64), known.ip[frames].view(np.int64)), np.where(named, end, 0))
    locations = sample_locations(frames)

    def text(i: int) -> str:
        return symbol_text(known, int(locations[i]), int(known.address[frames[i]]))

    def wide(i: int) -> int:
        return byte_width(known.name(int(frames[i]))) + _LEVEL_WIDTH if named[i] else UNNAMED_WIDTH

    return KeyColumn(rank, rank, text, wide, unnamed=~named)


def address(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of a branch's end: the function and the offset in it."""
    known = texts.locations
    locations = sample_locations(frames)
    rank = ranks(-known.dso_ranks(locations), known.ip[frames].view(np.int64))

    def text(i: int) -> str:
        inner = int(known.address[frames[i]])
        said, symbol = symbol_text(known, int(locations[i]), inner), int(known.symbol[frames[i]])
        offset = inner - known.symbol_start(symbol) if symbol >= 0 and not known.symbols.is_data(symbol) else 0
        return f"{said}+{offset:#x}" if offset else said

    return KeyColumn(rank, rank, text, lambda i: 0 if known.symbol[frames[i]] >= 0 else UNNAMED_WIDTH)


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
    shown = counts.astype(np.uint16).view(np.int16)
    rank = ranks(-counts)
    return KeyColumn(rank, rank, lambda i: str(int(shown[i])) if counts[i] else "-")


def no_ipc(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of instructions per cycle, which perfpy does not count, as perf shows it if it cannot count them."""
    rank = symbol(texts, frames).same
    named = texts.locations.symbol[frames] >= 0
    return KeyColumn(rank, rank, lambda i: "0.00  [  0.0%]" if named[i] else "-")


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
