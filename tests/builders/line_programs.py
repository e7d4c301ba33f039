"""Line programs (.debug_line) and the unit that names them, made in memory: all versions, byte orders and sizes.

    program = set_address(0x1000) + advance_line(4) + COPY + advance_pc(8) + END
    section = line_section(program, files=[("a.c", 1)], folders=["/src"], version=5)
    file = source_file(section, comp_dir="/build")

Layout: DWARF 2 to 5, section 6.2.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.builders.elf import ALLOC, EXEC, Elf

if TYPE_CHECKING:
    from collections.abc import Sequence

COPY, NEGATE, BASIC_BLOCK, CONST_ADD_PC, PROLOGUE_END, EPILOGUE_BEGIN = (bytes([number]) for number in (1, 6, 7, 8, 10, 11))
OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
LINE_BASE, LINE_RANGE = -5, 14


def unsigned(value: int) -> bytes:
    """Encode an unsigned LEB128 number."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def signed(value: int) -> bytes:
    """Encode a signed LEB128 number."""
    data = bytearray()
    while not -0x40 <= value < 0x40:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value & 0x7F])


def extended(kind: int, operand: bytes = b"") -> bytes:
    """Encode an extended operation."""
    return b"\0" + unsigned(1 + len(operand)) + bytes([kind]) + operand


END = extended(1)


def set_address(address: int, endian: str = "<", size: int = 8) -> bytes:
    """Encode DW_LNE_set_address."""
    return extended(2, address.to_bytes(size, "little" if endian == "<" else "big"))


def advance_pc(count: int) -> bytes:
    """Encode DW_LNS_advance_pc."""
    return b"\2" + unsigned(count)


def advance_line(count: int) -> bytes:
    """Encode DW_LNS_advance_line."""
    return b"\3" + signed(count)


def set_file(number: int) -> bytes:
    """Encode DW_LNS_set_file."""
    return b"\4" + unsigned(number)


def set_column(number: int) -> bytes:
    """Encode DW_LNS_set_column."""
    return b"\5" + unsigned(number)


def special(address: int, line: int, base: int = 13) -> bytes:
    """Encode the special operation that advances by a number of shortest instructions and lines."""
    return bytes([base + address * LINE_RANGE + line - LINE_BASE])


def line_section(
    program: bytes,
    files: Sequence[tuple[str, int]] = (("a.c", 0),),
    folders: Sequence[str] = (),
    *,
    version: int = 4,
    endian: str = "<",
    long: bool = False,
    shortest: int = 1,
    operations: int = 1,
    operands: bytes = OPERANDS,
    line_range: int = LINE_RANGE,
    tables: bytes | None = None,
) -> bytes:
    """One program with its header; of version 5, files[0] and folders[0] are the unit's own. tables: other bytes in place of names."""
    word = endian + ("Q" if long else "I")
    head = struct.pack("B", shortest) + (struct.pack("B", operations) if version >= 4 else b"")
    head += struct.pack("BbBB", 1, LINE_BASE, line_range, len(operands) + 1) + operands
    head += tables if tables is not None else tables_5(files, folders) if version >= 5 else tables_2(files, folders)
    start = struct.pack(endian + "H", version) + (b"\x08\0" if version >= 5 else b"")
    body = start + struct.pack(word, len(head)) + head + program
    return (b"\xff\xff\xff\xff" if long else b"") + struct.pack(word, len(body)) + body


def tables_2(files: Sequence[tuple[str, int]], folders: Sequence[str]) -> bytes:
    """Encode names as in versions 2 to 4."""
    result = b"".join(folder.encode() + b"\0" for folder in folders) + b"\0"
    return result + b"".join(name.encode() + b"\0" + unsigned(folder) + b"\0\0" for name, folder in files) + b"\0"


def tables_5(files: Sequence[tuple[str, int]], folders: Sequence[str]) -> bytes:
    """Encode names as in version 5, as strings, with a checksum for each file."""
    result = bytes((1, 1, 0x08)) + unsigned(len(folders)) + b"".join(folder.encode() + b"\0" for folder in folders)
    result += bytes((3, 1, 0x08, 2, 0x0B, 5, 0x1E)) + unsigned(len(files))
    return result + b"".join(name.encode() + b"\0" + bytes([folder]) + bytes(16) for name, folder in files)


#: a DW_TAG_compile_unit without children: stmt_list sec_offset, comp_dir and name string, low_pc addr, high_pc data8
_ABBREVIATIONS = bytes((1, 0x11, 0, 0x10, 0x17, 0x1B, 0x08, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, 0))


def unit(offset: int, start: int, size: int, comp_dir: str = "/build", name: str = "a.c", endian: str = "<") -> bytes:
    """Return a unit of version 4 whose line program is at an offset of .debug_line."""
    body = struct.pack(endian + "HIB", 4, 0, 8) + b"\1" + struct.pack(endian + "I", offset)
    body += comp_dir.encode() + b"\0" + name.encode() + b"\0" + struct.pack(endian + "QQ", start, size)
    return struct.pack(endian + "I", len(body)) + body


def source_file(
    lines: bytes, units: bytes | None = None, *, comp_dir: str = "/build", start: int = 0x1000, size: int = 0x1000, endian: str = "<"
) -> Elf:
    """Return a file with code, a line program and its unit; symbols and further sections can be added."""
    elf = Elf(endian=endian).section(".text", flags=ALLOC | EXEC, addr=start, offset=0x1000, size=size).segment(start, 0x1000, size)
    elf.section(".debug_line", lines, flags=0).section(".debug_abbrev", _ABBREVIATIONS, flags=0)
    return elf.section(".debug_info", unit(0, start, size, comp_dir, endian=endian) if units is None else units, flags=0)
