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
from perfpy.debuginfo.line_table import NOTHING, LineTable
from perfpy.debuginfo.sections import damage_of
from perfpy.debuginfo.symbol_files import SymbolFiles
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.debuginfo.unit import DebugUnit
    from perfpy.debuginfo.units import UnitIndex

    Rows = NDArray[np.int64]


class Paths:
    """Paths by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, path: str) -> int:
        """The number of a path."""
        number = self._numbers.setdefault(path, len(self.texts))
        if number == len(self.texts):
            self.texts.append(path)
        return number


class KeptPaths:
    """Rows of numbers, the first of which is that of a path. kept: what other runs found; paths: those of this one."""

    def __init__(self, kept: KeptAnswers, paths: Paths) -> None:
        self._kept, self._paths = kept, paths
        self._here: list[int] = []  # of each text that is kept, the number of its path
        self._there: dict[int, int] = {}  # of paths, the number among the texts

    def rows(self, keys: NDArray[np.uint64], look: Callable[[NDArray[np.uint64]], Rows]) -> Rows:
        """A row for each key: what is known of it, else what `look` says."""

        def looked(fresh: NDArray[np.uint64]) -> AddressRows:
            rows = look(fresh)
            rows[:, 0] = [self._kept_as(number) for number in rows[:, 0].tolist()]
            return AddressRows(np.ones(len(rows), np.int64), rows)

        rows = self._kept.find(keys, looked).rows
        self._learn()
        rows[:, 0] = [self._here[number] if number >= 0 else -1 for number in rows[:, 0].tolist()]
        return rows

    def _learn(self) -> None:
        """Number the paths of texts that have come."""
        for text in self._kept.texts[len(self._here) :]:
            number = self._paths.number(text.decode("utf-8", "surrogateescape"))
            self._there.setdefault(number, len(self._here))
            self._here.append(number)

    def _kept_as(self, number: int) -> int:
        """The number of a path among the texts; -1 for none."""
        if number < 0:
            return -1
        self._learn()
        if number not in self._there:
            self._kept.texts.append(self._paths.texts[number].encode("utf-8", "surrogateescape"))
            self._learn()
        return self._there[number]


_FILES_MOST: Final = 1 << 20  # of one unit, for keys
_UNITS_WITHIN: Final = 1 << 43  # bytes of .debug_info, for keys
_ROWS_MOST: Final = 1 << 24  # of all tables that are kept; a row takes 16 bytes


class FileLines(NamedTuple):
    """Where code is from. file: number in SourceLines.paths, -1 where nothing is known; line: 0 where only the file is."""

    file: NDArray[np.int64]
    line: NDArray[np.int64]


class SourceLines:
    """The source lines of one file; paths: what numbers of files stand for. as_addr2line: see LineTable."""

    def __init__(self, units: UnitIndex, *, as_addr2line: bool = False, keeps: bool = False) -> None:
        """keeps: whether answers are kept for other runs, and taken from them."""
        self._as_addr2line = as_addr2line
        self._units = units
        self._sections = units.sections
        style = "as" if as_addr2line else "of"
        self._paths = Paths()
        self.paths = self._paths.texts
        self._kept = KeptAnswers(f"lines-{style}", 2, units, between_runs=keeps)
        self._lines = KeptPaths(self._kept, self._paths)
        self._called_files = KeptPaths(KeptAnswers(f"files-{style}", 1, units, between_runs=keeps), self._paths)
        self._called: dict[tuple[int, int], int] = {}
        self._tables: dict[int, LineTable | None] = {}
        self._met: list[tuple[DebugUnit, LineTable]] = []
        self._files: dict[tuple[int, int], int] = {}  # offset of a line program, number there -> number here

    @cached_property
    def any(self) -> bool:
        """Whether the file has lines at all."""
        return len(self._data()) > 0

    def find(self, addresses: NDArray[np.uint64]) -> FileLines:
        """The file and line of each address; what only the symbol table knows has the line 0."""
        rows = self._lines.rows(addresses, lambda fresh: np.stack(self._look(fresh), axis=1))
        return FileLines(rows[:, 0], rows[:, 1])

    def _look(self, addresses: NDArray[np.uint64]) -> FileLines:
        """As `find`, of the file itself."""
        found = FileLines(np.full(len(addresses), NOTHING), np.zeros(len(addresses), np.int64))
        if not len(addresses) or not self.any:
            return found
        units = self._units.find(addresses)
        for offset in distinct(units[units >= 0]).tolist():
            rows = np.flatnonzero(units == offset)
            self._find_in(offset, addresses[rows], rows, found)
        self._find_outside(addresses, found)
        for row in np.flatnonzero(found.file == NOTHING).tolist():
            name = self._symbol_file(int(addresses[row]))
            if name is not None:
                found.file[row] = self._paths.number(name)
        return found

    def files(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """The numbers in `paths` of files that units (offsets in .debug_info) have under some numbers; -1 where they have none."""
        new = {one for one in wanted if one not in self._called}
        kept = [(unit, number) for unit, number in new if unit < _UNITS_WITHIN and 0 <= number < _FILES_MOST]
        if kept:
            keys = np.array([unit * _FILES_MOST + number for unit, number in kept], np.uint64)
            rows = self._called_files.rows(keys, self._look_for_files)
            self._called.update(zip(kept, rows[:, 0].tolist(), strict=True))
        for unit, number in new.difference(kept):
            self._called[unit, number] = self._look_for_file(unit, number)
        return {one: self._called[one] for one in wanted}

    def _look_for_files(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.array([[self._look_for_file(*divmod(key, _FILES_MOST))] for key in keys.tolist()], np.int64)

    def _look_for_file(self, unit: int, number: int) -> int:
        """As `files`, of the file itself."""
        one = self._units.unit(unit)
        table = self._table(one) if one else None
        return NOTHING if table is None or one is None else self._file(one, table, number)

    def _find_in(self, unit: int, addresses: NDArray[np.uint64], rows: NDArray[np.int64], found: FileLines) -> None:
        one = self._units.unit(unit)
        table = self._table(one) if one else None
        if one is not None and table is not None:
            self._take(one, table, addresses, rows, found)

    def _take(self, unit: DebugUnit, table: LineTable, addresses: NDArray[np.uint64], rows: NDArray[np.int64], found: FileLines) -> None:
        """Fill in what a table knows of some addresses, which are the given rows."""
        file, line = table.find(addresses)
        known = np.flatnonzero(file != NOTHING)
        if not len(known):
            return
        different, which = np.unique(file[known], return_inverse=True)
        numbers = np.array([self._file(unit, table, number) for number in different.tolist()], np.int64)
        found.file[rows[known]] = numbers[which.ravel()]
        found.line[rows[known]] = line[known]

    def _find_outside(self, addresses: NDArray[np.uint64], found: FileLines) -> None:
        """Link-time optimisation makes code that no unit claims, but that line programs know: of the units that were met."""
        for unit, table in self._met:
            lost = np.flatnonzero(found.file == NOTHING)
            if not len(lost):
                return
            self._take(unit, table, addresses[lost], lost, found)
            if (found.file[lost] != NOTHING).any():
                self._kept.distrust()  # in another run other units are met

    def _file(self, unit: DebugUnit, table: LineTable, number: int) -> int:
        key = (unit.stmt_list or 0, number)
        known = self._files.get(key)
        if known is None:
            try:
                path = table.path(number)
            except DAMAGE as damage:
                self._sections.file.flaw(damage_of(damage))
                path = UNREADABLE
            known = self._files[key] = self._paths.number(path)
        return known

    def _table(self, unit: DebugUnit) -> LineTable | None:
        """The line table of a unit; None where it has none, or it is damaged."""
        try:
            offset = unit.stmt_list
            if offset is None:
                return None
            if offset not in self._tables:
                self._tables[offset] = None
                table = self._tables[offset] = LineTable(unit, offset, as_addr2line=self._as_addr2line)
                self._met.append((unit, table))
                self._forget()
            return self._tables[offset]
        except DAMAGE as damage:
            self._sections.file.flaw(damage_of(damage))
            return None

    def _forget(self) -> None:
        """Keep no more rows than there is memory for: the tables that were met first go."""
        kept = sum(len(table) for _, table in self._met)
        while kept > _ROWS_MOST and len(self._met) > 1:
            unit, table = self._met.pop(0)
            kept -= len(table)
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


#: the path of a file whose name cannot be read
UNREADABLE: Final = "??"
