"""Frames of one function are merged."""

import numpy as np

from perfpy.analysis.samples.functions import Functions


class Names:
    """The part of a symbolizer that Functions needs: the symbol of each frame, -1 for none."""

    inliner = None

    def __init__(self, *symbols: int) -> None:
        self.frames = list(symbols)
        self.symbols = range(max(symbols, default=-1) + 1)
        self.symbol = np.array(symbols, np.int32)

    def resolve(self) -> "Names":
        """Return itself: its frames are resolved."""
        return self


def firsts(functions: Functions, names: Names) -> list[int]:
    """Return the first frame in the function of every frame."""
    first_frames = functions.first_frames(np.arange(len(names.frames), dtype=np.int32), names)  # type: ignore[arg-type]
    return [int(frame) for frame in first_frames]


def test_frames_of_one_symbol_become_the_first_of_them() -> None:
    assert firsts(Functions(), Names(1, 0, 1, 0, 1)) == [0, 1, 0, 1, 0]


def test_frames_without_a_symbol_stay_themselves() -> None:
    assert firsts(Functions(), Names(-1, 0, -1, 0)) == [0, 1, 2, 1]
    assert firsts(Functions(), Names(-1, -1)) == [0, 1]


def test_frames_that_come_later_join_those_that_are_known() -> None:
    functions = Functions()
    assert firsts(functions, Names(2, 2)) == [0, 0]
    assert firsts(functions, Names(2, 2, 0, 2, 3, 0, -1)) == [0, 0, 2, 0, 4, 2, 6]
