"""Turns of event loops that run callbacks for so long that the loop serves nobody: their mark in callchains, and the longest of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.python_code import AWAITED_BY, BLOCKED_LOOP
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.interpreters.cpython.event_loops import is_callback, is_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

#: ns; asyncio's own limit (loop.slow_callback_duration)
LONG: Final = 100_000_000
#: the function in callchains that stands for such a turn
MARK: Final = FoundCode(0, -1, 0, 0, 2, BLOCKED_LOOP, "<asyncio>", 0, b"", 0)
#: the function in callchains between a task and the coroutines that await it
AWAITED: Final = FoundCode(0, -2, 0, 0, 2, AWAITED_BY, "<asyncio>", 0, b"", 0)
_MOST_THREADS: Final = 1 << 12
_MOST_CALLBACKS: Final = 1 << 10  # of a turn


class _Turn(NamedTuple):
    """A long turn: when it began, and its callbacks by number of their code, each with its samples."""

    began: int
    callbacks: dict[int, tuple[int, FoundCode]]


class BlockedLoops:
    """The long turns of a recording.

    Attributes:
        count: the number of long turns.
        longest: the greatest age of one at a sample, ns; 0 without long turns.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0
        self._turns: dict[int, _Turn] = {}  # by thread: the last one
        self._longest_turn = _Turn(0, {})

    @property
    def callback(self) -> FoundCode | None:
        """The outermost function of the callback with most samples of the longest turn."""
        samples = self._longest_turn.callbacks.values()
        return max(samples, key=lambda one: one[0])[1] if samples else None

    def find(self, codes: Sequence[FoundCode], tid: int, began: int, moment: int) -> int:
        """Return the position of the turn among functions, innermost first, if it is long; -1 otherwise.

        Args:
            codes: the functions of a sample.
            tid: its thread.
            began: when the turn's callbacks began, ns; 0 if that is unknown.
            moment: the sample's time, ns.
        """
        if not began or moment - began < LONG:
            return -1
        for position, (inner, code) in enumerate(pairwise(codes)):
            if is_turn(code.name, code.filename) and is_callback(inner.name, inner.filename):
                self._note(tid, began, moment - began, codes[position - 1] if position else None)
                return position + 1
        return -1

    def _note(self, tid: int, began: int, age: int, callback: FoundCode | None) -> None:
        turn = self._turns.get(tid)
        if turn is None or turn.began != began:
            self.count += 1
            if len(self._turns) >= _MOST_THREADS:
                self._turns.clear()
            turn = self._turns[tid] = _Turn(began, {})
        if callback is not None and (callback.number in turn.callbacks or len(turn.callbacks) < _MOST_CALLBACKS):
            turn.callbacks[callback.number] = (turn.callbacks.get(callback.number, (0, callback))[0] + 1, callback)
        if age > self.longest:
            self.longest, self._longest_turn = age, turn
