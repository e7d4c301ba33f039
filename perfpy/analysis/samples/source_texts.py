"""Format the source lines of frames like perf: FILE:LINE, with the file's name or its path.

Without a line the text is the function and the offset in it, or the file and the address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.debuginfo.known_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer

#: perf's text without a mapping
UNKNOWN_LINE = "??:0"


class SourceTexts:
    """The texts of frames' source lines.

    full_paths: show files with their folders; as_addr2line: name them like binutils, which perf uses
    (perfpy.debuginfo.lines.line_table).
    """

    def __init__(self, symbolizer: Symbolizer, *, full_paths: bool = False, as_addr2line: bool = False) -> None:
        self._symbolizer = symbolizer
        self._infos = lines_of(symbolizer, as_addr2line=as_addr2line)
        self._full_paths = full_paths

    def lines(self, frames: NDArray[np.int64]) -> list[str]:
        """Return FILE:LINE, FUNCTION+OFFSET, DSO[ADDRESS] or ??:0 for each frame."""
        return [text or UNKNOWN_LINE for text in self._texts_of_frames(frames, self._in_function)]

    def files(self, frames: NDArray[np.int64]) -> list[str]:
        """Return the file for each frame, "" if unknown."""
        return [(text or "").partition(":")[0] for text in self._texts_of_frames(frames, lambda _frame, _address: "")]

    def in_files(self, frames: NDArray[np.int64]) -> list[str]:
        """Return FILE:LINE or DSO[ADDRESS] for each frame, "" without a mapping."""
        return [text or "" for text in self._texts_of_frames(frames, self._in_dso)]

    def calls(self, frames: NDArray[np.int64], *, offsets: bool) -> list[str | None]:
        """Return the texts after the functions of callchains: FILE:LINE, +OFFSET (without offsets ??:0), or None without a mapping."""
        return self._texts_of_frames(frames, self._offset if offsets else lambda _frame, _address: UNKNOWN_LINE)

    def code(self, frames: Sequence[int] | NDArray[np.int64], are_callers: NDArray[np.bool_] | None = None) -> list[tuple[str, int] | None]:
        """Return the path and the line for each frame, None if unknown; callers (default: none) have the address after the call."""
        back = None if are_callers is None else are_callers.astype(np.uint64)
        lines, paths = self._infos.code_lines(np.asarray(frames, np.int64), back), self._infos.paths
        return [(paths[file], line) if file >= 0 else None for file, line in zip(lines.file.tolist(), lines.line.tolist(), strict=True)]

    def begins(self, symbols: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Return the path and the line where functions begin, if known."""
        return self._infos.begins(symbols)

    def _texts_of_frames(self, frames: NDArray[np.int64], otherwise: Callable[[int, int], str]) -> list[str | None]:
        """Return FILE:LINE for each frame; None without a mapping; otherwise(frame, address) if the file is unknown."""
        lines = self._infos.code_lines(frames)
        names = [path if self._full_paths else path.rpartition("/")[2] for path in self._infos.paths]
        mapped = self._symbolizer.frames.dso[frames] >= 0
        columns = (frames, mapped, lines.file, lines.line, lines.address)
        return [
            f"{names[file]}:{line}" if file >= 0 else otherwise(frame, address) if there else None
            for frame, there, file, line, address in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _in_function(self, frame: int, address: int) -> str:
        symbol = int(self._symbolizer.frames.symbol[frame])
        return self._in_dso(frame, address) if symbol < 0 else self._symbolizer.symbols.name(symbol) + self._offset(frame, address)

    def _offset(self, frame: int, address: int) -> str:
        table = self._symbolizer.frames
        return f"+{table.symbol_offset[frame]}" if table.symbol[frame] >= 0 else self._in_dso(frame, address)

    def _in_dso(self, frame: int, address: int) -> str:
        return f"{self._symbolizer.dsos[int(self._symbolizer.frames.dso[frame])].short_name}[{address:x}]"
