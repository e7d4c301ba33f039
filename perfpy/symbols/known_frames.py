"""KnownFrames: resolved frames and symbols, possibly of several symbolizers, with the interface of a Symbolizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.symbols.files.debug_files import DsoFiles, SymbolOptions
from perfpy.symbols.frame_table import FrameTable, SymbolNames
from perfpy.symbols.providers.missing import MissingSymbols, advice
from perfpy.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.dso import Dso
    from perfpy.symbols.frame_table import Ids, LineColumns
    from perfpy.symbols.loader import SymbolLoader


class SymbolColumns(NamedTuple):
    """Symbols, one a row: name, bounds within the file, the file's number; twin: which of those of this name in the file."""

    names: list[str]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    dso: NDArray[np.int32]
    twin: NDArray[np.int32]
    is_data: NDArray[np.bool_]
    inlined: NDArray[np.bool_]
    binding: NDArray[np.uint8]

    def take(self, rows: list[int]) -> SymbolColumns:
        """Some of them."""
        more = self.twin[rows], self.is_data[rows], self.inlined[rows], self.binding[rows]
        return SymbolColumns([self.names[row] for row in rows], self.start[rows], self.end[rows], self.dso[rows], *more)


class FoundSymbols(SymbolNames):
    """Symbols whose names are known already."""

    def __init__(self, columns: SymbolColumns, files: Sequence[Hashable]) -> None:
        """files: of each dso what it is called; symbols of one name in files of one name are one function."""
        self._columns = columns
        numbers: dict[Hashable, int] = {}
        rows = zip(columns.names, columns.dso.tolist(), columns.twin.tolist(), columns.inlined.tolist(), strict=True)
        keys = ((files[dso], name, twin, inlined) for name, dso, twin, inlined in rows)
        self._functions = np.array([numbers.setdefault(key, number) for number, key in enumerate(keys)], np.int64)

    def __len__(self) -> int:
        return len(self._columns.names)

    def name(self, symbol: int) -> str:
        """The name, as it is printed."""
        return self._columns.names[symbol]

    def start(self, symbol: int) -> int:
        """Where it starts in its file."""
        return int(self._columns.start[symbol])

    def end(self, symbol: int) -> int:
        """Where it ends (exclusive)."""
        return int(self._columns.end[symbol])

    def is_data(self, symbol: int) -> bool:
        """Whether it is an object, not a function."""
        return bool(self._columns.is_data[symbol])

    def inlined(self, symbol: int) -> bool:
        """Whether it was inlined into another function."""
        return bool(self._columns.inlined[symbol])

    def binding(self, symbol: int) -> int:
        """0 local, 1 global, 2 weak."""
        return int(self._columns.binding[symbol])

    def dso(self, symbol: int) -> int:
        """The number of its file."""
        return int(self._columns.dso[symbol])

    def functions(self) -> NDArray[np.int64]:
        """For each symbol the first one of the same function."""
        return self._functions


class KnownFrames(Symbolizer):
    """What was found.

    origins: the letter of each file by which perf says where symbols come from; lines: None where none were asked for; loader: finds
    files of the same builds, where these are wanted.
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
        """The frames: all were resolved."""
        return self.frames

    def expanded(self, ids: Ids, counts: NDArray[np.int64], *, callers_first: bool = False) -> tuple[Ids, NDArray[np.int64]]:
        """Callchains as they are: inlined calls are among them already."""
        del callers_first
        return ids, counts

    def files(self, number: int) -> DsoFiles:
        """The ELF files of a dso, where there are some of its build."""
        return DsoFiles() if self._files is None else self._files.files(number)

    def image(self, _number: int) -> None:
        """None: kernels are those of many machines."""
        return

    def module_code(self, _number: int) -> None:
        """None, too."""
        return

    def running_kernel(self) -> None:
        """None, too."""
        return

    def origin(self, number: int) -> str:
        """The letter by which perf says where a file's symbols come from."""
        return self._origins[number]

    def missing(self, samples: NDArray[Any]) -> list[MissingSymbols]:
        """What has no symbol although a file is mapped there, most samples first."""
        frames = self.frames
        counts = np.zeros(len(frames), np.int64)
        counts[: len(samples)] = samples
        lost = (frames.symbol < 0) & (frames.dso >= 0) & (counts > 0)
        totals = np.bincount(frames.dso[lost], weights=counts[lost], minlength=len(self.dsos)).astype(np.int64)
        numbers = np.flatnonzero(totals).tolist()
        found = [MissingSymbols(self.dsos[i], int(totals[i]), (), advice(self.dsos[i], found=self.origin(i) != "!")) for i in numbers]
        return sorted(found, key=lambda item: -item.samples)
