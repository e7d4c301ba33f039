r"""Files kept inside of a recording: the names that runtimes told of the code they made; with --self-contained, of all code.

What enters: names and bytes. What leaves: a feature section, and from it the
bytes again, of one file at a time. What makes names for its code leaves them in
files that are gone on another day or machine (/tmp/perf-PID.map, jitdumps); kept
here they stay with the samples. The feature's number is one of those that perf
counts when it looks for sections, but never reads. Layout:

    char magic[8];                        "perfpy\1\0"
    u32 count, size of the table;         in bytes
    { u64 size, packed; u16 name length; u8 packing; char name[]; }   count times, not padded
    then the packed bytes of each file, in the order of the table

packing: 0 as it is, 1 zlib, 2 zstd. A reader takes a name for a name: nothing is
written anywhere. Pipes have no such section: perf 6.12 stops at a feature record
whose number it does not know.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.untrusted import expansion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

KEPT_FILES: Final = 240  #: the feature's number
DEBUG_FILE: Final = "debug:"  #: before the name of a program: the file with its symbols, where that is another one
_MAGIC: Final = b"perfpy\1\0"
_HEAD: Final = "8sII"
_ENTRY: Final = "QQHB"
_STORED, _ZLIB, _ZSTD = range(3)
_KINDS: Final = {_ZLIB: "zlib", _ZSTD: "zstd"}
_MOST_FILES: Final = 1 << 16
_LONGEST_NAME: Final = 4096  # PATH_MAX
_LEVEL: Final = 3  # of zstd: its own default


class KeptFile(NamedTuple):
    """Where a file is in the section, and how large it is in there and outside."""

    offset: int
    packed: int
    size: int
    packing: int


class KeptFiles:
    """The files of one section. read: (offset in the section, size) -> bytes; warn: told once of each damage.

    Raises ValueError where it is no such section.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, endian: str, warn: Callable[[str], None]) -> None:
        self._read = read
        self._warn = warn
        self._files = _table(read, size, endian)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def get(self, name: str) -> bytes | None:
        """The bytes of a file; None where there is none by that name, or it is damaged."""
        file = self._files.get(name)
        if file is None:
            return None
        try:
            return _unpacked(self._read(file.offset, file.packed), file)
        except ValueError as error:
            self._warn(f"{name!a}, kept in the recording: {error}; left out")
            return None


def _table(read: Callable[[int, int], bytes], size: int, endian: str) -> dict[str, KeptFile]:
    """The files of a section by name; one that comes twice counts as it came first."""
    head = read(0, struct.calcsize(endian + _HEAD))
    if len(head) < struct.calcsize(endian + _HEAD):
        raise ValueError("cut before its table")
    magic, count, table_size = struct.unpack(endian + _HEAD, head)
    offset = len(head) + table_size
    if magic != _MAGIC or count > _MOST_FILES or offset > size:
        raise ValueError("not a section of kept files")
    table = read(len(head), table_size)
    found: dict[str, KeptFile] = {}
    position = 0
    for _ in range(count):
        name, file, position = _entry(table, position, offset, endian)
        offset += file.packed
        if offset > size:
            raise ValueError(f"a file of {file.packed} bytes reaches beyond it")
        found.setdefault(name, file)
    return found


def _entry(table: bytes, position: int, offset: int, endian: str) -> tuple[str, KeptFile, int]:
    try:
        size, packed, length, packing = struct.unpack_from(endian + _ENTRY, table, position)
    except struct.error:
        raise ValueError("its table is cut") from None
    position += struct.calcsize(endian + _ENTRY)
    name = table[position : position + length]
    if len(name) < length or not 0 < length <= _LONGEST_NAME:
        raise ValueError("its table is cut, or has a file without a name")
    return name.decode("utf-8", "surrogateescape"), KeptFile(offset, packed, size, packing), position + length


def _unpacked(data: bytes, file: KeptFile) -> bytes:
    if len(data) < file.packed:
        raise ValueError("cut")
    if file.packing == _STORED:
        return data
    if file.packing not in _KINDS:
        raise ValueError(f"packed in a way ({file.packing}) that is not known here")
    return expansion.expand(_KINDS[file.packing], data)


def encode(files: Mapping[str, bytes], endian: str) -> bytes:
    """The section that holds these files."""
    table, bodies = [], []
    for name, data in files.items():
        encoded = name.encode("utf-8", "surrogateescape")[:_LONGEST_NAME]
        packing, body = _packed(data)
        table.append(struct.pack(endian + _ENTRY, len(data), len(body), len(encoded), packing) + encoded)
        bodies.append(body)
    whole = b"".join(table)
    return struct.pack(endian + _HEAD, _MAGIC, len(table), len(whole)) + whole + b"".join(bodies)


def _packed(data: bytes) -> tuple[int, bytes]:
    """Compressed as far as a reader would expand it again, which believes in no wonders."""
    try:
        packing, packed = _ZSTD, expansion.zstd_library().compress(data, _LEVEL)
    except expansion.ExpansionError:
        packing, packed = _ZLIB, zlib.compress(data)
    return (packing, packed) if len(packed) < len(data) <= expansion.allowance(len(packed)) else (_STORED, data)
