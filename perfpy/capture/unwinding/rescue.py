"""Complete the file in the unwinding process if the recorder is killed, with everything read from the ring buffers.

The recorder marks the file's size after each round, and reports that the piece is in it. Until then pieces are kept here, so
that data after the last mark can be written again.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from perfpy.perfdata.container.writer import FINISHED_ROUND, FileWriter
from perfpy.untrusted.destinations import FileDestination

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    #: A piece's records, in parts of whole records.
    Parts = Sequence[bytes]


class Rescue:
    """The state of one recording. path is its file; its folder is opened now, as others may exchange it."""

    def __init__(self, path: str) -> None:
        self._destination = FileDestination(path, follow=False)
        self._pieces: deque[Parts] = deque()
        self._file = self._end = 0
        self.features: Mapping[int, bytes] = {}

    def keep(self, parts: Parts) -> None:
        """Keep a piece that is sent to the recorder."""
        self._pieces.append(parts)

    def written(self, file: int, end: int) -> None:
        """Drop the oldest piece, which is in the file and marked. file is its inode; end is that of its records."""
        if self._pieces:
            self._pieces.popleft()
        self._file, self._end = file, end

    def finish(self, remaining: Iterable[Parts]) -> None:
        """Write the missing pieces and the rest, after the recorder's end. Raises PerfError, OSError, ValueError."""
        writer = FileWriter.resume(self._destination.name, self._destination.folder)
        try:
            if os.fstat(writer.fd).st_ino == self._file and writer.size > self._end and self._pieces:
                self._pieces.popleft()  # it was marked, but not reported
            for parts in chain(self._pieces, remaining):
                writer.write(*parts, FINISHED_ROUND)
                writer.mark()
            writer.finish(self.features)
        finally:
            writer.close()
