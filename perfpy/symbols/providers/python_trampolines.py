"""How to unwind the trampolines of CPython 3.12 and 3.13, which say where they are (-X perf), but not how.

What enters: the symbols of a perf map. What leaves: an ELF file with nothing but
.debug_frame, whose addresses are those of the process. Each trampoline is the
same few bytes of x86-64 (Python/asm_trampoline.S, as compilers make it):

    [endbr64]; sub $8, %rsp; call *%rcx; add $8, %rsp; ret        11 bytes, 15 with endbr64

Newer ones keep a frame pointer, are of other sizes, and need nothing.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.symbols.providers.jitdump import Section, shared_object

if TYPE_CHECKING:
    from perfpy.symbols.symbol_table import SymbolTable

_EM_X86_64: Final = 62
_PREFIX: Final = "py::"
_SIZES: Final = {11: 4, 15: 8}  # of the trampoline: where the stack pointer has been moved
_MOST: Final = 1 << 18
_NO_CIE: Final = 0xFFFFFFFF
# DW_CFA_def_cfa rsp, 8; DW_CFA_offset the return address, 1
_AT_ENTRY: Final = bytes((0x0C, 7, 8, 0x80 | 16, 1))
_COMMON: Final = bytes((1, 0, 1, 0x78, 16)) + _AT_ENTRY  # version 1, no augmentation, alignments 1 and -8, return address


def trampolines(table: SymbolTable) -> bytes:
    """The file for a perf map; b"" where no trampoline is in it."""
    symbols = table.symbols
    sizes = (symbols.end - symbols.start).astype("i8")
    rows = [row for size in _SIZES for row in (sizes == size).nonzero()[0].tolist()][:_MOST]
    entries = [_entry(int(symbols.start[row]), int(sizes[row])) for row in rows if table.name(row).startswith(_PREFIX)]
    if not entries:
        return b""
    common = _padded(struct.pack("<I", _NO_CIE) + _COMMON)
    sections = [Section(b".text", 1, 6, b""), Section(b".debug_frame", 1, 0, common + b"".join(entries))]
    return shared_object(sections, (), _EM_X86_64)


def _entry(start: int, size: int) -> bytes:
    """An FDE: after the subtraction the frame is 16 bytes, after the addition 8 again."""
    moved = _SIZES[size]
    program = bytes((0x40 | moved, 0x0E, 16, 0x40 | 6, 0x0E, 8))  # DW_CFA_advance_loc, DW_CFA_def_cfa_offset
    return _padded(struct.pack("<IQQ", 0, start, size) + program)


def _padded(entry: bytes) -> bytes:
    """With its length in front, a multiple of 8 with it; what is behind the instructions is DW_CFA_nop."""
    entry += bytes(-(len(entry) + 4) % 8)
    return struct.pack("<I", len(entry)) + entry
