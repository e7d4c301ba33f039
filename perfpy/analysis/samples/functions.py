"""Frames of one function, taken for one another.

What enters: frame ids of the symbolizer. What leaves: for each the first frame
that was seen in the same function; so chains that differ only in where in
their functions they are become one. Frames without a symbol stay themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Growing, rows_where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer


class Functions:
    """The first frame of each function, for one symbolizer."""

    def __init__(self) -> None:
        self._first_of_frame, self._first_of_symbol = Growing(np.int32), Growing(np.int32)

    def first_frames(self, frames: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.int32]:
        """The first frame in the function of each frame."""
        known = len(self._first_of_frame.values)
        if len(symbolizer.frames) > known:
            self._see(_told_apart_by(symbolizer)[known:], len(symbolizer.symbols))
        found: NDArray[np.int32] = self._first_of_frame.values[frames]
        return found

    def _see(self, symbol: NDArray[np.int32], symbols: int) -> None:
        """Learn the symbols of the next frames, of `symbols` symbols."""
        fresh = np.arange(len(symbol), dtype=np.int32) + np.int32(len(self._first_of_frame.values))
        self._first_of_symbol.append(np.full(symbols - len(self._first_of_symbol.values), -1, np.int32))
        first_of = self._first_of_symbol.values
        named = rows_where(symbol >= 0)
        opening = named[first_of[symbol[named]] < 0][::-1]  # backwards: the first is written last
        first_of[symbol[opening]] = fresh[opening]
        first = fresh.copy()
        first[named] = first_of[symbol[named]]
        self._first_of_frame.append(first)


def _told_apart_by(symbolizer: Symbolizer) -> NDArray[np.int32]:
    """The symbol of every frame; -1 also where frames of one function can become different ones, as other calls are inlined."""
    table, inliner = symbolizer.resolve(), symbolizer.inliner
    if inliner is None:
        return table.symbol
    apart = np.array([inliner.may_expand(number) for number in range(len(symbolizer.dsos))] + [False])
    return np.where(apart[table.dso], np.int32(-1), table.symbol)
