"""The probed file: its symbols, its debug information, and conversions between addresses and file offsets.

Units are walked on demand. A function is searched by its name's bytes first, so that large programs stay quick: the name's offset in
.debug_str leads to the units that refer to it.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.dies import UnitFunctions
from perfpy.debuginfo.sections import DebugSections, damage_of
from perfpy.debuginfo.source_lines import StatementTable
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.probing.problems import ProbeError
from perfpy.symbols.demangling.demangle import demangle, plain
from perfpy.symbols.dso import Dso
from perfpy.symbols.files import debug_files, elf_symbols
from perfpy.symbols.files.elf import DAMAGE, BadElfError, ElfFile, read_mini_debug_info
from perfpy.symbols.files.elf_symbols import plt_ranges
from perfpy.symbols.symbol_table import STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, SymbolTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.debuginfo.units import DebugUnit
    from perfpy.symbols.files import debuginfod
    from perfpy.untrusted.pinned_files import PinnedFile
    from perfpy.unwind.call_frames import CallFrames

    SymbolTest = Callable[[str], bool]


_UNITS_KEPT: Final = 256  # walked units in memory
_HITS_MOST: Final = 1 << 16  # occurrences of a name's bytes
_WITH_CODE: Final = (dwarf.UT_COMPILE, dwarf.UT_SKELETON)
_NOT_EXECUTABLE: Final = 8


class SymbolCode(NamedTuple):
    """A symbol with code.

    Attributes:
        name: the raw name.
        address: link-time address.
        size: bytes, 0 if unknown.
        is_indirect: whether it selects a function when the program starts (IFUNC).
    """

    name: str
    address: int
    size: int
    is_indirect: bool


_EXECUTABLE: Final = 1  # PF_X
_LONGEST_NAME: Final = 4096
_NAME_ENDS: Final = (b"\0", b"@")  # @ begins a version, as in stdout@GLIBC_2.2.5


class Program:
    """A program, library or kernel image to probe.

    Args:
        path: the path that definitions name.
        runtime: the file that is mapped.
        symbols: the file with symbols and debug information.
        root: the folder that stands for /.
        demangles: whether names are demangled.
        file: the mapped file as it was opened, for the kernel; None for programs that are read only.
    """

    def __init__(
        self, path: str, runtime: ElfFile, symbols: ElfFile, root: str = "", *, demangles: bool = True, file: PinnedFile | None = None
    ) -> None:
        self.path = path
        self.file = file
        self.runtime = runtime
        self.symbols = symbols
        self.demangle = demangle if demangles else plain
        self.root = root
        self.units = UnitIndex(DebugSections(symbols, root))
        self._functions: dict[int, UnitFunctions | None] = {}
        self._statements: dict[int, StatementTable] = {}

    @property
    def has_debug_info(self) -> bool:
        """Whether the file has DWARF debug information."""
        return bool(len(self.units.sections.data("info")))

    @cached_property
    def table(self) -> SymbolTable:
        """The symbols by file offset."""
        mini = None if elf_symbols.has_symtab(self.symbols) else read_mini_debug_info(self.runtime)
        return elf_symbols.table_of(elf_symbols.collect(self.symbols, self.runtime), self.runtime, self.demangle, mini)

    @property
    def all_symbols(self) -> SymbolTable:
        """The symbols, with those of the procedure linkage table."""
        stubs = plt_ranges(self.runtime)
        self.table.find(np.array([start for start, _ in stubs], np.uint64))
        return self.table

    @cached_property
    def frames(self) -> CallFrames:
        """The call frame information."""
        from perfpy.unwind.call_frames import CallFrames  # for variables on stacks

        return CallFrames(self.runtime, self.symbols)

    # -- addresses

    def file_offset(self, address: int) -> int:
        """Return the offset in the mapped file of a link-time address. Raises ProbeError if the file does not contain it."""
        for segment in self.runtime.segments:
            start = int(segment["vaddr"])
            if start <= address < start + int(segment["filesz"]):
                return address - start + int(segment["offset"])
        if not len(self.runtime.segments):
            return address
        raise ProbeError(f"{self.path} has no code at {address:#x}", 22)

    def has_code(self, address: int) -> bool:
        """Whether an address is executable. Linkers that drop a function may leave its debug information, at addresses near 0."""
        segments = self.runtime.segments
        starts, sizes = segments["vaddr"], segments["filesz"]
        return not len(segments) or bool(np.any((segments["flags"] & _EXECUTABLE != 0) & (starts <= address) & (address < starts + sizes)))

    def address(self, offset: int) -> int:
        """Return the link-time address of a file offset."""
        for segment in self.runtime.segments:
            start = int(segment["offset"])
            if start <= offset < start + int(segment["filesz"]):
                return offset - start + int(segment["vaddr"])
        return offset

    # -- symbols

    def symbols_named(self, test: SymbolTest) -> Iterator[SymbolCode]:
        """Yield the code whose raw or demangled name passes a test, by address."""
        table = self.table
        symbols = table.symbols
        pairs = set()
        for row in range(len(symbols)):
            if int(symbols.type[row]) not in (STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE):
                continue
            raw = table.raw_name(row).decode("utf-8", "surrogateescape")
            if not (test(raw) or (raw.startswith(("_Z", "_R")) and test(table.name(row)))):
                continue
            start = int(symbols.start[row])
            if (raw, start) not in pairs:
                pairs.add((raw, start))
                size = int(symbols.end[row]) - start
                yield SymbolCode(raw, self.address(start), size, is_indirect=int(symbols.type[row]) == STT_GNU_IFUNC)

    def data_symbol_at(self, address: int) -> tuple[str, int] | None:
        """Return the name and the address of the data symbol that contains an address."""
        section = self.symbols.section(".symtab")
        if section is None:
            return None
        symbols = self.symbols.symbols(section)
        holds = (symbols["value"] <= address) & (address < symbols["value"] + np.maximum(symbols["size"], 1))
        rows = symbols[holds & (symbols["info"] & 15 == STT_OBJECT)]
        if not len(rows):
            return None
        name = bytes(self.symbols.strings(section)[int(rows[0]["name"]) :][:_LONGEST_NAME]).split(b"\0")[0]
        return name.decode("utf-8", "surrogateescape"), int(rows[0]["value"])

    def data_address(self, name: str) -> int | None:
        """Return the address of the defined data symbol of a name, None without one."""
        section = self.symbols.section(".symtab") or self.symbols.section(".dynsym")
        if section is None:
            return None
        needle, strings = name.encode("utf-8", "surrogateescape"), bytes(self.symbols.strings(section))
        symbols = self.symbols.symbols(section)
        for row in symbols[(symbols["info"] & 15 == STT_OBJECT) & (symbols["shndx"] != 0)]:
            start = int(row["name"])
            if strings.startswith(needle, start) and strings[start + len(needle) : start + len(needle) + 1] in _NAME_ENDS:
                return int(row["value"])
        return None

    def symbol_at(self, address: int) -> SymbolCode | None:
        """Return the symbol that contains an address."""
        try:
            offset = self.file_offset(address)
        except ProbeError:
            return None
        row = int(self.table.find(np.array([offset], np.uint64))[0])
        if row < 0:
            return None
        symbols = self.table.symbols
        name = self.table.raw_name(row).decode("utf-8", "surrogateescape")
        start = int(symbols.start[row])
        return SymbolCode(name, self.address(start), int(symbols.end[row]) - start, is_indirect=self.table.is_ifunc(row))

    # -- debug information

    def unit_at(self, address: int) -> DebugUnit | None:
        """Return the unit with an address's code, None without debug information."""
        try:
            offset = int(self.units.find(np.array([address], np.uint64))[0])
        except DAMAGE as damage:
            self.symbols.flaw(damage_of(damage))
            return None
        return self._complete(self.units.unit(offset)) if offset >= 0 else None

    def all_units(self) -> Iterator[DebugUnit]:
        """Yield all units with code, in the order of the file."""
        for header in self.units.headers():
            if header.kind in _WITH_CODE:
                unit = self._complete(self.units.unit(header.start))
                if unit is not None:
                    yield unit

    def units_mentioning(self, name: str) -> Iterator[DebugUnit]:
        """Yield the units with code that may contain a function of this name."""
        sections = self.units.sections
        is_split = any(header.kind == dwarf.UT_SKELETON for header in self.units.headers()[:1])
        if is_split or self.units.sections.alternate is not None or len(sections.data("str_offsets")):
            yield from self.all_units()
            return
        headers = self.units.headers()
        starts = [header.start for header in headers]
        numbers = {bisect_right(starts, offset) - 1 for offset in self._mentions(name.encode("utf-8", "surrogateescape"))}
        for number in sorted(number for number in numbers if number >= 0):
            if headers[number].kind in _WITH_CODE:
                unit = self._complete(self.units.unit(headers[number].start))
                if unit is not None:
                    yield unit

    def _mentions(self, name: bytes) -> Iterator[int]:
        """Yield the offsets in .debug_info that contain a name, or a reference to one in .debug_str."""
        sections = self.units.sections
        info, strings = bytes(sections.data("info")), bytes(sections.data("str"))
        patterns = [name + b"\0", name + b"<"]
        # The name may be the tail of a longer string, and have parameters: total<i32>.
        for end in (b"\0", b"<"):
            patterns += [offset.to_bytes(4, sections.order) for offset in _occurrences(strings, name + end)]
        hits = 0
        for pattern in patterns:
            for offset in _occurrences(info, pattern):
                hits += 1
                if hits > _HITS_MOST:
                    return
                yield offset

    def _complete(self, unit: DebugUnit | None) -> DebugUnit | None:
        """Return the unit with the DIEs: the split one of a skeleton."""
        if unit is None:
            return None
        try:
            return self.units.whole(unit)
        except DAMAGE as damage:
            self.symbols.flaw(damage_of(damage))
            return None

    def functions(self, unit: DebugUnit) -> UnitFunctions | None:
        """Return the functions of a unit, None if it is damaged."""
        key = id(unit)
        if key not in self._functions:
            if len(self._functions) >= _UNITS_KEPT:
                self._functions.clear()
            try:
                self._functions[key] = UnitFunctions(unit)
            except DAMAGE as damage:
                self.symbols.flaw(damage_of(damage))
                self._functions[key] = None
        return self._functions[key]

    def statements(self, unit: DebugUnit) -> StatementTable:
        """Return the statements of a unit."""
        key = id(unit)
        if key not in self._statements:
            if len(self._statements) >= _UNITS_KEPT:
                self._statements.clear()
            self._statements[key] = StatementTable(unit)
        return self._statements[key]


def _occurrences(data: bytes, pattern: bytes) -> Iterator[int]:
    offset = data.find(pattern)
    while offset >= 0:
        yield offset
        offset = data.find(pattern, offset + 1)


def open_program(
    path: str | PinnedFile,
    options: debug_files.SymbolOptions,
    *,
    client: debuginfod.Client | None = None,
    demangles: bool = True,
) -> Program:
    """Open a program and find its debug information. Raises ProbeError, OSError.

    Args:
        path: the file to read; a PinnedFile can be probed.
        options: where to search for debug files.
        client: queried for debug files that no path has.
        demangles: whether names are demangled.
    """
    file = None if isinstance(path, str) else path
    path = path if isinstance(path, str) else path.path
    try:
        runtime = ElfFile(path) if file is None else ElfFile(path, fd=file.duplicate())
    except BadElfError as error:
        raise ProbeError(f"cannot probe {path}: {error.reason}; -x takes a program or a library", _NOT_EXECUTABLE) from None
    symbols = runtime
    if runtime.section(".debug_info") is None:
        files = debug_files.find(Dso(path, build_id=runtime.build_id), options, client)
        symbols = files.symbols if files.symbols is not None and files.symbols.build_id == runtime.build_id else runtime
    return Program(path, runtime, symbols, options.root, demangles=demangles, file=file)
