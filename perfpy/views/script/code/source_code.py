"""Source code below samples: perf script -F srccode.

A sample is followed by "|LINE TEXT" unless its thread was at that line before. Paths come from debug information: only regular files
are opened, and their number and size are bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.untrusted.files import read_regular
from perfpy.untrusted.text import one_line_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.samples.source_texts import SourceTexts

_FILE_BYTES: Final = 16 << 20
_FILES_MOST: Final = 1 << 10  # files cached


class SourceCode:
    """A reader of source lines."""

    def __init__(self, sources: SourceTexts) -> None:
        self._sources = sources
        self._files: dict[str, list[bytes]] = {}
        self._last: dict[int, tuple[str, int]] = {}
        self._lines: dict[int, tuple[str, int] | None] = {}

    def pieces(self, frames: NDArray[np.int32], tids: NDArray[np.int64]) -> list[bytes]:
        """Return the text below each sample; empty if the thread's last line was the same, or the file is missing."""
        new = [frame for frame in dict.fromkeys(frames.tolist()) if frame not in self._lines]
        self._lines.update(zip(new, self._sources.code(new), strict=True))
        return [self._piece(self._lines[frame], tid) for frame, tid in zip(frames.tolist(), tids.tolist(), strict=True)]

    def _piece(self, source: tuple[str, int] | None, tid: int) -> bytes:
        if source is None or self._last.get(tid) == source:
            return b""
        text = self._line(*source)
        if text is None:
            return b""
        self._last[tid] = source
        return b"|%-8d %s\n" % (source[1], one_line_bytes(text))

    def _line(self, path: str, line: int) -> bytes | None:
        lines = self._files.get(path)
        if lines is None:
            if len(self._files) >= _FILES_MOST:
                self._files.clear()
            lines = self._files[path] = _lines_of(path)
        return lines[line - 1] if 0 < line <= len(lines) else None


def _lines_of(path: str) -> list[bytes]:
    try:
        return read_regular(path, limit=_FILE_BYTES).split(b"\n")
    except (OSError, ValueError):
        return []
