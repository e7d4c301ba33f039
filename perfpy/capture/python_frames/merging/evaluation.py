"""The Python frame and instruction that an evaluation loop's native frame refers to.

The registers and stack words of the native frame date from the sample; code objects and Python frames were read from memory a moment
later. The register or slot of each variable depends on the build and on the instruction. Values are therefore identified by their target:
the instructions of a code object, or a frame. The instruction pointer points past the current instruction.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.python_frames.answers import FoundCode
    from perfpy.capture.python_frames.merging.home_slots import HomeSlots
    from perfpy.capture.python_frames.merging.registers import FrameState

_STACK_POINTER: Final = 7
_UNIT: Final = 2
_MOST_EQUAL: Final = 16  # code objects that share instructions
NO_FRAME: Final = -1  #: instead of a code object's number: the end of a frame, where a called frame would begin


class Evaluated(NamedTuple):
    """The state of an evaluation loop.

    Attributes:
        code: the number of the code object.
        offset: of the instruction, in bytes.
        frames: the possible addresses of the Python frame.
        pointers: all values of the registers, then of the stack words.
    """

    code: int
    offset: int
    frames: frozenset[int]
    pointers: Sequence[int] = ()


class CodeRanges:
    """The code objects of one process by the addresses of their instructions.

    Several code objects can share instructions: CPython 3.10 stores those of equal functions of a module once. Of other overlapping code
    objects the newest wins.
    """

    def __init__(self) -> None:
        self.codes: dict[int, FoundCode] = {}
        self.memory = 0  # bytes of the code objects
        self._begins: list[int] = []
        self._by_begin: dict[int, list[FoundCode]] = {}
        self.low, self.high = 1 << 64, 0

    def add(self, code: FoundCode) -> None:
        """Add a code object."""
        self.codes[code.number] = code
        self.memory += code.memory
        before = self._by_begin.get(code.begin)
        if before is None:
            insort(self._begins, code.begin)
        others = [one for one in before or () if one.address != code.address and one.end == code.end]
        self._by_begin[code.begin] = [*others[1 - _MOST_EQUAL :], code]
        self.low, self.high = min(self.low, code.begin), max(self.high, code.end)

    def find(self, value: int) -> Sequence[FoundCode]:
        """Return the code objects whose instructions a pointer can have just passed."""
        if not self.low < value <= self.high:
            return ()
        row = bisect_right(self._begins, value - 1) - 1
        if row < 0:
            return ()
        codes = self._by_begin[self._begins[row]]
        return codes if codes[0].begin < value <= codes[0].end else ()


def evaluate(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> Evaluated | None:
    """Return the state of an evaluation loop; None if it is unknown or ambiguous.

    Args:
        state: the loop's native frame.
        ranges: the code objects of the process.
        frames: possible addresses of frames -> number of the code object at the reading, or NO_FRAME.
        slots: the stack words that held the instruction pointer before (note_slots).
    """
    registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
    for values, offsets in ((registers, _furthest_offsets(registers, ranges)), (state.words, _home_offsets(state.words, ranges, slots))):
        if offsets:
            pointed = _frames_in(registers, frames) or _frames_in(values, frames)
            pointers = (*registers, *state.words)
            code = _select_code(offsets, {frames[one] for one in pointed}, pointers, ranges)
            return None if code is None else Evaluated(code, offsets[code], pointed, pointers)
    return None


def note_slots(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> None:
    """Count which stack words of a loop's frame point to instructions."""
    words = ((number, value, ranges.find(value)) for number, value in enumerate(state.words))
    pointers = [(number, value, [code.number for code in codes]) for number, value, codes in words if codes]
    if pointers:
        registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
        slots.note(pointers, {frames[one] for one in _frames_in(registers, frames) or _frames_in(state.words, frames)})


def _home_offsets(words: Sequence[int], ranges: CodeRanges, slots: HomeSlots) -> dict[int, int]:
    """Return the offset in the instruction pointer's home slot; while that is unknown, those that any word points to."""
    home = slots.home()
    return _furthest_offsets(words if home is None else words[home : home + 1], ranges)


def _frames_in(values: Iterable[int], frames: dict[int, int]) -> frozenset[int]:
    """Return the frames that values point to. The ends of frames count only if no value points to a frame."""
    pointed = frozenset(value for value in values if value in frames)
    return frozenset(value for value in pointed if frames[value] != NO_FRAME) or pointed


def _furthest_offsets(values: Iterable[int], ranges: CodeRanges) -> dict[int, int]:
    """Return the furthest offset in each code object that values point into."""
    offsets: dict[int, int] = {}
    for value in values:
        for code in ranges.find(value):
            if not (value - code.begin) & 1:
                offset = value - code.begin - _UNIT
                offsets[code.number] = max(offsets.get(code.number, 0), offset)
    return offsets


def _select_code(offsets: dict[int, int], read: set[int], values: Sequence[int], ranges: CodeRanges) -> int | None:
    """Return the code object of the loop: the only candidate, or the only one with a frame in memory or a pointer to it."""
    if len(offsets) == 1:
        return next(iter(offsets))
    candidates = [code for code in offsets if code in read] or [code for code in offsets if ranges.codes[code].address in values]
    return candidates[0] if len(candidates) == 1 else None
