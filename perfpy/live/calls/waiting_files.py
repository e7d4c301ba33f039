"""Pieces of data that wait on disk, in nameless files, and are read in the order in which they were written.

A file is closed when its pieces have been read, so that its room is free again. A full disk is no error: append() returns None.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

from perfpy.capture.unwinding.spool import nameless_file
from perfpy.errors import OutputFailedError

_MOST: Final = 1 << 30  # bytes on disk
_SHARE: Final = 4  # one part in four of the free space
_FILE_SIZE: Final = 1 << 26  # bytes, if pieces are smaller


class WaitingPiece(NamedTuple):
    """The place of a piece in a file."""

    fd: int
    offset: int
    size: int


class WaitingFiles:
    """The files.

    Args:
        folders: where the files may be; the first usable one is taken. None: $TMPDIR, /var/tmp and /tmp.
    """

    def __init__(self, folders: tuple[str, ...] | None = None) -> None:
        self._folders = (os.environ.get("TMPDIR", ""), "/var/tmp", "/tmp") if folders is None else folders
        self._files: deque[tuple[int, int]] = deque()  # descriptor and size of each
        self._limit = 0

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(size for _, size in self._files)

    def append(self, data: bytes) -> WaitingPiece | None:
        """Write a piece; return its place, None if there is no room."""
        if not self._files or self._files[-1][1] + len(data) > _FILE_SIZE:
            self._open()
        if not self._files or self.size + len(data) > self._limit:
            return None
        fd, offset = self._files[-1]
        try:
            written = os.pwrite(fd, data, offset)
        except OSError:
            written = 0
        if written < len(data):
            with suppress(OSError):
                os.ftruncate(fd, offset)
            return None
        self._files[-1] = fd, offset + len(data)
        return WaitingPiece(fd, offset, len(data))

    def _open(self) -> None:
        """Add a file in the first folder that is writable. The first file decides on the limit of all."""
        for folder in filter(None, self._folders):
            try:
                fd = nameless_file(folder)
            except OutputFailedError:
                continue
            if not self._files:
                status = os.fstatvfs(fd)
                self._limit = min(status.f_bavail * status.f_frsize // _SHARE, _MOST)
            self._files.append((fd, 0))
            return

    def read(self, piece: WaitingPiece) -> bytes:
        """Return the next piece, and close the files without further pieces."""
        data = os.pread(piece.fd, piece.size, piece.offset)
        while self._files and (self._files[0][0] != piece.fd or self._files[0][1] == piece.offset + piece.size):
            fd, _ = self._files.popleft()
            os.close(fd)
            if fd == piece.fd:
                break
        return data

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popleft()[0])
