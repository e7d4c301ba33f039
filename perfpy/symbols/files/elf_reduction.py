"""Reduce an ELF file to what names and unwinding need, so that it can be stored in a recording.

Segments and section headers remain; contents are omitted except symbols, notes, procedure linkage tables and call frame information. The
kept contents have other offsets than in the mapped file (see ElfFile.mapped_offset).
Layout: elf(5).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.symbols.files import elf, plt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.symbols.files.elf import ElfFile, ElfSection

_SHT_NOBITS: Final = 8
_DYNAMIC: Final = (".rela.dyn", ".rel.dyn")  # only what names stubs: the whole takes megabytes
_SLOTS: Final = (".got", ".got.plt")  # of machines whose relocations have their addends in slots
_KEPT_TYPES: Final = (2, 3, 7, 11)  # SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_DYNSYM
_KEPT_NAMES: Final = (
    *(".rela.plt", ".rel.plt", ".plt", ".plt.sec", ".plt.bnd", ".plt.got", ".iplt"),
    *(".gnu_debugdata", ".gnu_debuglink", ".gnu_debugaltlink", ".eh_frame", ".eh_frame_hdr", ".debug_frame"),
    *(".ARM.exidx", ".ARM.extab", ".gnu.version", ".gnu.version_d", ".gnu.version_r"),
)


class _HeaderLayout(NamedTuple):
    """The offsets of table offsets in the ELF header, and of type, offset and size in section headers; `code`: an offset's format."""

    header_size: int
    segments_at: int
    segment_count_at: int
    segment_size: int
    sections_at: int
    section_size: int
    offset_at: int
    code: str
    alignment: int = 16


_LAYOUTS: Final = {32: _HeaderLayout(52, 28, 44, 32, 32, 40, 16, "I"), 64: _HeaderLayout(64, 32, 56, 56, 40, 64, 24, "Q")}
_TYPE_AT: Final = 4  # offset in a section header


def reduce_elf(file: ElfFile) -> bytes:
    """Return the reduced file, b"" without section headers."""
    layout = _LAYOUTS[file.bits]
    content = memoryview(file.content)
    if len(file.sections) < 2:
        return b""
    segments_at, sections_at = (_offset(content, layout, file.endian, field) for field in (layout.segments_at, layout.sections_at))
    (segments,) = struct.unpack_from(file.endian + "H", content, layout.segment_count_at)
    segments_size = segments * layout.segment_size
    headers = bytearray(content[sections_at : sections_at + len(file.sections) * layout.section_size])
    reduced = bytearray(content[: layout.header_size])
    struct.pack_into(file.endian + layout.code, reduced, layout.segments_at, layout.header_size)
    reduced += content[segments_at : segments_at + segments_size]
    for section, kept in _choose(file):
        header = section.index * layout.section_size
        if kept is None:
            struct.pack_into(file.endian + "I", headers, header + _TYPE_AT, _SHT_NOBITS)
            continue
        reduced += bytes(-len(reduced) % layout.alignment)
        struct.pack_into(file.endian + layout.code * 2, headers, header + layout.offset_at, len(reduced), len(kept))
        reduced += kept
    reduced += bytes(-len(reduced) % layout.alignment)
    struct.pack_into(file.endian + layout.code, reduced, layout.sections_at, len(reduced))
    return bytes(reduced + headers)


def _offset(content: memoryview, layout: _HeaderLayout, endian: str, field: int) -> int:
    offset: int = struct.unpack_from(endian + layout.code, content, field)[0]
    return offset


def _choose(file: ElfFile) -> Iterator[tuple[ElfSection, bytes | memoryview | None]]:
    """Yield each section that has contents, and those to keep; None for none."""
    content = memoryview(file.content)
    slots = _SLOTS if file.machine in (elf.EM_386, elf.EM_ARM) else ()
    for section in file.sections[1:]:
        if section.type == _SHT_NOBITS:
            continue
        if section.name in _DYNAMIC:
            yield section, plt.needed_relocations(file, section)
        elif section.type in _KEPT_TYPES or section.name in _KEPT_NAMES or section.name in slots:
            yield section, content[section.offset : section.offset + section.size]
        else:
            yield section, None
