"""Names for the procedure linkage table: `foo@plt` for the stub that calls foo.

Each entry jumps through a slot (plt_code finds it), and a relocation gives the slot its symbol. An IFUNC is known only by the address of
its resolver. Where the code cannot be decoded, the entries of some machines are counted instead. Sizes of entries: the processor
supplements of the System V ABI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.files import elf, plt_code
from perfpy.symbols.files.elf import fields
from perfpy.symbols.symbol_table import Symbols, SymbolTable, symbols_of_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile, ElfSection

_X86: Final = (elf.EM_386, elf.EM_X86_64)
_IRELATIVE: Final = {elf.EM_X86_64: 37, elf.EM_386: 42, elf.EM_AARCH64: 1032, elf.EM_ARM: 160, elf.EM_RISCV: 58, 21: 248, 22: 61, 258: 12}
_JUMP_SLOT_PPC64: Final = 21
# machine -> bytes of the header, and of an entry
_SIZES: Final = {
    elf.EM_ARM: (20, 12),
    elf.EM_AARCH64: (32, 16),
    258: (32, 16),  # LoongArch
    2: (48, 12),  # SPARC
    43: (128, 32),  # SPARC V9
}
_SECOND: Final = (".plt.sec", ".plt.bnd")  # called instead of .plt, which binds lazily; the second name is that of binutils 2.26 to 2.28
_TABLES: Final = (".plt", *_SECOND, ".plt.got", ".iplt")
_SLOT_SECTIONS: Final = (".got", ".got.plt", ".igot.plt")
_RELOCATIONS: Final = (".rela.plt", ".rel.plt", ".rela.dyn", ".rel.dyn", ".rela.iplt", ".rel.iplt")
_DT_PPC64_GLINK: Final = 0x70000000
_DYNAMIC_MOST: Final = 1 << 12  # entries; linkers write some thirty
_TOC_BIAS: Final = 0x8000
_STUBS_MOST: Final = 1 << 17  # the largest programs have some ten thousand
_IFUNCS_MOST: Final = 4096  # a static C library has a hundred
_NAMES_RATIO: Final = 4  # linkers share string endings; names together are hardly longer than the table
_REL: Final = {32: fields("offset u4, info u4"), 64: fields("offset u8, info u8")}
_RELA: Final = {32: fields("offset u4, info u4, addend i4"), 64: fields("offset u8, info u8, addend i8")}


def plt_ranges(file: ElfFile) -> list[tuple[int, int]]:
    """Return the ranges of file offsets that `plt_symbols` names."""
    return [_range(file, section) for section in _tables(file)]


def plt_start(file: ElfFile) -> int | None:
    """Return the file offset of .plt, None if there is none."""
    section = file.section(".plt")
    return file.mapped_offset(section) if section else None


def stub_ranges(file: ElfFile) -> list[tuple[int, int]]:
    """Return the ranges of file offsets where `plt_symbols` names code between functions."""
    sections = (file.section(".text"), file.section(".glink")) if _has_call_stubs(file) else ()
    return [_range(file, section) for section in sections if section]


def _range(file: ElfFile, section: ElfSection) -> tuple[int, int]:
    offset = file.mapped_offset(section)
    return offset, offset + section.size


def plt_symbols(file: ElfFile, symbol_table: SymbolTable) -> Symbols:
    """Return symbols for the header of .plt (as `.plt`), and for each entry of the tables by the symbol it calls."""
    if _has_call_stubs(file):
        return _columns(_call_stubs(file, symbol_table))
    decoded = [(section, _decode(file, section)) for section in _tables(file)]
    decoded += [(section, _decode_lazy(file, section)) for section, _ in decoded if section.name == ".plt"]
    slots = distinct(np.concatenate([entries.slot for _, entries in decoded])) if decoded else np.zeros(0, np.int64)
    names = _slot_names(file, slots, symbol_table)
    rows: list[tuple[int, int, bytes]] = []
    for section, entries in decoded:
        rows += _entry_rows(section.name, file.mapped_offset(section), entries, names, symbol_table)
    plt = file.section(".plt")
    return _columns(rows + (_rest_of_plt(file, plt, symbol_table, rows) if plt else []))


def _entry_rows(
    table: str, offset: int, entries: plt_code.PltEntries, names: dict[int, bytes], symbol_table: SymbolTable
) -> list[tuple[int, int, bytes]]:
    """Return the entries of a table at a file offset."""
    start, end, slot = (column[:_STUBS_MOST] for column in entries)
    has_symbols = np.zeros(len(start), np.bool_)
    if table not in (".plt", *_SECOND) and len(symbol_table):  # some linkers write symbols for the entries; perf prints them
        addresses = (start + offset).astype(np.uint64)
        row = symbol_table.find(addresses)
        has_symbols = (row >= 0) & (symbol_table.symbols.start[row] == addresses)
    needs_relocation = table in (".plt", ".iplt")  # other code there looks like an entry, too
    return [
        (offset + first, last - first, (name or b"offset_%#x" % (offset + first)) + b"@plt")
        for first, last, name, has_symbol in zip(
            start.tolist(), end.tolist(), map(names.get, slot.tolist()), has_symbols.tolist(), strict=True
        )
        if not has_symbol and (name is not None or not needs_relocation)
    ]


def needed_relocations(file: ElfFile, section: ElfSection) -> bytes:
    """Return the relocations of a section that fill slots of the tables."""
    slots = [_decode(file, table).slot for table in _tables(file)]
    relocations = _relocations(file, section)
    return _pick_slots(relocations, distinct(np.concatenate(slots))).tobytes() if slots else b""


def _tables(file: ElfFile) -> list[ElfSection]:
    if file.machine == plt_code.EM_PPC64:  # its .plt has the slots
        return []
    names = _TABLES if plt_code.can_decode(file.machine) else (".plt",)
    return [section for name in names if (section := file.section(name))]


def _has_call_stubs(file: ElfFile) -> bool:
    return file.machine == plt_code.EM_PPC64 and file.bits == 64 and file.endian == "<"


def _decode(file: ElfFile, section: ElfSection) -> plt_code.PltEntries:
    table = file.section(".got.plt") or file.section(".got")
    return plt_code.decode(file.machine, file.bits, file.data(section), section.addr, table.addr if table else 0)


def _decode_lazy(file: ElfFile, plt: ElfSection) -> plt_code.PltEntries:
    """Return the entries of .plt that only bind, with the slots that they bind; none if .plt.sec has the entries that are called."""
    relocations = file.section(".rela.plt", elf.SHT_RELA) or file.section(".rel.plt", elf.SHT_REL)
    has_second = any(file.section(name) for name in _SECOND)
    start, index = plt_code.decode_lazy(file.machine, b"" if has_second or not relocations else file.data(plt))
    slots = _relocations(file, relocations)["offset"].astype(np.int64) if relocations else np.zeros(0, np.int64)
    is_valid = index < len(slots)
    start, slot = start[is_valid], slots[index[is_valid]]
    return plt_code.PltEntries(start, np.minimum(start + plt_code.LAZY_SIZE, plt.size), slot)


def _rest_of_plt(
    file: ElfFile, plt: ElfSection, symbol_table: SymbolTable, entries: list[tuple[int, int, bytes]]
) -> list[tuple[int, int, bytes]]:
    """Return what remains of .plt: its header, and its entries if their code is unknown."""
    offset = file.mapped_offset(plt)
    starts = [start for start, _, _ in entries if offset <= start < offset + plt.size]
    if starts:
        return [(offset, min(starts) - offset, b".plt")] if min(starts) > offset else []
    if any(file.section(name) for name in _SECOND):
        return [(offset, plt.size, b".plt")]
    header, entry = _sizes(file, plt)
    if not entry:
        return []
    if plt_code.can_decode(file.machine) and len(file.data(plt)):
        return [(offset, min(header, plt.size), b".plt")]
    names = _relocated_names(file, symbol_table) or []
    rows = []
    if len(names) * entry != plt.size:  # equal counts of stubs and relocations: not lazy, so without a header
        rows.append((offset, header, b".plt"))
        offset += header
    stubs = [offset + number * entry for number in range(len(names))]
    return rows + [(stub, entry, (name or b"offset_%#x" % stub) + b"@plt") for stub, name in zip(stubs, names, strict=True)]


def _call_stubs(file: ElfFile, symbol_table: SymbolTable) -> list[tuple[int, int, bytes]]:
    """Return the stubs of 64-bit PowerPC: those that functions call, and the branches to the code that binds lazily."""
    text, got = file.section(".text"), file.section(".got")
    if text is None:
        return []
    stubs = plt_code.decode_call_stubs(file.data(text), text.addr, (got.addr if got else 0) + _TOC_BIAS)
    names = _slot_names(file, distinct(stubs.slot), symbol_table)
    offset = file.mapped_offset(text)
    rows = [
        (offset + start, end - start, (names[slot] or b"offset_%#x" % (offset + start)) + b"@plt")
        for start, end, slot in zip(*(column[:_STUBS_MOST].tolist() for column in stubs), strict=True)
        if slot in names
    ]
    return rows + _lazy_stubs(file, symbol_table)


def _lazy_stubs(file: ElfFile, symbol_table: SymbolTable) -> list[tuple[int, int, bytes]]:
    dynamic = file.section(".dynamic")
    entries = file.entries(dynamic, fields("tag u8, value u8"))[:_DYNAMIC_MOST] if dynamic else None
    found = entries["value"][entries["tag"] == _DT_PPC64_GLINK] if entries is not None else []
    names = _relocated_names(file, symbol_table)
    if not len(found) or not names:
        return []
    address = int(found[0]) + 32  # the tag's value is 32 bytes lower, by the ABI
    for section in (file.section(".text"), file.section(".glink"), file.section(".plt")):
        if section and section.addr <= address < section.addr + section.size:
            distance = address - section.addr
            count = min(plt_code.count_branches(file.data(section)[distance:]), len(names))
            offset = file.mapped_offset(section) + distance
            return [(offset + 4 * number, 4, names[number] + b"@plt") for number in range(count) if names[number]]
    return []


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
    return file.entries(section, (_RELA if section.type == elf.SHT_RELA else _REL)[file.bits])


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
    if section is None or _symbol_section(file, section) is None:
        return None
    relocations = _relocations(file, section)[:_STUBS_MOST]
    if file.machine in _X86:  # the linker puts IFUNCs out of order
        relocations = relocations[np.argsort(relocations["offset"], kind="stable")]
    return _names(file, section, relocations, symbol_table)


def _slot_names(file: ElfFile, slots: NDArray[np.int64], symbol_table: SymbolTable) -> dict[int, bytes]:
    """Return the name for each slot that a relocation fills; b"" if it has no symbol. slots: sorted."""
    names: dict[int, bytes] = {}
    for name in _RELOCATIONS:
        section = file.section(name, elf.SHT_RELA, elf.SHT_REL)
        if section and len(slots):
            relocations = _pick_slots(_relocations(file, section), slots)[:_STUBS_MOST]
            offsets = relocations["offset"].astype(np.int64)
            for slot, text in zip(offsets.tolist(), _names(file, section, relocations, symbol_table), strict=True):
                names[slot] = names.get(slot) or text
            is_filled = np.zeros(len(slots), np.bool_)
            is_filled[np.searchsorted(slots, offsets)] = True
            slots = slots[~is_filled]  # usually all of them: .rela.dyn takes megabytes
    return names


def _pick_slots(relocations: NDArray[Any], slots: NDArray[np.int64]) -> NDArray[Any]:
    """Select the relocations of slots. slots: sorted."""
    if not len(slots):
        return relocations[:0]
    offset = relocations["offset"].astype(np.int64)
    rows = np.flatnonzero((offset >= slots[0]) & (offset <= slots[-1]))
    nearest = np.minimum(np.searchsorted(slots, offset[rows]), len(slots) - 1)
    picked: NDArray[Any] = relocations[rows[slots[nearest] == offset[rows]]]
    return picked


def _symbol_section(file: ElfFile, relocations: ElfSection) -> ElfSection | None:
    """Return the symbol table of relocations. A static program's table for IFUNCs is linked to .symtab."""
    tables = (file.section(".dynsym", elf.SHT_DYNSYM), file.section(".symtab", elf.SHT_SYMTAB))
    return next((table for table in tables if table and relocations.link == table.index), None)


def _names(file: ElfFile, section: ElfSection, relocations: NDArray[Any], symbol_table: SymbolTable) -> list[bytes]:
    """Return the symbol of each relocation of a section, b"" for none."""
    index, table = _symbol_index(file, relocations), _symbol_section(file, section)
    names = _dynamic_names(file, table, index) if table else [b""] * len(relocations)
    kind = relocations["info"] & (0xFFFFFFFF if file.bits == 64 else 0xFF)
    rows = np.flatnonzero((kind == _IRELATIVE.get(file.machine, -1)) & (index == 0))[:_IFUNCS_MOST]
    if len(rows):
        segments = [tuple(int(segment[name]) for name in ("vaddr", "memsz", "filesz", "offset")) for segment in file.segments]
        resolvers = relocations["addend"][rows].tolist() if section.type == elf.SHT_RELA else _stored(file, relocations["offset"][rows])
        for number, address in zip(rows.tolist(), resolvers, strict=True):
            names[number] = names[number] or _ifunc_name(segments, address & ((1 << file.bits) - 1), symbol_table)
    return names


def _stored(file: ElfFile, slots: NDArray[Any]) -> list[int]:
    """Return the numbers in slots, 0 if they are unknown."""
    numbers = np.zeros(len(slots), np.int64)
    for section in (file.section(name) for name in _SLOT_SECTIONS):
        if section and section.size:
            content = file.entries(section, fields("number u4"))["number"]
            row = (slots.astype(np.int64) - section.addr) // 4
            inside = (row >= 0) & (row < len(content))
            numbers[inside] = content[row[inside]]
    result: list[int] = numbers.tolist()
    return result


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
