"""Values of attributes: reading one, and skipping all of a DIE.

What enters: the bytes of a unit, an offset in them, and a form. What leaves: the value as it stands there (a number,
an offset into another section, or bytes) and the offset after it. What the number means is said by the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perfpy.debuginfo import abbreviations, dwarf, leb128
from perfpy.debuginfo.abbreviations import BLOCK, BLOCK1, BLOCK2, BLOCK4, INDIRECT, LEB128, STRING

if TYPE_CHECKING:
    from perfpy.debuginfo.abbreviations import Abbreviation, Shape

_LENGTH_BYTES = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}


class FormReader:
    """Reads the values of one unit; data: its bytes."""

    __slots__ = ("_order", "_sizes", "data")

    def __init__(self, data: bytes, shape: Shape, order: Literal["little", "big"]) -> None:
        self.data = data
        self._order = order
        self._sizes = abbreviations.sizes(shape)

    def value(self, form: int, constant: int, offset: int) -> tuple[int | bytes, int]:
        """The value at an offset: bytes of strings and blocks, otherwise a number."""
        size = self._sizes[form]
        if size > 0:
            return self.number(offset, size), offset + size
        if form == dwarf.FORM_SDATA:
            return leb128.signed(self.data, offset)
        if size == LEB128:
            return leb128.unsigned(self.data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            return constant, offset
        if form == dwarf.FORM_INDIRECT:
            return self._indirect(offset)
        if size == 0:  # a flag that is there
            return 1, offset
        return self._bytes(size, offset)

    def number(self, offset: int, size: int) -> int:
        """An unsigned number of fixed size."""
        if offset + size > len(self.data):
            raise ValueError(f"a value at {offset:#x} runs over the end of its unit")
        return int.from_bytes(self.data[offset : offset + size], self._order)

    def skip(self, abbreviation: Abbreviation, offset: int) -> int:
        """The offset after all values of a DIE."""
        if abbreviation.size >= 0:
            return offset + abbreviation.size
        data = self.data
        for skip in abbreviation.skips:
            if skip > 0:
                offset += skip
            elif skip == LEB128:
                while data[offset] >= 0x80:
                    offset += 1
                offset += 1
            elif skip == STRING:
                offset = data.index(0, offset) + 1
            elif skip == BLOCK:
                size, offset = leb128.unsigned(data, offset)
                offset += size
            else:
                offset = self._skip_rare(skip, offset)
        return offset

    def _skip_rare(self, skip: int, offset: int) -> int:
        if skip == INDIRECT:
            return self._indirect(offset)[1]
        size = _LENGTH_BYTES[skip]
        return offset + size + self.number(offset, size)

    def _indirect(self, offset: int) -> tuple[int | bytes, int]:
        """A value that says its form itself."""
        form, offset = leb128.unsigned(self.data, offset)
        if form in (dwarf.FORM_INDIRECT, dwarf.FORM_IMPLICIT_CONST) or form not in self._sizes:
            raise ValueError(f"a value at {offset:#x} of the form {form:#x}")
        return self.value(form, 0, offset)

    def _bytes(self, size: int, offset: int) -> tuple[bytes, int]:
        if size == STRING:
            end = self.data.index(0, offset)
            return self.data[offset:end], end + 1
        if size == BLOCK:
            length, offset = leb128.unsigned(self.data, offset)
        else:
            length, offset = self.number(offset, _LENGTH_BYTES[size]), offset + _LENGTH_BYTES[size]
        return self.data[offset : offset + length], offset + length
