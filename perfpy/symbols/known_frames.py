"""KnownFrames: resolved frames and symbols, possibly of several symbolizers, with the interface of a Symbolizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.symbols.files.debug_files import DsoFiles, SymbolOptions
from perfpy.symbols.quality_notes import MissingSymbols, advice
from perfpy.symbols.symbolizer import FrameTable, Symbolizer, SymbolNames

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.dso import Dso
    from perfpy.symbols.dso_symbols import SymbolLoader
    from perfpy.symbols.symbolizer import Ids, LineColumns


class SymbolColumns(NamedTuple):
    """Symbols, one a row.

    Attributes (besides name, bounds and file number):
        twin: distinguishes symbols of one name in one file.
    """

    names: list[str]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    dso: NDArray[np.int32]
    twin: NDArray[np.int32]
    is_data: NDArray[np.bool_]
    inlined: NDArray[np.bool_]
    binding: NDArray[np.uint8]

    def take(self, rows: list[int]) -> SymbolColumns:
        """Select rows by index."""
        columns = self.twin[rows], self.is_data[rows], self.inlined[rows], self.binding[rows]
        return SymbolColumns([self.names[row] for row in rows], self.start[rows], self.end[rows], self.dso[rows], *columns)


class FoundSymbols(SymbolNames):
    """Symbols with known names."""

    def __init__(self, columns: SymbolColumns, files: Sequence[Hashable]) -> None:
        """Identify functions by the names of their symbol and file. `files`: the name of each dso."""
        self._columns = columns
        numbers: dict[Hashable, int] = {}
        rows = zip(columns.names, columns.dso.tolist(), columns.twin.tolist(), columns.inlined.tolist(), strict=True)
        keys = ((files[dso], name, twin, inlined) for name, dso, twin, inlined in rows)
        self._functions = np.array([numbers.setdefault(key, number) for number, key in enumerate(keys)], np.int64)

    def __len__(self) -> int:
        return len(self._columns.names)

    def name(self, symbol: int) -> str:
        """Return the printed name."""
        return self._columns.names[symbol]

    def start(self, symbol: int) -> int:
        """Return the start in the file."""
        return int(self._columns.start[symbol])

    def end(self, symbol: int) -> int:
        """Return the end (exclusive) in the file."""
        return int(self._columns.end[symbol])

    def is_data(self, symbol: int) -> bool:
        """Whether the symbol is an object, not a function."""
        return bool(self._columns.is_data[symbol])

    def is_inlined(self, symbol: int) -> bool:
        """Whether the symbol was inlined into another function."""
        return bool(self._columns.inlined[symbol])

    def binding(self, symbol: int) -> int:
        """Return 0 for local, 1 for global, 2 for weak symbols."""
        return int(self._columns.binding[symbol])

    def dso(self, symbol: int) -> int:
        """Return the number of the file."""
        return int(self._columns.dso[symbol])

    def functions(self) -> NDArray[np.int64]:
        """Return for each symbol the first one of the same function."""
        return self._functions


class KnownFrames(Symbolizer):
    """A Symbolizer of resolved frames.

    Args:
        frames: the columns of FrameTable.
        symbols: the symbols.
        dsos: the dsos.
        origins: perf's letter for the origin of each dso's symbols.
        lines: source lines, None if they were not resolved.
        loader: searches files of the same builds if it is given.
    """

    def __init__(
        self,
        frames: dict[str, NDArray[Any]],
        symbols: SymbolColumns,
        dsos: list[Dso],
        origins: Sequence[str],
        lines: LineColumns | None = None,
        loader: SymbolLoader | None = None,
    ) -> None:
        self.known_lines = lines
        self._files = loader
        self._options = SymbolOptions()
        self.frames = FrameTable()
        self.frames.extend(**frames)
        self.symbols = FoundSymbols(symbols, [(file.short_name, file.kind) for file in dsos])
        self.dsos = dsos
        self._origins = origins

    def resolve(self) -> FrameTable:
        """Return the frames, all of which are resolved."""
        return self.frames

    def expand(
        self, ids: Ids, counts: NDArray[np.int64], *, callers_first: bool = False, calls: bool = False
    ) -> tuple[Ids, NDArray[np.int64]]:
        """Return callchains unchanged: they contain the inlined frames already."""
        del callers_first, calls
        return ids, counts

    def spaces_of(self, ids: Ids) -> NDArray[np.int64]:
        """Return 0: the frames are not of one recording's processes."""
        return np.zeros(len(ids), np.int64)

    def files(self, number: int) -> DsoFiles:
        """Return the ELF files of a dso if files of its build are available."""
        return DsoFiles() if self._files is None else self._files.files(number)

    def image(self, _number: int) -> None:
        """Return None: the frames may be of several kernels."""
        return

    def module_code(self, _number: int) -> None:
        """Return None: the frames may be of several kernels."""
        return

    def running_kernel(self) -> None:
        """Return None: the frames may be of several kernels."""
        return

    def origin(self, number: int) -> str:
        """Return perf's letter for the origin of a dso's symbols."""
        return self._origins[number]

    def missing(self, samples: NDArray[Any]) -> list[MissingSymbols]:
        """Return the dsos with samples that have no symbol, most samples first."""
        frames = self.frames
        counts = np.zeros(len(frames), np.int64)
        counts[: len(samples)] = samples
        lost = (frames.symbol < 0) & (frames.dso >= 0) & (counts > 0)
        totals = np.bincount(frames.dso[lost], weights=counts[lost], minlength=len(self.dsos)).astype(np.int64)
        numbers = np.flatnonzero(totals).tolist()
        missing = [MissingSymbols(self.dsos[i], int(totals[i]), (), advice(self.dsos[i], is_found=self.origin(i) != "!")) for i in numbers]
        return sorted(missing, key=lambda item: -item.samples)
