"""Names for the procedure linkage table: `foo@plt` for the stub that calls foo.

An IFUNC's stub is known only by the address of its resolver. Sizes of entries: the processor supplements of the System V ABI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.files import elf
from perfpy.symbols.files.elf import fields
from perfpy.symbols.symbol_table import Symbols, SymbolTable, symbols_of_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile, ElfSection

_X86: Final = (elf.EM_386, elf.EM_X86_64)
_R_X86_64_IRELATIVE: Final = 37
# machine -> bytes of the header, and of an entry
_SIZES: Final = {
    elf.EM_ARM: (20, 12),
    elf.EM_AARCH64: (32, 16),
    258: (32, 16),  # LoongArch
    2: (48, 12),  # SPARC
    43: (128, 32),  # SPARC V9
}
_STUBS_MOST: Final = 1 << 17  # the largest programs have some ten thousand
_IFUNCS_MOST: Final = 4096  # a static C library has a hundred
_NAMES_RATIO: Final = 4  # linkers share string endings; names together are hardly longer than the table
_REL: Final = {32: fields("offset u4, info u4"), 64: fields("offset u8, info u8")}
_RELA: Final = {32: fields("offset u4, info u4, addend i4"), 64: fields("offset u8, info u8, addend i8")}


def plt_sections(file: ElfFile) -> list[ElfSection]:
    """Return the sections that `plt_symbols` names; empty without a .plt."""
    names = (".plt", ".plt.sec", ".plt.got") if file.machine in _X86 else (".plt",)
    sections = [section for name in names if (section := file.section(name))]
    return sections if file.section(".plt") else []


def plt_symbols(file: ElfFile, symbol_table: SymbolTable) -> Symbols:
    """Return symbols for the header of .plt (as `.plt`), and for each entry of .plt, .plt.sec and .plt.got by the symbol it calls."""
    plt = file.section(".plt")
    header, entry = _sizes(file, plt) if plt else (0, 0)
    if not plt or not entry:
        return _columns([])
    rows = _got_entries(file) if file.machine in _X86 else []
    second = file.section(".plt.sec") if file.machine in _X86 else None
    names = _relocated_names(file, symbol_table)
    if second:
        _, entry = _sizes(file, second)
        rows.append((plt.offset, plt.size, b".plt"))
        start = second.offset
    elif names is not None and len(names) * entry == plt.size:
        start = plt.offset  # equal counts of stubs and relocations: not lazy, so without a header
    else:
        rows.append((plt.offset, header, b".plt"))
        start = plt.offset + header
    for number, name in enumerate(names or []):
        stub = start + number * entry
        rows.append((stub, entry, (name or b"offset_%#x" % stub) + b"@plt"))
    return _columns(rows)


def _columns(rows: list[tuple[int, int, bytes]]) -> Symbols:
    start = np.array([row[0] for row in rows], np.uint64)
    return symbols_of_names(start, start + np.array([row[1] for row in rows], np.uint64), [row[2] for row in rows])


def _sizes(file: ElfFile, section: ElfSection) -> tuple[int, int]:
    if file.machine in _SIZES:
        return _SIZES[file.machine]
    size = section.entsize
    if file.machine in _X86 and size not in (8, 16):
        size = 8 if section.addralign == 8 else 16
    return size, size


def _relocations(file: ElfFile, section: ElfSection) -> NDArray[Any]:
    return file.entries(section, (_RELA if section.type == elf.SHT_RELA else _REL)[file.bits])[:_STUBS_MOST]


def _symbol_index(file: ElfFile, relocations: NDArray[Any]) -> NDArray[np.int64]:
    return (relocations["info"] >> (32 if file.bits == 64 else 8)).astype(np.int64)


def _dynamic_names(file: ElfFile, table: ElfSection, index: NDArray[np.int64]) -> list[bytes]:
    """Return the names of symbols by index; b"" for index 0 and indices out of range."""
    symbols, strings = file.symbols(table), bytes(file.strings(table))
    is_valid = (index > 0) & (index < len(symbols))
    if not is_valid.any():
        return [b""] * len(index)
    offsets = np.where(is_valid, symbols["name"][np.where(is_valid, index, 0)], 0).tolist()
    return _strings(strings, offsets)


def _strings(table: bytes, offsets: list[int]) -> list[bytes]:
    """Return the strings at offsets; b"" once overlapping strings have taken a few times the table's size."""
    room = _NAMES_RATIO * len(table)
    names = []
    for offset in offsets:
        end = table.find(b"\0", offset, offset + max(room, 0))
        names.append(table[offset:end] if end >= 0 else b"")
        room -= len(names[-1]) if end >= 0 else len(table)
    return names


def _relocated_names(file: ElfFile, symbol_table: SymbolTable) -> list[bytes] | None:
    """Return the name of the function that each entry calls, in the table's order; None without relocations."""
    section = file.section(".rela.plt", elf.SHT_RELA) or file.section(".rel.plt", elf.SHT_REL)
    # A static program's table for IFUNCs is linked to .symtab.
    tables = (file.section(".dynsym", elf.SHT_DYNSYM), file.section(".symtab", elf.SHT_SYMTAB))
    table = next((table for table in tables if section and table and section.link == table.index), None)
    if section is None or table is None:
        return None
    relocations = _relocations(file, section)
    if file.machine in _X86:  # the linker puts IFUNCs out of order
        relocations = relocations[np.argsort(relocations["offset"], kind="stable")]
    names = _dynamic_names(file, table, _symbol_index(file, relocations))
    if file.machine == elf.EM_X86_64 and section.type == elf.SHT_RELA:
        kind = relocations["info"] & (0xFFFFFFFF if file.bits == 64 else 0xFF)
        segments = [tuple(int(segment[name]) for name in ("vaddr", "memsz", "filesz", "offset")) for segment in file.segments]
        for number in np.flatnonzero(kind == _R_X86_64_IRELATIVE)[:_IFUNCS_MOST].tolist():
            names[number] = names[number] or _ifunc_name(segments, int(relocations["addend"][number]), symbol_table)
    return names


def _ifunc_name(segments: list[tuple[int, ...]], address: int, symbol_table: SymbolTable) -> bytes:
    """Return the name of the IFUNC with a resolver at an address. `segments`: (vaddr, memsz, filesz, offset)."""
    for vaddr, in_memory, in_file, stub in segments:
        if vaddr <= address < vaddr + max(in_memory, in_file):
            offset = address - vaddr + stub
            row = int(symbol_table.find(np.array([offset], np.uint64))[0])
            if row >= 0 and symbol_table.symbols.start[row] == offset and symbol_table.is_ifunc(row):
                return symbol_table.raw_name(row)
            break
    return b""


def _got_entries(file: ElfFile) -> list[tuple[int, int, bytes]]:
    """Return the stubs of .plt.got, each of which jumps through a slot that .rela.dyn fills."""
    section = file.section(".plt.got")
    if section is None or not section.entsize:
        return []
    code = bytes(file.data(section)[: _STUBS_MOST * section.entsize])
    starts = range(0, len(code), section.entsize)
    got_offsets = [section.offset + offset for offset in starts]
    slots = [stub + _displacement(code[offset : offset + section.entsize]) for offset, stub in zip(starts, got_offsets, strict=True)]
    names = _slot_names(file, slots) if file.machine == elf.EM_X86_64 else {}
    return [
        (stub, section.entsize, (names.get(slot) or b"offset_%#x" % stub) + b"@plt") for stub, slot in zip(got_offsets, slots, strict=True)
    ]


def _slot_names(file: ElfFile, slots: list[int]) -> dict[int, bytes]:
    """Return the symbol name for each slot address."""
    section = file.section(".rela.dyn", elf.SHT_RELA)
    table = file.sections[section.link] if section and 0 < section.link < len(file.sections) else None
    if section is None or table is None:
        return {}
    relocations = file.entries(section, _RELA[file.bits])
    used = relocations[np.isin(relocations["offset"], np.array(slots, np.int64).astype(np.uint64))][:_STUBS_MOST]
    return dict(zip(used["offset"].tolist(), _dynamic_names(file, table, _symbol_index(file, used)), strict=True))


def _displacement(code: bytes) -> int:
    """Return the distance from a stub to its slot, -1 for other code."""
    offset = 4 if code[:4] == b"\xf3\x0f\x1e\xfa" else 0  # endbr64
    offset += code[offset : offset + 1] == b"\xf2"  # bnd
    if code[offset : offset + 2] != b"\xff\x25":  # jmp *disp(%rip)
        return -1
    return offset + 6 + int.from_bytes(code[offset + 2 : offset + 6], "little")
