"""The registers of the frames of one callchain, as far as call frame information says where callees saved them.

What enters: a sample's registers and its copy of the stack, its callchain and the rules of each frame. What leaves: frame by frame the
values that its registers have. The stepper of perfpy.unwind follows only the registers that frames are found by, for all samples
together; the evaluation loop keeps its frame and its instruction in others, which are followed here as far as its frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.unwind.rules import OFFSET, REGISTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.unwind.rules import FrameRules

STACK_POINTER: Final = 7  #: in DWARF's numbers of x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15
#: by perf's numbers (perf_regs.h: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 ... r15) those of DWARF
FROM_PERF: Final = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, **{16 + number: 8 + number for number in range(8)}}
_PRESERVED: Final = (3, 6, 12, 13, 14, 15)  # across calls: rbx, rbp, r12 to r15


class FrameState(NamedTuple):
    """One frame: its registers by DWARF's numbers, and the words of its part of the stack, lowest first."""

    registers: dict[int, int]
    words: Sequence[int]


class StackCopy:
    """A sample's stack. words: of the copy, from the stack pointer on."""

    def __init__(self, words: NDArray[np.uint64], begin: int) -> None:
        self._words = words
        self._begin = begin

    def word(self, address: int) -> int | None:
        """Return the word at an address; None where it was not copied."""
        row = (address - self._begin) >> 3
        return int(self._words[row]) if 0 <= row < len(self._words) and not (address - self._begin) & 7 else None

    def words(self, begin: int, end: int) -> list[int]:
        """Return the words of a range, as far as they were copied."""
        first = max((begin - self._begin) >> 3, 0)
        found: list[int] = self._words[first : max((end - self._begin) >> 3, first)].tolist()
        return found


def frame_states(registers: dict[int, int], stack: StackCopy, rules: Sequence[FrameRules | None]) -> Iterator[FrameState | None]:
    """Return the state of each frame of a chain, innermost first; ends where the way outwards is not known."""
    for rule in rules:
        pointer = registers.get(STACK_POINTER)
        if rule is None or pointer is None or isinstance(rule.cfa, bytes) or rule.is_signal:
            return
        base = registers.get(rule.cfa[0])
        if base is None:
            return
        cfa = base + rule.cfa[1]
        if cfa <= pointer or cfa - pointer > 1 << 20:
            return
        yield FrameState(registers, stack.words(pointer, cfa - 8))
        callers: dict[int, int] = {number: registers[number] for number in _PRESERVED if number in registers}
        for number, (kind, value) in rule.registers:
            if number > 15:
                continue
            callers.pop(number, None)
            found = stack.word(cfa + value) if kind == OFFSET and isinstance(value, int) else None
            if kind == REGISTER and isinstance(value, int):
                found = registers.get(value)
            if found is not None:
                callers[number] = found
        callers[STACK_POINTER] = cfa
        registers = callers
