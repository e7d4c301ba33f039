"""The sites of frames in code: addresses, mapped files, source lines; and where functions begin.

A file is mapped at different addresses in each process: its sites get the addresses in its headers, or else those of its first mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.annotation import NamedLines
from perfpy.debuginfo.debug_info import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Locations
    from perfpy.symbols.symbolizer import Symbolizer


_NOWHERE = -1
_NO_FILE = "??"  # binutils' text


class Source(NamedTuple):
    """A path and a line; 0 if only the file is known."""

    path: str
    line: int


class FileMapping(NamedTuple):
    """A mapped file, or a substitute for one.

    Attributes:
        start, end: addresses.
        offset: in the file.
        made: whether a runtime made the code.
        has_symbols, has_lines: whether any site in it has them.
    """

    start: int
    end: int
    offset: int
    path: str
    build_id: str
    is_runtime_code: bool
    has_symbols: bool
    has_lines: bool


@dataclass(frozen=True, slots=True)
class CodeSites:
    """Distinct sites in code, as columns with a row per site.

    Attributes:
        address: for callers, within their calls.
        mapping: index into `mappings`, -1 if unknown.
        source: index into `sources`, -1 if unknown.
        inlined: whether the function was inlined into that of the next frame of its stacks.
        function_address, function_size: of the symbol, 0 for none.
        begins: where each function of the stacks begins, None if unknown.
    """

    address: NDArray[np.uint64]
    mapping: NDArray[np.int64]
    source: NDArray[np.int64]
    inlined: NDArray[np.bool_]
    function_address: NDArray[np.uint64]
    function_size: NDArray[np.uint64]
    mappings: Sequence[FileMapping]
    sources: Sequence[Source]
    begins: Sequence[Source | None]

    def source_of(self, site: int) -> Source | None:
        """Return a site's source line, None if unknown."""
        number = int(self.source[site])
        return self.sources[number] if number >= 0 else None


class _SitesInMemory(NamedTuple):
    address: NDArray[np.uint64]
    mapping: NDArray[np.int64]
    mappings: list[FileMapping]


class SiteFinder:
    """A finder of the sites of frames."""

    def __init__(self, symbolizer: Symbolizer, locations: Locations) -> None:
        self._symbolizer = symbolizer
        self._locations = locations
        self._infos = lines_of(symbolizer)
        self._lines = NamedLines()
        self._numbers: dict[Source, int] = {}

    def find(self, frames: NDArray[np.int64], callers: NDArray[np.bool_], functions: NDArray[np.int64], count: int) -> CodeSites:
        """Return the sites of frames (-1: none); callers: marks return addresses; functions: the function of each frame, of `count`."""
        has_frame = np.flatnonzero(frames >= 0)
        valid_frames = frames[has_frame]
        table = self._locations
        back = (callers[has_frame] & (table.dso[valid_frames] >= 0)).astype(np.uint64)
        address, mapping = np.zeros(len(frames), np.uint64), np.full(len(frames), _NOWHERE)
        source, inlined = np.full(len(frames), _NOWHERE), np.zeros(len(frames), np.bool_)
        lines = self._infos.code_lines(valid_frames, back)
        source[has_frame] = self._sources(valid_frames, lines.file, lines.line)
        inlined[has_frame] = table.inlined[table.symbol[valid_frames]]
        address[has_frame], mapping[has_frame], mappings = self._sites_in_memory(valid_frames, back, source[has_frame] >= 0)
        start, end = table.symbol_bounds(table.symbol[valid_frames])
        function_address, function_size = np.zeros(len(frames), np.uint64), np.zeros(len(frames), np.uint64)
        function_size[has_frame] = end - start
        function_address[has_frame] = address[has_frame] - (table.address[valid_frames] - back - start)
        begins = self._begins(frames, source, functions, count)
        return CodeSites(address, mapping, source, inlined, function_address, function_size, mappings, list(self._numbers), begins)

    def _sources(self, frames: NDArray[np.int64], file: NDArray[np.int64], line: NDArray[np.int64]) -> list[int]:
        """Return the number of each frame's source."""
        numbers = []
        for frame, number, at_line in zip(frames.tolist(), file.tolist(), line.tolist(), strict=True):
            path = self._infos.paths[number] if number >= 0 else _NO_FILE
            source = self._recorded_begin(frame) or (Source(path, at_line) if path != _NO_FILE else None)
            numbers.append(_NOWHERE if source is None else self._numbers.setdefault(source, len(self._numbers)))
        return numbers

    def _sites_in_memory(self, frames: NDArray[np.int64], back: NDArray[np.uint64], has_line: NDArray[np.bool_]) -> _SitesInMemory:
        """Return the addresses of frames, the numbers of their mappings, and the mappings."""
        location_table = self._locations
        start, dso = location_table.map_start[frames], location_table.dso[frames].astype(np.int64)
        size, offset = location_table.map_end[frames] - start, location_table.address[frames] - (location_table.ip[frames] - start)
        alike = np.stack([dso.view(np.uint64), offset, size], axis=1)
        kinds, first, number = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        number = number.ravel()
        is_file = kinds[:, 0].view(np.int64) >= 0
        rank = np.where(is_file, np.cumsum(is_file) - 1, _NOWHERE)
        base = np.array([self._base(frame) for frame in frames[first].tolist()], np.uint64)
        moved = np.where(is_file[number], base[number] - start, np.uint64(0))
        has_symbols = np.bincount(number, location_table.symbol[frames] >= 0, len(kinds)) > 0
        has_lines = np.bincount(number, has_line, len(kinds)) > 0
        mappings = [
            FileMapping(int(base[row]), int(base[row] + kinds[row, 2]), int(kinds[row, 1]), *self._file(int(kinds[row, 0])), symbols, lines)
            for row, symbols, lines in zip(range(len(kinds)), has_symbols.tolist(), has_lines.tolist(), strict=True)
            if is_file[row]
        ]
        return _SitesInMemory(location_table.ip[frames] + moved - back, rank[number], mappings)

    def _base(self, frame: int) -> int:
        """Return the start of a frame's mapping: from the file's headers, or the recorded one."""
        location_table = self._locations
        start, ip = int(location_table.map_start[frame]), int(location_table.ip[frame])
        address = self._infos.link_address(frame)
        linked = _NOWHERE if address is None else address - (ip - start)
        return linked if linked >= 0 else start

    def _file(self, number: int) -> tuple[str, str, bool]:
        """Return a file's path and build-id, and whether a runtime made its code."""
        dso = self._symbolizer.dsos[number]
        image = self._symbolizer.image(number) if dso.kernel else None
        return image[0].path if image else dso.long_name, dso.build_id, bool(dso.made_code)

    def _begins(
        self, frames: NDArray[np.int64], source: NDArray[np.int64], functions: NDArray[np.int64], count: int
    ) -> list[Source | None]:
        """Return where each function begins; for inlined ones only the file."""
        begins: list[Source | None] = [None] * count
        sources, symbols = list(self._numbers), self._symbolizer.symbols
        numbers, first = np.unique(functions, return_index=True)
        linked: dict[int, int] = {}
        for function, frame, number in zip(numbers.tolist(), frames[first].tolist(), source[first].tolist(), strict=True):
            symbol = int(self._locations.symbol[frame]) if frame >= 0 else _NOWHERE
            begin = self._recorded_begin(frame) if frame >= 0 else None
            if number >= 0:
                begins[function] = begin or Source(sources[number].path, 0)
            if symbol >= 0 and begin is None and not symbols.is_inlined(symbol):
                linked[function] = symbol
        location_table = self._infos.begins(linked.values())
        for function, symbol in linked.items():
            path, line = location_table.get(symbol, (_NO_FILE, 0))
            if path != _NO_FILE:
                begins[function] = Source(path, line)
        return begins

    def _recorded_begin(self, frame: int) -> Source | None:
        """Return where a function begins whose name includes its file."""
        is_runtime_code = self._locations.dso[frame] >= 0 and self._symbolizer.dsos[self._locations.dso[frame]].made_code
        path, line = self._lines.of(self._locations.name(frame)) if is_runtime_code else ("", 0)
        return Source(path, line) if path else None


def are_callers(frames: NDArray[np.integer[Any]], lengths: NDArray[np.int64], locations: Locations) -> NDArray[np.bool_]:
    """Return a mask of the frames that are not the innermost ones of their level, nor inlined there."""
    chain = np.repeat(np.arange(len(lengths)), lengths)
    is_caller = np.zeros(len(frames), np.bool_)
    level = locations.level[frames]
    for one in distinct(level).tolist():
        rows = np.flatnonzero(level == one)
        first = np.ones(len(rows), np.bool_)
        first[1:] = chain[rows][1:] != chain[rows][:-1]
        ip = locations.ip[frames[rows]]
        is_caller[rows] = ip != ip[first][np.cumsum(first) - 1]
    return is_caller
