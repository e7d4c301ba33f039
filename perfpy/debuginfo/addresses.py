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
    """Return the addresses of file offsets, by the segments of the file that was mapped (`runtime`)."""
    addresses = offsets + np.uint64(_text_bias(runtime))
    is_mapped = np.zeros(len(offsets), np.bool_)
    for segment in runtime.segments:
        start, size = np.uint64(segment["offset"]), np.uint64(segment["filesz"])
        inside = (offsets >= start) & (offsets - start < size) & ~is_mapped
        addresses[inside] = offsets[inside] - start + np.uint64(segment["vaddr"])
        is_mapped |= inside
    return addresses


def _text_bias(file: ElfFile) -> int:
    """Return the distance of .text's address from its file offset, for files without segments."""
    text = file.section(".text")
    return (text.addr - text.offset) % (1 << 64) if text else 0
