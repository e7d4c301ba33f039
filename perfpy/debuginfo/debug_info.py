"""The debug information of a recording's files, opened on first use.

The search for symbols (perfpy.symbols.files.debug_files) also selects the file with the debug information.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.debuginfo.kept_answers import link_addresses
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import SourceLines
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.dso import DsoKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import LineColumns, Symbolizer


class DebugInfo:
    """The debug information of one file.

    Args:
        symbols: the file with the debug information.
        runtime: the file that was mapped; for a kernel, the distance of its addresses from those in `symbols`.
        root: the folder that stands for /.
        as_addr2line: see LineTable.
        keeps: whether to use the cache between runs.
    """

    def __init__(
        self, symbols: ElfFile, runtime: ElfFile | int, root: str = "", *, as_addr2line: bool = False, keeps: bool = False
    ) -> None:
        self.file = symbols
        self._runtime = runtime
        self.units = UnitIndex(DebugSections(symbols, root))
        self.lines = SourceLines(self.units, as_addr2line=as_addr2line, keeps=keeps)

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Convert offsets in the mapped file (for a kernel: addresses) to addresses in symbols and debug information."""
        if isinstance(self._runtime, int):
            return offsets - np.uint64(self._runtime % (1 << 64))
        return link_addresses(self._runtime, offsets)


class CodeLines(NamedTuple):
    """The source lines of frames, a row a frame.

    Attributes:
        file: index in `DebugInfos.paths`, -1 if unknown.
        line: 0 if only the file is known.
        address: link-time address.
    """

    file: NDArray[np.int64]
    line: NDArray[np.int64]
    address: NDArray[np.uint64]


class DebugInfos:
    """The debug information of all files of a symbolizer.

    Args:
        symbolizer: whose dsos and frames to use.
        as_addr2line: see LineTable.

    Attributes:
        paths: the paths that file numbers stand for.
    """

    def __init__(self, symbolizer: Symbolizer, *, as_addr2line: bool = False) -> None:
        self._symbolizer = symbolizer
        self._as_addr2line = as_addr2line
        self._infos: dict[int, DebugInfo | None] = {}
        self.paths: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, dso: int) -> DebugInfo | None:
        """Return the debug information of a dso (index into Symbolizer.dsos), None without a file."""
        if dso not in self._infos:
            self._infos[dso] = self._open_info(dso)
        return self._infos[dso]

    def code_lines(self, frames: NDArray[np.int64], back: NDArray[np.uint64] | None = None) -> CodeLines:
        """Return the source lines of frames. `back` is subtracted from their addresses."""
        table = self._symbolizer.frames
        dso, address = table.dso[frames], table.address[frames].copy()
        if back is not None:
            address -= back
        lines = CodeLines(np.full(len(frames), -1), np.zeros(len(frames), np.int64), address)
        for number in distinct(dso[dso >= 0]).tolist():
            info = self.of(number)
            if info is not None:
                rows = np.flatnonzero(dso == number)
                lines.address[rows] = info.addresses(lines.address[rows])
                if not info.lines.any:
                    continue
                addresses, which = np.unique(lines.address[rows], return_inverse=True)
                file_lines = info.lines.find(addresses)
                numbers = np.array([self._number(path) for path in info.lines.paths] + [-1], np.int64)
                lines.file[rows] = numbers[file_lines.file][which.ravel()]
                lines.line[rows] = file_lines.line[which.ravel()]
                self._store_call_lines(info, frames, rows, lines)
        return lines

    def link_address(self, frame: int) -> int | None:
        """Return the link-time address of a frame, None if its file is missing."""
        table = self._symbolizer.frames
        dso = int(table.dso[frame])
        info = self.of(dso) if dso >= 0 and self._symbolizer.dsos[dso].kind is not DsoKind.MODULE else None
        return None if info is None else int(info.addresses(table.address[frame : frame + 1])[0])

    def begins(self, symbols: Iterable[int]) -> dict[int, tuple[str, int]]:
        """Return the path and line at which each function begins, by symbol; functions without lines are left out."""
        names, of_dso = self._symbolizer.symbols, dict[int, list[int]]()
        for symbol in symbols:
            of_dso.setdefault(names.dso(symbol), []).append(symbol)
        begins: dict[int, tuple[str, int]] = {}
        for dso, numbers in of_dso.items():
            info = self.of(dso)
            if info is not None:
                lines = info.lines.find(info.addresses(np.array([names.start(number) for number in numbers], np.uint64)))
                for number, file, line in zip(numbers, lines.file.tolist(), lines.line.tolist(), strict=True):
                    if file >= 0:
                        begins[number] = info.lines.paths[file], line
        return begins

    def _store_call_lines(self, info: DebugInfo, frames: NDArray[np.int64], rows: NDArray[np.int64], lines: CodeLines) -> None:
        """Set the lines of frames that have inlined callees to the lines of the calls."""
        called_from = self._symbolizer.frames.called_from
        if not called_from:
            return
        calls = {row: called_from[frame] for row, frame in zip(rows.tolist(), frames[rows].tolist(), strict=True) if frame in called_from}
        files = info.lines.files([(unit, number) for unit, number, _ in calls.values()])
        for row, (unit, number, line) in calls.items():
            file = files[unit, number]
            lines.file[row] = self._number(info.lines.paths[file]) if file >= 0 else -1
            lines.line[row] = line

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self.paths))
        if number == len(self.paths):
            self.paths.append(path)
        return number

    def _open_info(self, dso: int) -> DebugInfo | None:
        kind, root, keeps = self._symbolizer.dsos[dso].kind, self._symbolizer.root, self._symbolizer.caches
        if image := self._symbolizer.image(dso):
            return DebugInfo(*image, root, as_addr2line=self._as_addr2line, keeps=keeps)
        if kind is not DsoKind.FILE:
            return None
        files = self._symbolizer.files(dso)
        if files.symbols is None or files.runtime is None:
            return None
        return DebugInfo(files.symbols, files.runtime, root, as_addr2line=self._as_addr2line, keeps=keeps)


# KnownLines: resolved lines, possibly of other machines, with the interface of debug information.
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
