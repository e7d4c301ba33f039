"""Read rare structures of ELF files through pyelftools.

Each function gets the bytes of one structure, never a whole file, which bounds what pyelftools reads. Raises ValueError for damaged data.

Headers, sections, notes and symbols are not read so: importing pyelftools takes 25 to 45 ms, and it reads the headers, sections and notes
of a library in 1.3 ms, perfpy.symbols.files.elf in 0.08. A report opens up to a thousand files.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any, Final

_KINDS: Final = {"ELFCOMPRESS_ZLIB": "zlib", "ELFCOMPRESS_ZSTD": "zstd", 1: "zlib", 2: "zstd"}
_CHDR_MOST: Final = 24  # bytes


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
