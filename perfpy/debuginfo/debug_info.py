"""The debug information of a recording's files, opened on first use.

The search for symbols (perfpy.symbols.files.debug_files) also selects the file with the debug information.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.addresses import link_addresses
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import SourceLines
from perfpy.debuginfo.units import UnitIndex
from perfpy.symbols.dso import DsoKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import Symbolizer


class DebugInfo:
    """What one file's debug information says.

    symbols: the file that has it; runtime: the one that ran, or (of a kernel) how far that lay above the file. lines: where
    addresses are from. keeps: whether what it says is kept for other runs.
    """

    def __init__(
        self, symbols: ElfFile, runtime: ElfFile | int, root: str = "", *, as_addr2line: bool = False, keeps: bool = False
    ) -> None:
        self.file = symbols
        self._runtime = runtime
        self.units = UnitIndex(DebugSections(symbols, root))
        self.lines = SourceLines(self.units, as_addr2line=as_addr2line, keeps=keeps)

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Offsets in the file that ran (of a kernel: addresses) -> addresses as its symbols and debug information have them."""
        if isinstance(self._runtime, int):
            return offsets - np.uint64(self._runtime % (1 << 64))
        return link_addresses(self._runtime, offsets)


class CodeLines(NamedTuple):
    """Where the code at frames is from, a row a frame.

    file: a number in `DebugInfos.paths`, -1 where none is known; line: 0 where only the file is; address: as the file's
    debug information has it.
    """

    file: NDArray[np.int64]
    line: NDArray[np.int64]
    address: NDArray[np.uint64]


class DebugInfos:
    """The debug information of all files of a symbolizer; paths: what numbers of files stand for. as_addr2line: see LineTable."""

    def __init__(self, symbolizer: Symbolizer, *, as_addr2line: bool = False) -> None:
        self._symbolizer = symbolizer
        self._as_addr2line = as_addr2line
        self._infos: dict[int, DebugInfo | None] = {}
        self.paths: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, dso: int) -> DebugInfo | None:
        """That of a dso (index into Symbolizer.dsos); None where there is no file."""
        if dso not in self._infos:
            self._infos[dso] = self._opened(dso)
        return self._infos[dso]

    def code_lines(self, frames: NDArray[np.int64], back: NDArray[np.uint64] | None = None) -> CodeLines:
        """Where the code at some frames is from; back: so many bytes before each."""
        table = self._symbolizer.frames
        dso, address = table.dso[frames], table.address[frames].copy()
        if back is not None:
            address -= back
        found = CodeLines(np.full(len(frames), -1), np.zeros(len(frames), np.int64), address)
        for number in distinct(dso[dso >= 0]).tolist():
            info = self.of(number)
            if info is not None:
                rows = np.flatnonzero(dso == number)
                self._lines_in(info, rows, found)
                self._call_lines_in(info, frames, rows, found)
        return found

    def linked(self, frame: int) -> int | None:
        """The address of a frame as the headers of its file have it; None where that is not here."""
        table = self._symbolizer.frames
        dso = int(table.dso[frame])
        info = self.of(dso) if dso >= 0 and self._symbolizer.dsos[dso].kind is not DsoKind.MODULE else None
        return None if info is None else int(info.addresses(table.address[frame : frame + 1])[0])

    def begins(self, symbols: Iterable[int]) -> dict[int, tuple[str, int]]:
        """The path and the line where functions begin, of those of which it is known."""
        names, of_dso = self._symbolizer.symbols, dict[int, list[int]]()
        for symbol in symbols:
            of_dso.setdefault(names.dso(symbol), []).append(symbol)
        found: dict[int, tuple[str, int]] = {}
        for dso, numbers in of_dso.items():
            info = self.of(dso)
            if info is not None:
                lines = info.lines.find(info.addresses(np.array([names.start(number) for number in numbers], np.uint64)))
                for number, file, line in zip(numbers, lines.file.tolist(), lines.line.tolist(), strict=True):
                    if file >= 0:
                        found[number] = info.lines.paths[file], line
        return found

    def _lines_in(self, info: DebugInfo, rows: NDArray[np.int64], lines: CodeLines) -> None:
        lines.address[rows] = info.addresses(lines.address[rows])
        addresses, which = np.unique(lines.address[rows], return_inverse=True)
        found = info.lines.find(addresses)
        numbers = np.array([self._number(path) for path in info.lines.paths] + [-1], np.int64)
        lines.file[rows] = numbers[found.file][which.ravel()]
        lines.line[rows] = found.line[which.ravel()]

    def _call_lines_in(self, info: DebugInfo, frames: NDArray[np.int64], rows: NDArray[np.int64], lines: CodeLines) -> None:
        """Of frames into which others were inlined, the lines where those are called."""
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

    def _opened(self, dso: int) -> DebugInfo | None:
        kind, root, keeps = self._symbolizer.dsos[dso].kind, self._symbolizer.root, self._symbolizer.caches
        if image := self._symbolizer.image(dso):
            return DebugInfo(*image, root, as_addr2line=self._as_addr2line, keeps=keeps)
        if kind is not DsoKind.FILE:
            return None
        found = self._symbolizer.files(dso)
        if found.symbols is None or found.runtime is None:
            return None
        return DebugInfo(found.symbols, found.runtime, root, as_addr2line=self._as_addr2line, keeps=keeps)
