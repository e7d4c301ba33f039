"""Merge the frames of one function: each frame is replaced by the first one in the same function.

So chains that differ only in positions within functions become one. Frames without a symbol stay separate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Growing, distinct, rows_where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer


class Functions:
    """The first frame of each function, for one symbolizer."""

    def __init__(self) -> None:
        self._first_of_frame, self._first_of_symbol = Growing(np.int32), Growing(np.int32)

    def first_frames(self, frames: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.int32]:
        """Return the first frame in the function of each frame."""
        frame_count = len(self._first_of_frame.values)
        if len(symbolizer.frames) > frame_count:
            self._add_frames(_mergeable_symbols(symbolizer, frame_count), len(symbolizer.symbols))
        first_frames_of: NDArray[np.int32] = self._first_of_frame.values[frames]
        return first_frames_of

    def _add_frames(self, symbol: NDArray[np.int32], symbols: int) -> None:
        """Add the symbols of the next frames; symbols: the number of symbols."""
        fresh = np.arange(len(symbol), dtype=np.int32) + np.int32(len(self._first_of_frame.values))
        self._first_of_symbol.append(np.full(symbols - len(self._first_of_symbol.values), -1, np.int32))
        first_of = self._first_of_symbol.values
        rows = rows_where(symbol >= 0)
        opening = rows[first_of[symbol[rows]] < 0][::-1]  # backwards, so that the first is written last
        first_of[symbol[opening]] = fresh[opening]
        first = fresh.copy()
        first[rows] = first_of[symbol[rows]]
        self._first_of_frame.append(first)


def _mergeable_symbols(symbolizer: Symbolizer, first: int) -> NDArray[np.int32]:
    """Return the symbol of each frame from `first` on; -1 also if frames of one function may expand to different inlined calls."""
    table, inliner = symbolizer.resolve(), symbolizer.inliner
    symbol: NDArray[np.int32] = table.symbol[first:]
    if inliner is None:
        return symbol
    dso = table.dso[first:]
    apart = np.zeros(len(symbolizer.dsos) + 1, np.bool_)
    for number in distinct(dso).tolist():
        apart[number] = number >= 0 and inliner.may_expand(number)
    return np.where(apart[dso], np.int32(-1), symbol)
