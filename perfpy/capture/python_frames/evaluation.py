"""What an evaluation loop's own frame says: which Python frame it runs, and the instruction it has come to.

What enters: the registers and the stack words of the loop's frame at the moment of the sample; the code objects of the process, and the
frames that were read from its memory a moment later. What leaves: Evaluated. Which register or slot holds what differs between
builds and instructions, so values are told by what they point to: into a code object's instructions, or to a frame. The pointer to
instructions stands behind the one that runs.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.python_frames.answers import FoundCode
    from perfpy.capture.python_frames.home_slots import HomeSlots
    from perfpy.capture.python_frames.registers import FrameState

_STACK_POINTER: Final = 7
_UNIT: Final = 2
NO_FRAME: Final = -1  #: in place of a code object's number: a frame ends here, and the one that it calls would begin


class Evaluated(NamedTuple):
    """What a loop runs: the number of a code object, the offset of the instruction, the addresses that may be the frame's.

    pointers: all values of its registers, and then of its stack words.
    """

    code: int
    offset: int
    frames: frozenset[int]
    pointers: Sequence[int] = ()


class CodeRanges:
    """The code objects of one process by where their instructions are.

    Several can have the same instructions: CPython 3.10 keeps those of equal functions of a module once. Of those that overlap
    otherwise the newest counts.
    """

    def __init__(self) -> None:
        self.codes: dict[int, FoundCode] = {}
        self._begins: list[int] = []
        self._by_begin: dict[int, list[FoundCode]] = {}
        self.low, self.high = 1 << 64, 0

    def add(self, code: FoundCode) -> None:
        """Take over a code object."""
        self.codes[code.number] = code
        before = self._by_begin.get(code.begin)
        if before is None:
            insort(self._begins, code.begin)
        self._by_begin[code.begin] = [*(one for one in before or () if one.address != code.address and one.end == code.end), code]
        self.low, self.high = min(self.low, code.begin), max(self.high, code.end)

    def find(self, value: int) -> Sequence[FoundCode]:
        """Return the code objects that a pointer behind an instruction can belong to."""
        if not self.low < value <= self.high:
            return ()
        row = bisect_right(self._begins, value - 1) - 1
        if row < 0:
            return ()
        codes = self._by_begin[self._begins[row]]
        return codes if codes[0].begin < value <= codes[0].end else ()


def evaluated(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> Evaluated | None:
    """Return what a loop's frame says; None where it says nothing, or several things.

    frames: addresses at which frames may be -> the number of the code that each had when it was read, or NO_FRAME; slots: what was
    learnt of the loop's stack words (see note_slots).
    """
    registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
    for values, found in ((registers, _latest(registers, ranges)), (state.words, _at_home(state.words, ranges, slots))):
        if found:
            met = _frames_in(registers, frames) or _frames_in(values, frames)
            pointers = (*registers, *state.words)
            code = _chosen(found, {frames[one] for one in met}, pointers, ranges)
            return None if code is None else Evaluated(code, found[code], met, pointers)
    return None


def note_slots(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> None:
    """Learn from a loop's frame which of its words points to instructions."""
    words = ((number, value, ranges.find(value)) for number, value in enumerate(state.words))
    pointers = [(number, value, [code.number for code in codes]) for number, value, codes in words if codes]
    if pointers:
        registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
        slots.note(pointers, {frames[one] for one in _frames_in(registers, frames) or _frames_in(state.words, frames)})


def _at_home(words: Sequence[int], ranges: CodeRanges, slots: HomeSlots) -> dict[int, int]:
    """Return the offset that the home of the pointer holds; all that words point to where the home is not known."""
    home = slots.home()
    return _latest(words if home is None else words[home : home + 1], ranges)


def _frames_in(values: Iterable[int], frames: dict[int, int]) -> frozenset[int]:
    """Return the frames that values point to; the ends of frames, where a called one would be, only where there are none."""
    met = frozenset(value for value in values if value in frames)
    return frozenset(value for value in met if frames[value] != NO_FRAME) or met


def _latest(values: Iterable[int], ranges: CodeRanges) -> dict[int, int]:
    """Return the furthest offset in each code object that values point into."""
    found: dict[int, int] = {}
    for value in values:
        for code in ranges.find(value):
            if not (value - code.begin) & 1:
                offset = value - code.begin - _UNIT
                found[code.number] = max(found.get(code.number, 0), offset)
    return found


def _chosen(found: dict[int, int], read: set[int], values: Sequence[int], ranges: CodeRanges) -> int | None:
    """Return the code object that is meant: the only one, or the only one that a frame had, too, or that is pointed to itself."""
    if len(found) == 1:
        return next(iter(found))
    both = [code for code in found if code in read] or [code for code in found if ranges.codes[code].address in values]
    return both[0] if len(both) == 1 else None
