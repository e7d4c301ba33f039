"""What is known of tasks and mappings, kept apart from the file: a second file, begun in the middle, needs it in front.

What enters: the records that are no samples, as they are written. What leaves:
all of them. They lie in a file without a name, as a recording can be long.
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
    """The log of one recording. folder: where its file goes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = nameless_file(folder)
        self._size = 0

    def append(self, records: bytes) -> None:
        """More of them."""
        done = 0
        try:
            while done < len(records):
                done += os.pwrite(self._fd, records[done:], self._size + done)
        except OSError as error:
            raise OutputFailedError(self._folder, os.strerror(error.errno or 0), remedy="free some space") from None
        self._size += done

    def pieces(self) -> Iterator[bytes]:
        """All of them, one piece after the other, whose borders mean nothing."""
        for offset in range(0, self._size, _PIECE):
            yield os.pread(self._fd, min(_PIECE, self._size - offset), offset)

    def close(self) -> None:
        """They are not needed any more."""
        os.close(self._fd)
