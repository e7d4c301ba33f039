"""Decompress data of others up to a limit.

Data in zlib, gzip, bzip2, xz or zstd is expanded step by step; sizes in headers are ignored. ExpansionError: damaged data, or data
that exceeds the limit. Formats: RFC 1950, 1952 and 8878, and the .xz file format 1.1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
