"""Cache the symbols and CRCs of large ELF files between runs, in a thirtieth of the time of reading them again.

A file is identified by build-id (or inode), size and time, and by its owner if others could have made it: anybody can make a file with
the build-id of another one. Names stay in the file. Small files are not cached, because reading them is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.debug_files import crc_of_content
from perfpy.untrusted.files import state_of, trusted_file_owners

if TYPE_CHECKING:
    from perfpy.symbols.caches.column_files import ColumnFiles
    from perfpy.symbols.caches.symbol_cache import SymbolCache
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbol_table import Symbols

_BIG: Final = 20_000  # symbols
_SLOW_CRC: Final = 16 << 20  # bytes


def symbols_of(symbol_file: ElfFile, runtime: ElfFile, cache: SymbolCache | None) -> Symbols:
    """Return the symbols as elf_symbols.collect does, from the cache if possible."""
    tables = elf_symbols.symbol_sections(symbol_file)
    big = sum(section.size for section in tables) > _BIG * (24 if symbol_file.bits == 64 else 16)
    key = key_of("elf", symbol_file, runtime) if cache and big else ""
    if not cache or not key:
        return elf_symbols.collect(symbol_file, runtime)
    cached = cache.load(key)
    if cached and "table" in cached[1]:
        return cached[0].with_columns(source=cached[1]["table"], sources=tuple(symbol_file.strings(section) for section in tables))
    symbols = elf_symbols.collect(symbol_file, runtime)
    cache.store(key, symbols.with_columns(sources=(b"",) * len(tables)), table=symbols.source)
    return symbols


def crc_of(file: ElfFile, cache: ColumnFiles | None) -> int:
    """Return the CRC32 of a whole file; of a large one, which takes a second for a GB, from the cache if possible."""
    key = key_of("crc", file) if cache and len(file.content) > _SLOW_CRC else ""
    columns = cache.columns(key) if cache and key else None
    if columns and len(columns.get("crc", ())) == 1:
        return int(columns["crc"][0])
    crc = crc_of_content(file)
    if cache and key:
        cache.keep(key, {"crc": np.array([crc], np.uint32)})
    return crc


def key_of(kind: str, *files: ElfFile) -> str:
    """Return a key that changes with the files, "" if that cannot be guaranteed. `kind`: of the cached value."""
    words = [kind]
    for file in files:
        try:
            state = state_of(file.path)
        except OSError:  # an image in memory
            return ""
        owner = "" if state.st_uid in trusted_file_owners() else f"user{state.st_uid}"
        words += [owner + (file.build_id or f"{state.st_dev:x}.{state.st_ino:x}"), f"{state.st_size:x}", f"{state.st_mtime_ns:x}"]
    return " ".join(words if words[1:4] != words[4:] else words[:4])
