"""The registers of each frame of a callchain, as far as call frame information tells where callees saved them.

The stepper of perfpy.unwind follows only the registers that locate frames, for all samples together. The evaluation loop keeps its frame
and its instruction pointer in other registers; this module follows them up to the loop's frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.unwind.rules import OFFSET, REGISTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.unwind.rules import FrameRules

STACK_POINTER: Final = 7  #: by DWARF's numbers of x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15
#: perf's register numbers (perf_regs.h: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 ... r15) -> DWARF's
FROM_PERF: Final = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, **{16 + number: 8 + number for number in range(8)}}
_PRESERVED: Final = (3, 6, 12, 13, 14, 15)  # callee-saved: rbx, rbp, r12 to r15


class FrameState(NamedTuple):
    """One native frame: its registers by DWARF's numbers, and the words of its stack range, lowest address first."""

    registers: dict[int, int]
    words: Sequence[int]


class StackCopy:
    """The copied stack of a sample."""

    def __init__(self, words: NDArray[np.uint64], begin: int) -> None:
        self._words = words
        self._begin = begin

    def word(self, address: int) -> int | None:
        """Return the word at an address; None if it was not copied."""
        row = (address - self._begin) >> 3
        return int(self._words[row]) if 0 <= row < len(self._words) and not (address - self._begin) & 7 else None

    def words(self, begin: int, end: int) -> list[int]:
        """Return the copied words of a range."""
        first = max((begin - self._begin) >> 3, 0)
        words: list[int] = self._words[first : max((end - self._begin) >> 3, first)].tolist()
        return words


def frame_states(registers: dict[int, int], stack: StackCopy, rules: Sequence[FrameRules | None]) -> Iterator[FrameState | None]:
    """Yield the state of each frame of a chain, innermost first, as far as the frames can be followed."""
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
            caller_value = stack.word(cfa + value) if kind == OFFSET and isinstance(value, int) else None
            if kind == REGISTER and isinstance(value, int):
                caller_value = registers.get(value)
            if caller_value is not None:
                callers[number] = caller_value
        callers[STACK_POINTER] = cfa
        registers = callers
