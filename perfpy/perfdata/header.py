"""Decode and encode the file header, the attr table and the pipe header.

Layout: struct perf_file_header in tools/perf/util/header.h and
tools/perf/Documentation/perf.data-file-format.txt:

    struct perf_file_section { u64 offset, size; }
    struct perf_file_header  { u64 magic, size, attr_size;
                               struct perf_file_section attrs, data, event_types;
                               u64 features[4]; }                       104 bytes
    struct perf_pipe_file_header { u64 magic, size; }                    16 bytes
    struct perf_file_attr { struct perf_event_attr attr; struct perf_file_section ids; }
"""

from __future__ import annotations

import struct

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER0, ATTR_SIZE_VER1, ATTR_SIZE_VER2, ATTR_SIZE_VER3, ATTR_SIZE_VER4, ATTR_SIZE_VER5
from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

MAGIC: Final = {"<": b"PERFILE2", ">": b"2ELIFREP"}
MAGIC_V1: Final = b"PERFFILE"  # the same in both byte orders; the attr size distinguishes them
HEADER_SIZE: Final = 104
PIPE_HEADER_SIZE: Final = 16
SECTION_SIZE: Final = 16
_OLDEST_HEADER_SIZE: Final = 72  # of writers without features
_FEATURES_OFFSET: Final = 72
_FEATURE_BITS: Final = 256
_HOSTNAME: Final = 3  # set by every writer that has features
_BUILD_ID: Final = 2
_V1_ATTR_SIZES: Final = (ATTR_SIZE_VER0, ATTR_SIZE_VER1, ATTR_SIZE_VER2, ATTR_SIZE_VER3, ATTR_SIZE_VER4, ATTR_SIZE_VER5)


class FileSection(NamedTuple):
    """A byte range of the file."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The offset just past the last byte."""
        return self.offset + self.size


class FileHeader(NamedTuple):
    """struct perf_file_header.

    Attributes:
        endian: "<" or ">".
        version: 1 (PERFFILE) or 2 (PERFILE2).
        attr_size: bytes of one entry of the attr table, its ids section included.
        features: the numbers of the feature sections after the data, ascending.
    """

    endian: str
    version: int
    attr_size: int
    attrs: FileSection
    data: FileSection
    event_types: FileSection
    features: tuple[int, ...]
    size: int = HEADER_SIZE

    def encode(self) -> bytes:
        """Return the header's 104 bytes."""
        words = [0] * (_FEATURE_BITS // 64)
        for bit in self.features:
            words[bit // 64] |= 1 << bit % 64
        magic = MAGIC[self.endian] if self.version == 2 else MAGIC_V1
        fields = (self.size, self.attr_size, *self.attrs, *self.data, *self.event_types, *words)
        return magic + struct.pack(f"{self.endian}12Q", *fields)


class PipeHeader(NamedTuple):
    """struct perf_pipe_file_header: the start of a recording written to a pipe."""

    endian: str

    def encode(self) -> bytes:
        """Return the header's 16 bytes."""
        return MAGIC[self.endian] + struct.pack(f"{self.endian}Q", PIPE_HEADER_SIZE)


def decode_header(data: bytes) -> FileHeader | PipeHeader:
    """Decode the header from the first 104 bytes of a file.

    Raises ValueError if these are no perf.data header.
    """
    if not data:
        raise ValueError("empty file, nothing was recorded")
    if len(data) < PIPE_HEADER_SIZE:
        raise ValueError(f"only {len(data)} bytes, too short for a perf.data header")
    endian, version = _byte_order(data)
    (size,) = struct.unpack_from(f"{endian}Q", data, 8)
    if size == PIPE_HEADER_SIZE and version == 2:
        return PipeHeader(endian)
    if size not in (HEADER_SIZE, _OLDEST_HEADER_SIZE):
        raise ValueError(f"header of {size} bytes; expected {PIPE_HEADER_SIZE}, {_OLDEST_HEADER_SIZE} and {HEADER_SIZE}")
    if len(data) < size:
        raise ValueError(f"header truncated after {len(data)} of {size} bytes")
    words = struct.unpack_from(f"{endian}7Q", data, 16)
    features = _feature_bits(data[_FEATURES_OFFSET:HEADER_SIZE], endian) if size == HEADER_SIZE else ()
    return FileHeader(
        endian, version, words[0], FileSection(*words[1:3]), FileSection(*words[3:5]), FileSection(*words[5:7]), features, size
    )


def _byte_order(data: bytes) -> tuple[str, int]:
    """Return ("<" or ">", version) by the magic; for version 1 by the order that gives a valid attr size."""
    magic = data[:8]
    for endian, candidate in MAGIC.items():
        if magic == candidate:
            return endian, 2
    if magic != MAGIC_V1:
        raise ValueError("not a perf.data file (no PERFILE2 or PERFFILE at its start)")
    for endian in "<>":
        if len(data) >= 24 and struct.unpack_from(f"{endian}Q", data, 16)[0] - SECTION_SIZE in _V1_ATTR_SIZES:
            return endian, 1
    raise ValueError("version 1 perf.data with an unknown attr size")


def _feature_bits(data: bytes, endian: str) -> tuple[int, ...]:
    """Return the numbers of the set bits. The words are the writer's `unsigned long`, which may have 4 bytes if big-endian."""
    wide = struct.unpack(f"{endian}4Q", data)
    if endian == "<":
        return _set_bits(wide, 64)
    for words, width in ((wide, 64), (struct.unpack(f"{endian}8I", data), 32)):
        bits = _set_bits(words, width)
        if _HOSTNAME in bits or not bits:
            return bits
    return (_BUILD_ID,)


def _set_bits(words: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(i * width + bit for i, word in enumerate(words) for bit in range(width) if word >> bit & 1)


class AttrEntry(NamedTuple):
    """struct perf_file_attr: an event's attr and the section of its ids."""

    attr: EventAttr
    ids: FileSection

    def encode(self, endian: str = "<") -> bytes:
        """Return the entry's bytes: the attr in its own size, then the section."""
        return self.attr.pack(endian) + struct.pack(f"{endian}2Q", *self.ids)


def decode_attr_table(data: bytes, attr_size: int, endian: str) -> list[AttrEntry]:
    """Return the entries of the attr table, each `attr_size` bytes long.

    Raises ValueError if attr_size is impossible.
    """
    size = attr_size - SECTION_SIZE
    if size < ATTR_SIZE_VER0:
        raise ValueError(f"attr table with entries of {attr_size} bytes; expected at least {ATTR_SIZE_VER0 + SECTION_SIZE}")
    if len(data) % attr_size:
        raise ValueError(f"attr table of {len(data)} bytes is not a multiple of its entry size, {attr_size}")
    entries = []
    for start in range(0, len(data), attr_size):
        attr = _unpack_attr(data[start : start + size], endian)
        entries.append(AttrEntry(attr, FileSection(*struct.unpack_from(f"{endian}2Q", data, start + size))))
    return entries


def _unpack_attr(data: bytes, endian: str) -> EventAttr:
    """Decode an attr of the table; attr.size keeps the attr's own `size`, the writer's ABI."""
    (own_size,) = struct.unpack_from(f"{endian}I", data, 4)
    attr = EventAttr.unpack(data, endian)
    if attr.unknown.strip(b"\0"):
        raise ValueError(f"event attr of {len(data)} bytes has fields that this version of perfpy does not know; use a newer one")
    if ATTR_SIZE_VER0 <= own_size <= len(data):
        attr.size = own_size
    return attr
