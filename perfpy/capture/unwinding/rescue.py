"""What the unwinding process does where the recorder is killed: it completes the file.

What enters: the pieces that were handed back, and which of them are in the file; the features of the file. What leaves: a
file in which everything is that the recorder had taken out of the rings.

The recorder marks the file's size after each round, and tells that the piece is in it. Pieces are kept here until then: so
that what is behind the last mark, whatever it is, can be written once more.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from perfpy.perfdata.container.writer import FINISHED_ROUND, FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    #: a piece's records, in parts of whole ones
    Parts = Sequence[bytes]


class Rescue:
    """Of one recording. path: its file."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._pieces: deque[Parts] = deque()
        self._file = self._end = 0
        self.features: Mapping[int, bytes] = {}

    def keep(self, parts: Parts) -> None:
        """A piece is handed to the recorder."""
        self._pieces.append(parts)

    def written(self, file: int, end: int) -> None:
        """The oldest piece is in the file, and marked. file: its inode; end: of its records."""
        if self._pieces:
            self._pieces.popleft()
        self._file, self._end = file, end

    def finish(self, rest: Iterable[Parts]) -> None:
        """The recorder is gone: write what is not in the file, and the rest. Raises PerfError, OSError, ValueError."""
        writer = FileWriter.resumed(self._path)
        try:
            if os.fstat(writer.fd).st_ino == self._file and writer.size > self._end and self._pieces:
                self._pieces.popleft()  # it was marked, and then there was no time to tell
            for parts in chain(self._pieces, rest):
                writer.write(*parts, FINISHED_ROUND)
                writer.mark()
            writer.finish(self.features)
        finally:
            writer.close()
