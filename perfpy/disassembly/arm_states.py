"""What the bytes of 32-bit ARM code are: instructions of four bytes, Thumb instructions of two or four, or data between them.

What enters: an ELF file, and where a function is in it. What leaves: the pieces of the function, each with its kind, as mapping symbols
($a, $t, $d; "ELF for the ARM Architecture") mark them; without such, bit 0 of the function's address says Thumb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.files.elf_symbols import mapping_symbols, symbol_sections
from perfpy.symbols.symbol_table import STT_FUNC

if TYPE_CHECKING:
    from perfpy.symbols.files.elf import ElfFile

ARM: Final = "a"
THUMB: Final = "t"
DATA: Final = "d"


def pieces(file: ElfFile, start: int, end: int) -> list[tuple[int, int, str]]:
    """(first address, end, kind) of each piece."""
    marks: list[tuple[int, str]] = []
    thumb = False
    for section in symbol_sections(file):
        entries, strings = file.symbols(section), bytes(file.strings(section))
        value = entries["value"].astype(np.uint64)
        thumb |= bool(((entries["info"] & 15 == STT_FUNC) & (value == np.uint64(start | 1))).any())
        rows = np.flatnonzero(mapping_symbols(file, entries["name"], strings) & (value < np.uint64(end)))
        marks += [(int(value[row]), chr(strings[int(entries["name"][row]) + 1])) for row in rows.tolist()]
    marks.sort()
    first = next((kind for address, kind in reversed(marks) if address <= start), THUMB if thumb else ARM)
    bounds = [(start, first), *((address, kind) for address, kind in marks if address > start)]
    ends = [address for address, _ in bounds[1:]] + [end]
    return [(address, stop, kind) for (address, kind), stop in zip(bounds, ends, strict=True) if address < stop]
