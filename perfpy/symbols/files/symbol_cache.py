"""Cache parsed symbols of the kernel (kernel_symbols) and of large ELF files (elf_cache) between runs.

A key identifies the contents. Names are one column of bytes, the last (see column_files).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.debug_files import crc_of_content
from perfpy.symbols.symbol_table import Symbols
from perfpy.untrusted.destinations import own
from perfpy.untrusted.files import open_regular, state_of, trusted_file_owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile


# Cache columns of numbers between runs, in files below XDG_CACHE_HOME/perfpy. Columns are stored by name under a key, which must change
# whenever they would, and are mapped on load. No function here raises: a file that is missing, truncated, damaged or of another version
# or owner is a miss, and a failed write is ignored. The folder must belong to this user alone.
#
# Files are replaced atomically and never changed, so concurrent runs do not disturb each other. The least recently used files are removed
# above the size limit. File layout: magic; u64 length of the head; u64 sum (modulo 2^64) of all words that follow; the head, a line "NAME
# DTYPE BYTES" per column; the columns, each padded to 8 bytes. (A sum takes a tenth of a CRC's time and detects what happens to files:
# zero pages, truncation, single words. Importing json would take longer than reading the file.)

_MAGIC: Final = b"perfpy\x00\x03"  # the last byte is the version of the layout and of the cached computations
_HEAD: Final = struct.Struct("<8sQQ")
_ALIGN: Final = 8
_LIMIT: Final = 256 << 20
_STALE: Final = 3600  # age in seconds at which temporary files are removed


def folder(name: str) -> str:
    """Return the folder of one kind of cached files."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", name)


class ColumnFiles:
    """A folder of cached tables.

    Args:
        path: the folder.
        suffix: of the file names.
        limit: bytes of all files together.
    """

    def __init__(self, path: str, suffix: str, limit: int = _LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._suffix = suffix

    def columns(self, key: str) -> dict[str, NDArray[Any]] | None:
        """Return the columns stored under a key (a valid file name), None if there are none."""
        name = self._file(key)
        try:
            with open_regular(name, owners=trusted_file_owners()) as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with contextlib.suppress(OSError):  # the folder may be read-only
                os.utime(name)
            return _decode(data)
        except (OSError, ValueError, TypeError, struct.error):
            return None

    def keep(self, key: str, columns: dict[str, NDArray[Any]]) -> None:
        """Store columns under a key (a valid file name)."""
        with contextlib.suppress(OSError):
            with own(self.path) as folder:
                folder.put(os.path.basename(self._file(key)), (_encode(columns),))
            # Remove the least recently used files above the limit, and temporary files of killed runs.
            import time

            stale = time.time() - _STALE
            with os.scandir(self.path) as entries:
                states = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries]
            excess = sum(size for _, size, _ in states) - self.limit
            for used, size, name in sorted(states):
                if excess > 0 or (used < stale and not name.endswith(self._suffix)):
                    with contextlib.suppress(OSError):  # a concurrent run removed it first
                        os.unlink(name)
                    excess -= size

    def _file(self, key: str) -> str:
        return os.path.join(self.path, re.sub(r"[^0-9A-Za-z]", "-", key) + self._suffix)


def _encode(columns: dict[str, NDArray[Any]]) -> bytes:
    text = "".join(f"{name} {column.dtype.str} {column.nbytes}\n" for name, column in columns.items()).encode()
    parts = [text, *(column.tobytes() for column in columns.values())]
    body = b"".join(part + bytes(-len(part) % _ALIGN) for part in parts)
    return _HEAD.pack(_MAGIC, len(text), _sum(body)) + body


def _sum(body: bytes | memoryview) -> int:
    return int(np.frombuffer(body, "<u8").sum(dtype=np.uint64))


def _decode(data: mmap.mmap) -> dict[str, NDArray[Any]]:
    """Decode the output of _encode. Raises ValueError for anything else."""
    magic, length, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or _sum(body) != checksum:
        raise ValueError("not a table of this version")
    offset, columns = length + -length % _ALIGN, {}
    for line in bytes(body[:length]).decode().splitlines():
        name, kind, size = line.split(" ")
        columns[name] = np.frombuffer(body[offset : offset + int(size)], np.dtype(kind))
        offset += int(size) + -int(size) % _ALIGN
    return columns


_KEPT: Final = ("start", "end", "binding", "type", "name")


class SymbolCache(ColumnFiles):
    """A folder of cached symbol tables. `limit`: bytes of all files together."""

    def __init__(self, path: str, limit: int = _LIMIT) -> None:
        super().__init__(path, ".symbols", limit)

    def load(self, key: str) -> tuple[Symbols, dict[str, NDArray[Any]]] | None:
        """Return the symbols and further columns stored under a key, None if there are none."""
        columns = self.columns(key)
        if columns is None or not columns.keys() >= {*_KEPT, "names"}:
            return None
        names = columns.pop("names").data
        own = {name: columns.pop(name) for name in _KEPT}
        return Symbols(**own, source=np.zeros(len(own["start"]), np.uint8), sources=(names,)), columns

    def store(self, key: str, symbols: Symbols, **further: NDArray[Any]) -> None:
        """Store symbols and further columns under a key."""
        lengths = [len(source) for source in symbols.sources]
        base = np.cumsum([0, *lengths[:-1]])
        names = b"".join(bytes(source) for source in symbols.sources)
        joined = symbols.with_columns(name=symbols.name + base[symbols.source], source=np.zeros_like(symbols.source), sources=(names,))
        columns = {name: getattr(joined, name) for name in _KEPT} | further | {"names": np.frombuffer(joined.sources[0], np.uint8)}
        self.keep(key, columns)


# Cache the symbols and CRCs of large ELF files between runs, in a thirtieth of the time of reading them again. A file is identified by
# build-id (or inode), size and time, and by its owner if others could have made it: anybody can make a file with the build-id of another
# one. Names stay in the file. Small files are not cached, because reading them is faster.

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
