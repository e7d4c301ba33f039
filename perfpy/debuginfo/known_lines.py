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
    """Where the code at a symbolizer's frames is from: as it knows, or else as debug information says (as_addr2line: see LineTable)."""
    known = symbolizer.known_lines
    return DebugInfos(symbolizer, as_addr2line=as_addr2line) if known is None else _KnownLines(symbolizer, known)


class _KnownLines(DebugInfos):
    def __init__(self, symbolizer: Symbolizer, known: LineColumns) -> None:
        super().__init__(symbolizer)
        self._known = known
        self.paths = known.paths

    def of(self, _dso: int) -> DebugInfo | None:
        """None: files need not be here."""
        return None

    def code_lines(self, frames: NDArray[np.int64], back: NDArray[np.uint64] | None = None) -> CodeLines:
        """Where the code at some frames is from; back: not 0 for those that are asked for as callers."""
        known = self._known
        called = np.zeros(len(frames), np.bool_) if back is None else back != 0
        file = np.where(called, known.caller_file[frames], known.file[frames]).astype(np.int64)
        line = np.where(called, known.caller_line[frames], known.line[frames]).astype(np.int64)
        address = known.address[frames] - (np.uint64(0) if back is None else back)
        return CodeLines(file, line, address)

    def linked(self, frame: int) -> int | None:
        """The address of a frame as the headers of its file have it; None where that was not there."""
        return int(self._known.address[frame]) if self._known.linked[frame] else None

    def begins(self, symbols: Iterable[int]) -> dict[int, tuple[str, int]]:
        """The path and the line where functions begin, of those of which it is known."""
        known = self._known
        return {number: (known.paths[file], line) for number in symbols for file, line in [known.begins[number]] if file >= 0}
