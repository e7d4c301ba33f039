"""The source lines of addresses in a file.

Only line programs of units with requested addresses are run, each once. Paths are numbered; answers cached between runs have their own
numbers, which are translated.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.debuginfo import line_programs
from perfpy.debuginfo.kept_answers import AddressRows, KeptAnswers
from perfpy.debuginfo.line_programs import LineFiles, LineMachine
from perfpy.debuginfo.sections import damage_of
from perfpy.symbols.files import elf
from perfpy.symbols.files.elf import DAMAGE
from perfpy.symbols.files.elf_symbols import mapping_symbols
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.debuginfo.line_programs import Int64, LineRows, Uint64
    from perfpy.debuginfo.unit_index import UnitIndex
    from perfpy.debuginfo.units import DebugUnit
    from perfpy.symbols.files.elf import ElfFile, ElfSection

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
            debug_unit = self._units.unit(offset)
            table = self._table(debug_unit) if debug_unit else None
            if debug_unit is not None and table is not None:
                self._store_lines(debug_unit, table, addresses[rows], rows, lines)
        self._search_all_tables(addresses, lines)
        for row in np.flatnonzero(lines.file == NOTHING).tolist():
            try:
                name = self._symbols.name(int(addresses[row]))
            except DAMAGE as damage:
                self._sections.file.flaw(damage_of(damage))
                continue
            if name is not None:
                lines.file[row] = self._paths.number(name)
        return lines

    def files(self, requested: Collection[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the path number of each (unit, file number), -1 for none. Units are offsets in .debug_info."""
        missing = {key for key in requested if key not in self._call_files}
        cacheable = [(unit, number) for unit, number in missing if unit < _UNITS_WITHIN and 0 <= number < _FILES_MOST]
        if cacheable:
            keys = np.array([unit * _FILES_MOST + number for unit, number in cacheable], np.uint64)
            rows = self._cached_files.rows(
                keys, lambda fresh: np.array([[self._compute_file(*divmod(key, _FILES_MOST))] for key in fresh.tolist()], np.int64)
            )
            self._call_files.update(zip(cacheable, rows[:, 0].tolist(), strict=True))
        for unit, number in missing.difference(cacheable):
            self._call_files[unit, number] = self._compute_file(unit, number)
        return {key: self._call_files[key] for key in requested}

    def _compute_file(self, unit: int, number: int) -> int:
        """Compute one entry of `files` without the cache."""
        debug_unit = self._units.unit(unit)
        table = self._table(debug_unit) if debug_unit else None
        return NOTHING if table is None or debug_unit is None else self._file(debug_unit, table, number)

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

    def _data(self) -> bytes | memoryview:
        try:
            return self._sections.data("line")
        except DAMAGE as damage:
            self._sections.file.flaw(damage_of(damage))
            return b""


#: the path for files whose names cannot be read
UNREADABLE: Final = "??"

# The line table of one unit: the file and line of addresses. For overlapping sequences and repeated rows it follows binutils.

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
        header = line_programs.read(sections, offset)
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


# The statements of a unit: the addresses of a source line, and the line that begins at an address. Only rows that begin a statement count
# (is_stmt). The first row of several at one address decides, as in perf.

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
    def _header(self) -> line_programs.LineHeader | None:
        return None if self._offset is None else line_programs.read(self._line_unit.sections, self._offset)

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


# Source file names from a symbol table, for functions without line information. An address gets the name, "??" if the table has none, or
# None outside of functions. As in binutils, which perf uses, the symbol that begins nearest before the address decides; for a local one,
# the nearest file entry before it.

UNKNOWN_FILE: Final = "??"
_NOTYPE, _OBJECT, _SECTION, _FILE, _TLS = 0, 1, 3, 4, 6
_NO_CODE: Final = (_OBJECT, _SECTION, _FILE, _TLS)
_NAME_MOST: Final = 1 << 12  # PATH_MAX


class _Functions(NamedTuple):
    """Symbols that may be functions, sorted by section, address and index in the table.

    Attributes:
        section: section index.
        value: address.
        size: bytes, at least 1.
        typed: whether the symbol has a type.
        file: the offset of the source file's name in the string table, -1 if unknown.
    """

    section: NDArray[np.int64]
    value: NDArray[np.uint64]
    size: NDArray[np.uint64]
    typed: NDArray[np.bool_]
    file: NDArray[np.int64]


class SymbolFiles:
    """Source file names of one ELF file's functions."""

    def __init__(self, file: ElfFile) -> None:
        self._file = file
        sections = [section for section in file.sections[1:] if section.flags & elf.SHF_ALLOC and section.size]
        self._sections = sections

    def name(self, address: int) -> str | None:
        """Return the source file of the function at an address."""
        section = next((one for one in self._sections if one.addr <= address < one.addr + one.size), None)
        if section is None:
            return None
        functions = self._functions
        first, after = np.searchsorted(functions.section, (section.index, section.index + 1)).tolist()
        nearest = first + int(np.searchsorted(functions.value[first:after], np.uint64(address), "right")) - 1
        if nearest < first:
            return None
        start = first + int(np.searchsorted(functions.value[first:after], functions.value[nearest]))
        chosen = start
        for row in range(start + 1, nearest + 1):
            if _fits_better(functions, row, chosen, address):
                chosen = row
        offset = int(functions.file[chosen])
        if offset < 0:
            return UNKNOWN_FILE
        strings = self._strings
        return bytes(strings[offset : offset + _NAME_MOST]).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    @cached_property
    def _table(self) -> ElfSection | None:
        return self._file.section(".symtab", elf.SHT_SYMTAB) or self._file.section(".dynsym", elf.SHT_DYNSYM)

    @cached_property
    def _strings(self) -> bytes | memoryview:
        return self._file.strings(self._table) if self._table else b""

    @cached_property
    def _functions(self) -> _Functions:
        entries: Any = self._file.symbols(self._table)[1:] if self._table else np.zeros(0, self._file.dtype(_NONE))
        kind, other = entries["info"] & 15, entries["other"] & 3
        local = entries["info"] >> 4 == 0
        is_file = kind == _FILE
        number = np.arange(len(entries))
        before = np.maximum.accumulate(np.where(is_file, number, -1)) if len(entries) else number
        # Global symbols belong to no file once a file entry follows other symbols.
        others = np.append(0, np.cumsum(~is_file)[:-1]) if len(entries) else number
        mixed = np.cumsum(is_file & (others > 0)) > 0
        file = np.where((before >= 0) & (local | ~mixed), entries["name"].astype(np.int64)[before], -1)
        marker = (entries["size"] == 0) & local & (kind == _NOTYPE) & (other == _HIDDEN)  # annobin's markers
        marker |= local & mapping_symbols(self._file, entries["name"], self._strings)
        rows = np.flatnonzero(~np.isin(kind, _NO_CODE) & ~marker & (entries["shndx"] > 0) & (entries["shndx"] < 0xFF00))
        order = np.lexsort((rows, entries["value"][rows], entries["shndx"][rows]))
        rows = rows[order]
        return _Functions(
            entries["shndx"][rows].astype(np.int64),
            entries["value"][rows].astype(np.uint64),
            np.maximum(entries["size"][rows].astype(np.uint64), np.uint64(1)),
            kind[rows] != _NOTYPE,
            file[rows],
        )


_HIDDEN: Final = 2
_NONE: Final = elf.fields("name u4, info u1, other u1, shndx u2, value u8, size u8")


def _fits_better(functions: _Functions, row: int, than: int, address: int) -> bool:
    """Whether `row` is the better of two symbols with one address.

    The longer symbol wins until one reaches the address. Among those that reach it, a typed one wins, then the shorter.
    """
    size, other = int(functions.size[row]), int(functions.size[than])
    distance = address - int(functions.value[row])
    if other <= distance:
        return size > other
    if size <= distance:
        return False
    if functions.typed[row] != functions.typed[than]:
        return bool(functions.typed[row])
    return size < other


# Lines of files from which a translator generated C: Cython puts the statement before the code that it makes of it, in a comment.


_LARGEST_SOURCE: Final = 16 << 20  # bytes
_GENERATED: Final = re.compile(rb"/\* Generated by Cython ")
_FROM: Final = re.compile(rb'^ *+/\* "([^"\n]{1,1024})":(\d{1,9})$', re.MULTILINE)


class GeneratedLines:
    """Translates lines of C that Cython generated to those of its source; the C files are read once."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[list[int], list[tuple[str, int]]]] = {}

    def find(self, path: str, line: int) -> tuple[str, int]:
        """Return the path and the line of the source; the same ones for other files, and without a statement before the line."""
        if not path.endswith((".c", ".cpp", ".cc", ".cxx")):
            return path, line
        if path not in self._tables:
            self._tables[path] = _statements_in(path)
        begins, sources = self._tables[path]
        number = bisect_right(begins, line) - 1
        return sources[number] if number >= 0 else (path, line)


def _statements_in(path: str) -> tuple[list[int], list[tuple[str, int]]]:
    """Return the lines of C from which statements of the source hold, and their paths and lines; empty if Cython did not generate it."""
    begins: list[int] = []
    sources: list[tuple[str, int]] = []
    try:
        with open_regular(path, limit=_LARGEST_SOURCE) as file:
            data = file.read(64)
            data = data + file.read(_LARGEST_SOURCE) if _GENERATED.match(data) else b""
    except OSError:
        return begins, sources
    folder, line, position = path.rpartition("/")[0], 1, 0
    for match in _FROM.finditer(data):
        line += data.count(b"\n", position, match.start())
        position = match.start()
        name = match[1].decode("utf-8", "surrogateescape")
        begins.append(line)
        sources.append((name if name.startswith("/") else f"{folder}/{name.rpartition('/')[2]}", int(match[2])))
    return begins, sources
