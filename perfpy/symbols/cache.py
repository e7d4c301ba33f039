"""The kernel's parsed symbols, kept between runs.

(Tables of ELF files are not: reading one from its file takes no longer than
reading and checking a copy of it here.)

What enters: Symbols (and further columns) under a key that changes whenever
they would. What leaves: the same again, mapped from a file below
XDG_CACHE_HOME/perfpy. Nothing here fails: a file that is missing, cut, damaged
or of another version is no answer, and one that cannot be written is not kept.
Files are put in place whole, so runs at the same time do not disturb each
other; the least recently used go when all together exceed the limit.

A file: magic, u32 length of the JSON head, u32 CRC-32 of all that follows, the
head {columns: [[name, dtype, bytes]...], names: bytes}, columns, names.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.symbol_table import Symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC: Final = b"perfpy\x00\x01"  # the last byte is the version of this layout and of the rules behind it
_HEAD: Final = struct.Struct("<8sII")
_ALIGN: Final = 8
_LIMIT: Final = 256 << 20
_SUFFIX: Final = ".symbols"


def folder() -> str:
    """Where the files are."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", "symbols")


@dataclass(frozen=True)
class SymbolCache:
    """A folder of tables. limit: bytes of all files together; keys: words that make a file name."""

    path: str
    limit: int = _LIMIT

    def load(self, key: str) -> tuple[Symbols, dict[str, NDArray[Any]]] | None:
        """What was stored under the key: the symbols and the further columns; None if there is nothing (whole)."""
        name = self._file(key)
        try:
            with open(name, "rb") as file:
                data = file.read()
            os.utime(name)
            return _decode(data)
        except (OSError, ValueError, KeyError, TypeError, struct.error):
            return None

    def store(self, key: str, symbols: Symbols, **further: NDArray[Any]) -> None:
        """Keep symbols and further columns under a key."""
        import tempfile  # only when there is something new

        with contextlib.suppress(OSError):
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_encode(symbols, further))
                os.replace(temporary, self._file(key))
            except BaseException:
                os.unlink(temporary)
                raise
            self._trim()

    def _file(self, key: str) -> str:
        return os.path.join(self.path, re.sub(r"[^0-9A-Za-z]", "-", key) + _SUFFIX)

    def _trim(self) -> None:
        """Remove the files that were not used for longest, down to the limit."""
        with os.scandir(self.path) as entries:
            states = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries if entry.name.endswith(_SUFFIX)]
        excess = sum(size for _, size, _ in states) - self.limit
        for _, size, name in sorted(states):
            if excess <= 0:
                return
            with contextlib.suppress(OSError):  # another run was quicker
                os.unlink(name)
            excess -= size


def _encode(symbols: Symbols, further: dict[str, NDArray[Any]]) -> bytes:
    import json  # only for recordings of the kernel

    joined = _one_source(symbols)
    columns = {field.name: getattr(joined, field.name) for field in fields(Symbols) if field.name not in ("source", "sources")} | further
    names = bytes(joined.sources[0])
    head = {"columns": [[name, column.dtype.str, column.nbytes] for name, column in columns.items()], "names": len(names)}
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + _HEAD.size) % _ALIGN)
    body = text + b"".join(column.tobytes() + bytes(-column.nbytes % _ALIGN) for column in columns.values()) + names
    return _HEAD.pack(_MAGIC, len(text), zlib.crc32(body)) + body


def _one_source(symbols: Symbols) -> Symbols:
    """The same symbols with all names in one table."""
    lengths = [len(source) for source in symbols.sources]
    base = np.cumsum([0, *lengths[:-1]])
    columns = {field.name: getattr(symbols, field.name) for field in fields(Symbols)}
    columns |= {
        "name": symbols.name + base[symbols.source],
        "source": np.zeros_like(symbols.source),
        "sources": (b"".join(bytes(source) for source in symbols.sources),),
    }
    return Symbols(**columns)


def _decode(data: bytes) -> tuple[Symbols, dict[str, NDArray[Any]]]:
    """The mirror of _encode; ValueError for anything that is not its result."""
    import json  # as in _encode

    magic, length, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or zlib.crc32(body) != checksum:
        raise ValueError("not a symbol table of this version")
    head = json.loads(bytes(body[:length]))
    at, columns = length, {}
    for name, kind, size in head["columns"]:
        columns[name] = np.frombuffer(body[at : at + size], np.dtype(kind))
        at += size + -size % _ALIGN
    names = bytes(body[at : at + head["names"]])
    own = {field.name: columns.pop(field.name) for field in fields(Symbols) if field.name in columns}
    return Symbols(**own, source=np.zeros(len(own["start"]), np.uint8), sources=(names,)), columns
