"""Which entries of ELF symbol tables are symbols of code and data, at which file offsets.

What enters: the file with the symbols, and the file that runs (the same, unless
a separate debug file was found). What leaves: a SymbolTable by file offset, as
mappings name their place in the file. The choice of entries is perf's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.symbols import elf
from perfpy.symbols.demangle import Demangle, plain
from perfpy.symbols.plt import plt_symbols
from perfpy.symbols.symbol_table import EMPTY, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Symbols, SymbolTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.elf import ElfFile, Section

AddressOf: TypeAlias = Callable[[str], int | None]  # a symbol's name -> its address

_STT_OBJECT: Final = 1
_SHN_UNDEF: Final = 0
_SHN_ABS: Final = 0xFFF1
_STV_INTERNAL: Final = 1
_STV_HIDDEN: Final = 2
# mapping symbols mark code and data, they name nothing: the letters that may follow the $
_MAPPING_LETTERS: Final = {elf.EM_ARM: b"adtx", elf.EM_AARCH64: b"adtx", elf.EM_RISCV: b"dx"}


def has_symtab(file: ElfFile) -> bool:
    """Whether the file has a full symbol table."""
    return file.section(".symtab", elf.SHT_SYMTAB) is not None


def has_dynsym(file: ElfFile) -> bool:
    """Whether the file can be the one that runs: a debug file's .dynsym has no content."""
    return file.section(".dynsym", elf.SHT_DYNSYM) is not None or file.section(".opd") is not None


def load(symbol_file: ElfFile, runtime: ElfFile, demangle: Demangle = plain) -> SymbolTable:
    """All symbols of a user-space file, with those of its PLT; an empty table if it has none."""
    closed = Symbols.closed
    symbols: Symbols | None = None
    for name, kind in ((".symtab", elf.SHT_SYMTAB), (".dynsym", elf.SHT_DYNSYM)):
        section = symbol_file.section(name, kind)
        if section:
            more = read(symbol_file, runtime, section)
            # each table is closed on its own: a symbol without a size ends where the next of its own table starts
            symbols = closed(more) if symbols is None else closed(symbols.joined(closed(more)))
    if symbols is None:
        return SymbolTable(EMPTY, demangle)
    if len(symbols):
        symbols = with_plt(symbols, runtime)
    return SymbolTable(symbols, demangle)


def read(symbol_file: ElfFile, runtime: ElfFile, section: Section) -> Symbols:
    """The symbols of one table, in its order, at their offsets in the file that runs."""
    entries = symbol_file.symbols(section)
    strings = symbol_file.strings(section)
    entries = entries[_wanted(symbol_file, entries, strings)]
    value = entries["value"].astype(np.uint64)
    index = entries["shndx"].astype(np.int64)
    if symbol_file.machine == elf.EM_ARM:  # bit 0 of a function's address marks Thumb code
        value &= ~((entries["info"] & 15 == STT_FUNC).astype(np.uint64))
    value, index = _through_descriptors(runtime, value, index)
    start = _file_offset(symbol_file, runtime, value, index)
    return _columns(entries, start, strings)


def supplemented(table: SymbolTable, more: ElfFile, runtime: ElfFile) -> SymbolTable:
    """A table with what another file knows of the places where it has no symbol."""
    section = more.section(".symtab", elf.SHT_SYMTAB)
    if section is None:
        return table
    extra = read(more, runtime, section)
    extra = extra.pick(table.find(extra.start) < 0)
    joined = table.symbols.joined(extra)
    return SymbolTable(joined.pick(np.argsort(joined.start, kind="stable")), table.demangle)


def by_address(file: ElfFile, demangle: Demangle = plain) -> SymbolTable:
    """The symbols of .symtab at their addresses, not file offsets: for a kernel, which is not mapped from a file."""
    section = file.section(".symtab", elf.SHT_SYMTAB)
    if section is None:
        return SymbolTable(EMPTY, demangle)
    entries = file.symbols(section)
    strings = file.strings(section)
    entries = entries[_wanted(file, entries, strings)]
    return SymbolTable(_columns(entries, entries["value"].astype(np.uint64), strings).closed(), demangle)


def with_plt(symbols: Symbols, runtime: ElfFile) -> Symbols:
    """Add what the linker made without naming it: the entries of the procedure linkage table."""
    plt = runtime.section(".plt")
    if plt is None:
        return symbols
    # a symbol without a size can have been closed over .plt: cut it off there
    before = symbols.start < plt.offset
    end = np.where(before & (symbols.end > plt.offset), np.uint64(plt.offset), symbols.end)
    trimmed = Symbols(**{**vars(symbols), "end": end})
    more = plt_symbols(runtime, plt, SymbolTable(trimmed))
    joined = trimmed.joined(more)
    return joined.pick(np.argsort(joined.start, kind="stable"))


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


def _wanted(file: ElfFile, entries: NDArray[Any], strings: bytes | memoryview) -> NDArray[np.int64]:
    """Rows of named functions and objects in memory, and of labels in text and data sections."""
    kind, index = entries["info"] & 15, entries["shndx"]
    allocated, labelled = (np.zeros(0x10000, bool) for _ in range(2))
    for section in file.sections[:0xFF00]:
        allocated[section.index] = bool(section.flags & elf.SHF_ALLOC)
        labelled[section.index] = "text" in section.name or "data" in section.name
    typed = (kind == STT_FUNC) | (kind == STT_GNU_IFUNC) | (kind == _STT_OBJECT)
    hidden = np.isin(entries["other"] & 3, (_STV_INTERNAL, _STV_HIDDEN))
    label = (kind == STT_NOTYPE) & labelled[index] & ~hidden
    rows = np.flatnonzero((typed | label) & (entries["name"] != 0) & (index != _SHN_UNDEF) & (index != _SHN_ABS) & allocated[index])
    letters = _MAPPING_LETTERS.get(file.machine)
    return rows[~_mapping_symbols(entries["name"][rows], strings, letters)] if letters else rows


def _mapping_symbols(name: NDArray[Any], strings: bytes | memoryview, letters: bytes) -> NDArray[np.bool_]:
    """Which names are $x, or $x. with anything behind."""
    text = np.frombuffer(bytes(strings) + b"\0\0\0", np.uint8)
    at = np.minimum(name.astype(np.int64), len(text) - 3)
    ends = (text[at + 2] == 0) | (text[at + 2] == ord("."))
    matches: NDArray[np.bool_] = (text[at] == ord("$")) & np.isin(text[at + 1], np.frombuffer(letters, np.uint8)) & ends
    return matches


def _through_descriptors(
    runtime: ElfFile, value: NDArray[np.uint64], index: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """64-bit big-endian PowerPC: a function's symbol points at its descriptor in .opd, whose first word is the code."""
    opd = runtime.section(".opd")
    rows = np.flatnonzero(index == opd.index) if opd else np.zeros(0, np.int64)
    if opd is None or not len(rows):
        return value, index
    words = runtime.entries(opd, elf.fields("code u8"))["code"]
    place = ((value[rows] - np.uint64(opd.addr)) // np.uint64(8)).astype(np.int64)
    ok = (place >= 0) & (place < len(words))
    value, index = value.copy(), index.copy()
    value[rows[ok]] = words[place[ok]]
    for section in runtime.sections:
        inside = (value[rows] >= section.addr) & (value[rows] < section.addr + section.size)
        if section.flags & elf.SHF_ALLOC:
            index[rows[inside]] = section.index
    return value, index


def _file_offset(symbol_file: ElfFile, runtime: ElfFile, value: NDArray[np.uint64], index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Addresses -> offsets in the file that runs, by its segments; without one, by the section."""
    # sections without content in a debug file have their true place in the file that runs
    bias = np.zeros(0x10000, np.uint64)
    for section in symbol_file.sections[:0xFF00]:
        real = runtime.sections[section.index] if section.type == elf.SHT_NOBITS and section.index < len(runtime.sections) else section
        bias[section.index] = (real.addr - real.offset) % (1 << 64)
    offset = value - bias[index]
    done = np.zeros(len(value), bool)
    for segment in runtime.segments:
        start, size = int(segment["vaddr"]), max(int(segment["memsz"]), int(segment["filesz"]))
        inside = (value >= start) & (value < start + size) & ~done
        offset[inside] = value[inside] - np.uint64((start - int(segment["offset"])) % (1 << 64))
        done |= inside
    return offset
