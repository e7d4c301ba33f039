"""Numbers in the encodings of call frame information and DWARF expressions.

Raises ValueError if the bytes end early or a number does not end. Layouts: DWARF 5, section 7.6 (LEB128); the Linux Standard Base's "DWARF
Extensions" for encoded pointers (DW_EH_PE_*).
"""

from __future__ import annotations

from typing import Final, Literal

OMITTED: Final = 0xFF
DATA_RELATIVE: Final = 0x30
_PC_RELATIVE: Final = 0x10
_INDIRECT: Final = 0x80
_ULEB128: Final = 0x1
_SLEB128: Final = 0x9
_LONGEST: Final = 10  # bytes of a LEB128 number of 64 bits
_WIDTHS: Final = {0x2: 2, 0x3: 4, 0x4: 8, 0xA: 2, 0xB: 4, 0xC: 8}
_SIGNED: Final = 0x8


class ByteReader:
    """Reads consecutive numbers from `position` on. word: bytes of an address."""

    __slots__ = ("_order", "data", "end", "position", "word")

    def __init__(self, data: bytes, endian: str, word: int, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.word = word
        self.position = position
        self.end = len(data) if end is None else min(end, len(data))
        self._order: Literal["little", "big"] = "little" if endian == "<" else "big"

    def __bool__(self) -> bool:
        """Whether bytes remain."""
        return self.position < self.end

    def take(self, size: int) -> bytes:
        """Read bytes."""
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > self.end:
            raise ValueError(f"{size} bytes at {start:#x} reach beyond the end")
        return self.data[start : self.position]

    def number(self, size: int, *, signed: bool = False) -> int:
        """Read a number of fixed size."""
        return int.from_bytes(self.take(size), self._order, signed=signed)

    def byte(self) -> int:
        """Read a byte."""
        if self.position >= self.end:
            raise ValueError(f"a byte at {self.position:#x} lies beyond the end")
        self.position += 1
        return self.data[self.position - 1]

    def uleb(self) -> int:
        """Read an unsigned LEB128 number; only the low 64 bits are used."""
        value = 0
        for shift in range(0, 7 * _LONGEST, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF
        raise ValueError(f"a LEB128 number before {self.position:#x} has no end")

    def sleb(self) -> int:
        """Read a signed LEB128 number."""
        value = 0
        for shift in range(7, 7 * _LONGEST + 1, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift - 7
            if byte < 0x80:
                value -= (byte >> 6 & 1) << shift
                return value if -(1 << 63) <= value < 1 << 63 else 0
        raise ValueError(f"a LEB128 number before {self.position:#x} has no end")

    def text(self) -> bytes:
        """Read a string up to its NUL."""
        end = self.data.find(b"\0", self.position, self.end)
        if end < 0:
            raise ValueError(f"a string at {self.position:#x} has no end")
        start, self.position = self.position, end + 1
        return self.data[start:end]

    def pointer(self, encoding: int, address: int, data_start: int = 0) -> int:
        """Read an encoded pointer. Indirect pointers, as to the personality routine, are not followed.

        Args:
            encoding: DW_EH_PE_*.
            address: of the first byte in memory.
            data_start: the origin of data-relative pointers.
        """
        here = address + self.position
        value = self.raw_pointer(encoding)
        base = {_PC_RELATIVE: here, DATA_RELATIVE: data_start}.get(encoding & 0x70, 0)
        return (value + base) & ((1 << 8 * self.word) - 1) if not encoding & _INDIRECT else 0

    def raw_pointer(self, encoding: int) -> int:
        """Read the number of an encoded pointer without its origin."""
        form = encoding & 0xF
        if form == _ULEB128:
            return self.uleb()
        if form == _SLEB128:
            return self.sleb()
        return self.number(_WIDTHS.get(form, self.word), signed=bool(form & _SIGNED))
