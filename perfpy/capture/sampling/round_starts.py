"""Where a file can be begun to read in its middle.

What enters: the offset of every round. What leaves: some of them, spread over
the whole file.
"""

from __future__ import annotations


class RoundStarts:
    """Where rounds begin in a file, some of them: few enough to be kept however long the recording is."""

    def __init__(self, most: int = 128) -> None:
        self.offsets: list[int] = []
        self._most = most
        self._every = 1
        self._skipped = 0

    def add(self, offset: int) -> None:
        """One more round begins."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.offsets.append(offset)
        if len(self.offsets) > self._most:
            del self.offsets[::2]
            self._every *= 2
