"""Decompress data of others up to a limit.

Data in zlib, gzip, bzip2, xz or zstd is expanded step by step; sizes in headers are ignored. ExpansionError: damaged data, or data
that exceeds the limit. Formats: RFC 1950, 1952 and 8878, and the .xz file format 1.1.
"""

from __future__ import annotations

import os
import struct
import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, Final, Protocol

    class _Decompressor(Protocol):
        """The common interface of the decompressors of lzma, zstd and (wrapped) zlib."""

        @property
        def eof(self) -> bool: ...

        @property
        def unused_data(self) -> bytes: ...

        def decompress(self, data: Any, max_length: int, /) -> bytes: ...


# ELF sections and kernel modules are 2 to 8 times larger inside, string tables of template-heavy C++ up to 20 times.
# zlib can reach 1032 and zstd and xz tens of thousands: only made-up data do.
_RATIO: Final = 32
# Small data may exceed the ratio without harm (4 KB of zlib data can be 4 MB of zeros).
_SMALL: Final = 4 << 20
# The symbols of the largest programs, browsers with all names, take about 200 MB.
_MOST: Final = 256 << 20
# Decoders of xz allocate the dictionary that the header names, up to 4 GB; `xz -9` needs 65 MB.
_XZ_MEMORY: Final = 96 << 20
# the window of zstd's decoder: RFC 8878 wants 8 MB to be supported (and `zstd -19` uses them whatever is compressed),
# and a larger one is of use only where as much comes out; 2^27 is what decoders refuse to exceed
_ZSTD_WINDOW_LOG: Final = 23, 27
# Parallel compressors write a part for some hundred KB; a file of empty parts would never end.
_PARTS: Final = 4096
_PIECE: Final = 1 << 18

# The first bytes of files; bzip2 and xz differ after them, by level or not at all.
_MAGICS: Final = {b"BZh": "bzip2", b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class ExpansionError(ValueError):
    """Compressed data that are damaged, or that exceed their limit."""


def allowance(size: int) -> int:
    """Return how many bytes compressed data of a size may expand to."""
    return min(max(size * _RATIO, _SMALL), _MOST)


def expand(kind: str, data: bytes | memoryview, limit: int | None = None) -> bytes:
    """Expand compressed data. Raises ExpansionError.

    Args:
        kind: zlib, gzip, xz or zstd.
        data: the compressed bytes.
        limit: in bytes; None: `allowance` of the data's size.
    """
    limit = allowance(len(data)) if limit is None else limit
    pieces = [*_pieces(kind, memoryview(data), limit)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _pieces(kind: str, data: memoryview, limit: int) -> Iterator[bytes]:
    """Expand one part after the other: gzip, xz and zstd data may have several, and zeros at the end."""
    offset, room = 0, limit
    for _ in range(_PARTS):
        decompressor, damage = _decompressor(kind, limit)
        while not decompressor.eof:
            piece = data[offset : offset + _PIECE]
            if not piece:
                raise ExpansionError(f"{kind} data end too early")
            try:
                expanded = decompressor.decompress(piece, room + 1)
            except damage as error:
                raise ExpansionError(f"damaged {kind} data: {error}") from error
            offset += len(piece) - len(decompressor.unused_data)
            room -= len(expanded)
            if room < 0:
                raise ExpansionError(f"{len(data)} bytes of {kind} data become more than {limit}")
            if expanded:
                yield expanded
        if kind == "zlib" or not any(data[offset:]):
            return
    raise ExpansionError(f"{kind} data of more than {_PARTS} parts")


def stream_allowance(size: int) -> int:
    """Return how many bytes a compressed stream of a size may expand to; it is never in memory as a whole."""
    return max(size * _RATIO, _MOST)


def expand_stream(file: BinaryIO, limit: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces, expanded if it begins like gzip, bzip2, xz or zstd data.

    Raises ExpansionError for damaged data, and for data that expand to more than `limit` bytes.
    """
    data = file.read(_PIECE)
    kind = next((name for magic, name in _MAGICS.items() if data.startswith(magic)), "")
    if not kind:
        while data:
            yield data
            data = file.read(_PIECE)
        return
    room = limit
    for _ in range(_PARTS):
        decompressor, damage = _decompressor(kind, limit)
        expanded = b""
        while not decompressor.eof:
            if not data and getattr(decompressor, "needs_input", not expanded):
                data = file.read(_PIECE)
                if not data:
                    raise ExpansionError(f"{kind} data end too early")
            try:
                expanded = decompressor.decompress(data, _PIECE)
            except damage as error:
                raise ExpansionError(f"damaged {kind} data: {error}") from error
            data = getattr(decompressor, "unconsumed_tail", b"")  # the other decompressors store it themselves
            room -= len(expanded)
            if room < 0:
                raise ExpansionError(f"the {kind} data become more than {limit} bytes")
            yield expanded
        data = decompressor.unused_data or file.read(_PIECE)
        if not any(data):
            return
    raise ExpansionError(f"{kind} data of more than {_PARTS} parts")


def zstd_library() -> Any:
    """Return the standard library's zstd, or before Python 3.14 its backport. Raises ExpansionError if that is not installed."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise ExpansionError("zstd is missing; install backports.zstd (part of Python from 3.14 on)") from None
    return zstd


def _decompressor(kind: str, limit: int) -> tuple[_Decompressor, type[Exception]]:
    """Return a new decompressor, and the class of its errors."""
    if kind in {"zlib", "gzip"}:
        import zlib

        return zlib.decompressobj(zlib.MAX_WBITS | (16 if kind == "gzip" else 0)), zlib.error
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor(), OSError
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), lzma.LZMAError
    zstd = zstd_library()
    least, most = _ZSTD_WINDOW_LOG
    window_log = min(max(limit.bit_length(), least), most)
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log}), zstd.ZstdError


# The memory that a Parquet file's columns need, computed before any page is expanded. Raises ExpansionError for invalid footers and
# pages. Column totals in the file are ignored, because libraries use the header of each page, with its size and number of values, where
# one run can stand for a billion values. Layout: parquet.thrift of the Apache Parquet format 2.11 (FileMetaData, PageHeader), in Thrift's
# compact protocol; { footer; u32 length; "PAR1" } ends the file. pyarrow parses footers, too, but ends the process when it describes a
# column chunk whose statistics are damaged.

# fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _COUNT, _SIZE, _DATA_AT, _DICTIONARY_AT = 3, 5, 7, 9, 11
_TAIL: Final = struct.Struct("<I4s")
_MAGIC: Final = b"PAR1"
_FOOTER_MOST: Final = 8 << 20  # of 25,000 column chunks
_FOOTER_DEPTH: Final = 8
# fields of PageHeader, and of the three kinds of headers in it
_UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
_VALUES: Final = 1
_ENCODING: Final = {_DATA: 2, _DICTIONARY: 2, _DATA_2: 4}
#: Encodings whose values cannot be longer than their encoded bytes: plain, dictionaries, runs, packed bits, differences, split bytes.
_ENCODINGS: Final = frozenset((0, 2, 3, 4, 5, 6, 8, 9))
# A page's header may have the page's least and largest values, which writers keep below 4 kB.
_HEADER: Final = 1 << 16
_DEPTH: Final = 4
_LONG_LIST: Final = 15
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


class ColumnChunk:
    """One column of one row group. `start` and `size` are of its pages in the file; `number` counts the group's columns."""

    __slots__ = ("name", "number", "size", "start", "values")

    def __init__(self, number: int, name: str, values: int, start: int, size: int) -> None:
        self.number = number
        self.name = name
        self.values = values
        self.start = start
        self.size = size


def column_chunks(file: BinaryIO, columns: int) -> Iterator[ColumnChunk]:
    """Yield the column chunks that the footer describes. columns: their number in each row group. Raises ExpansionError."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(end - _TAIL.size, 0))
    tail = file.read(_TAIL.size)
    length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
    if magic != _MAGIC or length > min(end - _TAIL.size, _FOOTER_MOST):
        raise ExpansionError("the footer is damaged, or too large")
    file.seek(end - _TAIL.size - length)
    groups = _CompactFields(file.read(length)).struct(_FOOTER_DEPTH).get(_ROW_GROUPS)
    for group in groups if isinstance(groups, list) else ():
        chunks = group.get(_COLUMNS) if isinstance(group, dict) else None
        if not isinstance(chunks, list) or len(chunks) != columns:
            raise ExpansionError("the footer is damaged")
        yield from (_chunk(number, chunk) for number, chunk in enumerate(chunks))


def _chunk(number: int, chunk: Any) -> ColumnChunk:
    about = chunk.get(_META_DATA) if isinstance(chunk, dict) else None
    if not isinstance(about, dict):
        raise ExpansionError("the footer is damaged")
    names = about.get(_PATH)
    if not isinstance(names, list) or not names or not isinstance(names[0], bytes):
        raise ExpansionError("the footer is damaged")
    start, dictionary = _number(about, _DATA_AT), about.get(_DICTIONARY_AT)
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    return ColumnChunk(number, names[0].decode(errors="replace"), _number(about, _COUNT), start, _number(about, _SIZE))


def memory_of(file: BinaryIO, start: int, size: int, width: int) -> int:
    """Return the bytes of an expanded column chunk. Raises ExpansionError for damaged pages.

    Args:
        file: the Parquet file.
        start, size: of the chunk in the file.
        width: bytes of a value.
    """
    position, total = start, 0
    while position < start + size:
        file.seek(position)
        header = _CompactFields(file.read(_HEADER))
        page = header.struct(_DEPTH)
        uncompressed, compressed = _number(page, _UNCOMPRESSED), _number(page, _COMPRESSED)
        for kind, field in _ENCODING.items():
            if kind in page:
                about = page[kind]
                if _number(about, field) not in _ENCODINGS:
                    raise ExpansionError(f"the values of a page have an encoding ({_number(about, field)}) that perfpy does not write")
                total += _number(about, _VALUES) * width
        total += uncompressed
        position += header.position + compressed
    return total


def _number(fields: Any, field: int) -> int:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise ExpansionError("the footer or the header of a page is damaged")
    return value


class _CompactFields:
    """Structs in Thrift's compact protocol: fields by number; booleans and fractions are None."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Read the struct at the position."""
        fields: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._integer()
            fields[field] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return None
        if kind in (_I16, _I32, _I64):
            return self._integer()
        if kind == _STRUCT and depth:
            return self.struct(depth - 1)
        if kind == _BINARY:
            length = self._varint()
            self.position += length
            return self._data[self.position - length : self.position]
        if kind in (_LIST, _SET) and depth:
            depth -= 1
            head = self._byte()
            kind, count = head & 15, head >> 4
            if count == _LONG_LIST:
                count = self._varint()
            if count > len(self._data) - self.position:
                raise ExpansionError("a list is longer than the rest of the file")
            if kind in (_TRUE, _FALSE, _BYTE):
                self.position += count
                return []
            return [self._value(kind, depth) for _ in range(count)]
        if kind == _BYTE:
            self.position += 1
        elif kind == _DOUBLE:
            self.position += 8
        else:  # no header has others
            raise ExpansionError("the header of a page is damaged")
        return None

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise ExpansionError("the header of a page is cut off, or too large")
        self.position += 1
        return self._data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ExpansionError("the header of a page is damaged")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
