"""Random access to the bytes of a perf.data: a file, a descriptor, or a pipe spooled to a temporary file."""

from __future__ import annotations

import os
import stat
import sys

from perfpy.abi.framing import as_number
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.header import HEADER_SIZE, PIPE_HEADER_SIZE, PipeHeader, decode_header
from perfpy.untrusted.files import stream_fd

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import BinaryIO, TypeAlias

SPOOL_PIECE = 1 << 20
RECORD_HEADER_SIZE = 8

#: the argument of open_source(); "-" is standard input
Origin: TypeAlias = "str | os.PathLike[str] | int | BinaryIO"


class ByteSource:
    """Random access to the bytes of one file; `path` names it in messages."""

    def __init__(self, fd: int, path: str, *, owned: bool = True) -> None:
        self.path = path
        self._fd = fd
        self._owned = owned
        self.watches_cuts = False  # whether truncating the mapped file ends the process with a message
        self._is_watched = False
        self.size = os.fstat(fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset` on; fewer only at the end of the file."""
        if offset < 0 or offset >= self.size or size <= 0:
            return b""
        size = min(size, self.size - offset)
        parts = []
        while size:
            part = os.pread(self._fd, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill `view` from `offset` on; return the number of bytes read."""
        filled = 0
        while filled < len(view):
            count = os.preadv(self._fd, [view[filled:]], offset + filled)
            if not count:
                break
            filled += count
        return filled

    def map_bytes(self, offset: int, size: int) -> memoryview:
        """Return the bytes of read() as a memory mapping; the file must keep them as long as they are used."""
        import mmap  # for files with copies of stacks only

        if self.watches_cuts and not self._is_watched:
            from perfpy.untrusted.mapped_files import watch

            watch(self._fd, self.path)
            self._is_watched = True
        size = min(size, os.fstat(self._fd).st_size - offset)
        if size <= 0:
            return memoryview(b"")
        before = offset % mmap.ALLOCATIONGRANULARITY
        return memoryview(mmap.mmap(self._fd, size + before, access=mmap.ACCESS_READ, offset=offset - before))[before:]

    def check_owner(self) -> None:
        """Raise BadPerfDataError if the file belongs neither to this user nor to root."""
        if os.fstat(self._fd).st_uid not in (0, os.geteuid()):
            raise BadPerfDataError(self.path, "belongs neither to you nor to root", remedy="read it with -f if you trust it")

    def is_file(self, fd: int) -> bool:
        """Whether a descriptor is of this file."""
        return os.path.samestat(os.fstat(fd), os.fstat(self._fd))

    def modification_time(self) -> float:
        """Return the file's modification time, in seconds since the epoch."""
        return os.fstat(self._fd).st_mtime

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._is_watched:
            from perfpy.untrusted.mapped_files import unwatch

            unwatch(self._fd)
            self._is_watched = False
        if self._owned and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        """Close the file, as Python's own file objects do."""
        self.close()


def open_source(origin: Origin) -> ByteSource:
    """Open a file, or spool a pipe until its end.

    Raises BadPerfDataError if the file cannot be opened.
    """
    if isinstance(origin, int):
        return _from_fd(origin, f"file descriptor {origin}", owned=False)
    if not isinstance(origin, (str, os.PathLike)):
        return _from_fd(origin.fileno(), str(getattr(origin, "name", "stream")), owned=False)
    path = os.fspath(origin)
    if path == "-":
        return _from_fd(sys.stdin.fileno(), "standard input", owned=False)
    try:
        fd = stream_fd(path)
    except OSError as error:
        remedy = "record one first, or name another file" if isinstance(error, FileNotFoundError) else ""
        raise BadPerfDataError(path, f"cannot open: {error.strerror}", remedy=remedy) from None
    return _from_fd(fd, path, owned=True)


def _from_fd(fd: int, path: str, *, owned: bool) -> ByteSource:
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return ByteSource(fd, path, owned=owned)
    if stat.S_ISDIR(mode):
        raise BadPerfDataError(path, "a folder without a perf.data file in it")
    try:
        return ByteSource(_spool(fd, path), path)
    finally:
        if owned:
            os.close(fd)


def _spool(fd: int, path: str) -> int:
    """Copy a pipe to an unnamed temporary file and return its descriptor. Raises BadPerfDataError if it is no recording."""
    # loaded here because only pipes need it
    import tempfile

    first = _beginning(fd, path)
    with tempfile.TemporaryFile(prefix="perfpy-") as file:
        file.write(first)
        while piece := os.read(fd, SPOOL_PIECE):
            file.write(piece)
        file.flush()
        return os.dup(file.fileno())


def _beginning(fd: int, path: str) -> bytes:
    """Read the header and the first record's header from a pipe, and validate them: the pipe may be endless and no recording."""
    first = b""
    while len(first) < HEADER_SIZE and (piece := os.read(fd, HEADER_SIZE - len(first))):
        first += piece
        if len(first) < PIPE_HEADER_SIZE + RECORD_HEADER_SIZE:
            continue
        try:
            header = decode_header(first.ljust(HEADER_SIZE, b"\0"))
        except ValueError as error:
            raise BadPerfDataError(path, str(error)) from None
        after_header = first[PIPE_HEADER_SIZE:]
        if isinstance(header, PipeHeader):
            size = as_number(after_header[RECORD_HEADER_SIZE - 2 : RECORD_HEADER_SIZE], header.endian)
            if size < RECORD_HEADER_SIZE:
                raise BadPerfDataError(path, f"record of {size} bytes", offset=PIPE_HEADER_SIZE)
            break
    return first
