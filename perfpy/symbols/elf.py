"""ELF files: headers, sections, notes and raw symbol tables, as numpy columns.

What enters: a file, or its bytes; 32 or 64 bit, either byte order. What leaves:
`ElfFile` with sections by name, PT_LOAD segments, build-id, debug links and the
symbol entries as a structured array over the mapped file (nothing is copied).
Layouts: the System V ABI, elf.h. (pyelftools reads the same, but at a hundredth
of the speed, and importing it costs more than reading most files.)
"""

from __future__ import annotations

import mmap
import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from perfpy.errors import PerfError

SHT_SYMTAB: Final = 2
SHT_RELA: Final = 4
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHF_ALLOC: Final = 2
_SHF_COMPRESSED: Final = 0x800
_PT_LOAD: Final = 1
_NT_GNU_BUILD_ID: Final = 3
_BUILD_ID_SECTIONS: Final = (".note.gnu.build-id", ".notes", ".note")

ET_REL: Final = 1
ET_EXEC: Final = 2
EM_386: Final = 3
EM_ARM: Final = 40
EM_X86_64: Final = 62
EM_AARCH64: Final = 183
EM_RISCV: Final = 243

# Elf32_Ehdr / Elf64_Ehdr behind e_ident
_EHDR = {
    32: [("type", "u2"), ("machine", "u2"), ("version", "u4"), ("entry", "u4"), ("phoff", "u4"), ("shoff", "u4")],
    64: [("type", "u2"), ("machine", "u2"), ("version", "u4"), ("entry", "u8"), ("phoff", "u8"), ("shoff", "u8")],
}
_EHDR_TAIL = [("flags", "u4"), ("ehsize", "u2"), ("phentsize", "u2"), ("phnum", "u2"), ("shentsize", "u2"), ("shnum", "u2"), ("shstrndx", "u2")]
_SHDR = {
    bits: [("name", "u4"), ("type", "u4"), ("flags", word), ("addr", word), ("offset", word), ("size", word)]
    + [("link", "u4"), ("info", "u4"), ("addralign", word), ("entsize", word)]
    for bits, word in ((32, "u4"), (64, "u8"))
}
_PHDR = {
    32: [("type", "u4"), ("offset", "u4"), ("vaddr", "u4"), ("paddr", "u4"), ("filesz", "u4"), ("memsz", "u4"), ("flags", "u4"), ("align", "u4")],
    64: [("type", "u4"), ("flags", "u4"), ("offset", "u8"), ("vaddr", "u8"), ("paddr", "u8"), ("filesz", "u8"), ("memsz", "u8"), ("align", "u8")],
}
_SYM = {
    32: [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2")],
    64: [("name", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2"), ("value", "u8"), ("size", "u8")],
}
_CHDR = {
    32: [("type", "u4"), ("size", "u4"), ("addralign", "u4")],
    64: [("type", "u4"), ("reserved", "u4"), ("size", "u8"), ("addralign", "u8")],
}


class BadElf(PerfError):
    """A file that is not ELF, or is cut or damaged: path, reason."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True)
class Section:
    """One section header; `index` is its number."""

    index: int
    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    addralign: int
    entsize: int


class ElfFile:
    """An ELF file mapped into memory. Raises BadElf where it cannot be one, OSError where it cannot be read."""

    def __init__(self, path: str, data: bytes | None = None) -> None:
        self.path = path
        self._buffer: bytes | mmap.mmap = _map_file(path) if data is None else data
        ident = self._buffer[:16]
        if len(ident) < 16 or ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise BadElf(path, "not an ELF file")
        self.bits = 32 * ident[4]
        self.endian = "<>"[ident[5] - 1]
        header = self._table(_EHDR[self.bits] + _EHDR_TAIL, 16, 1)[0]
        self.type, self.machine = int(header["type"]), int(header["machine"])
        try:
            self.sections = self._read_sections(int(header["shoff"]), int(header["shnum"]), int(header["shstrndx"]))
            segments = self._table(_PHDR[self.bits], int(header["phoff"]), int(header["phnum"]))
        except (ValueError, IndexError) as damage:
            raise BadElf(path, f"damaged ELF file ({damage})") from damage
        self.segments = segments[segments["type"] == _PT_LOAD]
        self._by_name: dict[str, Section] = {}
        for section in self.sections[1:]:
            self._by_name.setdefault(section.name, section)

    def dtype(self, fields: list[tuple[str, str]]) -> np.dtype[Any]:
        """Fields in this file's byte order."""
        return np.dtype([(name, self.endian + code) for name, code in fields])

    def section(self, name: str, *types: int) -> Section | None:
        """The first section of that name; with types, only when it is of one of them."""
        found = self._by_name.get(name)
        return found if found and (not types or found.type in types) else None

    def data(self, section: Section) -> bytes | memoryview:
        """A section's bytes, uncompressed; empty for one without bytes in the file, or outside of it."""
        if section.type == SHT_NOBITS:
            return b""
        raw = memoryview(self._buffer)[section.offset : section.offset + section.size]
        return self._uncompressed(raw) if section.flags & _SHF_COMPRESSED else raw

    def entries(self, section: Section, fields: list[tuple[str, str]]) -> NDArray[Any]:
        """A section's content as records of the given fields (whole ones only)."""
        kind = self.dtype(fields)
        data = self.data(section)
        return np.frombuffer(data, kind, len(data) // kind.itemsize)

    def symbols(self, section: Section) -> NDArray[Any]:
        """The entries of a symbol table: name (offset in the linked section), info, other, shndx, value, size."""
        return self.entries(section, _SYM[self.bits])

    def strings(self, section: Section) -> bytes | memoryview:
        """The bytes of the string table that a section is linked to."""
        return self.data(self.sections[section.link]) if section.link < len(self.sections) else b""

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hex, "" if there is none."""
        for name in _BUILD_ID_SECTIONS:
            section = self.section(name)
            if section:
                return self._build_id_note(bytes(self.data(section)))
        return ""

    def debuglink(self, name: str = ".gnu_debuglink") -> str:
        """The file name in .gnu_debuglink (or .gnu_debugaltlink), "" if there is none."""
        section = self.section(name)
        return bytes(self.data(section)).split(b"\0", 1)[0].decode("utf-8", "surrogateescape") if section else ""

    def _table(self, fields: list[tuple[str, str]], offset: int, count: int) -> NDArray[Any]:
        return np.frombuffer(self._buffer, self.dtype(fields), count, offset) if count else np.zeros(0, self.dtype(fields))

    def _read_sections(self, offset: int, count: int, names_index: int) -> list[Section]:
        if not offset:
            return []
        if not count:  # more than 65,279: the first header has the number
            first = self._table(_SHDR[self.bits], offset, 1)[0]
            count, names_index = int(first["size"]), int(first["link"]) if names_index == 0xFFFF else names_index
        headers = [tuple(row) for row in self._table(_SHDR[self.bits], offset, count).tolist()]
        names = headers[names_index] if names_index < len(headers) else None
        strings = self._buffer[names[4] : names[4] + names[5]] if names else b""
        return [Section(index, _string(strings, row[0]), *row[1:]) for index, row in enumerate(headers)]

    def _build_id_note(self, data: bytes) -> str:
        at = 0
        while at + 12 <= len(data):
            name_size, size, kind = np.frombuffer(data, self.endian + "u4", 3, at).tolist()
            name, at = data[at + 12 : at + 12 + name_size], at + 12 + (name_size + 3 & ~3)
            if kind == _NT_GNU_BUILD_ID and name == b"GNU\0":
                return data[at : at + min(size, 20)].hex()
            at += size + 3 & ~3
        return ""

    def _uncompressed(self, raw: memoryview) -> bytes:
        header = self.dtype(_CHDR[self.bits])
        kind = int(np.frombuffer(raw, header, 1)[0]["type"])
        body = bytes(raw[header.itemsize :])
        try:
            return zlib.decompress(body) if kind == 1 else _zstd(body)
        except Exception as damage:
            raise BadElf(self.path, f"cannot decompress a section: {damage}") from damage


def _zstd(data: bytes) -> bytes:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        from backports import zstd  # type: ignore[no-redef]
    return bytes(zstd.decompress(data))


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.find(b"\0", offset)].decode("utf-8", "surrogateescape")


def _map_file(path: str) -> bytes | mmap.mmap:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else file.read()
