"""The cold part of a function in a file without symbols for it.

Compilers move unlikely blocks to a range of their own (gcc's NAME.cold). Of a stripped file, only the frame entries of .eh_frame show this
range, and the jumps of the function into the middle of it. Layout of .eh_frame_hdr: Linux Standard Base, "Exception Frames".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.unwind.frame_entries import FrameSection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile

_USUAL: Final = b"\x01\x1b\x03\x3b"  # version 1; 4-byte pointers relative to the section, as all linkers write them
_HEAD: Final = struct.Struct("<4siI")
_LEAST: Final = 2  # jumps from the function


def cold_parts(file: ElfFile, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges that x86-64 code of a function jumps into, beside its own."""
    code = _code(file, begin, end)
    header, frames = file.section(".eh_frame_hdr"), file.section(".eh_frame")
    if header is None or frames is None:
        return []
    data = bytes(file.data(header))
    if len(data) < _HEAD.size or not data.startswith(_USUAL):
        return []
    count = min(_HEAD.unpack_from(data)[2], (len(data) - _HEAD.size) // 8)
    table = np.frombuffer(data, "<i4", 2 * count, _HEAD.size).reshape(-1, 2).astype(np.int64) + header.addr
    section = FrameSection(bytes(file.data(frames)), frames.addr, is_eh=True, endian="<", word=8)
    targets = jump_targets(code, begin)
    targets = targets[(targets < begin) | (targets >= end)]
    parts = []
    for row in np.unique(np.searchsorted(table[:, 0], targets, "right") - 1).tolist():
        try:
            entry = section.entry(int(table[row, 1]) - frames.addr)
        except ValueError:
            continue
        if row >= 0 and is_part(targets, entry.start, entry.end):
            parts.append((entry.start, entry.end))
    return parts


def is_part(targets: NDArray[np.int64], start: int, end: int) -> bool:
    """Whether jumps of a function lead into a range, one of them not to its start: into other functions none does."""
    into = targets[(targets >= start) & (targets < end)]
    return len(into) >= _LEAST and bool((into != start).any())


def _code(file: ElfFile, begin: int, end: int) -> bytes:
    for segment in file.segments:
        offset = begin - int(segment["vaddr"])
        if offset >= 0 and end - int(segment["vaddr"]) <= int(segment["filesz"]):
            first = int(segment["offset"]) + offset
            return bytes(file.content[first : first + end - begin])
    return b""


def jump_targets(code: bytes, begin: int) -> NDArray[np.int64]:
    """Return the targets of jumps with 4-byte distances in x86-64 code at an address.

    Instructions are not decoded, so some targets are bytes of other instructions.
    """
    data = np.frombuffer(code, np.uint8)
    if len(data) < 6:
        return np.zeros(0, np.int64)
    conditional = np.flatnonzero((data[:-5] == 0x0F) & (data[1:-4] & 0xF0 == 0x80)) + 2
    always = np.flatnonzero(data[:-4] == 0xE9) + 1
    positions = np.concatenate([conditional, always])
    distances = np.lib.stride_tricks.sliding_window_view(data, 4)[positions].copy().view("<i4")[:, 0]
    targets: NDArray[np.int64] = begin + positions + 4 + distances.astype(np.int64)
    return targets
