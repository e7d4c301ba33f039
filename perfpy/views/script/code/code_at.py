"""The code at frames: instructions as bytes, and disassembled. Empty if the file is not available."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.disassembly.function_code import NoCodeError, bytes_at
from perfpy.disassembly.x86_lengths import LONGEST, always_elsewhere, length
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from perfpy.symbols.symbolizer import Symbolizer

_I386: Final = 3
_X86: Final = (_I386, 62)  # e_machine
_BAD: Final = b"<bad>"


class Code(NamedTuple):
    """A range of code.

    Attributes:
        bits: 32 or 64; 0 if perfpy cannot separate the machine's instructions
    """

    content: bytes
    bits: int

    def size_at(self, offset: int) -> int:
        """Return the length of the instruction; 0 if unknown."""
        return length(self.content[offset : offset + LONGEST], bits=self.bits) if self.bits else 0

    def bytes_at(self, offset: int) -> bytes:
        """Return the instruction's bytes in perf's format."""
        size = self.size_at(offset)
        return b"insn: %s " % self.content[offset : offset + size].hex(" ").encode() if size else _BAD

    def leaves_at(self, offset: int) -> bool:
        """Whether the instruction never continues with the next one."""
        return bool(self.bits) and always_elsewhere(self.content[offset : offset + LONGEST], bits=self.bits)


NOTHING: Final = Code(b"", 0)


class CodeAt:
    """A reader of code in one recording's dsos."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._unreadable: set[int] = set()
        self._words: dict[int, dict[int, bytes]] = {}

    def read(self, dso: int, address: int, size: int) -> Code:
        """Return the available bytes at an address, at most `size`."""
        if dso < 0 or dso in self._unreadable:
            return NOTHING
        try:
            file, content = bytes_at(self._symbolizer, dso, address, size)
        except NoCodeError:
            if not self._symbolizer.dsos[dso].kernel:  # other parts of the kernel's memory may be readable
                self._unreadable.add(dso)
            return NOTHING
        return Code(content, (32 if file.machine == _I386 else 64) if file.machine in _X86 else 0)

    def words(self, symbol: int, offset: int) -> bytes:
        """Return a disassembled instruction of a function; b"" without a disassembler."""
        words = self._words.get(symbol)
        if words is None:
            words = self._words[symbol] = self._disassemble(symbol) if symbol >= 0 else {}
        return words.get(offset, b"")

    def _disassemble(self, symbol: int) -> dict[int, bytes]:
        from perfpy.disassembly.disassembler import Disassembler  # few listings need it
        from perfpy.disassembly.objdump import CodeStyle

        for function in Disassembler(self._symbolizer, CodeStyle(source=False)).functions([symbol]):
            if not isinstance(function, NoCodeError):
                return {
                    line.offset: one_line(line.text.strip()).encode("utf-8", "surrogateescape") for line in function.lines if line.is_code
                }
        return {}
