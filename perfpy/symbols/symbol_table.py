"""The sorted symbols of one dso: which symbol contains an address, and which of several aliases to print.

`SymbolTable.find` returns a row for every address of a column. The rules for symbols without a size and for aliases are perf's (see
`closed` and `_rank`). The last rules compare names, and apply only to looked-up addresses.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from perfpy.abi.columns import distinct, rows_where, slices_index
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.symbols.demangling.demangle import Demangle, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

STB_LOCAL: Final = 0
STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STT_NOTYPE: Final = 0
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_GNU_IFUNC: Final = 10
_PAGE: Final = np.uint64(4096)
_BLOCK: Final = 256  # rows per block of the search
_GROUPS_MOST: Final = 1000  # starts visited by the search for the nearest enclosing symbol; a handful at most in real programs
_ALIASES_MOST: Final = 1 << 14  # names of one start that are compared; identical functions are folded by the thousand
_LONG: Final = 512  # bytes of a name; most are shorter
_NAMES_RATIO: Final = 16  # all requested names together are hardly ever longer than their table


class Symbols:
    """Columns of symbols, one row a symbol.

    Attributes:
        start: uint64.
        end: uint64, exclusive; equal to start if the size is unknown.
        binding: STB_*.
        type: STT_*.
        name: offset of a NUL-terminated name in `sources[source]`.
        source: index into `sources`.
    """

    __slots__ = ("binding", "end", "name", "source", "sources", "start", "type")

    def __init__(
        self,
        start: NDArray[np.uint64],
        end: NDArray[np.uint64],
        binding: NDArray[np.uint8],
        type: NDArray[np.uint8],
        name: NDArray[np.int64],
        source: NDArray[np.uint8],
        sources: tuple[bytes | memoryview, ...],
    ) -> None:
        self.start = start
        self.end = end
        self.binding = binding
        self.type = type
        self.name = name
        self.source = source
        self.sources = sources

    def __len__(self) -> int:
        return len(self.start)

    def with_columns(self, **changes: Any) -> Symbols:
        """Return a copy with other values for some columns."""
        return Symbols(**{name: getattr(self, name) for name in (*_COLUMNS, "sources")} | changes)

    def pick(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Symbols:
        """Select rows."""
        return self.with_columns(**{name: getattr(self, name)[rows] for name in _COLUMNS})

    def concat(self, other: Symbols) -> Symbols:
        """Concatenate two tables."""
        return Symbols.all([self, other])

    @staticmethod
    def all(tables: Sequence[Symbols]) -> Symbols:
        """Concatenate tables."""
        columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS}
        sources = tuple(source for table in tables for source in table.sources)
        row, before = 0, 0
        for table in tables:
            columns["source"][row : row + len(table)] += before
            row, before = row + len(table), before + len(table.sources)
        return Symbols(**columns, sources=sources)

    def close(self) -> Symbols:
        """Sort by start (stable) and fill in missing ends: the next symbol, or the end of the following page for the last one."""
        result = self.pick(np.argsort(self.start, kind="stable"))
        if not len(result):
            return result
        last = (result.start[-1:] + _PAGE - np.uint64(1)) // _PAGE * _PAGE + _PAGE
        following = np.append(result.start[1:], last)
        return result.with_columns(end=np.where(result.end == result.start, following, result.end))


_COLUMNS: Final = ("start", "end", "binding", "type", "name", "source")


def symbols_of_names(
    start: NDArray[np.uint64], end: NDArray[np.uint64], names: list[bytes], binding: int = STB_GLOBAL, type: int = STT_FUNC
) -> Symbols:
    """Return symbols with a list of names."""
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


EMPTY: Final = symbols_of_names(np.zeros(0, np.uint64), np.zeros(0, np.uint64), [])


class SymbolTable:
    """A search over closed symbols. `demangle` converts raw names to printed ones."""

    def __init__(self, symbols: Symbols, demangle: Demangle = plain) -> None:
        self.symbols = symbols
        self.demangle = demangle
        self._sorted = symbols  # searched by `find`; `symbols` may have further rows
        self._long_names = 0  # bytes of long names requested so far
        self._best_rows: dict[int, int] = {}  # last row of several at one start -> the best of them

    def __len__(self) -> int:
        return len(self.symbols)

    def name(self, row: int) -> str:
        """Return the printed name."""
        return self.demangle(self.raw_name(row))

    def raw_name(self, row: int) -> bytes:
        """Return the name in the file."""
        source = self.symbols.sources[self.symbols.source[row]]
        offset = int(self.symbols.name[row])
        name = _c_string(source, offset, max(_NAMES_RATIO * len(source) - self._long_names, _LONG))
        if len(name) > _LONG:  # Overlapping names could be as many as the table has bytes, each as long as the table.
            self._long_names += len(name)
        return name

    def range_of(self, name: str) -> tuple[int, int] | None:
        """Return the start and the end of the first symbol with a raw name, None without one."""
        text = name.encode("utf-8", "surrogateescape")
        named = np.zeros(len(self), bool)
        for number, source in enumerate(self.symbols.sources):
            offsets = [match.start() for match in re.finditer(re.escape(text) + rb"\0", source)]
            named |= (self.symbols.source == number) & np.isin(self.symbols.name, offsets)
        rows = np.flatnonzero(named)
        return (int(self.symbols.start[rows[0]]), int(self.symbols.end[rows[0]])) if len(rows) else None

    def address_of(self, name: str) -> int | None:
        """Return the start of the first symbol with a raw name, None without one."""
        extent = self.range_of(name)
        return extent[0] if extent else None

    def is_ifunc(self, row: int) -> bool:
        """Whether a symbol at the row's address is an IFUNC."""
        start = self._sorted.start
        first, end = np.searchsorted(start, start[row]), np.searchsorted(start, start[row], side="right")
        return bool((self.symbols.type[first:end] == STT_GNU_IFUNC).any())

    def find(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of the symbol that contains each address, -1 for none."""
        if not len(self._sorted):
            return np.full(len(address), -1, np.int64)
        last = np.searchsorted(self._sorted.start, address, side="right") - 1
        row = self._best_of(last)
        start, end = self._sorted.start[row], self._sorted.end[row]
        holds: NDArray[np.bool_] = (address < end) | ((address == start) & (start == end))
        missed = rows_where((last >= 0) & ~holds)
        row[missed] = -1
        missed = missed[self._reach[last[missed]] > address[missed]] if len(missed) else missed
        row[missed] = [self._enclosing(index, where) for index, where in zip(last[missed].tolist(), address[missed].tolist(), strict=True)]
        return row

    def _enclosing(self, last: int, address: int) -> int:
        """Return the nearest earlier symbol that contains the address (a function around others)."""
        start, end = self._sorted.start, self._sorted.end
        for _ in range(_GROUPS_MOST):
            first = int(np.searchsorted(start, start[last]))
            last = self._last_reaching(first, address)
            if last < 0:
                return -1
            last = int(np.searchsorted(start, start[last], side="right")) - 1
            row = int(self._best_of(np.array([last]))[0])
            if address < end[row]:
                return row
        return -1

    def _last_reaching(self, before: int, address: int) -> int:
        """Return the last row before `before` that ends after an address, -1 for none. Visits blocks, then rows of one block."""
        end, within = self._sorted.end, before - before % _BLOCK
        rows = rows_where(end[within:before] > address)
        if not len(rows):
            blocks = rows_where(self._block_ends[: within // _BLOCK] > address)
            if not len(blocks):
                return -1
            within = int(blocks[-1]) * _BLOCK
            rows = rows_where(end[within : within + _BLOCK] > address)
        return within + int(rows[-1])

    @cached_property
    def _block_ends(self) -> NDArray[np.uint64]:
        """The highest end in each block."""
        ends: NDArray[np.uint64] = np.maximum.reduceat(self._sorted.end, np.arange(0, len(self._sorted), _BLOCK))
        return ends

    @cached_property
    def _reach(self) -> NDArray[np.uint64]:
        """The highest end up to each row."""
        return np.maximum.accumulate(self._sorted.end)

    def _best_of(self, last: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row that perf selects among several at one start, given the last of them; -1 stays."""
        start = self._sorted.start
        result = last.copy()
        several = rows_where((last > 0) & (start[last] == start[np.maximum(last - 1, 0)]))
        if len(several):
            groups = distinct(last[several])
            self._choose([row for row in groups.tolist() if row not in self._best_rows])
            result[several] = np.array([self._best_rows[row] for row in groups.tolist()])[np.searchsorted(groups, last[several])]
        return result

    def _choose(self, groups: list[int]) -> None:
        """Find the best row of each group at one start, given by its last row."""
        if not groups:
            return
        last = np.array(groups)
        first = np.searchsorted(self._sorted.start, self._sorted.start[last])
        rows, offsets = slices_index(first, last + 1 - first)
        rank = self._rank(rows)
        least = np.minimum.reduceat(rank, offsets[:-1])
        best = rows[rank == np.repeat(least, np.diff(offsets))]
        begin, end = np.searchsorted(best, first), np.searchsorted(best, last, side="right")
        for index, group in enumerate(groups):
            equal = best[begin[index] : end[index]][:_ALIASES_MOST].tolist()
            self._best_rows[group] = equal[0] if len(equal) == 1 else min(equal, key=lambda row: _name_rank(self.name(row)))

    def _rank(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return perf's order among aliases, best first: with a size, with a type, not weak, global; then by names."""
        symbols = self._sorted
        binding = symbols.binding[rows]
        worse = (symbols.start[rows] == symbols.end[rows], symbols.type[rows] == STT_NOTYPE, binding == STB_WEAK, binding != STB_GLOBAL)
        return np.packbits(np.stack(worse, axis=1), axis=1)[:, 0]


def _name_rank(name: str) -> tuple[int, int, bool]:
    """Return the sort key of a name: fewest leading underscores, then the longest, then not a SyS_ alias; the first of equal ones."""
    return (len(name) - len(name.lstrip("_")), -len(name.encode("utf-8", "surrogateescape")), name.startswith(("SyS", "compat_SyS")))


def _c_string(source: bytes | memoryview, offset: int, most: int) -> bytes:
    """Return the bytes from an offset to the next NUL, at most `most`."""
    if isinstance(source, bytes):
        end = source.find(b"\0", offset, offset + most)
        return source[offset : end if end >= 0 else offset + most]
    size = min(256, most)
    while True:
        piece = bytes(source[offset : offset + size])
        end = piece.find(b"\0")
        if end >= 0 or len(piece) < size or size == most:
            return piece[:end] if end >= 0 else piece
        size = min(size * 8, most)
