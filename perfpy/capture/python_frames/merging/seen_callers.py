"""Callers of a frame from earlier and later readings of the same thread.

A frame's address on the data stack is the sum of the sizes of its callers' frames, so a function at an address nearly always has one
caller. With two callers, neither is accepted, unless one is rare enough to be an error of the reading. Frames are kept for two batches of
samples, because programs move on to other work.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.python_frames.answers import ReadFrame

_MOST_FRAMES: Final = 1 << 14  # of a thread and batch
_MOST_CALLS: Final = 256  # callers of a function
_ERRORS: Final = 0.02  # share of a function's calls that may be wrong
_MOST_CALLERS: Final = 16  # of a frame
_SURE: Final = 0.95  # the least share of an accepted caller


class Caller(NamedTuple):
    """The caller of a frame. code: NOBODY if C called the evaluation loop for the frame; offset: None if it varied."""

    address: int
    code: int
    offset: int | None


NOBODY: Final = -1
_OF_ENTRIES: Final = Caller(0, NOBODY, None)


class KnownCalls:
    """The functions of a process and their callers, with the number of observed calls."""

    def __init__(self) -> None:
        self._callers: dict[int, Counter[int]] = {}

    def add(self, caller: int, callee: int) -> None:
        """Count a call between two code objects."""
        callers = self._callers.get(callee)
        if callers is None:
            if len(self._callers) >= _MOST_FRAMES:
                return
            callers = self._callers[callee] = Counter()
        if caller in callers or len(callers) < _MOST_CALLS:
            callers[caller] += 1

    def has(self, caller: int, callee: int) -> bool:
        """Whether a function has called another one. Rare calls count as errors of the reading."""
        callers = self._callers.get(callee)
        return callers is not None and callers[caller] > _ERRORS * callers.total()


class SeenCallers:
    """The callers of one thread's frames.

    Attributes:
        before: the frames (address, code) of the chain before the last one -> offset.
        calls: those of all threads of the process.
    """

    def __init__(self, calls: KnownCalls | None = None) -> None:
        self.calls = KnownCalls() if calls is None else calls
        self._new: dict[tuple[int, int], Counter[Caller]] = {}
        self._old: dict[tuple[int, int], Counter[Caller]] = {}
        self._batch = 0
        self._last: dict[tuple[int, int], int] = {}
        self.before: dict[tuple[int, int], int] = {}

    def add(self, batch: int, chain: Sequence[ReadFrame]) -> None:
        """Add a chain. batch: the number of the batch of samples."""
        if batch != self._batch:
            self._batch, self._old, self._new = batch, self._new, {}
        self.before, self._last = self._last, {(address, code): offset for address, code, offset, _ in chain}
        for row, (address, code, _, is_entry) in enumerate(chain):
            if is_entry:
                self._note((address, code), _OF_ENTRIES)
            elif row + 1 < len(chain):
                self.calls.add(chain[row + 1][1], code)
                self._note((address, code), Caller(*chain[row + 1][:3]))

    def _note(self, key: tuple[int, int], caller: Caller) -> None:
        callers = self._new.get(key)
        if callers is None and len(self._new) < _MOST_FRAMES:
            callers = self._new[key] = Counter()
        if callers is not None and (caller in callers or len(callers) < _MOST_CALLERS):
            callers[caller] += 1

    def caller(self, address: int, code: int) -> Caller | None:
        """Return the caller of a frame; None if it is unknown or ambiguous."""
        key = (address, code)
        new, old = self._new.get(key), self._old.get(key)
        if new is None and old is None:
            return None
        counts = (new or Counter()) + (old or Counter())
        caller, count = counts.most_common(1)[0]
        same = sum(other for one, other in counts.items() if one[:2] == caller[:2])
        if same < _SURE * counts.total():
            return None
        return caller if count >= _SURE * same else caller._replace(offset=None)
