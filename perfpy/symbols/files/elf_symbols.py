"""The symbols of code and data in ELF symbol tables, by file offset.

The symbols may be in a separate debug file. Mappings use file offsets, too. The selection of entries is perf's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.symbols.demangling.demangle import Demangle, plain
from perfpy.symbols.files import elf
from perfpy.symbols.files.elf import fields
from perfpy.symbols.symbol_table import EMPTY, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, Symbols, SymbolTable, symbols_of_names

if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias

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
            if self._plt is None:
                try:
                    stubs = plt_symbols(self._runtime, SymbolTable(self._sorted))
                except elf.DAMAGE as damage:
                    self._runtime.flaw(f"procedure linkage table: {elf.reason_of(damage)}")
                    stubs = EMPTY
                stubs = stubs.pick(np.argsort(stubs.start, kind="stable"))
                self._plt = SymbolTable(stubs, self.demangle)
                self.symbols = self._sorted.concat(stubs)
            stub_rows = self._plt.find(address[stub])
            row[stub] = np.where(stub_rows >= 0, stub_rows + len(self._sorted), row[stub])
        return row


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


# Names for the procedure linkage table: `foo@plt` for the stub that calls foo. Each entry jumps through a slot (plt_code finds it), and a
# relocation gives the slot its symbol. An IFUNC is known only by the address of its resolver. Where the code cannot be decoded, the
# entries of some machines are counted instead. Sizes of entries: the processor supplements of the System V ABI.

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
        return _symbols_of_stubs(_call_stubs(file, symbol_table))
    decoded = [(section, _decode(file, section)) for section in _tables(file)]
    decoded += [(section, _decode_lazy(file, section)) for section, _ in decoded if section.name == ".plt"]
    slots = distinct(np.concatenate([entries.slot for _, entries in decoded])) if decoded else np.zeros(0, np.int64)
    names = _slot_names(file, slots, symbol_table)
    rows: list[tuple[int, int, bytes]] = []
    for section, entries in decoded:
        rows += _entry_rows(section.name, file.mapped_offset(section), entries, names, symbol_table)
    plt = file.section(".plt")
    return _symbols_of_stubs(rows + (_rest_of_plt(file, plt, symbol_table, rows) if plt else []))


def _entry_rows(
    table: str, offset: int, entries: PltEntries, names: dict[int, bytes], symbol_table: SymbolTable
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
    if file.machine == EM_PPC64:  # its .plt has the slots
        return []
    names = _TABLES if can_decode(file.machine) else (".plt",)
    return [section for name in names if (section := file.section(name))]


def _has_call_stubs(file: ElfFile) -> bool:
    return file.machine == EM_PPC64 and file.bits == 64 and file.endian == "<"


def _decode(file: ElfFile, section: ElfSection) -> PltEntries:
    table = file.section(".got.plt") or file.section(".got")
    return decode(file.machine, file.bits, file.data(section), section.addr, table.addr if table else 0)


def _decode_lazy(file: ElfFile, plt: ElfSection) -> PltEntries:
    """Return the entries of .plt that only bind, with the slots that they bind; none if .plt.sec has the entries that are called."""
    relocations = file.section(".rela.plt", elf.SHT_RELA) or file.section(".rel.plt", elf.SHT_REL)
    has_second = any(file.section(name) for name in _SECOND)
    start, index = decode_lazy(file.machine, b"" if has_second or not relocations else file.data(plt))
    slots = _relocations(file, relocations)["offset"].astype(np.int64) if relocations else np.zeros(0, np.int64)
    is_valid = index < len(slots)
    start, slot = start[is_valid], slots[index[is_valid]]
    return PltEntries(start, np.minimum(start + LAZY_SIZE, plt.size), slot)


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
    if can_decode(file.machine) and len(file.data(plt)):
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
    stubs = decode_call_stubs(file.data(text), text.addr, (got.addr if got else 0) + _TOC_BIAS)
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
            count = min(count_branches(file.data(section)[distance:]), len(names))
            offset = file.mapped_offset(section) + distance
            return [(offset + 4 * number, 4, names[number] + b"@plt") for number in range(count) if names[number]]
    return []


def _symbols_of_stubs(rows: list[tuple[int, int, bytes]]) -> Symbols:
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


def _dynamic_names(file: ElfFile, table: ElfSection, index: NDArray[np.int64]) -> list[bytes]:
    """Return the names of symbols by index; b"" for index 0 and indices out of range."""
    symbols, strings = file.symbols(table), bytes(file.strings(table))
    is_valid = (index > 0) & (index < len(symbols))
    if not is_valid.any():
        return [b""] * len(index)
    offsets = np.where(is_valid, symbols["name"][np.where(is_valid, index, 0)], 0).tolist()
    room = _NAMES_RATIO * len(strings)
    names = []
    for offset in offsets:
        end = strings.find(b"\0", offset, offset + max(room, 0))
        names.append(strings[offset:end] if end >= 0 else b"")
        room -= len(names[-1]) if end >= 0 else len(strings)
    return names


def _relocated_names(file: ElfFile, symbol_table: SymbolTable) -> list[bytes] | None:
    """Return the name of the function that each entry calls, in the table's order, or None without relocations."""
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
    index, table = (relocations["info"] >> (32 if file.bits == 64 else 8)).astype(np.int64), _symbol_section(file, section)
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


# Decode the entries of procedure linkage tables: where each entry begins, and the slot with the address that it jumps to.
#
# Compilers and linkers lay these tables out in many ways: with or without a header, landing pads (IBT, BTI), pointer authentication or
# retpolines, for immediate binding or not. All of them load the target from a slot. Code in another form is left out. Forms of the code:
# the output of GNU ld 2.40, gold, lld 19 and mold 1.10; encodings: the architectures' manuals.


EM_PPC64: Final = 21
_EM_S390: Final = 22
_EM_LOONGARCH: Final = 258
_CODE_MOST: Final = 1 << 21  # bytes of one table; the largest programs have some ten thousand entries
_TEXT_MOST: Final = 1 << 28  # bytes of code searched for stubs between functions


class PltEntries(NamedTuple):
    """The entries of a table, sorted by start.

    Attributes:
        start: int64, offset in the section.
        end: int64, offset in the section, exclusive.
        slot: int64, the address of the slot.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    slot: NDArray[np.int64]


def can_decode(machine: int) -> bool:
    """Whether the entries of a machine's tables can be decoded."""
    return machine in _DECODERS


def decode(machine: int, bits: int, code: bytes | memoryview, address: int, got: int) -> PltEntries:
    """Return the entries of a table at an address. got: the address of the global offset table, for code relative to it."""
    decoder = _DECODERS.get(machine)
    code = code[:_CODE_MOST]
    parts = decoder(code, got if machine == elf.EM_386 else address) if decoder else []
    if not parts:
        nothing = np.zeros(0, np.int64)
        return PltEntries(nothing, nothing, nothing)
    start, size, slot = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    start, size, slot = start[order], size[order], slot[order]
    end = np.minimum(start + size, np.append(start[1:], len(code)))
    return PltEntries(start, end, slot & (0xFFFFFFFF if bits == 32 else -1))


# Each decoder returns parts: columns of starts, sizes and slots.
_Part: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"


def _part(start: NDArray[np.int64], size: int | NDArray[np.int64], slot: NDArray[np.int64]) -> _Part:
    return start, np.broadcast_to(np.asarray(size, np.int64), start.shape), slot


def _words(code: bytes | memoryview, kind: str, following: int) -> list[NDArray[np.int64]]:
    """Return the words of code and, for each word, the words after it. Beyond the end of the code they are zero."""
    words = np.frombuffer(code, kind, len(code) // np.dtype(kind).itemsize).astype(np.int64)
    padded = np.concatenate([words, np.zeros(following, np.int64)])
    return [padded[distance : distance + len(words)] for distance in range(following + 1)]


def _signed(value: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Sign-extend the low bits."""
    sign = 1 << (bits - 1)
    extended: NDArray[np.int64] = ((value & ((1 << bits) - 1)) ^ sign) - sign
    return extended


# -- x86

_X86_STEP: Final = 8  # entries begin at multiples
_X86_LONGEST: Final = 24
# Opcodes in front of the displacement, .. for any byte; and the size of an entry unless the next one begins before.
_X86_64_FORMS: Final = (
    ("ff 25", 16),  # jmp *slot(%rip)
    ("f2 ff 25", 16),  # bnd jmp
    ("f3 0f 1e fa ff 25", 16),  # endbr64
    ("f3 0f 1e fa f2 ff 25", 16),
    ("41 bb .. .. .. .. ff 25", 16),  # mov $index,%r11d (mold)
    ("f3 0f 1e fa 41 bb .. .. .. .. ff 25", 16),
    ("4c 8b 1d", 32),  # mov slot(%rip),%r11 (lld)
)
_I386_FORMS: Final = (
    ("ff", "25", "a3", 16),  # jmp *slot; jmp *slot(%ebx)
    ("f3 0f 1e fb ff", "25", "a3", 16),  # endbr32
    ("b9 .. .. .. .. ff", "25", "a3", 16),  # mov $index,%ecx (mold)
    ("f3 0f 1e fb b9 .. .. .. .. ff", "25", "a3", 16),
    ("50", "a1", "8b 83", 32),  # push %eax; mov slot,%eax; mov slot(%ebx),%eax (lld)
)
# endbr64 or endbr32; push $index
_LAZY_64: Final = ("f3 0f 1e fa 68",)
_LAZY_32: Final = ("f3 0f 1e fb 68",)
_REL_SIZE: Final = 8  # i386 pushes the distance of the relocation in its table
LAZY_SIZE: Final = 16


def _x86_matches(code: bytes | memoryview, form: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the offsets where a form matches, the numbers after its opcodes, and the size of both."""
    opcodes = form.split()
    padded = np.frombuffer(bytes(code) + bytes(_X86_LONGEST), np.uint8)
    is_match = np.ones(-(-len(code) // _X86_STEP), np.bool_)
    for distance, opcode in enumerate(opcodes):
        if opcode != "..":
            is_match &= padded[distance : distance + len(code) : _X86_STEP] == int(opcode, 16)
    size = len(opcodes) + 4
    start = np.flatnonzero(is_match) * _X86_STEP
    start = start[start + size <= len(code)]
    number = np.ascontiguousarray(padded[start[:, None] + np.arange(len(opcodes), size)]).view("<i4")[:, 0].astype(np.int64)
    return start, number, size


def _x86_sizes(code: bytes | memoryview, following: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the sizes of entries by the code at the offsets after the displacement."""
    padded = np.frombuffer(bytes(code) + bytes(2), np.uint8)
    next_two = padded[following].astype(np.int64) << 8 | padded[following + 1]
    if size == 16:  # of 8 bytes, an entry of .plt.got has two that do nothing
        return np.where(next_two == 0x6690, 8, 16)
    return np.where(next_two >> 8 == 0xE9, 16, size)  # bound at the start, a retpoline ends with a jump


def _x86_64(code: bytes | memoryview, address: int) -> list[_Part]:
    parts = []
    for form, entry_size in _X86_64_FORMS:
        start, displacement, size = _x86_matches(code, form)
        parts.append(_part(start, _x86_sizes(code, start + size, entry_size), address + start + size + displacement))
    return parts


def _i386(code: bytes | memoryview, got: int) -> list[_Part]:
    parts = []
    for opcodes, absolute, relative, entry_size in _I386_FORMS:
        for end, base in ((absolute, 0), (relative, got)):
            start, number, size = _x86_matches(code, f"{opcodes} {end}")
            parts.append(_part(start, _x86_sizes(code, start + size, entry_size), base + number))
    return parts


def decode_lazy(machine: int, code: bytes | memoryview) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts of entries that push the index of a relocation without a jump through its slot, and the indexes."""
    code = code[:_CODE_MOST]
    forms, unit = ((_LAZY_64, 1), (_LAZY_32, _REL_SIZE))[machine == elf.EM_386] if machine in (elf.EM_386, elf.EM_X86_64) else ((), 1)
    parts = [_x86_matches(code, form)[:2] for form in forms]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, number = (np.concatenate(column) for column in zip(*parts, strict=True))
    return start, (number & 0xFFFFFFFF) // unit


# -- machines with words of 32 bits


def _aarch64(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third, fourth, fifth = _words(code, "<u4", 4)
    loads = (second & 0xBFC003FF) == 0xB9400211  # ldr x17,[x16,#low] (w17: ILP32)
    branches, ends = (word == 0xD61F0220 for word in (third, fourth)), fifth == 0xD61F0220  # br x17
    after_two, after_three = branches
    row = np.flatnonzero(((first & 0x9F00001F) == 0x90000010) & loads & (after_two | after_three | ends))  # adrp x16,page
    pages = _signed((first[row] >> 5 & 0x7FFFF) << 2 | first[row] >> 29 & 3, 21) << 12
    low = (second[row] >> 10 & 0xFFF) << (2 + (second[row] >> 30 & 1))
    start = row * 4
    slot = (address + start & ~0xFFF) + pages + low
    has_pad = (row > 0) & (first[row - 1] == 0xD503245F)  # bti c
    is_short = (after_two[row] | after_three[row]) & ~has_pad
    return [_part(start - 4 * has_pad, np.where(is_short, 16, 24), slot)]


_ARM_FILL: Final = 0xD4D4D4D4  # after the code of lld's entries


def _arm_constant(word: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the constant of a data-processing instruction: 8 bits, rotated."""
    value, rotation = word & 0xFF, (word >> 8 & 0xF) * 2
    constant: NDArray[np.int64] = (value >> rotation | value << (32 - rotation)) & 0xFFFFFFFF
    return constant


def _arm(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third, fourth = _words(code, "<u4", 3)
    parts = []
    adds_pc = (first & 0xFFFFF000) == 0xE28FC000  # add ip,pc,#high
    for middle, last in (((second,), third), ((second, third), fourth)):
        is_match = adds_pc & ((last & 0xFFFFF000) == 0xE5BCF000)  # ldr pc,[ip,#low]!
        for word in middle:
            is_match = is_match & ((word & 0xFFFFF000) == 0xE28CC000)  # add ip,ip,#middle
        row = np.flatnonzero(is_match)
        slot = address + row * 4 + 8 + _arm_constant(first[row]) + sum(_arm_constant(word[row]) for word in middle) + (last[row] & 0xFFF)
        size = np.where((len(middle) == 2) | (fourth[row] == _ARM_FILL), 16, 12)
        parts.append((row, size, slot))
    # ldr ip,[pc,#4]; add ip,ip,pc or add ip,pc,ip; ldr pc,[ip]; distance
    row = np.flatnonzero((first == 0xE59FC004) & ((second == 0xE08CC00F) | (second == 0xE08FC00C)) & (third == 0xE59CF000))
    parts.append((row, np.full(len(row), 16), address + row * 4 + 12 + fourth[row]))
    result = []
    for row, size, slot in parts:
        has_switch = (row > 0) & ((first[row - 1] == 0x46C04778) | (first[row - 1] == 0xE7FD4778))  # Thumb: bx pc; nop or b .
        result.append(_part(row * 4 - 4 * has_switch, size + 4 * has_switch, slot))
    return result


def _riscv(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third = _words(code, "<u4", 2)
    # auipc t3,high; ld t3,low(t3) (lw: RV32); jalr t1,t3
    loads = ((second & 0xFFFFF) == 0xE3E03) | ((second & 0xFFFFF) == 0xE2E03)
    row = np.flatnonzero(((first & 0xFFF) == 0xE17) & loads & (third == 0xE0367))
    slot = address + row * 4 + _signed(first[row] & 0xFFFFF000, 32) + _signed(second[row] >> 20, 12)
    return [_part(row * 4, 16, slot)]


def _loongarch(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third = _words(code, "<u4", 2)
    # pcaddu12i $t3,high; ld.d $t3,$t3,low (ld.w: 32 bits); jirl $t1,$t3,0
    loads = ((second & 0xFFC003FF) == 0x28C001EF) | ((second & 0xFFC003FF) == 0x288001EF)
    row = np.flatnonzero(((first & 0xFE00001F) == 0x1C00000F) & loads & (third == 0x4C0001ED))
    slot = address + row * 4 + (_signed(first[row] >> 5, 20) << 12) + _signed(second[row] >> 10, 12)
    return [_part(row * 4, 16, slot)]


def _s390(code: bytes | memoryview, address: int) -> list[_Part]:
    words = _words(code, ">u2", 9)
    # larl %r1,slot; lg %r1,0(%r1); br %r1, which follows lgfi %r0,index in mold's tables
    jumps = (words[6] == 0x07F1) | ((words[6] == 0xC001) & (words[9] == 0x07F1))
    row = np.flatnonzero((words[0] == 0xC010) & (words[3] == 0xE310) & (words[4] == 0x1000) & (words[5] == 0x0004) & jumps)
    distance = _signed(words[1][row] << 16 | words[2][row], 32) * 2
    return [_part(row * 2, 32, address + row * 2 + distance)]


_DECODERS: Final[dict[int, Callable[[bytes | memoryview, int], list[_Part]]]] = {
    elf.EM_X86_64: _x86_64,
    elf.EM_386: _i386,
    elf.EM_AARCH64: _aarch64,
    elf.EM_ARM: _arm,
    elf.EM_RISCV: _riscv,
    _EM_LOONGARCH: _loongarch,
    _EM_S390: _s390,
}

# -- 64-bit PowerPC: the linker puts stubs between functions


def decode_call_stubs(code: bytes | memoryview, address: int, toc: int) -> PltEntries:
    """Return the stubs in code for little-endian 64-bit PowerPC. toc: the address that r2 has in the program."""
    words: NDArray[Any] = np.frombuffer(code, "<u4", min(len(code), _TEXT_MOST) // 4)
    last = np.flatnonzero(words == 0x4E800420)  # bctr
    last = last[last >= 2]
    last = last[words[last - 1] == 0x7D8903A6]  # mtctr r12
    load, before, early = (words[np.maximum(last - distance, 0)].astype(np.int64) for distance in (2, 3, 4))
    reads_r2 = (load & 0xFFFF0003) == 0xE9820000  # ld r12,low(r2)
    # addis r12,r2,high; ld r12,low(r12)
    reads_r12 = ((load & 0xFFFF0003) == 0xE98C0000) & ((before & 0xFFFF0000) == 0x3D820000) & (last >= 3)
    # pld r12,distance
    is_prefixed = ((load & 0xFFFF0000) == 0xE5800000) & ((before & 0xFFFC0000) == 0x04100000) & (last >= 3)
    start = np.where(reads_r2, last - 2, last - 3)
    low = _signed(load & 0xFFFC, 16)
    slot = toc + low + np.where(reads_r12, _signed(before, 16) << 16, 0)
    slot = np.where(is_prefixed, address + 4 * start + _signed((before & 0x3FFFF) << 16 | load & 0xFFFF, 34), slot)
    saves_toc = (np.where(reads_r2, before, early) == 0xF8410018) & (start > 0)  # std r2,24(r1)
    picked = reads_r2 | reads_r12 | is_prefixed
    return PltEntries(((start - saves_toc) * 4)[picked], ((last + 1) * 4)[picked], slot[picked])


def count_branches(code: bytes | memoryview) -> int:
    """Return the number of branches at the beginning of code for little-endian 64-bit PowerPC: the entries for lazy binding."""
    words = np.frombuffer(code, "<u4", min(len(code), _CODE_MOST) // 4)
    others = np.flatnonzero((words & 0xFC000003) != 0x48000000)
    return int(others[0]) if len(others) else len(words)
