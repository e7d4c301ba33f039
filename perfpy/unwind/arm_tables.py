"""The unwinding tables of 32-bit Arm programs: addresses to rules.

Arm programs have .ARM.exidx instead of .eh_frame. Its rules hold at calls; within a function's first and last instructions they may be
wrong. Layout and instructions: "Exception Handling ABI for the Arm Architecture", sections 6, 7 and 10.3.

.ARM.exidx: { u31 start of the code, from here; u32 1: cannot be unwound | instructions (bit 31 set) | u31 entry, from here }
entry: u32 with bit 31 set: instructions; otherwise u31 a function of C++, then a count and instructions
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.unwind.rules import OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile


_CANNOT: Final = 1
_INLINE: Final = 1 << 31
_WORDS_MOST: Final = 1 << 8  # of one entry: the count is a byte
_SP, _LR, _PC = 13, 14, 15
_FINISH: Final = 0xB0


class ArmTables:
    """The tables of one file. Damaged tables have no rules."""

    def __init__(self, file: ElfFile) -> None:
        section = file.section(".ARM.exidx")
        self._file = file
        self._address = section.addr if section else 0
        data = bytes(file.data(section)) if section else b""
        self._rows = np.frombuffer(data[: len(data) & ~7], file.endian + "u4").reshape(-1, 2)
        here = self._address + 8 * np.arange(len(self._rows))
        self._starts = (here + _distance(self._rows[:, 0])) & 0xFFFFFFFE
        self._rules: dict[int, FrameRules | None] = {}

    def __bool__(self) -> bool:
        """Whether the file has tables."""
        return len(self._rows) > 0

    def find(self, address: int) -> FrameRules | None:
        """Return the rules at an address, or None if the tables do not cover it or mark it as not unwindable."""
        row = int(np.searchsorted(self._starts, address, side="right")) - 1
        if row < 0:
            return None
        if row not in self._rules:
            try:
                self._rules[row] = rules_of(self._instructions(row))
            except (ValueError, StopIteration):
                self._file.flaw("unwinding tables of Arm: an entry that makes no sense")
                self._rules[row] = None
        return self._rules[row]

    def _instructions(self, row: int) -> bytes:
        word = int(self._rows[row, 1])
        if word == _CANNOT:
            return b""
        if word & _INLINE:
            return _compact([word])
        address = self._address + 8 * row + 4 + int(_distance(np.array([word], np.uint32))[0])
        words = self._words(address & 0xFFFFFFFF, _WORDS_MOST + 2)
        if not words:
            raise ValueError("an entry that is nowhere")
        if words[0] & _INLINE:
            return _compact(words)
        if len(words) < 2:
            raise ValueError("an entry that is truncated")
        return _bytes(words[1:], 1, words[1] >> 24)

    def _words(self, address: int, most: int) -> list[int]:
        for segment in self._file.segments:
            start, size = int(segment["vaddr"]), int(segment["filesz"])
            if start <= address < start + size:
                offset, count = int(segment["offset"]) + address - start, min(most, (start + size - address) // 4)
                data = bytes(self._file.content[offset : offset + 4 * count])
                words: list[int] = np.frombuffer(data[: len(data) & ~3], self._file.endian + "u4").tolist()
                return words
        return []


def _distance(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Decode 31-bit signed numbers."""
    low = words.astype(np.int64) & 0x7FFFFFFF
    distance: NDArray[np.int64] = low - ((low & 0x40000000) << 1)
    return distance


def _compact(words: list[int]) -> bytes:
    """Return the instructions of an entry that uses one of three common functions."""
    kind = words[0] >> 24 & 0xF
    if kind == 0:
        return _bytes(words, 1, 0)
    if kind > 2:
        raise ValueError(f"entries of kind {kind} are unknown")
    return _bytes(words, 2, words[0] >> 16 & 0xFF)


def _bytes(words: list[int], skipped: int, more: int) -> bytes:
    """Return the bytes of a word without the first ones, followed by `more` words."""
    return b"".join(word.to_bytes(4, "big") for word in words[: 1 + more])[skipped:]


def rules_of(instructions: bytes) -> FrameRules | None:
    """Interpret the table's instructions as unwinding rules, or None without instructions, or if rules cannot express them.

    Raises ValueError for instructions outside the ABI, StopIteration for a truncated one.
    """
    if not instructions:
        return None
    frame = _Frame()
    code = iter(instructions)
    for first in code:
        if first == _FINISH:
            break
        if not frame.run(first, code):
            return None
    return frame.rules()


class _Frame:
    """The virtual stack pointer and the places of saved registers, both relative to one register's value."""

    def __init__(self) -> None:
        self._base = _SP
        self._offset = 0
        self._saved: dict[int, int] = {}

    def rules(self) -> FrameRules | None:
        """Return the rules of the instructions so far."""
        returns = self._saved.pop(_PC, None)
        if returns is not None:
            self._saved[_LR] = returns
        saved = {register: offset for register, offset in self._saved.items() if register not in (_SP, _PC)}
        rules = tuple((register, (OFFSET, offset - self._offset)) for register, offset in sorted(saved.items()))
        return FrameRules((self._base, self._offset), rules, _LR)

    def run(self, first: int, code: Iterator[int]) -> bool:
        """Run one instruction; return False if rules cannot express it."""
        if first < 0x40:
            self._offset += (first << 2) + 4
        elif first < 0x80:
            self._offset -= ((first & 0x3F) << 2) + 4
        elif first < 0x90:
            return self._pop((first << 8 | next(code)) << 4 & 0xFFF0)
        elif first < 0xA0:
            register = first & 0xF
            if register in (_SP, _PC):
                raise ValueError(f"the stack pointer cannot be register {register}")
            if self._saved:
                return False
            self._base, self._offset = register, 0
            return True
        elif first < 0xB0:
            self._pop((1 << (first & 7) + 1) - 1 << 4 | (1 << _LR if first & 8 else 0))
        else:
            return self._run_rare(first, code)
        return True

    def _run_rare(self, first: int, code: Iterator[int]) -> bool:
        if first == 0xB1:
            return self._pop(next(code) & 0xF)
        if first == 0xB2:
            self._offset += 0x204 + (_uleb(code) << 2)
        elif first == 0xB4:  # a signature of the return address
            self._offset += 4
        elif first in (0xB3, 0xC8, 0xC9):
            self._offset += 8 * ((next(code) & 0xF) + 1) + (4 if first == 0xB3 else 0)
        elif first & 0xF8 in (0xB8, 0xD0):
            self._offset += 8 * ((first & 7) + 1) + (4 if first < 0xC0 else 0)
        elif first in (0xC6, 0xC7):  # registers of iWMMXt
            registers = next(code)
            self._offset += 8 * ((registers & 0xF) + 1) if first == 0xC6 else 4 * (registers & 0xF).bit_count()
        elif first & 0xF8 == 0xC0:
            self._offset += 8 * ((first & 7) + 1)
        else:
            raise ValueError(f"unwinding instruction {first:#x} is unknown")
        return True

    def _pop(self, mask: int) -> bool:
        """Pop registers from the stack; an empty mask means that the code cannot be unwound."""
        for register in range(16):
            if mask >> register & 1:
                self._saved[register] = self._offset
                self._offset += 4
        return mask != 0 and _SP not in self._saved


def _uleb(code: Iterator[int]) -> int:
    value = 0
    for shift in range(0, 28, 7):
        byte = next(code)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number without end")
