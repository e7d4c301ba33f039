"""Access to another process's memory: an interface without means to change it.

Implementations read a live process (perfpy.capture.python_frames) or the bytes of a test.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

WORD: Final = struct.Struct("<Q")
#: The first address that no program can map on any machine that CPython runs on (57-bit address spaces).
END_OF_MEMORY: Final = 1 << 56


class UnreadableMemoryError(Exception):
    """Memory that is not mapped or not permitted to be read."""


class Memory(Protocol):
    """A process's memory."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises UnreadableMemoryError if fewer are readable."""


def read_word(memory: Memory, address: int) -> int:
    """Return the 8-byte number at an address."""
    (value,) = WORD.unpack(memory.read(address, 8))
    return int(value)


def is_pointer(value: int) -> bool:
    """Whether an object can lie at an address: aligned, not NULL, in user space."""
    return 0x1000 <= value < END_OF_MEMORY and not value & 7
