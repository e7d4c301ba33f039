"""Where in code the frames of stacks are: addresses, the files mapped there, lines of source.

What enters: a Symbolizer, and frames of it, of callers or not. What leaves: CodeSites, a row a frame; and where functions begin.
A file lies wherever each process has it: it is taken to be where its own headers say, and otherwise where it was met first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.annotation.named_lines import NamedLines
from perfpy.debuginfo.known_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.samples.locations import Locations
    from perfpy.symbols.symbolizer import Symbolizer

_NOWHERE = -1
_NO_FILE = "??"  # as binutils have it


class Source(NamedTuple):
    """A path, and a line of it; 0 where only the file is known."""

    path: str
    line: int


class FileMapping(NamedTuple):
    """A file (or what stands for one) in memory.

    offset: where in the file it begins; made: at run time; has_symbols, has_lines: whether any site in it has one.
    """

    start: int
    end: int
    offset: int
    path: str
    build_id: str
    made: bool
    has_symbols: bool
    has_lines: bool


@dataclass(frozen=True, slots=True)
class CodeSites:
    """Distinct sites in code, as columns of one row a site.

    address: of callers within their calls; mapping: index into `mappings`, -1 where none is known; source: index into `sources`,
    -1; inlined: whether the function there was inlined into that of the next frame of its stacks; function_address, function_size: of the
    symbol there, 0 for none. begins: where each function of
    the stacks begins, None where that is not known.
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
        """Its line of source, None where that is not known."""
        number = int(self.source[site])
        return self.sources[number] if number >= 0 else None


class _SitesInMemory(NamedTuple):
    address: NDArray[np.uint64]
    mapping: NDArray[np.int64]
    mappings: list[FileMapping]


class SiteFinder:
    """Finds the sites of frames."""

    def __init__(self, symbolizer: Symbolizer, locations: Locations) -> None:
        self._symbolizer = symbolizer
        self._locations = locations
        self._infos = lines_of(symbolizer)
        self._named = NamedLines()
        self._numbers: dict[Source, int] = {}

    def find(self, frames: NDArray[np.int64], callers: NDArray[np.bool_], functions: NDArray[np.int64], count: int) -> CodeSites:
        """The sites of frames (-1: of none); callers: which are addresses behind calls; functions: in which of `count` functions."""
        there = np.flatnonzero(frames >= 0)
        known = frames[there]
        table = self._locations
        back = (callers[there] & (table.dso[known] >= 0)).astype(np.uint64)
        address, mapping = np.zeros(len(frames), np.uint64), np.full(len(frames), _NOWHERE)
        source, inlined = np.full(len(frames), _NOWHERE), np.zeros(len(frames), np.bool_)
        lines = self._infos.code_lines(known, back)
        source[there] = self._sources(known, lines.file, lines.line)
        inlined[there] = table.inlined[table.symbol[known]]
        address[there], mapping[there], mappings = self._mapped(known, back, source[there] >= 0)
        start, end = table.symbol_bounds(table.symbol[known])
        function_address, function_size = np.zeros(len(frames), np.uint64), np.zeros(len(frames), np.uint64)
        function_size[there] = end - start
        function_address[there] = address[there] - (table.address[known] - back - start)
        begins = self._begins(frames, source, functions, count)
        return CodeSites(address, mapping, source, inlined, function_address, function_size, mappings, list(self._numbers), begins)

    def _sources(self, frames: NDArray[np.int64], file: NDArray[np.int64], line: NDArray[np.int64]) -> list[int]:
        """The number of the source of each frame."""
        found = []
        for frame, number, at_line in zip(frames.tolist(), file.tolist(), line.tolist(), strict=True):
            path = self._infos.paths[number] if number >= 0 else _NO_FILE
            source = self._said(frame) or (Source(path, at_line) if path != _NO_FILE else None)
            found.append(_NOWHERE if source is None else self._numbers.setdefault(source, len(self._numbers)))
        return found

    def _mapped(self, frames: NDArray[np.int64], back: NDArray[np.uint64], has_line: NDArray[np.bool_]) -> _SitesInMemory:
        """The addresses of frames, the numbers of their mappings, and these."""
        known = self._locations
        start, dso = known.map_start[frames], known.dso[frames].astype(np.int64)
        size, offset = known.map_end[frames] - start, known.address[frames] - (known.ip[frames] - start)
        alike = np.stack([dso.view(np.uint64), offset, size], axis=1)
        found, first, number = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        number = number.ravel()
        is_file = found[:, 0].view(np.int64) >= 0
        rank = np.where(is_file, np.cumsum(is_file) - 1, _NOWHERE)
        base = np.array([self._base(frame) for frame in frames[first].tolist()], np.uint64)
        moved = np.where(is_file[number], base[number] - start, np.uint64(0))
        has_symbols = np.bincount(number, known.symbol[frames] >= 0, len(found)) > 0
        has_lines = np.bincount(number, has_line, len(found)) > 0
        mappings = [
            FileMapping(int(base[row]), int(base[row] + found[row, 2]), int(found[row, 1]), *self._file(int(found[row, 0])), symbols, lines)
            for row, symbols, lines in zip(range(len(found)), has_symbols.tolist(), has_lines.tolist(), strict=True)
            if is_file[row]
        ]
        return _SitesInMemory(known.ip[frames] + moved - back, rank[number], mappings)

    def _base(self, frame: int) -> int:
        """Where a frame's mapping begins: as the addresses in the file's headers have it, or where it was met."""
        known = self._locations
        start, ip = int(known.map_start[frame]), int(known.ip[frame])
        address = self._infos.linked(frame)
        linked = _NOWHERE if address is None else address - (ip - start)
        return linked if linked >= 0 else start

    def _file(self, number: int) -> tuple[str, str, bool]:
        """A file's path and build-id, and whether its code was made at run time."""
        dso = self._symbolizer.dsos[number]
        image = self._symbolizer.image(number) if dso.kernel else None
        return image[0].path if image else dso.long_name, dso.build_id, bool(dso.made_code)

    def _begins(
        self, frames: NDArray[np.int64], source: NDArray[np.int64], functions: NDArray[np.int64], count: int
    ) -> list[Source | None]:
        """Where each function begins; of inlined ones only the file."""
        found: list[Source | None] = [None] * count
        sources, symbols = list(self._numbers), self._symbolizer.symbols
        numbers, first = np.unique(functions, return_index=True)
        linked: dict[int, int] = {}
        for function, frame, number in zip(numbers.tolist(), frames[first].tolist(), source[first].tolist(), strict=True):
            symbol = int(self._locations.symbol[frame]) if frame >= 0 else _NOWHERE
            said = self._said(frame) if frame >= 0 else None
            if number >= 0:
                found[function] = said or Source(sources[number].path, 0)
            if symbol >= 0 and said is None and not symbols.inlined(symbol):
                linked[function] = symbol
        known = self._infos.begins(linked.values())
        for function, symbol in linked.items():
            path, line = known.get(symbol, (_NO_FILE, 0))
            if path != _NO_FILE:
                found[function] = Source(path, line)
        return found

    def _said(self, frame: int) -> Source | None:
        """Where a function begins that a runtime named with its file."""
        made = self._locations.dso[frame] >= 0 and self._symbolizer.dsos[self._locations.dso[frame]].made_code
        path, line = self._named.of(self._locations.name(frame)) if made else ("", 0)
        return Source(path, line) if path else None


def are_callers(frames: NDArray[np.int32], lengths: NDArray[np.int64], locations: Locations) -> NDArray[np.bool_]:
    """Which frames of some chains, one after the other, are not the innermost ones of their level, nor inlined there."""
    chain = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros(len(frames), np.bool_)
    level = locations.level[frames]
    for one in distinct(level).tolist():
        rows = np.flatnonzero(level == one)
        first = np.ones(len(rows), np.bool_)
        first[1:] = chain[rows][1:] != chain[rows][:-1]
        ip = locations.ip[frames[rows]]
        found[rows] = ip != ip[first][np.cumsum(first) - 1]
    return found
