"""The source lines of addresses in a file.

Only line programs of units with requested addresses are run, each once. Paths are numbered; answers cached between runs have their own
numbers, which are translated.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.kept_answers import AddressRows, KeptAnswers
from perfpy.debuginfo.lines.line_table import NOTHING, LineTable
from perfpy.debuginfo.symbol_files import SymbolFiles
from perfpy.debuginfo.units.sections import damage_of
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.debuginfo.units.index import UnitIndex
    from perfpy.debuginfo.units.unit import DebugUnit

    Rows = NDArray[np.int64]


class Paths:
    """A numbering of paths."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, path: str) -> int:
        """Return the number of a path, adding it if it is new."""
        number = self._numbers.setdefault(path, len(self.texts))
        if number == len(self.texts):
            self.texts.append(path)
        return number


class KeptPaths:
    """Cached rows whose first column is a path number.

    Args:
        cache: the cache, whose first column refers to its own texts.
        paths: the numbering of this run.
    """

    def __init__(self, cache: KeptAnswers, paths: Paths) -> None:
        self._cache, self._paths = cache, paths
        self._path_numbers: list[int] = []  # path number of each cached text
        self._text_numbers: dict[int, int] = {}  # cached text of each path number

    def rows(self, keys: NDArray[np.uint64], compute: Callable[[NDArray[np.uint64]], Rows]) -> Rows:
        """Return a row for each key. `compute` returns the rows of uncached keys."""

        def compute_fresh(fresh: NDArray[np.uint64]) -> AddressRows:
            rows = compute(fresh)
            rows[:, 0] = [self._cached_number(number) for number in rows[:, 0].tolist()]
            return AddressRows(np.ones(len(rows), np.int64), rows)

        rows = self._cache.find(keys, compute_fresh).rows
        self._number_new_texts()
        rows[:, 0] = [self._path_numbers[number] if number >= 0 else -1 for number in rows[:, 0].tolist()]
        return rows

    def _number_new_texts(self) -> None:
        """Number the paths of texts that the cache has added."""
        for text in self._cache.texts[len(self._path_numbers) :]:
            number = self._paths.number(text.decode("utf-8", "surrogateescape"))
            self._text_numbers.setdefault(number, len(self._path_numbers))
            self._path_numbers.append(number)

    def _cached_number(self, number: int) -> int:
        """Return the text index of a path in the cache, -1 for none."""
        if number < 0:
            return -1
        self._number_new_texts()
        if number not in self._text_numbers:
            self._cache.texts.append(self._paths.texts[number].encode("utf-8", "surrogateescape"))
            self._number_new_texts()
        return self._text_numbers[number]


_FILES_MOST: Final = 1 << 20  # of one unit, for keys
_UNITS_WITHIN: Final = 1 << 43  # bytes of .debug_info, for keys
_ROWS_MOST: Final = 1 << 24  # rows of all tables in memory; a row takes 16 bytes


class FileLines(NamedTuple):
    """The source lines of addresses.

    Attributes:
        file: index in SourceLines.paths, -1 if unknown.
        line: 0 if only the file is known.
    """

    file: NDArray[np.int64]
    line: NDArray[np.int64]


class SourceLines:
    """The source lines of one file.

    Args:
        units: the units of the file.
        as_addr2line: see LineTable.
        keeps: whether to use the cache between runs.

    Attributes:
        paths: the paths that file numbers stand for.
    """

    def __init__(self, units: UnitIndex, *, as_addr2line: bool = False, keeps: bool = False) -> None:
        self._as_addr2line = as_addr2line
        self._units = units
        self._sections = units.sections
        style = "as" if as_addr2line else "of"
        self._paths = Paths()
        self.paths = self._paths.texts
        self._cache = KeptAnswers(f"lines-{style}", 2, units, between_runs=keeps)
        self._lines = KeptPaths(self._cache, self._paths)
        self._cached_files = KeptPaths(KeptAnswers(f"files-{style}", 1, units, between_runs=keeps), self._paths)
        self._call_files: dict[tuple[int, int], int] = {}
        self._tables: dict[int, LineTable | None] = {}
        self._tables_read: list[tuple[DebugUnit, LineTable]] = []
        self._files: dict[tuple[int, int], int] = {}  # (offset of a line program, file number in it) -> path number

    @cached_property
    def any(self) -> bool:
        """Whether the file has any line programs."""
        return len(self._data()) > 0

    def find(self, addresses: NDArray[np.uint64]) -> FileLines:
        """Return the file and line of each address. Files from the symbol table have line 0."""
        rows = self._lines.rows(addresses, lambda fresh: np.stack(self._compute(fresh), axis=1))
        return FileLines(rows[:, 0], rows[:, 1])

    def _compute(self, addresses: NDArray[np.uint64]) -> FileLines:
        """Compute `find` without the cache."""
        lines = FileLines(np.full(len(addresses), NOTHING), np.zeros(len(addresses), np.int64))
        if not len(addresses) or not self.any:
            return lines
        units = self._units.find(addresses)
        for offset in distinct(units[units >= 0]).tolist():
            rows = np.flatnonzero(units == offset)
            self._find_in(offset, addresses[rows], rows, lines)
        self._search_all_tables(addresses, lines)
        for row in np.flatnonzero(lines.file == NOTHING).tolist():
            name = self._symbol_file(int(addresses[row]))
            if name is not None:
                lines.file[row] = self._paths.number(name)
        return lines

    def files(self, requested: Collection[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the path number of each (unit, file number), -1 for none. Units are offsets in .debug_info."""
        missing = {key for key in requested if key not in self._call_files}
        cacheable = [(unit, number) for unit, number in missing if unit < _UNITS_WITHIN and 0 <= number < _FILES_MOST]
        if cacheable:
            keys = np.array([unit * _FILES_MOST + number for unit, number in cacheable], np.uint64)
            rows = self._cached_files.rows(keys, self._compute_files)
            self._call_files.update(zip(cacheable, rows[:, 0].tolist(), strict=True))
        for unit, number in missing.difference(cacheable):
            self._call_files[unit, number] = self._compute_file(unit, number)
        return {key: self._call_files[key] for key in requested}

    def _compute_files(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.array([[self._compute_file(*divmod(key, _FILES_MOST))] for key in keys.tolist()], np.int64)

    def _compute_file(self, unit: int, number: int) -> int:
        """Compute one entry of `files` without the cache."""
        debug_unit = self._units.unit(unit)
        table = self._table(debug_unit) if debug_unit else None
        return NOTHING if table is None or debug_unit is None else self._file(debug_unit, table, number)

    def _find_in(self, unit: int, addresses: NDArray[np.uint64], rows: NDArray[np.int64], lines: FileLines) -> None:
        debug_unit = self._units.unit(unit)
        table = self._table(debug_unit) if debug_unit else None
        if debug_unit is not None and table is not None:
            self._store_lines(debug_unit, table, addresses, rows, lines)

    def _store_lines(
        self, unit: DebugUnit, table: LineTable, addresses: NDArray[np.uint64], rows: NDArray[np.int64], lines: FileLines
    ) -> None:
        """Store a table's lines of the addresses at `rows` in `lines`."""
        file, line = table.find(addresses)
        with_line = np.flatnonzero(file != NOTHING)
        if not len(with_line):
            return
        different, which = np.unique(file[with_line], return_inverse=True)
        numbers = np.array([self._file(unit, table, number) for number in different.tolist()], np.int64)
        lines.file[rows[with_line]] = numbers[which.ravel()]
        lines.line[rows[with_line]] = line[with_line]

    def _search_all_tables(self, addresses: NDArray[np.uint64], lines: FileLines) -> None:
        """Search the tables read so far for addresses outside of all units, which link-time optimization creates."""
        for unit, table in self._tables_read:
            missing = np.flatnonzero(lines.file == NOTHING)
            if not len(missing):
                return
            self._store_lines(unit, table, addresses[missing], missing, lines)
            if (lines.file[missing] != NOTHING).any():
                self._cache.distrust()  # the result depends on the tables that this run has read

    def _file(self, unit: DebugUnit, table: LineTable, number: int) -> int:
        key = (unit.stmt_list or 0, number)
        path_number = self._files.get(key)
        if path_number is None:
            try:
                path = table.path(number)
            except DAMAGE as damage:
                self._sections.file.flaw(damage_of(damage))
                path = UNREADABLE
            path_number = self._files[key] = self._paths.number(path)
        return path_number

    def _table(self, unit: DebugUnit) -> LineTable | None:
        """Return the line table of a unit, None if it has none or the table is damaged."""
        try:
            offset = unit.stmt_list
            if offset is None:
                return None
            if offset not in self._tables:
                self._tables[offset] = None
                table = self._tables[offset] = LineTable(unit, offset, as_addr2line=self._as_addr2line)
                self._tables_read.append((unit, table))
                self._drop_tables()
            return self._tables[offset]
        except DAMAGE as damage:
            self._sections.file.flaw(damage_of(damage))
            return None

    def _drop_tables(self) -> None:
        """Drop the oldest tables while all of them have more than _ROWS_MOST rows."""
        row_count = sum(len(table) for _, table in self._tables_read)
        while row_count > _ROWS_MOST and len(self._tables_read) > 1:
            unit, table = self._tables_read.pop(0)
            row_count -= len(table)
            self._tables.pop(unit.stmt_list or 0, None)

    @cached_property
    def _symbols(self) -> SymbolFiles:
        return SymbolFiles(self._sections.file)

    def _symbol_file(self, address: int) -> str | None:
        try:
            return self._symbols.name(address)
        except DAMAGE as damage:
            self._sections.file.flaw(damage_of(damage))
            return None

    def _data(self) -> bytes | memoryview:
        try:
            return self._sections.data("line")
        except DAMAGE as damage:
            self._sections.file.flaw(damage_of(damage))
            return b""


#: the path for files whose names cannot be read
UNREADABLE: Final = "??"
