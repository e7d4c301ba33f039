"""KnownLines: resolved lines, possibly of other machines, with the interface of debug information."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.debuginfo.debug_info import CodeLines, DebugInfo, DebugInfos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.symbols.frame_table import LineColumns
    from perfpy.symbols.symbolizer import Symbolizer


def lines_of(symbolizer: Symbolizer, *, as_addr2line: bool = False) -> DebugInfos:
    """Return the source lines of a symbolizer's frames: those it was loaded with, otherwise from debug information.

    Args:
        symbolizer: whose frames to look up.
        as_addr2line: see LineTable.
    """
    lines = symbolizer.known_lines
    return DebugInfos(symbolizer, as_addr2line=as_addr2line) if lines is None else _KnownLines(symbolizer, lines)


class _KnownLines(DebugInfos):
    def __init__(self, symbolizer: Symbolizer, lines: LineColumns) -> None:
        super().__init__(symbolizer)
        self._lines = lines
        self.paths = lines.paths

    def of(self, _dso: int) -> DebugInfo | None:
        """Return None: the files may be on another machine."""
        return None

    def code_lines(self, frames: NDArray[np.int64], back: NDArray[np.uint64] | None = None) -> CodeLines:
        """Return the source lines of frames; `back` is nonzero for frames to look up as callers."""
        lines = self._lines
        is_call = np.zeros(len(frames), np.bool_) if back is None else back != 0
        file = np.where(is_call, lines.caller_file[frames], lines.file[frames]).astype(np.int64)
        line = np.where(is_call, lines.caller_line[frames], lines.line[frames]).astype(np.int64)
        address = lines.address[frames] - (np.uint64(0) if back is None else back)
        return CodeLines(file, line, address)

    def link_address(self, frame: int) -> int | None:
        """Return the link-time address of a frame, None if its file was missing when the lines were resolved."""
        return int(self._lines.address[frame]) if self._lines.linked[frame] else None

    def begins(self, symbols: Iterable[int]) -> dict[int, tuple[str, int]]:
        """Return the path and line at which each function begins, by symbol; functions without lines are left out."""
        lines = self._lines
        return {number: (lines.paths[file], line) for number in symbols for file, line in [lines.begins[number]] if file >= 0}
