"""Combine the call frame information of a jitdump's functions into .eh_frame and .eh_frame_hdr of one image.

Each CodeLoad has an .eh_frame that its JIT compiler placed right after the function (rounded up to 8 bytes). The combined .eh_frame has
entries that point to their functions in the image, and a sorted table. Entries that point elsewhere or cannot be parsed are omitted.
Layout: the Linux Standard Base, "Exception Frames"; DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.symbols.providers.jitdump import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.symbols.providers.jitdump import CodeLoad

_PC_RELATIVE: Final = 0x10  # DW_EH_PE_pcrel
_FORMATS: Final = {0x1B: "i", 0x1C: "q", 0x10: "q", 0x13: "I"}  # sdata4, sdata8, absptr, udata4, all pcrel
_TABLE: Final = bytes((1, 0x1B, 0x03, 0x3B))  # version 1; pointer: pcrel sdata4; count: udata4; table: datarel sdata4


def frame_sections(loads: Sequence[CodeLoad], shift: int, end: int, endian: str) -> list[Section]:
    """Return the sections for the image, from `end` on. `shift` is the distance from addresses in memory to those in the image."""
    begin = end + -end % 8
    frames, table = bytearray(), []
    for load in loads:
        piece = _relocate(load, load.address + shift, begin + len(frames), endian) if load.eh_frame else None
        if piece:
            table += [(load.address + shift, begin + len(frames) + offset) for offset in piece[1]]
            frames += piece[0]
    if not table:
        return []
    header = begin + len(frames) + 4
    rows = b"".join(struct.pack(endian + "ii", address - header, entry - header) for address, entry in sorted(table))
    head = _TABLE + struct.pack(endian + "iI", begin - (header + 4), len(table)) + rows
    return [Section(b".eh_frame", 1, 2, bytes(frames) + bytes(4), align=8), Section(b".eh_frame_hdr", 1, 2, head, align=4)]


def _relocate(load: CodeLoad, address: int, new: int, endian: str) -> tuple[bytes, list[int]] | None:
    """Return a function's entries relocated to the address `new`, and the offsets of its FDEs. None if they cannot be parsed."""
    data = bytearray(load.eh_frame)
    distance = len(load.code) + -len(load.code) % 8  # the JIT compiler's distance from the function to its .eh_frame
    code, fde_offsets, position = "", [], 0
    while position + 8 <= len(data):
        length, pointer = struct.unpack_from(endian + "II", data, position)
        if not length or position + 4 + length > len(data):
            break
        if not pointer:
            code = _format_of(bytes(data[position + 8 : position + 4 + length]))
        elif not code or length < 4 + struct.calcsize(code):
            return None
        else:
            field = position + 8
            target = struct.unpack_from(endian + code, data, field)[0] + distance + field
            if target != 0:  # of another function, or of a part
                return None
            struct.pack_into(endian + code, data, field, address - (new + field))
            fde_offsets.append(position)
        position += 4 + length
    return (bytes(data[:position]), fde_offsets) if fde_offsets and not position % 4 else None


def _format_of(body: bytes) -> str:
    """Return the struct format of code addresses in FDEs of a CIE, "" if unknown. `body` starts at the CIE's version."""
    version, _, remaining = body[:1], *body[1:].partition(b"\0")[1:]
    augmentation = body[1:].partition(b"\0")[0]
    if version != b"\x01" or augmentation[:1] != b"z" or augmentation[1:] != b"R":
        return ""
    for _ in range(3):  # code and data alignment factors, return address register (a byte in version 1)
        remaining = _after_leb(remaining)
    remaining = _after_leb(remaining)  # the length of the augmentation data
    return _FORMATS.get(remaining[0], "") if remaining else ""


def _after_leb(data: bytes) -> bytes:
    index = next((index for index, byte in enumerate(data) if byte < 0x80), len(data))
    return data[index + 1 :]
