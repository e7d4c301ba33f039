"""Frames and callchains for scripts, as dictionaries and lists.

Each distinct frame or callchain is converted once. Every sample has its own list, but shares the dictionaries.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from perfpy.analysis.samples.callchains import ChainTable
from perfpy.symbols.dso import DsoKind

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer


class FrameValues:
    """The dictionaries of frames, by frame id; grows with the symbolizer's table.

    Args:
        visible_text: converts a name to the text for scripts
    """

    def __init__(self, symbolizer: Symbolizer, visible_text: Callable[[str], str]) -> None:
        self.symbolizer = symbolizer
        self.visible_text = visible_text
        self._locations: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._names: dict[int, str] = {}

    def locations(self) -> list[dict[str, Any]]:
        """Return dso, dso_bid, dso_map_start, dso_map_end, symbol and symoff of every frame, without unknown values."""
        return self._grow(self._locations, self._location)

    def calls(self) -> list[dict[str, Any]]:
        """Return ip, sym, sym_off and dso of every frame, as in a callchain."""
        return self._grow(self._calls, self._call)

    def _grow(self, values: list[dict[str, Any]], make: Callable[[int, int, int, int], dict[str, Any]]) -> list[dict[str, Any]]:
        frames = self.symbolizer.resolve()
        first_new = len(values)
        if first_new < len(frames):
            columns = (frames.dso[first_new:], frames.symbol[first_new:], frames.symbol_offset[first_new:])
            values.extend(map(make, range(first_new, len(frames)), *(column.tolist() for column in columns)))
        return values

    def _location(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        location: dict[str, Any] = {}
        if dso >= 0:
            frames = self.symbolizer.frames
            location = {"dso": self.file(dso), "dso_bid": self.symbolizer.dsos[dso].build_id}
            location |= {"dso_map_start": int(frames.map_start[frame]), "dso_map_end": int(frames.map_end[frame])}
        return location | {"symbol": self.name(symbol), "symoff": offset} if symbol >= 0 else location

    def _call(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        call: dict[str, Any] = {"ip": int(self.symbolizer.frames.ip[frame])}
        if symbol >= 0:
            symbols = self.symbolizer.symbols
            bounds = {"start": symbols.start(symbol), "end": symbols.end(symbol), "binding": symbols.binding(symbol)}
            call["sym"] = {**bounds, "name": self.name(symbol)}
            if not symbols.is_inlined(symbol):
                call["sym_off"] = offset
        if dso >= 0:
            call["dso"] = self.file(dso)
        return call

    def file(self, dso: int) -> str:
        """Return the name of a dso for scripts."""
        one = self.symbolizer.dsos[dso]
        return self.visible_text(one.short_name if one.kind is DsoKind.MODULE and not one.listed else one.name)

    def name(self, symbol: int) -> str:
        """Return the name of a symbol for scripts."""
        if symbol not in self._names:
            self._names[symbol] = self.visible_text(self.symbolizer.symbols.name(symbol))
        return self._names[symbol]


def chain_lists(values: FrameValues, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> list[list[dict[str, Any]]]:
    """Return the callchain of each sample.

    Args:
        frames: frame ids, one callchain after the other
        counts: the length of each callchain
    """
    table = ChainTable()
    chains = table.add(frames, counts)
    ids, offsets = table.chains()
    each = list(map(values.calls().__getitem__, ids.tolist()))
    lists = [each[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
    return [lists[chain][:] for chain in chains.tolist()]
