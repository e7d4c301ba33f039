"""Read the files of an untrusted tar archive in one pass.

Yields a TarMember with its content in pieces for each regular file. Raises TarError for a damaged archive. Extended headers and the
number of members are limited; Python's tarfile reads headers of any size into memory. Format: POSIX.1-2017, pax.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK: Final = tarfile.BLOCKSIZE
_LARGEST_HEADER: Final = 1 << 16  # of an extended header: a path has 4 KB
_MOST_MEMBERS: Final = 1 << 16
_PIECE: Final = 1 << 20
_GLOBAL_HEADER: Final = b"g"


class TarMember(NamedTuple):
    """A regular file of an archive. pieces: its content, `size` bytes; unread pieces are skipped."""

    name: str
    size: int
    pieces: Iterator[bytes]


def read_members(pieces: Iterator[bytes]) -> Iterator[TarMember]:
    """Yield the regular files of an archive in order. Raises tarfile.TarError."""
    stream = _Stream(pieces)
    name = size = None
    for _ in range(_MOST_MEMBERS):
        header = stream.take(_BLOCK)
        if not any(header):
            return  # the end mark of tar
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if member.size < 0:
            raise tarfile.ReadError(f"a member of {member.size} bytes")
        if member.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, _GLOBAL_HEADER, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            if member.size > _LARGEST_HEADER:
                raise tarfile.ReadError(f"an extended header of {member.size} bytes")
            body = stream.take(member.size)
            stream.skip(-member.size % _BLOCK)
            if member.type == tarfile.GNUTYPE_LONGNAME:
                name = body.rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif member.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                fields = _pax_fields(body)
                name, size = fields.get("path", name), _number(fields["size"]) if "size" in fields else size
            continue
        if member.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
        length = (member.size if size is None else size) if has_content else 0
        content = stream.pieces(length)
        if member.isreg():
            yield TarMember(member.name if name is None else name, length, content)
        for _piece in content:
            pass
        stream.skip(-length % _BLOCK)
        name = size = None
    raise tarfile.ReadError(f"more than {_MOST_MEMBERS} members")


def _pax_fields(body: bytes) -> dict[str, str]:
    """Return the fields of an extended header: lines "LENGTH KEYWORD=VALUE"."""
    fields: dict[str, str] = {}
    start = 0
    while start < len(body) and body[start]:
        digits, _, _ = body[start : start + 8].partition(b" ")
        length = _number(digits.decode("latin-1"))
        keyword, equals, value = body[start + len(digits) + 1 : start + length - 1].partition(b"=")
        if not equals or start + length > len(body):
            raise tarfile.ReadError("a damaged extended header")
        fields[keyword.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        start += length
    return fields


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise tarfile.ReadError("a damaged extended header")
    return int(text)


class _Stream:
    """Bytes from pieces. Raises tarfile.ReadError at the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Return the next few bytes."""
        return b"".join(self.pieces(size))

    def skip(self, size: int) -> None:
        """Skip bytes."""
        for _ in self.pieces(size):
            pass

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes in pieces."""
        while size:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    raise tarfile.ReadError("the archive ends too early")
                self._rest = memoryview(piece)
            part = self._rest[: min(size, _PIECE)]
            self._rest = self._rest[len(part) :]
            size -= len(part)
            if part:
                yield bytes(part)
