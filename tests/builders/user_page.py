"""The page that the kernel maps for a counter. Layout: struct perf_event_mmap_page in linux/perf_event.h."""

from __future__ import annotations

import struct
import sys

LOCK = 8


def capability(*numbers: int) -> int:
    return sum(1 << (number if sys.byteorder == "little" else 63 - number) for number in numbers)


RDPMC = capability(1, 2)


def page(*, lock: int = 2, index: int = 3, offset: int = 100, times: tuple[int, int] = (50, 50), can: int = RDPMC) -> bytearray:
    """Return a page as the kernel writes it: PMU registers of 48 bits; clock: cycles * 3 >> 1, plus 7."""
    buffer = bytearray(4096)
    struct.pack_into("=IIqQQQHHIQ", buffer, LOCK, lock, index, offset, *times, can, 48, 1, 3, 7)
    struct.pack_into("=QQ", buffer, 80, 1000, 0xFF)
    return buffer
