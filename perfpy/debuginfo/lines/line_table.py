"""The line table of one unit: the file and line of addresses.

For overlapping sequences and repeated rows it follows binutils.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.debuginfo.lines import line_header
from perfpy.debuginfo.lines.line_files import LineFiles
from perfpy.debuginfo.lines.line_program import LineMachine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.debuginfo.lines.line_operations import Int64, Uint64
    from perfpy.debuginfo.lines.line_program import LineRows
    from perfpy.debuginfo.units.unit import DebugUnit

NOTHING: Final = -1


class LineTable:
    """The lines of a unit. Raises ValueError or IndexError if they are damaged.

    Args:
        unit: the unit.
        offset: of the line program in .debug_line.
        as_addr2line: name files as binutils 2.40 does, against the standard: in version 5, sequences begin with file 0 instead of 1,
            and a relative folder of the unit appears twice in the paths of its files.
    """

    def __init__(self, unit: DebugUnit, offset: int, *, as_addr2line: bool = False) -> None:
        sections = unit.sections
        header = line_header.read(sections, offset)
        self._files = LineFiles(unit, header, own_folder_twice=as_addr2line)
        code = sections.data("line")[header.program : header.end]
        sections.spend(len(code) >> 3)
        first_file = 0 if as_addr2line and header.version >= 5 else 1
        rows = LineMachine(header, sections.file.endian, first_file).run(code)
        self._address, self._file, self._line = _sort_rows(rows)

    def __len__(self) -> int:
        return len(self._address)

    def find(self, addresses: Uint64) -> tuple[Int64, Int64]:
        """Return the file number (NOTHING without a row) and the line of each address."""
        if not len(self._address):
            return np.full(len(addresses), NOTHING), np.zeros(len(addresses), np.int64)
        row = np.searchsorted(self._address, addresses, "right") - 1
        file = np.where(row < 0, NOTHING, self._file[row]).astype(np.int64)
        return file, self._line[row].astype(np.int64)

    def path(self, number: int) -> str:
        """Return the path of a file by its number; relative if the compiler got a relative path."""
        return self._files.path(number)


def _sort_rows(rows: LineRows) -> tuple[Uint64, NDArray[np.int32], NDArray[np.uint32]]:
    """Sort rows by address. Each row is valid up to the next; its file is NOTHING for addresses without lines."""
    count = len(rows.address)
    if not count:
        return rows.address, np.zeros(0, np.int32), np.zeros(0, np.uint32)
    end = rows.end.copy()
    end[-1] = True  # of a truncated program
    last = np.flatnonzero(end)
    first = np.append(0, last[:-1] + 1)
    low, high = np.minimum.reduceat(rows.address, first), rows.address[last]
    # Of overlapping sequences, the first and longest keeps its addresses; later ones get the remainder.
    order = np.lexsort((~high, low))
    order = order[high[order] > low[order]]
    if len(order) and low[order[-1]]:  # code that the linker dropped is at address 0
        order = order[low[order] > 0]
    before = np.append(np.zeros(1, np.uint64), np.maximum.accumulate(high[order])[:-1])[: len(order)]
    order, before = order[high[order] > before], before[high[order] > before]
    row, floor, ceiling = _rows_of(first[order], last[order], np.maximum(low[order], before), high[order])
    address = np.maximum(rows.address[row], floor)
    is_kept = (address < ceiling) | end[row]
    row, address = row[is_kept], np.where(end[row], ceiling, address)[is_kept]
    if (address[1:] < address[:-1]).any():
        by_address = np.argsort(address, kind="stable")
        row, address = row[by_address], address[by_address]
    return address, np.where(end[row], np.int32(NOTHING), rows.file[row]), rows.line[row]


def _rows_of(first: Int64, last: Int64, low: Uint64, high: Uint64) -> tuple[Int64, Uint64, Uint64]:
    """Return the rows of sequences one after the other, and the bounds of each row's sequence."""
    sizes = last - first + 1
    start = np.cumsum(sizes) - sizes
    row = np.arange(int(sizes.sum())) + np.repeat(first - start, sizes)
    return row, np.repeat(low, sizes), np.repeat(high, sizes)
