"""Read integers of variable length (LEB128).

Functions return the value and the offset after it, or raise IndexError at the end of the bytes, ValueError for too large numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST: Final = 70  # bits; 64 would do, but some writers pad numbers with zero bytes


def read_unsigned(data: Sequence[int], offset: int) -> tuple[int, int]:
    """Return the unsigned number at an offset, and the offset after it."""
    byte = data[offset]
    if byte < 0x80:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    while True:
        offset += 1
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset + 1
        shift += 7
        if shift > _LONGEST:
            raise ValueError(f"a number without an end at {offset:#x}")


def read_signed(data: Sequence[int], offset: int) -> tuple[int, int]:
    """Return the signed number at an offset, and the offset after it."""
    value, after = read_unsigned(data, offset)
    bits = 7 * (after - offset)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), after


def skip(data: Sequence[int], offset: int) -> int:
    """Return the offset after the number at an offset."""
    while data[offset] >= 0x80:
        offset += 1
    return offset + 1
