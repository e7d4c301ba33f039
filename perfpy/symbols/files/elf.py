"""ELF files: headers, sections, notes and raw symbol tables, as numpy columns.

`ElfFile` has sections by name, PT_LOAD segments, build-id, debug links, and symbol entries as a structured array over the mapped file
(without a copy); 32 and 64 bit, both byte orders. Layouts: the System V ABI, elf.h.
elf_structures reads rare structures.

Files are untrusted. Headers cannot cause more memory use or work than the file's own size: tables must lie in the file, sections are
truncated at its end, expansion is limited (untrusted.expansion). `ElfFile.flaws` lists the parts that were left out.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from functools import cache, cached_property

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.errors import PerfError
from perfpy.symbols.files import build_ids
from perfpy.untrusted.files import open_regular, require_dense
from perfpy.untrusted.mapped_files import map_file

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray

    from perfpy.untrusted.process_files import FileId


SHT_SYMTAB: Final = 2
SHT_RELA: Final = 4
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHF_ALLOC: Final = 2
_SHF_COMPRESSED: Final = 0x800
_PT_LOAD: Final = 1
_NOTE_SECTIONS: Final = (".note.gnu.build-id", ".notes", ".note")  # kernels have the second, vdsos the third

# Limits that only damaged files reach.
_NAME_MOST: Final = 256  # bytes of a section's name; without a terminator each would be as long as the table
_SECTIONS_MOST: Final = 1 << 17  # compilers that give each function a section make tens of thousands
_SEGMENTS_BYTES: Final = 1 << 16  # Linux runs no program with larger program headers (fs/binfmt_elf.c)
_NOTES_MOST: Final = 1 << 16
_LINK_MOST: Final = 1 << 12  # PATH_MAX
_FLAWS_MOST: Final = 4
_TRUNCATED: Final = "truncated while it was read"
_NOBITS_MOST: Final = 1 << 62  # so that the sum of an offset and a size fits

EM_386: Final = 3
EM_ARM: Final = 40
EM_X86_64: Final = 62
EM_AARCH64: Final = 183
EM_RISCV: Final = 243
#: names of machines as in uname
MACHINES: Final = {"x86_64": 62, "i686": 3, "aarch64": 183, "ppc64le": 21, "ppc64": 21, "s390x": 22, "riscv64": 243, "armv7l": 40}

Fields: TypeAlias = "tuple[tuple[str, str], ...]"


def fields(layout: str) -> Fields:
    """Parse a layout like "name u4, info u1" to fields of a numpy dtype, in the order of the C struct."""
    return tuple((name, code) for name, code in (field.split() for field in layout.split(",")))


@cache
def _dtype(layout: Fields, endian: str) -> np.dtype[Any]:
    return np.dtype([(name, endian + code) for name, code in layout])


_EHDR_TAIL: Final = "flags u4, ehsize u2, phentsize u2, phnum u2, shentsize u2, shnum u2, shstrndx u2"
# Elf32_Ehdr, Elf64_Ehdr after e_ident; Elf32_Shdr, ...
_EHDR: Final = {
    32: fields("type u2, machine u2, version u4, entry u4, phoff u4, shoff u4," + _EHDR_TAIL),
    64: fields("type u2, machine u2, version u4, entry u8, phoff u8, shoff u8," + _EHDR_TAIL),
}
_SHDR: Final = {
    32: fields("name u4, type u4, flags u4, addr u4, offset u4, size u4, link u4, info u4, addralign u4, entsize u4"),
    64: fields("name u4, type u4, flags u8, addr u8, offset u8, size u8, link u4, info u4, addralign u8, entsize u8"),
}
_PHDR: Final = {
    32: fields("type u4, offset u4, vaddr u4, paddr u4, filesz u4, memsz u4, flags u4, align u4"),
    64: fields("type u4, flags u4, offset u8, vaddr u8, paddr u8, filesz u8, memsz u8, align u8"),
}
_SYM: Final = {
    32: fields("name u4, value u4, size u4, info u1, other u1, shndx u2"),
    64: fields("name u4, info u1, other u1, shndx u2, value u8, size u8"),
}


class BadElfError(PerfError):
    """A file that is truncated, damaged or not ELF: path, reason."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class NotElfError(BadElfError):
    """A file in another format than ELF."""


#: errors raised while reading a damaged file
DAMAGE: Final = (BadElfError, ArithmeticError, ValueError, LookupError, struct.error)


def reason_of(damage: Exception) -> str:
    """Return the reason of an error without the file's name."""
    return damage.reason if isinstance(damage, BadElfError) else str(damage)


class ElfSection:
    """One section header; `index` is its number."""

    __slots__ = ("addr", "addralign", "entsize", "flags", "index", "info", "link", "name", "offset", "size", "type")

    def __init__(self, index: int, name: str, header: list[int]) -> None:
        self.index = index
        self.name = name
        _, self.type, self.flags, self.addr, self.offset, self.size, self.link, self.info, self.addralign, self.entsize = header


class ElfFile:
    """An ELF file mapped into memory. Raises BadElfError if it is not ELF or damaged, OSError if it cannot be read.

    Attributes:
        flaws: descriptions of the unreadable parts; reading may add more.
        inode: device and inode of the file that was read; (0, 0) if the bytes come from elsewhere.
    """

    inode = 0, 0

    def __init__(self, path: str, data: bytes | None = None, *, fd: int | None = None) -> None:
        """Read a file. data: its bytes, if it is in memory; fd: its descriptor, if it is open, which this closes."""
        self.path = path
        self.flaws: list[str] = []
        self._expanded: dict[int, bytes] = {}
        self._buffer: bytes | mmap.mmap = self._map(fd) if data is None else data
        ident = self._buffer[:16]
        if len(ident) < 16 or ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise NotElfError(path, "not an ELF file")
        self.bits = 32 * ident[4]
        self.endian = "<>"[ident[5] - 1]
        try:
            header = self._table(_EHDR[self.bits], 16, 1)[0]
            self.type, self.machine = int(header["type"]), int(header["machine"])
            self.sections = self._read_sections(int(header["shoff"]), int(header["shnum"]), int(header["shstrndx"]))
        except DAMAGE as damage:
            raise BadElfError(path, f"damaged ELF file ({damage})") from damage
        self.segments = self._read_segments(int(header["phoff"]), int(header["phnum"]))
        self._by_name: dict[str, ElfSection] = {}
        for section in self.sections[1:]:
            self._by_name.setdefault(section.name, section)

    def _map(self, fd: int | None) -> bytes | mmap.mmap:
        flaws = self.flaws  # a reference to self would keep the mapping alive
        with open_regular(self.path) if fd is None else os.fdopen(fd, "rb") as file:
            state = os.fstat(file.fileno())
            self.inode = state.st_dev, state.st_ino
            if not state.st_size:
                return file.read()
            try:
                require_dense(file.fileno(), self.path)
            except OSError as error:
                raise BadElfError(self.path, error.strerror or "a sparse file") from None
            return map_file(file.fileno(), lambda: None if _TRUNCATED in flaws else flaws.append(_TRUNCATED))

    def flaw(self, text: str) -> None:
        """Record an unreadable part once, up to a limit."""
        if len(self.flaws) < _FLAWS_MOST and text not in self.flaws:
            self.flaws.append(text)

    def dtype(self, layout: Fields) -> np.dtype[Any]:
        """Return the dtype of fields in this file's byte order."""
        return _dtype(layout, self.endian)

    @property
    def content(self) -> bytes | mmap.mmap:
        """The file's bytes."""
        return self._buffer

    def section(self, name: str, *types: int) -> ElfSection | None:
        """Return the first section with a name; with `types`, None unless it has one of them."""
        section = self._by_name.get(name)
        return section if section and (not types or section.type in types) else None

    def mapped_offset(self, section: ElfSection) -> int:
        """Return where a section is in the mapped file. Its header has another offset in a reduced file (see elf_reduction)."""
        for segment in self.segments:
            distance = section.addr - int(segment["vaddr"])
            if 0 <= distance < int(segment["filesz"]):
                return (int(segment["offset"]) + distance) % (1 << 64)
        return section.offset

    def data(self, section: ElfSection) -> bytes | memoryview:
        """Return a section's uncompressed bytes; empty if it has none in the file or lies outside of it."""
        if section.type == SHT_NOBITS:
            return b""
        raw = memoryview(self._buffer)[section.offset : section.offset + section.size]
        return self._expand_cached(section, raw) if section.flags & _SHF_COMPRESSED else raw

    def entries(self, section: ElfSection, layout: Fields) -> NDArray[Any]:
        """Return a section's complete records with the given fields."""
        kind = self.dtype(layout)
        data = self.data(section)
        return np.frombuffer(data, kind, len(data) // kind.itemsize)

    def symbols(self, section: ElfSection) -> NDArray[Any]:
        """Return the entries of a symbol table: name (offset in the linked section), info, other, shndx, value, size."""
        return self.entries(section, _SYM[self.bits])

    def strings(self, section: ElfSection) -> bytes | memoryview:
        """Return the bytes of the string table that a section is linked to."""
        return self.data(self.sections[section.link]) if section.link < len(self.sections) else b""

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hex, "" if there is none."""
        try:
            section = next((section for name in _NOTE_SECTIONS if (section := self.section(name))), None)
            return (build_ids.from_notes(bytes(self.data(section)[:_NOTES_MOST]), self.endian) if section else b"")[:20].hex()
        except DAMAGE as damage:
            self.flaw(f"build-id: {reason_of(damage)}")
            return ""

    def debuglink(self, name: str = ".gnu_debuglink") -> str:
        """Return the file name in .gnu_debuglink (or .gnu_debugaltlink), "" if there is none."""
        section = self.section(name)
        return bytes(self.data(section)[:_LINK_MOST]).split(b"\0", 1)[0].decode("utf-8", "surrogateescape") if section else ""

    def debuglink_crc(self) -> int | None:
        """Return the CRC32 in .gnu_debuglink, of the whole debug file, or None if there is none.

        It follows the name, at the next multiple of four bytes, in the file's byte order.
        """
        section = self.section(".gnu_debuglink")
        data = bytes(self.data(section)[: _LINK_MOST + 8]) if section else b""
        crc = data[(data.find(b"\0") + 4) & ~3 :][:4] if b"\0" in data else b""
        return int(struct.unpack(self.endian + "I", crc)[0]) if len(crc) == 4 else None

    def _table(self, layout: Fields, offset: int, count: int) -> NDArray[Any]:
        kind = self.dtype(layout)
        if offset + count * kind.itemsize > len(self._buffer):
            raise ValueError(f"a table of {count} entries at {offset:#x} ends beyond the file's {len(self._buffer)} bytes")
        return np.frombuffer(self._buffer, kind, count, offset) if count else np.zeros(0, kind)

    def _read_segments(self, offset: int, count: int) -> NDArray[Any]:
        """Return the PT_LOAD segments. If they are damaged, none: the sections locate symbols then."""
        layout = _PHDR[self.bits]
        try:
            if count * self.dtype(layout).itemsize > _SEGMENTS_BYTES:
                raise ValueError(f"{count} of them")
            segments = self._table(layout, offset, count)
        except DAMAGE as damage:
            self.flaw(f"program headers: {reason_of(damage)}")
            segments = self._table(layout, 0, 0)
        loaded: NDArray[Any] = segments[segments["type"] == _PT_LOAD]
        return loaded

    def _read_sections(self, offset: int, count: int, names_index: int) -> list[ElfSection]:
        if not offset:
            return []
        if not count:  # above 65,279 sections the first header has the count
            first = self._table(_SHDR[self.bits], offset, 1)[0]
            count, names_index = int(first["size"]), int(first["link"]) if names_index == 0xFFFF else names_index
        if count > _SECTIONS_MOST:
            raise ValueError(f"{count} sections")
        headers = self._table(_SHDR[self.bits], offset, count).tolist()
        names = headers[names_index] if names_index < len(headers) else None
        strings = self._buffer[names[4] : names[4] + names[5]] if names else b""
        sections = [ElfSection(index, _string(strings, row[0]), row) for index, row in enumerate(headers)]
        for section in sections[1:]:
            if section.type == SHT_NOBITS:
                section.size = min(section.size, _NOBITS_MOST)
            elif section.type and section.offset + section.size > len(self._buffer):
                self.flaw(
                    f"section {section.name!r} of {section.size} bytes at {section.offset:#x} ends beyond the file's {len(self._buffer)}"
                )
                section.size = max(len(self._buffer) - section.offset, 0)
        return sections

    def _expand_cached(self, section: ElfSection, raw: memoryview) -> bytes:
        expanded = self._expanded.get(section.index)  # lines and inlined calls read the same sections
        if expanded is None:
            expanded = self._expanded[section.index] = self._expand(section, raw)
        return expanded

    def _expand(self, section: ElfSection, raw: memoryview) -> bytes:
        from perfpy.untrusted.expansion import expand

        try:
            kind, header = compression(raw, self.bits, self.endian)
            return expand(kind, raw[header:])
        except ValueError as damage:
            raise BadElfError(self.path, f"cannot decompress section {section.name!r}: {damage}") from damage


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset, offset + _NAME_MOST)
    return table[offset : end if end >= 0 else offset + _NAME_MOST].decode("utf-8", "surrogateescape")


def open_mapped(name: str, identity: FileId, pids: Iterable[int]) -> ElfFile:
    """Open the ELF file that processes mapped, by its identity; see open_identified.

    Raises FileNotFoundError if it is gone, also if another file has its name now; BadElfError and OSError as ElfFile does.
    """
    from perfpy.untrusted.process_files import open_identified

    opened = open_identified(name, identity, pids)
    if opened is None:
        raise FileNotFoundError(errno.ENOENT, "the mapped file is gone, or another one is there", name)
    fd, path = opened
    return ElfFile(path, fd=fd)


# Read rare structures of ELF files with pyelftools. Each function receives the bytes of one structure, never a whole file: that limits
# what pyelftools reads. Raises ValueError for damaged data. perfpy.symbols.files.elf itself reads headers, sections, notes and symbols:
# importing pyelftools takes 25 to 45 ms, and it needs 1.3 ms for the headers, sections and notes of a library, where ElfFile needs 0.08
# ms. A report opens up to a thousand files.

_KINDS: Final = {"ELFCOMPRESS_ZLIB": "zlib", "ELFCOMPRESS_ZSTD": "zstd", 1: "zlib", 2: "zstd"}
_CHDR_MOST: Final = 24  # bytes


def compression(section: memoryview, bits: int, endian: str) -> tuple[str, int]:
    """Return the compression of a section (zlib or zstd), and the size of the header in front of its data."""
    from elftools.common.exceptions import ELFError

    header = _structs(bits, endian).Elf_Chdr
    try:
        from elftools.common.utils import struct_parse

        kind = struct_parse(header, io.BytesIO(bytes(section[:_CHDR_MOST])), 0)["ch_type"]
    except ELFError as damage:
        raise ValueError(f"damaged compression header: {damage}") from damage
    if kind not in _KINDS:
        raise ValueError(f"unknown compression {kind}")
    return _KINDS[kind], header.sizeof()


@cache
def _structs(bits: int, endian: str) -> Any:
    from elftools.elf.structs import ELFStructs

    structs = ELFStructs(little_endian=endian == "<", elfclass=bits)
    structs.create_basic_structs()
    structs.create_advanced_structs()
    return structs


# Decompress kernel modules (NAME.ko.gz, .xz, .zst) and .gnu_debugdata sections.

_COMPRESSIONS: Final = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}


def read_module(path: str) -> ElfFile:
    """Return the ELF file of a module. Raises OSError if it cannot be read, BadElfError if it is damaged."""
    kind = _COMPRESSIONS.get(os.path.splitext(path)[1])
    if kind is None:
        return ElfFile(path)
    from perfpy.untrusted.expansion import ExpansionError, expand  # most modules are named by kallsyms

    with open_regular(path) as file:
        data = file.read()
    try:
        return ElfFile(path, expand(kind, data))
    except ExpansionError as damage:
        raise BadElfError(path, f"cannot decompress: {damage}") from damage


def read_mini_debug_info(file: ElfFile) -> ElfFile | None:
    """Return the symbols that Fedora adds to stripped programs: an ELF file, xz-compressed in .gnu_debugdata."""
    section = file.section(".gnu_debugdata")
    if section is None:
        return None
    from perfpy.untrusted.expansion import expand  # only Fedora's files have it

    try:
        return ElfFile(file.path, expand("xz", file.data(section)))
    except DAMAGE as damage:
        file.flaw(f"section {section.name!r}: {reason_of(damage)}")
        return None
