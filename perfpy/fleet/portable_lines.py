"""Where the code at frames is from, of one recording and of many: found where the files are, told apart by paths and lines.

What enters: debug information and the frames of a recording; then what was found of several. What leaves: LineColumns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.symbols.dso import DsoKind
from perfpy.symbols.frame_table import LineColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.symbols.symbolizer import Symbolizer


def line_columns(
    infos: DebugInfos, symbolizer: Symbolizer, frames: NDArray[np.int64], symbols: Sequence[int], *, whole: bool
) -> LineColumns:
    """Those of some frames and symbols; whole: also what frames are as callers, and where functions begin."""
    own = infos.code_lines(frames)
    callers = infos.code_lines(frames, np.ones(len(frames), np.uint64)) if whole else own
    begins = infos.begins(symbols) if whole else {}
    numbers: dict[str, int] = {path: number for number, path in enumerate(infos.paths)}
    found = [(numbers.setdefault(path, len(numbers)), line) for path, line in (begins.get(symbol, ("", 0)) for symbol in symbols)]
    where = [(-1, 0) if symbol not in begins else one for symbol, one in zip(symbols, found, strict=True)]
    files = [file.kind is not DsoKind.MODULE and infos.of(number) is not None for number, file in enumerate(symbolizer.dsos)]
    linked = np.array([*files, False], np.bool_)[symbolizer.frames.dso[frames]]
    small = [column.astype(np.int32) for column in (own.file, own.line, callers.file, callers.line)]
    return LineColumns(list(numbers), where, own.address, linked, *small)


class MergedLines:
    """Takes in the columns of one part after the other."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._begins: list[tuple[int, int]] = []
        self._parts: list[LineColumns] = []

    def here(self, lines: LineColumns) -> LineColumns:
        """The columns of a part with the numbers that its paths have here."""
        number = np.array([self._numbers.setdefault(path, len(self._numbers)) for path in lines.paths] + [-1], np.int32)
        return lines._replace(
            file=number[lines.file],
            caller_file=number[lines.caller_file],
            begins=[(int(number[file]), line) for file, line in lines.begins],
        )

    def add_frames(self, lines: LineColumns, new: NDArray[Any]) -> None:
        """Those of new frames."""
        self._parts.append(lines.take(new))

    def add_symbols(self, lines: LineColumns, new: Sequence[int]) -> None:
        """Those of new symbols."""
        self._begins += [lines.begins[index] for index in new]

    def result(self) -> LineColumns | None:
        """All; None where nothing was added."""
        if not self._parts:
            return None
        columns = (np.concatenate(parts) for parts in zip(*(one[2:] for one in self._parts), strict=True))
        return LineColumns(list(self._numbers), self._begins, *columns)


def telling_columns(lines: LineColumns | None) -> list[NDArray[Any]]:
    """What tells frames of one address apart: a function has there a line of its own, and one where it calls what was inlined into it."""
    return [] if lines is None else [lines.file + 1, lines.line, lines.caller_line]
