"""Keys of tables: int64 hashes of a row's identity, equal in all recordings and on all machines."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.analysis.sample_names import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer

    Keys = NDArray[np.int64]


def key_of(*parts: object) -> int:
    """Return the key of these parts; never 0, which stands for none."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True) or 1


def key_of_numbers(numbers: NDArray[np.int64]) -> int:
    """Return the key of a row of keys."""
    return int.from_bytes(blake2b(numbers.tobytes(), digest_size=8).digest(), "little", signed=True) or 1


class FrameRow(NamedTuple):
    """A row of the table of frames; address: in its file, or in memory without a file."""

    frame: int
    symbol: int
    address: int


class SymbolRow(NamedTuple):
    """A row of the table of symbols; dso: the file's short name; path: its path; inlined: into the function at start."""

    symbol: int
    name: str
    dso: str
    path: str
    build_id: str
    start: int
    end: int
    inlined: bool


class FrameKeys:
    """The keys of a Symbolizer's frames and of their symbols, extended as it gets new frames."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._frames: list[int] = []
        self._of_symbols: list[int] = []
        self.rows: list[FrameRow] = []
        self.symbols: dict[int, SymbolRow] = {}

    def grow(self) -> tuple[Keys, Keys]:
        """Return the keys by frame number: the frame's, and its symbol's."""
        frames = self._symbolizer.resolve()
        first_new = len(self._frames)
        columns = (frames.dso[first_new:], frames.symbol[first_new:], frames.address[first_new:])
        for dso, symbol, address in zip(*(column.tolist() for column in columns), strict=True):
            self._add(dso, symbol, address)
        return np.array(self._frames, np.int64), np.array(self._of_symbols, np.int64)

    def _add(self, dso: int, symbol: int, address: int) -> None:
        row = self._symbol(dso, symbol)
        frame = key_of("frame", row.symbol, address)
        self.symbols[row.symbol] = row
        self._frames.append(frame)
        self._of_symbols.append(row.symbol)
        self.rows.append(FrameRow(frame, row.symbol, _sign(address)))

    def _symbol(self, dso: int, symbol: int) -> SymbolRow:
        symbolizer = self._symbolizer
        short = path = UNKNOWN
        build_id = ""
        if dso >= 0:
            one = symbolizer.dsos[dso]
            short, path, build_id = one.short_name, one.name, one.build_id or ""
        name, start, end, inlined = UNKNOWN, 0, 0, False
        if symbol >= 0:
            symbols = symbolizer.symbols
            name, start, end = symbols.name(symbol), symbols.start(symbol), symbols.end(symbol)
            inlined = symbols.is_inlined(symbol)
        key = key_of("symbol", build_id or path, name, start)
        return SymbolRow(key, _text(name), _text(short), _text(path), build_id, _sign(start), _sign(end), inlined)


def _text(name: str) -> str:
    """Return valid UTF-8: other bytes become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _sign(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def text_of(value: Any) -> str:
    """Return a value of the header as text; "" for none."""
    return "" if value is None else _text(str(value))
