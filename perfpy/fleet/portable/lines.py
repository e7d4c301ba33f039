"""Source lines of frames, from debug information where the files are, by path and line so that they compare across machines."""

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
    """Return the lines of some frames and symbols; whole: also of frames as callers, and of functions' first instructions."""
    own = infos.code_lines(frames)
    callers = infos.code_lines(frames, np.ones(len(frames), np.uint64)) if whole else own
    begins = infos.begins(symbols) if whole else {}
    numbers: dict[str, int] = {path: number for number, path in enumerate(infos.paths)}
    positions = [(numbers.setdefault(path, len(numbers)), line) for path, line in (begins.get(symbol, ("", 0)) for symbol in symbols)]
    begins_of_symbols = [(-1, 0) if symbol not in begins else one for symbol, one in zip(symbols, positions, strict=True)]
    files = [file.kind is not DsoKind.MODULE and infos.of(number) is not None for number, file in enumerate(symbolizer.dsos)]
    linked = np.array([*files, False], np.bool_)[symbolizer.frames.dso[frames]]
    small = [column.astype(np.int32) for column in (own.file, own.line, callers.file, callers.line)]
    return LineColumns(list(numbers), begins_of_symbols, own.address, linked, *small)


class MergedLines:
    """A merge of the columns of several parts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._begins: list[tuple[int, int]] = []
        self._parts: list[LineColumns] = []

    def with_merged_paths(self, lines: LineColumns) -> LineColumns:
        """Return the columns of a part with merged path numbers."""
        number = np.array([self._numbers.setdefault(path, len(self._numbers)) for path in lines.paths] + [-1], np.int32)
        return lines._replace(
            file=number[lines.file],
            caller_file=number[lines.caller_file],
            begins=[(int(number[file]), line) for file, line in lines.begins],
        )

    def add_frames(self, lines: LineColumns, new: NDArray[Any]) -> None:
        """Add the lines of new frames."""
        self._parts.append(lines.take(new))

    def add_symbols(self, lines: LineColumns, new: Sequence[int]) -> None:
        """Add the lines of new symbols."""
        self._begins += [lines.begins[index] for index in new]

    def result(self) -> LineColumns | None:
        """Return the merged columns; None if nothing was added."""
        if not self._parts:
            return None
        columns = (np.concatenate(parts) for parts in zip(*(one[2:] for one in self._parts), strict=True))
        return LineColumns(list(self._numbers), self._begins, *columns)


def identity_columns(lines: LineColumns | None) -> list[NDArray[Any]]:
    """Return the columns that separate frames of one address: the line, and the line that calls an inlined function."""
    return [] if lines is None else [lines.file + 1, lines.line, lines.caller_line]
