"""The statements of a unit: the addresses of a source line, and the line that begins at an address.

Only rows that begin a statement count (is_stmt). The first row of several at one address decides, as in perf.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.lines import line_header
from perfpy.debuginfo.lines.line_files import LineFiles
from perfpy.debuginfo.lines.line_program import LineMachine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.debuginfo.units.unit import DebugUnit

_BYTES_OF_ROW: Final = 8  # of a program, to count the work


class Statement(NamedTuple):
    """One statement.

    Attributes:
        address: where its code begins.
        file: number in the unit's line program.
        line: its line.
    """

    address: int
    file: int
    line: int


class StatementTable:
    """The statements of one unit; none without a line program. Raises the errors of DAMAGE if the program is damaged."""

    def __init__(self, unit: DebugUnit) -> None:
        self._unit = unit
        self._offset = (unit.skeleton or unit).stmt_list
        self._paths: dict[int, str] = {}

    @cached_property
    def _header(self) -> line_header.LineHeader | None:
        return None if self._offset is None else line_header.read(self._line_unit.sections, self._offset)

    @property
    def _line_unit(self) -> DebugUnit:
        return self._unit.skeleton or self._unit

    @cached_property
    def _files(self) -> LineFiles | None:
        return LineFiles(self._line_unit, self._header) if self._header else None

    def path(self, number: int) -> str:
        """Return the path of a file by its number."""
        if number not in self._paths:
            self._paths[number] = self._files.path(number) if self._files else ""
        return self._paths[number]

    def files_named(self, source: str) -> frozenset[int]:
        """Return the numbers of the files whose paths end with the components of `source`."""
        numbers = self._files.numbers if self._files else range(0)
        return frozenset(number for number in numbers if ends_with(self.path(number), source))

    @cached_property
    def _columns(self) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint32]]:
        header = self._header
        if header is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.uint32)
        sections = self._line_unit.sections
        code = sections.data("line")[header.program : header.end]
        sections.spend(len(code) // _BYTES_OF_ROW)
        rows = LineMachine(header, sections.file.endian).run(code)
        is_line = rows.statement & ~rows.end & (rows.line > 0)
        return rows.address[is_line], rows.file[is_line], rows.line[is_line]

    def at_line(self, files: frozenset[int], line: int) -> list[Statement]:
        """Return the statements of a line, in the order of the program."""
        _, file, lines = self._columns
        return self._pick(np.flatnonzero((lines == line) & np.isin(file, list(files))))

    def of_files(self, files: frozenset[int]) -> list[Statement]:
        """Return all statements of files, in the order of the program."""
        return self._pick(np.flatnonzero(np.isin(self._columns[1], list(files))))

    def inside(self, start: int, end: int) -> list[Statement]:
        """Return the statements of a range of addresses, in the order of the program."""
        address = self._columns[0]
        return self._pick(np.flatnonzero((address >= np.uint64(start)) & (address < np.uint64(end))))

    def first(self, address: int) -> Statement | None:
        """Return the first statement that begins at an address."""
        sorted_rows, addresses = self._by_address
        row = int(np.searchsorted(addresses, np.uint64(address)))
        if row >= len(addresses) or int(addresses[row]) != address:
            return None
        return self._pick(sorted_rows[row : row + 1])[0]

    def before(self, address: int) -> Statement | None:
        """Return the statement that an address is part of: the first one at the nearest address up to it."""
        row = int(np.searchsorted(self._by_address[1], np.uint64(address), "right")) - 1
        return self.first(int(self._by_address[1][row])) if row >= 0 else None

    def after(self, address: int) -> Statement | None:
        """Return the first statement at a later address."""
        row = int(np.searchsorted(self._by_address[1], np.uint64(address), "right"))
        return self.first(int(self._by_address[1][row])) if row < len(self._by_address[1]) else None

    @cached_property
    def _by_address(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        order = np.argsort(self._columns[0], kind="stable")
        return order, self._columns[0][order]

    def _pick(self, rows: NDArray[np.int64]) -> list[Statement]:
        address, file, line = (column[rows].tolist() for column in self._columns)
        return [Statement(*row) for row in zip(address, file, line, strict=True)]


def ends_with(path: str, source: str) -> bool:
    """Whether a path ends with the components of another one."""
    tail = source.removeprefix("./")
    return path == tail or (path.endswith(tail) and (tail.startswith("/") or path[-len(tail) - 1] == "/"))
