"""Read /tmp/perf-PID.map, in which interpreters and JIT compilers name their code.

Lines have the form `START SIZE NAME` (hexadecimal, without 0x; tools/perf/Documentation/jit-interface.txt). Memory is reused without a
time in the file: where lines overlap, the last one counts.
"""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING

import numpy as np

from perfpy.symbols.symbol_table import EMPTY, Symbols, SymbolTable, symbols_of_names
from perfpy.untrusted import process_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray


LARGEST = 512 << 20  # bytes of a perf map
MOST_FUNCTIONS = 4 << 20  #: in all perf maps of a report; a map of the largest size with lines of 128 bytes has as many
_PIECE = 8 << 20  # bytes that are split into lines at once
_LINE = re.compile(rb"(?:0x)?([0-9a-fA-F]{1,16})[ \t]+(?:0x)?([0-9a-fA-F]{1,16})[ \t]([^\n]+)$", re.MULTILINE)


def load(path: str, owners: Collection[int] | None = None, pid: int = 0, most: int = MOST_FUNCTIONS) -> MapTable:
    """Load at most `most` functions of a process's perf map. Raises OSError if it cannot be read or belongs to none of `owners`."""
    with process_files.open_process_file(path, pid, owners=owners, limit=LARGEST) as file:
        return MapTable(parse(file.read(LARGEST), most))


def parse(text: bytes, most: int = MOST_FUNCTIONS) -> Symbols:
    """Parse the first `most` lines of a perf map, in file order."""
    symbols, count = list[Symbols](), 0
    for piece in _pieces(text):
        if count >= most:
            break
        lines = _LINE.findall(piece)[: most - count]
        if lines:
            start = np.array([int(line[0], 16) for line in lines], np.uint64)
            size = np.array([max(int(line[1], 16), 1) for line in lines], np.uint64)
            symbols.append(symbols_of_names(start, np.maximum(start + size, start), [line[2] for line in lines]))
            count += len(lines)
    return Symbols.all(symbols) if symbols else EMPTY


def _pieces(text: bytes) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at once: as Python objects they take twentyfold the memory."""
    begin = 0
    while begin < len(text):
        end = text.rfind(b"\n", begin, begin + _PIECE) + 1 or text.find(b"\n", begin + _PIECE) + 1 or len(text)
        yield text[begin:end]
        begin = end


class MapTable(SymbolTable):
    """Symbols that may overlap; later ones cover earlier ones."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__(symbols)
        # The visible [start, end) ranges of symbols, sorted. A symbol may have several.
        self._piece_start, self._piece_end, self._piece_row = _visible(symbols.start, symbols.end)

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the symbol that contains each address, -1 for none."""
        if not len(self._piece_row):
            return np.full(len(address), -1, np.int64)
        piece = np.searchsorted(self._piece_start, address, side="right") - 1
        return np.where((piece >= 0) & (address < self._piece_end[piece]), self._piece_row[piece], -1)


def _visible(start: NDArray[np.uint64], end: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    if bool(apart.all()):
        return start, end, order
    alone = np.append(True, apart) & np.append(apart, True)  # most lines overlap no other and need no sweep
    swept = [*_sweep(start[~alone].tolist(), end[~alone].tolist(), order[~alone].tolist())]
    first, last, row = zip(*swept, strict=True)
    start = np.append(start[alone], np.array(first, np.uint64))
    end = np.append(end[alone], np.array(last, np.uint64))
    sorting = np.argsort(start, kind="stable")
    return start[sorting], end[sorting], np.append(order[alone], np.array(row, np.int64))[sorting]


def _sweep(start: list[int], end: list[int], rank: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, rank) pieces of spans sorted by start: each address gets the span of the highest rank there."""
    living: list[tuple[int, int]] = []  # a heap of (-rank, end)
    address, following = 0, 0
    while living or following < len(start):
        if not living:
            address = start[following]
        while following < len(start) and start[following] == address:
            heapq.heappush(living, (-rank[following], end[following]))
            following += 1
        top, top_end = living[0]
        until = min(top_end, start[following]) if following < len(start) else top_end
        if until > address:
            yield address, until, -top
            address = until
        while living and living[0][1] <= address:
            heapq.heappop(living)
