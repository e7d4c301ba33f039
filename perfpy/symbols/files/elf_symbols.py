"""The symbols of code and data in ELF symbol tables, by file offset.

The symbols may be in a separate debug file. Mappings use file offsets, too. The selection of entries is perf's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.symbols.demangling.demangle import Demangle, plain
from perfpy.symbols.files import elf
from perfpy.symbols.files.plt import plt_ranges, plt_start, plt_symbols, stub_ranges
from perfpy.symbols.symbol_table import EMPTY, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, Symbols, SymbolTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile, ElfSection

AddressOf: TypeAlias = Callable[[str], int | None]  # the address of a symbol by its name

_STV_INTERNAL: Final = 1
_STV_HIDDEN: Final = 2
# Mapping symbols mark code and data: a $ and one of these letters.
_MAPPING_LETTERS: Final = {elf.EM_ARM: b"adtx", elf.EM_AARCH64: b"adtx", elf.EM_RISCV: b"dx"}


def has_symtab(file: ElfFile) -> bool:
    """Whether the file has a full symbol table."""
    return file.section(".symtab", elf.SHT_SYMTAB) is not None


def has_dynsym(file: ElfFile) -> bool:
    """Whether the file can be mapped and run. A debug file's .dynsym has no content."""
    return file.section(".dynsym", elf.SHT_DYNSYM) is not None or file.section(".opd") is not None


class FileTable(SymbolTable):
    """The symbols of an ELF file. The procedure linkage table is read when an address hits it, and its rows come last."""

    def __init__(self, symbols: Symbols, runtime: ElfFile, demangle: Demangle = plain) -> None:
        self._plt_ranges, self._stub_ranges = plt_ranges(runtime), stub_ranges(runtime)
        super().__init__(_end_before_plt(symbols, runtime), demangle)
        self._runtime = runtime
        self._plt: SymbolTable | None = None

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the symbol that contains each address, -1 for none."""
        row = super().find(address)
        stub = np.zeros(len(address), np.bool_)
        for start, end in self._plt_ranges:
            stub |= (address >= start) & (address < end)
        for start, end in self._stub_ranges:
            stub |= (row < 0) & (address >= start) & (address < end)
        if stub.any():
            stub_rows = self._stubs().find(address[stub])
            row[stub] = np.where(stub_rows >= 0, stub_rows + len(self._sorted), row[stub])
        return row

    def _stubs(self) -> SymbolTable:
        if self._plt is None:
            try:
                stubs = plt_symbols(self._runtime, SymbolTable(self._sorted))
            except elf.DAMAGE as damage:
                self._runtime.flaw(f"procedure linkage table: {elf.reason_of(damage)}")
                stubs = EMPTY
            stubs = stubs.pick(np.argsort(stubs.start, kind="stable"))
            self._plt = SymbolTable(stubs, self.demangle)
            self.symbols = self._sorted.concat(stubs)
        return self._plt


def load(symbol_file: ElfFile, runtime: ElfFile, demangle: Demangle = plain) -> SymbolTable:
    """Return all symbols of a user-space file with those of its PLT; an empty table if it has none."""
    return table_of(collect(symbol_file, runtime), runtime, demangle)


def table_of(symbols: Symbols, runtime: ElfFile, demangle: Demangle = plain, mini: ElfFile | None = None) -> SymbolTable:
    """Return the table of symbols from `collect`. `mini`: a file whose symbols fill the gaps."""
    return FileTable(_fill_gaps(symbols, mini, runtime) if mini else symbols, runtime, demangle)


def symbol_sections(file: ElfFile) -> list[ElfSection]:
    """Return the symbol tables of a file: .symtab and .dynsym, if present."""
    sections = (file.section(".symtab", elf.SHT_SYMTAB), file.section(".dynsym", elf.SHT_DYNSYM))
    return [section for section in sections if section]


def collect(symbol_file: ElfFile, runtime: ElfFile) -> Symbols:
    """Return the symbols of all tables, sorted and closed. Each table's names are a source of their own, in that order."""
    symbols: Symbols | None = None
    for section in symbol_sections(symbol_file):
        # Each table is closed on its own: a symbol without a size ends at the next one of its table.
        table = read(symbol_file, runtime, section).close()
        symbols = table if symbols is None else symbols.concat(table).close()
    return EMPTY if symbols is None else symbols


def read(symbol_file: ElfFile, runtime: ElfFile, section: ElfSection) -> Symbols:
    """Return the symbols of one table in its order, at their offsets in the mapped file."""
    entries = symbol_file.symbols(section)
    strings = symbol_file.strings(section)
    entries = entries[_select_rows(symbol_file, entries, strings)]
    value = entries["value"].astype(np.uint64) + np.uint64(_prelink_distance(symbol_file, runtime))
    index = _section_numbers(symbol_file, entries)
    if symbol_file.machine == elf.EM_ARM:  # bit 0 of a function's address marks Thumb code
        value &= ~((entries["info"] & 15 == STT_FUNC).astype(np.uint64))
    value, index = _resolve_descriptors(runtime, value, index)
    start = _file_offset(symbol_file, runtime, value, index)
    return _columns(entries, start, strings)


def _fill_gaps(symbols: Symbols, mini: ElfFile, runtime: ElfFile) -> Symbols:
    """Fill the gaps between symbols with those of another file."""
    section = mini.section(".symtab", elf.SHT_SYMTAB)
    if section is None:
        return symbols
    extra = read(mini, runtime, section)
    joined = symbols.concat(extra.pick(SymbolTable(symbols).find(extra.start) < 0))
    return joined.pick(np.argsort(joined.start, kind="stable"))


def by_address(file: ElfFile, demangle: Demangle = plain) -> SymbolTable:
    """Return the symbols of .symtab at their addresses instead of file offsets, for kernels."""
    section = file.section(".symtab", elf.SHT_SYMTAB)
    if section is None:
        return SymbolTable(EMPTY, demangle)
    entries = file.symbols(section)
    strings = file.strings(section)
    entries = entries[_select_rows(file, entries, strings)]
    return SymbolTable(_columns(entries, entries["value"].astype(np.uint64), strings).close(), demangle)


def _end_before_plt(symbols: Symbols, runtime: ElfFile) -> Symbols:
    """End symbols that were closed over .plt before it: the linker does not name its entries."""
    start = plt_start(runtime)
    if start is None:
        return symbols
    over = (symbols.start < start) & (symbols.end > start)
    return symbols.with_columns(end=np.where(over, np.uint64(start), symbols.end)) if over.any() else symbols


def _columns(entries: NDArray[Any], start: NDArray[np.uint64], strings: bytes | memoryview) -> Symbols:
    return Symbols(
        start=start,
        end=start + entries["size"].astype(np.uint64),
        binding=(entries["info"] >> 4).astype(np.uint8),
        type=(entries["info"] & 15).astype(np.uint8),
        name=entries["name"].astype(np.int64),
        source=np.zeros(len(entries), np.uint8),
        sources=(strings,),
    )


def _select_rows(file: ElfFile, entries: NDArray[Any], strings: bytes | memoryview) -> NDArray[np.int64]:
    """Return the rows of named functions and objects in memory, and of labels in text and data sections."""
    kind = entries["info"] & 15
    allocated, labelled = (np.zeros(len(file.sections) + 1, np.bool_) for _ in range(2))  # the last element: for numbers out of range
    for section in file.sections[1:0xFF00]:
        allocated[section.index] = bool(section.flags & elf.SHF_ALLOC)
        labelled[section.index] = "text" in section.name or "data" in section.name
    index = _section_numbers(file, entries)
    visibility = entries["other"] & 3
    typed = (kind == STT_FUNC) | (kind == STT_GNU_IFUNC) | (kind == STT_OBJECT)
    label = (kind == STT_NOTYPE) & labelled[index] & (visibility != _STV_INTERNAL) & (visibility != _STV_HIDDEN)
    rows = np.flatnonzero((typed | label) & (entries["name"] != 0) & allocated[index])
    return rows[~mapping_symbols(file, entries["name"][rows], strings)] if file.machine in _MAPPING_LETTERS else rows


def _section_numbers(file: ElfFile, entries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the section of each symbol. Symbols outside of sections (undefined, absolute ...) get the number after the last, or 0."""
    index: NDArray[np.int64] = np.minimum(entries["shndx"], len(file.sections)).astype(np.int64)
    return index


def mapping_symbols(file: ElfFile, name: NDArray[Any], strings: bytes | memoryview) -> NDArray[np.bool_]:
    """Return which names (by their offset in the strings) are mapping symbols: $x, or $x. followed by anything."""
    letters = _MAPPING_LETTERS.get(file.machine, b"")
    text = np.frombuffer(bytes(strings) + b"\0\0\0", np.uint8)
    offset = np.minimum(name.astype(np.int64), len(text) - 3)
    ends = (text[offset + 2] == 0) | (text[offset + 2] == ord("."))
    matches: NDArray[np.bool_] = (text[offset] == ord("$")) & np.isin(text[offset + 1], np.frombuffer(letters, np.uint8)) & ends
    return matches


def _resolve_descriptors(
    runtime: ElfFile, value: NDArray[np.uint64], index: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Resolve function descriptors of 64-bit big-endian PowerPC: symbols point into .opd, whose first word is the code's address."""
    opd = runtime.section(".opd")
    rows = np.flatnonzero(index == opd.index) if opd else np.zeros(0, np.int64)
    if opd is None or not len(rows):
        return value, index
    words = runtime.entries(opd, elf.fields("code u8"))["code"]
    descriptor = ((value[rows] - np.uint64(opd.addr)) // np.uint64(8)).astype(np.int64)
    ok = (descriptor >= 0) & (descriptor < len(words))
    value, index = value.copy(), index.copy()
    value[rows[ok]] = words[descriptor[ok]]
    loaded = sorted(
        (section.addr, section.size, section.index) for section in runtime.sections if section.flags & elf.SHF_ALLOC and section.size
    )
    addr, size, number = (np.array(column, np.uint64) for column in zip(*loaded, strict=True))
    nearest = np.searchsorted(addr, value[rows], side="right") - 1
    inside = (nearest >= 0) & (value[rows] - addr[nearest] < size[nearest])
    index[rows[inside]] = number[nearest[inside]].astype(np.int64)
    return value, index


def _prelink_distance(symbol_file: ElfFile, runtime: ElfFile) -> int:
    """Return the distance of the mapped file's addresses from the debug file's, modulo 2^64; prelink moves only the former."""
    if symbol_file is runtime or not len(symbol_file.segments) or not len(runtime.segments):
        return 0
    return (int(runtime.segments["vaddr"].min()) - int(symbol_file.segments["vaddr"].min())) % (1 << 64)


def _file_offset(symbol_file: ElfFile, runtime: ElfFile, value: NDArray[np.uint64], index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Convert addresses to offsets in the mapped file by its segments, or by the section without segments."""
    # Sections without content in a debug file have the offset of the mapped file.
    moved = _prelink_distance(symbol_file, runtime)
    bias = np.zeros(max(len(symbol_file.sections), len(runtime.sections)) + 1, np.uint64)
    for section in symbol_file.sections[:0xFF00]:
        own = section.type != elf.SHT_NOBITS or section.index >= len(runtime.sections)
        real, addr = (section, section.addr + moved) if own else (runtime.sections[section.index], runtime.sections[section.index].addr)
        bias[section.index] = (addr - real.offset) % (1 << 64)
    offset = value - bias[index]
    is_resolved = np.zeros(len(value), bool)
    for segment in runtime.segments:
        start, size = int(segment["vaddr"]), max(int(segment["memsz"]), int(segment["filesz"]))
        inside = (value >= start) & (value < start + size) & ~is_resolved
        offset[inside] = value[inside] - np.uint64((start - int(segment["offset"])) % (1 << 64))
        is_resolved |= inside
    return offset
