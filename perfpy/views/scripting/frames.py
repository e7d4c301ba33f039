"""Frames, callchains and branches as scripts get them: dictionaries and lists.

What enters: frame ids of a Symbolizer. What leaves: values, made once a distinct frame or chain. A list is each
sample's own; the dictionaries in it are shared by all samples with that frame.
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
    """What scripts get of each frame, by its id; grows with the symbolizer's table. shown: name -> the text that scripts get."""

    def __init__(self, symbolizer: Symbolizer, shown: Callable[[str], str]) -> None:
        self.symbolizer = symbolizer
        self.shown = shown
        self._locations: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._names: dict[int, str] = {}

    def locations(self) -> list[dict[str, Any]]:
        """Of every frame: dso, dso_bid, dso_map_start, dso_map_end, symbol, symoff; what is not known is left out."""
        return self._grown(self._locations, self._location)

    def calls(self) -> list[dict[str, Any]]:
        """Of every frame, as an entry of a callchain: ip, sym, sym_off, dso."""
        return self._grown(self._calls, self._call)

    def _grown(self, made: list[dict[str, Any]], make: Callable[[int, int, int, int], dict[str, Any]]) -> list[dict[str, Any]]:
        frames = self.symbolizer.resolve()
        done = len(made)
        if done < len(frames):
            columns = (frames.dso[done:], frames.symbol[done:], frames.symbol_offset[done:])
            made.extend(map(make, range(done, len(frames)), *(column.tolist() for column in columns)))
        return made

    def _location(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if dso >= 0:
            frames = self.symbolizer.frames
            found = {"dso": self.file(dso), "dso_bid": self.symbolizer.dsos[dso].build_id}
            found |= {"dso_map_start": int(frames.map_start[frame]), "dso_map_end": int(frames.map_end[frame])}
        return found | {"symbol": self.name(symbol), "symoff": offset} if symbol >= 0 else found

    def _call(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        found: dict[str, Any] = {"ip": int(self.symbolizer.frames.ip[frame])}
        if symbol >= 0:
            known = self.symbolizer.symbols
            bounds = {"start": known.start(symbol), "end": known.end(symbol), "binding": known.binding(symbol)}
            found["sym"] = {**bounds, "name": self.name(symbol)}
            if not known.inlined(symbol):
                found["sym_off"] = offset
        if dso >= 0:
            found["dso"] = self.file(dso)
        return found

    def file(self, dso: int) -> str:
        """The name of a file as scripts get it."""
        one = self.symbolizer.dsos[dso]
        return self.shown(one.short_name if one.kind is DsoKind.MODULE and not one.listed else one.name)

    def name(self, symbol: int) -> str:
        """The name of a symbol as scripts get it."""
        if symbol not in self._names:
            self._names[symbol] = self.shown(self.symbolizer.symbols.name(symbol))
        return self._names[symbol]


def chain_lists(values: FrameValues, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> list[list[dict[str, Any]]]:
    """The callchain of each sample. frames: ids, one chain after the other; counts: how many each has."""
    table = ChainTable()
    chains = table.add(frames, counts)
    ids, offsets = table.chains()
    each = list(map(values.calls().__getitem__, ids.tolist()))
    lists = [each[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
    return [lists[chain][:] for chain in chains.tolist()]
