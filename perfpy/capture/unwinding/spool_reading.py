"""The reading side of the spool."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

from perfpy.capture.unwinding.process import MEMORY, PublishedExtents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.capture.unwinding.process import Extent


class SpoolReader:
    """Reads the spool. Memory is mapped: contiguous bytes are used in place."""

    def __init__(self, fds: tuple[int, int, int]) -> None:
        self._fds = fds[:2]
        self._open_piece = PublishedExtents(fds[2])
        self._memory = np.zeros(0, np.uint8)

    def bytes_of(self, extents: Sequence[Extent]) -> NDArray[np.uint8]:
        """Return the bytes of extents; valid until the piece is released."""
        if len(extents) == 1 and extents[0].store == MEMORY:
            _, offset, size = extents[0]
            if len(self._memory) < offset + size:
                self._memory = np.frombuffer(mmap.mmap(self._fds[MEMORY], 0, prot=mmap.PROT_READ), np.uint8)
            return self._memory[offset : offset + size]
        data = np.empty(sum(extent.size for extent in extents), np.uint8)
        end = 0
        for store, offset, size in extents:
            view = data[end : end + size].data
            copied = 0
            while copied < size:
                count = os.preadv(self._fds[store], [view[copied:]], offset + copied)
                if not count:
                    raise ValueError("the spool is shorter than its extents")
                copied += count
            end += size
        return data

    def open_piece(self) -> list[Extent]:
        """Return the piece that the recorder had not sent when it ended."""
        return self._open_piece.extents()
