"""Symbols of one file, sorted: which symbol holds an address, and which of several at one address.

What enters: columns of symbols in the order of their file. What leaves:
`SymbolTable.find`: a row for every address of a column. The rules for ends of
symbols without a size, and for aliases, are perf's (see `closed` and `_rank`);
the last of them compare names, and are applied only to addresses asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.demangle import Demangle, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

STB_LOCAL: Final = 0
STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STT_NOTYPE: Final = 0
STT_FUNC: Final = 2
STT_GNU_IFUNC: Final = 10
_PAGE: Final = np.uint64(4096)
_UNDECIDED: Final = -1


@dataclass(frozen=True)
class Symbols:
    """Columns, one row a symbol: [start, end) (end == start where the size is not known), binding, type, name.

    `name` is the offset of a NUL-terminated name in `sources[source]`.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    binding: NDArray[np.uint8]
    type: NDArray[np.uint8]
    name: NDArray[np.int64]
    source: NDArray[np.uint8]
    sources: tuple[bytes | memoryview, ...]

    def __len__(self) -> int:
        return len(self.start)

    def pick(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Symbols:
        """Only these rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})

    def joined(self, other: Symbols) -> Symbols:
        """These and then the other's."""
        columns = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _COLUMNS}
        columns["source"][len(self) :] += len(self.sources)
        return Symbols(**columns, sources=self.sources + other.sources)

    def closed(self) -> Symbols:
        """Sorted by start (equal ones stay in order), ends filled in: up to the next symbol, the last to the page behind it."""
        result = self.pick(np.argsort(self.start, kind="stable"))
        if not len(result):
            return result
        last = (result.start[-1:] + _PAGE - np.uint64(1)) // _PAGE * _PAGE + _PAGE
        following = np.append(result.start[1:], last)
        return replace(result, end=np.where(result.end == result.start, following, result.end))


_COLUMNS: Final = ("start", "end", "binding", "type", "name", "source")


def named(
    start: NDArray[np.uint64], end: NDArray[np.uint64], names: list[bytes], binding: int = STB_GLOBAL, type: int = STT_FUNC
) -> Symbols:
    """Symbols whose names are given as a list."""
    lengths = np.fromiter((len(name) + 1 for name in names), np.int64, len(names))
    count = len(names)
    return Symbols(
        start=start,
        end=end,
        binding=np.full(count, binding, np.uint8),
        type=np.full(count, type, np.uint8),
        name=np.cumsum(lengths) - lengths,
        source=np.zeros(count, np.uint8),
        sources=(b"\0".join(names) + b"\0",),
    )


EMPTY: Final = named(np.zeros(0, np.uint64), np.zeros(0, np.uint64), [])


class SymbolTable:
    """Closed symbols, ready for questions. `demangle` turns a raw name into the one to print."""

    def __init__(self, symbols: Symbols, demangle: Demangle = plain) -> None:
        self.symbols = symbols
        self.demangle = demangle
        start = symbols.start
        self._first = np.flatnonzero(np.append(True, start[1:] != start[:-1])) if len(start) else np.zeros(0, np.int64)
        self._starts = start[self._first]
        self._sizes = np.diff(np.append(self._first, len(start)))
        self._winner = np.where(self._sizes == 1, self._first, _UNDECIDED)
        self._reach = np.maximum.accumulate(symbols.end) if len(start) else symbols.end

    def __len__(self) -> int:
        return len(self.symbols)

    def name(self, row: int) -> str:
        """The name to print."""
        return self.demangle(self.raw_name(row))

    def raw_name(self, row: int) -> bytes:
        """The name as it stands in the file."""
        source = self.symbols.sources[self.symbols.source[row]]
        offset = int(self.symbols.name[row])
        return _c_string(source, offset)

    def address_of(self, name: str) -> int | None:
        """The start of the first symbol of that (raw) name; looks at every name."""
        wanted = name.encode("utf-8", "surrogateescape")
        return next((int(self.symbols.start[row]) for row in range(len(self)) if self.raw_name(row) == wanted), None)

    def is_ifunc(self, row: int) -> bool:
        """Whether a symbol at this one's address is an IFUNC."""
        group = int(np.searchsorted(self._starts, self.symbols.start[row]))
        first = int(self._first[group])
        return bool((self.symbols.type[first : first + int(self._sizes[group])] == STT_GNU_IFUNC).any())

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The row of the symbol that holds each address, -1 where none does."""
        if not len(self._starts):
            return np.full(len(address), -1, np.int64)
        group = np.searchsorted(self._starts, address, side="right") - 1
        self._decide(group)
        row = np.where(group >= 0, self._winner[group], -1)
        missed = np.flatnonzero((group >= 0) & ~self._holds(row, address))
        row[missed] = [self._enclosing(at, where) for at, where in zip(group[missed].tolist(), address[missed].tolist(), strict=True)]
        return row

    def _holds(self, row: NDArray[np.int64], address: NDArray[np.uint64]) -> NDArray[np.bool_]:
        start, end = self.symbols.start[row], self.symbols.end[row]
        holds: NDArray[np.bool_] = (address < end) | ((address == start) & (start == end))
        return holds

    def _enclosing(self, group: int, address: int) -> int:
        """The nearest symbol before that still holds the address (a function around others)."""
        while group > 0:
            row = int(self._first[group]) - 1
            if self._reach[row] <= address:
                return -1
            group -= 1
            self._decide(np.array([group]))
            row = int(self._winner[group])
            if address < self.symbols.end[row]:
                return row
        return -1

    def _decide(self, groups: NDArray[np.int64]) -> None:
        """Choose among the aliases at these starts, if that has not been done."""
        for group in distinct(groups[self._winner[groups] == _UNDECIDED]).tolist():
            if group >= 0:
                first = int(self._first[group])
                self._winner[group] = self._best(range(first, first + int(self._sizes[group])))

    def _best(self, rows: range) -> int:
        best = min(rows, key=self._rank)
        equal = [row for row in rows if self._rank(row) == self._rank(best)]
        return min(equal, key=lambda row: _name_rank(self.name(row))) if len(equal) > 1 else best

    def _rank(self, row: int) -> tuple[bool, bool, bool, bool]:
        """perf's order among aliases, best first: with a size, with a type, not weak, global; then by names."""
        symbols = self.symbols
        binding = symbols.binding[row]
        empty = bool(symbols.start[row] == symbols.end[row])
        return (empty, bool(symbols.type[row] == STT_NOTYPE), bool(binding == STB_WEAK), bool(binding != STB_GLOBAL))


def _name_rank(name: str) -> tuple[int, int, bool]:
    """Fewest leading underscores, then the longest name, then not a SyS_ alias; equal ones: the first."""
    return (len(name) - len(name.lstrip("_")), -len(name.encode("utf-8", "surrogateescape")), name.startswith(("SyS", "compat_SyS")))


def _c_string(source: bytes | memoryview, offset: int) -> bytes:
    """The bytes from an offset up to the next NUL."""
    if isinstance(source, bytes):
        return source[offset : source.find(b"\0", offset)]
    size = 256
    while True:
        piece = bytes(source[offset : offset + size])
        end = piece.find(b"\0")
        if end >= 0 or len(piece) < size:
            return piece[:end] if end >= 0 else piece
        size *= 8
