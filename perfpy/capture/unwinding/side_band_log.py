"""A copy of all side-band records, for a second file that begins in the middle of the recording.

It is a nameless file, because a recording may be long.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.capture.unwinding.spool import nameless_file
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 1 << 20


class SideBandLog:
    """The log of one recording. folder is where its file is created."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = nameless_file(folder)
        self._size = 0

    def append(self, records: bytes) -> None:
        """Append records."""
        written = 0
        try:
            while written < len(records):
                written += os.pwrite(self._fd, records[written:], self._size + written)
        except OSError as error:
            raise OutputFailedError(self._folder, os.strerror(error.errno or 0), remedy="free some space") from None
        self._size += written

    def pieces(self) -> Iterator[bytes]:
        """Yield the records in pieces, which may end inside records."""
        for offset in range(0, self._size, _PIECE):
            yield os.pread(self._fd, min(_PIECE, self._size - offset), offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
