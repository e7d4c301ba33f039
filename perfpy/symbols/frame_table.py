"""Tables of the distinct frames of a recording, and of the symbols that they hit.

The tables grow; row numbers are the ids of frames and symbols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.abi.startup import NamedTuple
from perfpy.symbols.symbol_table import STT_OBJECT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbol_table import SymbolTable

    Ids = NDArray[np.int32]


class FrameTable:
    """The distinct frames as columns, one row a frame.

    Attributes:
        ip: uint64.
        level: uint8, the letter that perf prints.
        dso: index into Symbolizer.dsos, -1 for none. This and the following columns are valid after `Symbolizer.resolve()`.
        address: uint64, within the dso; the ip without a mapping.
        symbol: id of Symbolizer.symbols, -1 for none.
        symbol_offset: uint64.
        map_start: uint64, 0 without a mapping.
        map_end: uint64, 0 without a mapping.
        called_from: for frames with inlined callees, the call's (offset of the unit in the debug information, file number in the unit's
            line
            program, line).
    """

    def __init__(self) -> None:
        self.ip = np.zeros(0, np.uint64)
        self.level = np.zeros(0, np.uint8)
        self.dso = np.zeros(0, np.int32)
        self.address = np.zeros(0, np.uint64)
        self.symbol = np.zeros(0, np.int32)
        self.symbol_offset = np.zeros(0, np.uint64)
        self.map_start = np.zeros(0, np.uint64)
        self.map_end = np.zeros(0, np.uint64)
        self.called_from: dict[int, tuple[int, int, int]] = {}
        self._columns = {name: Growing(values.dtype) for name, values in vars(self).items() if name != "called_from"}

    def __len__(self) -> int:
        return len(self.ip)

    def append_copies(self, rows: Ids, symbols: Ids) -> None:
        """Append copies of rows with other symbols."""
        self.extend(**{name: getattr(self, name)[rows] for name in self._columns if name != "symbol"}, symbol=symbols)

    def extend(self, **columns: NDArray[Any]) -> None:
        """Append rows, with some or all columns of the class by name."""
        for name, values in columns.items():
            column = self._columns[name]
            column.append(values)
            setattr(self, name, column.values)


class LineColumns(NamedTuple):
    """Source lines of frames, a row a frame.

    Attributes:
        paths: the paths that file numbers stand for; -1 is unknown.
        begins: file and line of each symbol.
        address: link-time address if `linked`.
        linked: whether the frame's file was available.
        file: of the frame's address.
        line: of the frame's address.
        caller_file: of the call before the frame's address.
        caller_line: of the call before the frame's address.
    """

    paths: list[str]
    begins: list[tuple[int, int]]
    address: NDArray[np.uint64]
    linked: NDArray[np.bool_]
    file: NDArray[np.int32]
    line: NDArray[np.int32]
    caller_file: NDArray[np.int32]
    caller_line: NDArray[np.int32]

    def take(self, frames: NDArray[Any]) -> LineColumns:
        """Select frames by id."""
        return LineColumns(self.paths, self.begins, *(column[frames] for column in self[2:]))


class SymbolNames:
    """The symbols of frames, by the ids of FrameTable.symbol."""

    def __init__(self) -> None:
        self._tables: list[SymbolTable] = []
        self._dso: list[int] = []
        self._row: list[int] = []
        self._names: list[str | None] = []
        self._inlined: dict[tuple[int, str], int] = {}
        self._is_inlined: set[int] = set()

    def __len__(self) -> int:
        return len(self._row)

    def name(self, symbol: int) -> str:
        """Return the name, demangled as perf prints it."""
        name = self._names[symbol]
        if name is None:
            name = self._names[symbol] = self._tables[symbol].name(self._row[symbol])
        return name

    def start(self, symbol: int) -> int:
        """Return the start, as an address within the dso."""
        return int(self._tables[symbol].symbols.start[self._row[symbol]])

    def end(self, symbol: int) -> int:
        """Return the end (exclusive), as an address within the dso."""
        return int(self._tables[symbol].symbols.end[self._row[symbol]])

    def is_data(self, symbol: int) -> bool:
        """Whether the symbol is an object, not a function."""
        return int(self._tables[symbol].symbols.type[self._row[symbol]]) == STT_OBJECT

    def is_inlined(self, symbol: int) -> bool:
        """Whether the symbol is a function inlined into another one, whose start and end it has."""
        return symbol in self._is_inlined

    def inlined_into(self, symbol: int, name: str) -> int:
        """Return the symbol of a function inlined into a symbol, creating it on first use."""
        number = self._inlined.setdefault((symbol, name), len(self))
        if number == len(self):
            self._is_inlined.add(number)
            self._tables.append(self._tables[symbol])
            self._dso.append(self._dso[symbol])
            self._row.append(self._row[symbol])
            self._names.append(name)
        return number

    def binding(self, symbol: int) -> int:
        """Return 0 for local, 1 for global, 2 for weak symbols."""
        return int(self._tables[symbol].symbols.binding[self._row[symbol]])

    def dso(self, symbol: int) -> int:
        """Return the dso, as an index into Symbolizer.dsos."""
        return self._dso[symbol]

    def functions(self) -> NDArray[np.int64] | None:
        """Return for each symbol the first one of the same function, None if dso and start identify functions."""
        return None

    def extend(self, table: SymbolTable, dso: int, rows: list[int]) -> None:
        """Append symbols, with consecutive ids."""
        self._tables += [table] * len(rows)
        self._dso += [dso] * len(rows)
        self._row += rows
        self._names += [None] * len(rows)
