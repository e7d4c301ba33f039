"""The debug sections of one ELF file: their uncompressed bytes, strings and numbers.

Handles .debug_NAME, .zdebug_NAME, .debug_NAME.dwo of split files, and the supplementary file of dwz. The work that a file may cause is
bounded here. File names become paths only below symfs. Relocations of unlinked files (kernel modules, .o) are applied.
"""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.symbols.files.debug_files import same_build_id
from perfpy.symbols.files.elf import DAMAGE, EM_AARCH64, EM_X86_64, SHF_ALLOC, SHT_RELA, ElfFile, fields, reason_of
from perfpy.untrusted import files
from perfpy.untrusted.files import is_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final, Literal

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfSection


ET_REL: Final = 1
_EM_PPC64, _EM_S390 = 21, 22
_ENTRY: Final = fields("offset u8, info u8, addend i8")
_KIND: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_RESERVED: Final = 0xFF00  # section numbers from here on are reserved
#: machine -> relocation types that store symbol + addend, and their sizes in bytes
_ABSOLUTE: Final[dict[int, dict[int, int]]] = {
    EM_X86_64: {1: 8, 10: 4, 11: 4},  # R_X86_64_64, _32, _32S
    EM_AARCH64: {257: 8, 258: 4},  # R_AARCH64_ABS64, _ABS32
    _EM_PPC64: {38: 8, 1: 4},  # R_PPC64_ADDR64, _ADDR32
    _EM_S390: {22: 8, 4: 4},  # R_390_64, _32
}


def relocate_section(file: ElfFile, section: ElfSection, data: bytes | memoryview) -> bytes | memoryview:
    """Return a section's bytes with relocations applied, as in a linked file. Relocations out of bounds or of other types are skipped."""
    table = file.section(f".rela{section.name}", SHT_RELA) if file.type == ET_REL and file.bits == 64 else None
    if table is None:
        return data
    kinds = _ABSOLUTE.get(file.machine)
    if kinds is None:
        file.flaw(f"debug information: its relocations, of machine {file.machine}, are not known")
        return data
    entries, linked = file.entries(table, _ENTRY), np.frombuffer(data, np.uint8).copy()
    for kind, size in kinds.items():
        _apply_relocations(linked, entries[entries["info"] & _KIND == kind], _symbol_addresses(file, table), size, file.endian)
    return linked.tobytes()


def _apply_relocations(data: NDArray[np.uint8], entries: NDArray[Any], addresses: NDArray[np.uint64], size: int, endian: str) -> None:
    """Write the values of relocations into a section's bytes."""
    symbol = entries["info"] >> _HALF
    fits = (entries["offset"] <= np.uint64(max(len(data) - size, 0))) & (symbol < np.uint64(len(addresses))) & (len(data) >= size)
    entries, symbol = entries[fits], symbol[fits]
    values = addresses[symbol.astype(np.int64)] + entries["addend"].astype(np.int64).view(np.uint64)
    words = values.astype(f"{endian}u{size}").view(np.uint8).reshape(-1, size)
    data[entries["offset"].astype(np.int64)[:, np.newaxis] + np.arange(size)] = words


def _symbol_addresses(file: ElfFile, table: ElfSection) -> NDArray[np.uint64]:
    """Return the addresses of the symbols that relocations refer to."""
    if table.link >= len(file.sections):
        return np.zeros(0, np.uint64)
    symbols = file.symbols(file.sections[table.link])
    starts = np.array([one.offset if one.flags & SHF_ALLOC else 0 for one in file.sections], np.uint64)
    section = symbols["shndx"].astype(np.int64)
    section[(section >= _RESERVED) | (section >= len(starts))] = 0
    addresses: NDArray[np.uint64] = symbols["value"].astype(np.uint64) + starts[section]
    return addresses


#: limit of entries read per file, of any kind: minutes of work, more than any real program needs
WORK_MOST: Final = 1 << 25
_STRING_MOST: Final = 1 << 16  # names of templates have thousands of characters
_DEBUG_ROOT: Final = "/usr/lib/debug"
_LINK: Final = ".gnu_debugaltlink"
_LINK_MOST: Final = 1 << 12  # PATH_MAX
_OLD_HEADER: Final = 12  # "ZLIB" and the expanded size in eight bytes


class DebugSections:
    """The debug sections of one file, by name without .debug_. Missing sections are empty.

    Args:
        file: the ELF file.
        root: the folder that stands for / in paths that the file contains.
        suffix: ".dwo" for the sections of split files.
    """

    def __init__(self, file: ElfFile, root: str = "", suffix: str = "") -> None:
        self.file = file
        self.root = root
        self.suffix = suffix
        self._data: dict[str, bytes | memoryview] = {}
        self.work = 0  #: entries read so far

    @property
    def stands_alone(self) -> bool:
        """Whether no other file has been needed so far."""
        return "alternate" not in self.__dict__

    @cached_property
    def order(self) -> Literal["little", "big"]:
        """The byte order in the form that int.from_bytes takes."""
        return "little" if self.file.endian == "<" else "big"

    @cached_property
    def alternate(self) -> DebugSections | None:
        """The supplementary file of dwz, None if there is none or it is missing."""
        section = self.file.section(_LINK)
        if section is None:
            return None
        name, _, build_id = bytes(self.file.data(section)[:_LINK_MOST]).partition(b"\0")
        for path in _alternate_paths(self, os.fsdecode(name), build_id.hex()):
            file = open_elf(path)
            if file and build_id and same_build_id(file.build_id, build_id.hex()):
                return DebugSections(file, self.root)
        self.file.flaw(f"its debug information is partly in {os.fsdecode(name)!r}, which is not here")
        return None

    def data(self, name: str) -> bytes | memoryview:
        """Return the bytes of .debug_NAME, the same object each time. Raises BadElfError if they cannot be expanded."""
        data = self._data.get(name)
        if data is None:
            data = self._data[name] = self._read(name)
        return data

    def _read(self, name: str) -> bytes | memoryview:
        section = self.file.section(f".debug_{name}{self.suffix}")
        if section is not None:
            return relocate_section(self.file, section, self.file.data(section))
        section = self.file.section(f".zdebug_{name}{self.suffix}")
        return _expand_zdebug(self.file.data(section)) if section else b""

    def string(self, name: str, offset: int) -> bytes:
        """Return the string at an offset of .debug_NAME, truncated if it is not terminated."""
        data = self.data(name)
        if not 0 <= offset < len(data):
            raise ValueError(f"a string at {offset:#x} of .debug_{name}, which has {len(data)} bytes")
        for size in (256, _STRING_MOST):
            text, end, _ = bytes(data[offset : offset + size]).partition(b"\0")
            if end:
                break
        return text

    def number(self, name: str, offset: int, size: int) -> int:
        """Return the unsigned number of `size` bytes at an offset of .debug_NAME."""
        data = self.data(name)
        if not 0 <= offset <= len(data) - size:
            raise ValueError(f"an offset {offset:#x} in .debug_{name}, which has {len(data)} bytes")
        return int.from_bytes(data[offset : offset + size], self.order)

    def spend(self, entries: int) -> None:
        """Count work that this file causes. Raises ValueError above WORK_MOST."""
        self.work += entries
        if self.work > WORK_MOST:
            raise ValueError("the debug information refers to itself in a circle; the rest is not read")


def _expand_zdebug(data: bytes | memoryview) -> bytes | memoryview:
    """Expand a .zdebug section, gcc's format from before ELF had compressed sections."""
    if bytes(data[:4]) != b"ZLIB":
        return data
    from perfpy.untrusted.expansion import expand  # only old files need it

    return expand("zlib", data[_OLD_HEADER:])


def _alternate_paths(sections: DebugSections, name: str, build_id: str) -> Iterator[str]:
    yield from paths_below(sections.root, name) if name.startswith("/") else _beside(sections.file.path, name)
    yield from paths_below(sections.root, f"{_DEBUG_ROOT}/.dwz/{os.path.basename(name)}")
    try:
        yield files.debug_file(sections.root + _DEBUG_ROOT, build_id)
    except files.UnsafeNameError:
        return


def _beside(path: str, name: str) -> Iterator[str]:
    """Yield the path of a name relative to the folder of the file that contains it. dwz writes ../../.dwz/NAME."""
    folder = os.path.dirname(os.path.abspath(path))
    while name.startswith("../"):
        folder, name = os.path.dirname(folder), name[3:]
    yield from paths_below(folder, name)


def paths_below(folder: str, name: str) -> list[str]:
    """Return the path of a name inside a folder, as a list; empty if the name leads out of the folder."""
    try:
        return [files.below(folder, name)]
    except files.UnsafeNameError:
        return []


def open_elf(path: str) -> ElfFile | None:
    """Return the ELF file at a path, None if it cannot be read."""
    try:
        return ElfFile(path) if is_file(path) else None
    except (OSError, *DAMAGE):
        return None


def damage_of(error: Exception) -> str:
    """Return the text for ElfFile.flaw about an error in debug information."""
    return f"debug information: {reason_of(error)}"
