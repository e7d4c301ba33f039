"""Frames of one function are merged."""

import numpy as np

from perfpy.analysis.callchains.functions import Functions


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


def test_later_frames_join_the_known_functions() -> None:
    functions = Functions()
    assert firsts(functions, Names(2, 2)) == [0, 0]
    assert firsts(functions, Names(2, 2, 0, 2, 3, 0, -1)) == [0, 0, 2, 0, 4, 2, 6]


class InlinerThatNotes:
    """An inliner that notes which dsos it was asked about; dso 1 has inlined calls."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def may_expand(self, number: int) -> bool:
        """Whether a dso may have inlined calls."""
        self.asked.append(number)
        return number == 1


def test_only_dsos_of_new_frames_are_searched_for_inlined_calls() -> None:
    functions, names, inliner = Functions(), Names(0, 0, 1, 1, -1), InlinerThatNotes()
    names.inliner, names.dsos, names.dso = inliner, range(100), np.array([7, 7, 1, 1, -1], np.int32)  # type: ignore[assignment, attr-defined]
    assert firsts(functions, names) == [0, 0, 2, 3, 4], "frames of dso 1 may have different inlined calls"
    assert sorted(inliner.asked) == [1, 7]
    names.frames.append(0)
    names.symbol, names.dso = np.append(names.symbol, np.int32(0)), np.append(names.dso, np.int32(9))  # type: ignore[attr-defined]
    assert firsts(functions, names)[-1] == 0
    assert sorted(inliner.asked) == [1, 7, 9], "frames that are known are not looked at again"
