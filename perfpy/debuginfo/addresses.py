"""Convert file offsets, which identify frames, to the addresses in symbols and debug information.

They are equal in most libraries, but not in programs at fixed addresses, or with some linkers.
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
