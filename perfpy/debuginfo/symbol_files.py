"""Source file names from a symbol table, for functions without line information.

An address gets the name, "??" if the table has none, or None outside of functions. As in binutils, which perf uses, the symbol that begins
nearest before the address decides; for a local one, the nearest file entry before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.files import elf
from perfpy.symbols.files.elf_symbols import mapping_symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile, ElfSection

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
        return self._name(int(functions.file[chosen]))

    def _name(self, offset: int) -> str:
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
