"""Offsets in a file, by which frames are known, as the addresses that its symbols and its debug information have.

What enters: the file that ran, and a column of offsets in it. What leaves: a column of addresses. They are the same in most
libraries; programs at fixed addresses, and what other linkers make, have them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile


def link_addresses(runtime: ElfFile, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The addresses at some offsets of the file that ran."""
    found = offsets + np.uint64(_text_bias(runtime))
    done = np.zeros(len(offsets), np.bool_)
    for segment in runtime.segments:
        start, size = np.uint64(segment["offset"]), np.uint64(segment["filesz"])
        inside = (offsets >= start) & (offsets - start < size) & ~done
        found[inside] = offsets[inside] - start + np.uint64(segment["vaddr"])
        done |= inside
    return found


def _text_bias(file: ElfFile) -> int:
    """Of a file without segments: how far .text lies above its offset."""
    text = file.section(".text")
    return (text.addr - text.offset) % (1 << 64) if text else 0
