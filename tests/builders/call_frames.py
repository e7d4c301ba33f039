"""Call frame information made in memory: .eh_frame with its header, .debug_frame, and the instructions in them.

    frames = CallFrameInfo(address=0x2000)
    common = frames.common(define_cfa(7, 8), offset(16, 1))
    frames.entry(common, 0x1000, 0x20, advance(1), define_cfa_offset(16))
    section, header = frames.section(), frames.header(0x3000)

Layout: DWARF 5, section 6.4.1; the Linux Standard Base.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

PC_RELATIVE_4 = 0x1B
DATA_RELATIVE_4 = 0x3B
UDATA4 = 0x03


def uleb(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value >> 7 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == (-1 if byte & 0x40 else 0):
            return bytes([*out, byte])
        out.append(byte | 0x80)


def advance(units: int) -> bytes:
    return bytes([0x40 | units]) if units < 64 else struct.pack("<BI", 4, units)


def offset(register: int, units: int) -> bytes:
    """Return an instruction: a register is saved at CFA + units * data_align."""
    return bytes([0x80 | register]) + uleb(units)


def restore(register: int) -> bytes:
    return bytes([0xC0 | register])


def define_cfa(register: int, distance: int) -> bytes:
    return b"\x0c" + uleb(register) + uleb(distance)


def define_cfa_register(register: int) -> bytes:
    return b"\x0d" + uleb(register)


def define_cfa_offset(distance: int) -> bytes:
    return b"\x0e" + uleb(distance)


def define_cfa_expression(expression: bytes) -> bytes:
    return b"\x0f" + uleb(len(expression)) + expression


def expression(register: int, program: bytes, *, is_value: bool = False) -> bytes:
    return (b"\x16" if is_value else b"\x10") + uleb(register) + uleb(len(program)) + program


def undefined(register: int) -> bytes:
    return b"\x07" + uleb(register)


@dataclass
class CallFrameInfo:
    """One section. is_eh: .eh_frame at `address`, with relative addresses; otherwise .debug_frame."""

    address: int = 0x2000
    is_eh: bool = True
    endian: str = "<"
    word: int = 8
    _data: bytearray = field(default_factory=bytearray)
    _table: list[tuple[int, int]] = field(default_factory=list)

    def common(
        self, *program: bytes, code_align: int = 1, data_align: int = -8, returns: int = 16, augmentation: bytes | None = None
    ) -> int:
        """Add a CIE; return its offset."""
        letters = (b"zR" if self.is_eh else b"") if augmentation is None else augmentation
        body = bytes([1]) + letters + b"\0" + uleb(code_align) + sleb(data_align) + bytes([returns])
        if letters.startswith(b"z"):
            body += uleb(1) + bytes([PC_RELATIVE_4])
        return self._add(0 if self.is_eh else 0xFFFFFFFF, body + b"".join(program))

    def entry(self, common: int, start: int, size: int, *program: bytes) -> int:
        """Add an FDE; return its offset."""
        here = len(self._data)
        if self.is_eh:
            body = struct.pack(self.endian + "iI", start - (self.address + here + 8), size) + b"\0"
            self._add(here + 4 - common, body + b"".join(program))
        else:
            word = "Q" if self.word == 8 else "I"
            self._add(common, struct.pack(self.endian + 2 * word, start, size) + b"".join(program))
        self._table.append((start, here))
        return here

    def _add(self, identity: int, body: bytes) -> int:
        here = len(self._data)
        body += bytes(-(len(body) + 8) % self.word)
        self._data += struct.pack(self.endian + "II", len(body) + 4, identity) + body
        return here

    def section(self) -> bytes:
        return bytes(self._data) + bytes(4)

    def header(self, address: int) -> bytes:
        """Return the bytes of .eh_frame_hdr at an address."""
        head = bytes([1, PC_RELATIVE_4, UDATA4, DATA_RELATIVE_4])
        head += struct.pack(self.endian + "iI", self.address - (address + 4), len(self._table))
        rows = (struct.pack(self.endian + "ii", start - address, self.address + place - address) for start, place in sorted(self._table))
        return head + b"".join(rows)
