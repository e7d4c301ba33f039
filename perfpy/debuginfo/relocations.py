"""Debug information of files that nobody has linked (kernel modules, .o): its addresses and references are left to relocations.

What enters: an ELF file, and the bytes of one of its debug sections. What leaves: the bytes with the numbers that the linker,
or the kernel when it loads a module, would have put there. As sections have no addresses yet, code is where it lies in the
file. Where the kinds are defined: the psABI of each architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.files.elf import EM_AARCH64, EM_X86_64, SHF_ALLOC, SHT_RELA, fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile, ElfSection

ET_REL: Final = 1
_EM_PPC64, _EM_S390 = 21, 22
_ENTRY: Final = fields("offset u8, info u8, addend i8")
_KIND: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_RESERVED: Final = 0xFF00  # from here on a number of a section is none
#: machine -> kinds that are symbol + addend, and how many bytes they fill
_ABSOLUTE: Final[dict[int, dict[int, int]]] = {
    EM_X86_64: {1: 8, 10: 4, 11: 4},  # R_X86_64_64, _32, _32S
    EM_AARCH64: {257: 8, 258: 4},  # R_AARCH64_ABS64, _ABS32
    _EM_PPC64: {38: 8, 1: 4},  # R_PPC64_ADDR64, _ADDR32
    _EM_S390: {22: 8, 4: 4},  # R_390_64, _32
}


def relocated(file: ElfFile, section: ElfSection, data: bytes | memoryview) -> bytes | memoryview:
    """The bytes of a section as they would be in a linked file; relocations that lead out of it, or are of other kinds, do nothing."""
    table = file.section(f".rela{section.name}", SHT_RELA) if file.type == ET_REL and file.bits == 64 else None
    if table is None:
        return data
    kinds = _ABSOLUTE.get(file.machine)
    if kinds is None:
        file.flaw(f"debug information: its relocations, of machine {file.machine}, are not known")
        return data
    entries, filled = file.entries(table, _ENTRY), np.frombuffer(data, np.uint8).copy()
    for kind, size in kinds.items():
        _fill(filled, entries[entries["info"] & _KIND == kind], _addresses(file, table), size, file.endian)
    return filled.tobytes()


def _fill(filled: NDArray[np.uint8], entries: NDArray[Any], addresses: NDArray[np.uint64], size: int, endian: str) -> None:
    """Put the numbers of some relocations into a section."""
    symbol = entries["info"] >> _HALF
    fits = (entries["offset"] <= np.uint64(max(len(filled) - size, 0))) & (symbol < np.uint64(len(addresses))) & (len(filled) >= size)
    entries, symbol = entries[fits], symbol[fits]
    values = addresses[symbol.astype(np.int64)] + entries["addend"].astype(np.int64).view(np.uint64)
    words = values.astype(f"{endian}u{size}").view(np.uint8).reshape(-1, size)
    filled[entries["offset"].astype(np.int64)[:, np.newaxis] + np.arange(size)] = words


def _addresses(file: ElfFile, table: ElfSection) -> NDArray[np.uint64]:
    """Where the symbols that relocations refer to are."""
    if table.link >= len(file.sections):
        return np.zeros(0, np.uint64)
    symbols = file.symbols(file.sections[table.link])
    starts = np.array([one.offset if one.flags & SHF_ALLOC else 0 for one in file.sections], np.uint64)
    section = symbols["shndx"].astype(np.int64)
    section[(section >= _RESERVED) | (section >= len(starts))] = 0
    found: NDArray[np.uint64] = symbols["value"].astype(np.uint64) + starts[section]
    return found
