"""The structures of ELF files that are few and rarely needed, read through pyelftools.

What enters: the bytes of one structure, or of one section of notes, never a
whole file: how far pyelftools can read is decided here. What leaves: plain
values; ValueError for whatever is damaged.

Headers, sections and symbols are not read so. Importing pyelftools takes 25 to
45 ms, and it reads the headers, sections and notes of a library in 1.3 ms,
perfpy.symbols.files.elf in 0.08: a report opens up to a thousand files.
"""

from __future__ import annotations

import io
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS: Final = {"ELFCOMPRESS_ZLIB": "zlib", "ELFCOMPRESS_ZSTD": "zstd", 1: "zlib", 2: "zstd"}
_CHDR_MOST: Final = 24  # bytes
_NOTES_MOST: Final = 1 << 16


def compression(section: memoryview, bits: int, endian: str) -> tuple[str, int]:
    """How a section is compressed (zlib or zstd), and the size of the header before the data."""
    from elftools.common.exceptions import ELFError

    header = _structs(bits, endian).Elf_Chdr
    try:
        kind = _parse(header, bytes(section[:_CHDR_MOST]))["ch_type"]
    except ELFError as damage:
        raise ValueError(f"damaged compression header: {damage}") from damage
    if kind not in _KINDS:
        raise ValueError(f"unknown compression {kind}")
    return _KINDS[kind], header.sizeof()


def build_id(notes: memoryview | bytes, bits: int, endian: str) -> bytes:
    """The GNU build-id among notes of several kinds, as the kernel's image has them; b"" if there is none."""
    found = (bytes(note["n_descdata"]) for note in _notes(bytes(notes[:_NOTES_MOST]), bits, endian) if _is_build_id(note))
    return next(found, b"")


def _is_build_id(note: Any) -> bool:
    return note["n_name"] == "GNU" and note["n_type"] in {"NT_GNU_BUILD_ID", 3}


def _notes(data: bytes, bits: int, endian: str) -> Iterator[Any]:
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.notes import iter_notes

    file: Any = SimpleNamespace(structs=_structs(bits, endian), stream=io.BytesIO(data), elfclass=bits)
    try:
        yield from iter_notes(file, 0, len(data) + 1)  # its bound is exclusive
    except (ELFError, ConstructError) as damage:
        raise ValueError(f"damaged notes: {damage}") from damage


def _parse(kind: Any, data: bytes) -> Any:
    from elftools.common.utils import struct_parse

    return struct_parse(kind, io.BytesIO(data), 0)


@cache
def _structs(bits: int, endian: str) -> Any:
    from elftools.elf.structs import ELFStructs

    structs = ELFStructs(little_endian=endian == "<", elfclass=bits)
    structs.create_basic_structs()
    structs.create_advanced_structs()
    return structs
