"""Images of the memory of CPython processes, and images with pointers that lead elsewhere.

Input: a version, or the bytes of an image. Output: bytes: the address of _PyRuntime and the version, then the memory from
tests.builders.python_memory.BASE on.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from perfpy.interpreters.objects import UnreadableMemoryError
from tests.builders.python_memory import BASE, memory_of
from tests.fuzz.mutation import damaged, with_fields

if TYPE_CHECKING:
    import random

HEAD = struct.Struct("<QII")
THREADS = (77, 78, 79)
_DEPTH = 6


def image(version: tuple[int, int]) -> bytes:
    """Three threads with some frames each."""
    memory = memory_of(version)
    codes = [memory.code(name, lines=bytes((8, 1) * 20)) for name in ("main", "Class.method", "größe", "<lambda>")]
    for number, thread in enumerate(THREADS):
        calls = [[(codes[(number + depth) % len(codes)], 4 * depth)] for depth in range(_DEPTH)]
        memory.thread(thread, memory.stack(calls, 2048), thread_id=0x7000_0000_0000 + number * 0x80_0000)
    end = memory.heap.new(0) - BASE
    return HEAD.pack(memory.runtime, *version) + memory.heap.read(BASE, end)


def damaged_image(data: bytes, rng: random.Random) -> bytes:
    """Some pointers exchanged for others, or numbers changed; or anything."""
    if rng.random() < 0.1 or len(data) < HEAD.size + 64:
        return damaged(data, rng)
    used = [offset for offset in range(HEAD.size, len(data) - 7, 8) if any(data[offset : offset + 8])]
    if rng.random() < 0.5:
        return with_fields(data, [(offset, 8) for offset in used], "<", rng)
    copy = bytearray(data)
    for _ in range(rng.choice((1, 2, 4, 16))):
        target = rng.choice(used) - HEAD.size + BASE
        struct.pack_into("<Q", copy, rng.choice(used), rng.choice((target, target & -64, target | 1, target - 8)))
    return bytes(copy)


class ImageMemory:
    """The memory of an image."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises UnreadableMemoryError."""
        start = address - BASE
        if start < 0 or size < 0 or start + size > len(self._data):
            raise UnreadableMemoryError
        return self._data[start : start + size]
