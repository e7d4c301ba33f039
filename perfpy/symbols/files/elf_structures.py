"""Read rare structures of ELF files with pyelftools.

Each function receives the bytes of one structure, never a whole file: that limits what pyelftools reads. Raises ValueError for damaged
data. perfpy.symbols.files.elf itself reads headers, sections, notes and symbols: importing pyelftools takes 25 to 45 ms, and it needs
1.3 ms for the headers, sections and notes of a library, where ElfFile needs 0.08 ms. A report opens up to a thousand files.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any, Final

_KINDS: Final = {"ELFCOMPRESS_ZLIB": "zlib", "ELFCOMPRESS_ZSTD": "zstd", 1: "zlib", 2: "zstd"}
_CHDR_MOST: Final = 24  # bytes


def compression(section: memoryview, bits: int, endian: str) -> tuple[str, int]:
    """Return the compression of a section (zlib or zstd), and the size of the header in front of its data."""
    from elftools.common.exceptions import ELFError

    header = _structs(bits, endian).Elf_Chdr
    try:
        kind = _parse(header, bytes(section[:_CHDR_MOST]))["ch_type"]
    except ELFError as damage:
        raise ValueError(f"damaged compression header: {damage}") from damage
    if kind not in _KINDS:
        raise ValueError(f"unknown compression {kind}")
    return _KINDS[kind], header.sizeof()


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
