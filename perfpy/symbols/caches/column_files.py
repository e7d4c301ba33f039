"""Cache columns of numbers between runs, in files below XDG_CACHE_HOME/perfpy.

Columns are stored by name under a key, which must change whenever they would, and are mapped on load. No function here raises: a file that
is missing, truncated, damaged or of another version or owner is a miss, and a failed write is ignored. The folder must belong to this user
alone.

Files are replaced atomically and never changed, so concurrent runs do not disturb each other. The least recently used files are removed
above the size limit.

File layout: magic; u64 length of the head; u64 sum (modulo 2^64) of all words that follow; the head, a line "NAME DTYPE BYTES" per column;
the columns, each padded to 8 bytes. (A sum takes a tenth of a CRC's time and detects what happens to files: zero pages, truncation, single
words. Importing json would take longer than reading the file.)
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.untrusted.files import open_regular, trusted_file_owners
from perfpy.untrusted.folders import own

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
            self._trim()

    def _file(self, key: str) -> str:
        return os.path.join(self.path, re.sub(r"[^0-9A-Za-z]", "-", key) + self._suffix)

    def _trim(self) -> None:
        """Remove the least recently used files above the limit, and temporary files of killed runs."""
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
