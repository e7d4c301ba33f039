"""Write source lines of JIT-compiled code as DWARF sections: .debug_line, .debug_info and .debug_abbrev of one unit.

Layout: DWARF version 4, sections 6.2 and 7.5.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_VERSION: Final = 4
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = b"\x01", b"\x02", b"\x03", b"\x04"
_END_SEQUENCE: Final = b"\x00\x01\x01"
_SET_ADDRESS: Final = b"\x00\x09\x02"
# operand counts of the twelve standard operations
_OPERANDS: Final = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
# a DW_TAG_compile_unit without children: DW_AT_stmt_list sec_offset, low_pc addr, high_pc data8, name string
_ABBREVIATIONS: Final = bytes((1, 0x11, 0, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0, 0))


class CodeLine(NamedTuple):
    """A row of the line table: from `address` on, code is from this line of this file."""

    address: int
    file: str
    line: int


def debug_sections(lines: Sequence[CodeLine], start: int, size: int, endian: str = "<") -> dict[bytes, bytes]:
    """Return the sections by name for code of `size` bytes at `start`. Addresses of lines count from the same origin as `start`."""
    lines = sorted(lines)
    name = _bytes(lines[0].file if lines else "")
    unit = struct.pack(endian + "HIBBIQQ", _VERSION, 0, 8, 1, 0, start, size) + name + b"\0"
    return {
        b".debug_line": _with_length(_line_table(lines, start + size, endian), endian),
        b".debug_info": _with_length(unit, endian),
        b".debug_abbrev": _ABBREVIATIONS,
    }


def _line_table(lines: Sequence[CodeLine], end: int, endian: str) -> bytes:
    files = {file: number for number, file in enumerate(dict.fromkeys(line.file for line in lines), 1)}
    # minimum_instruction_length, maximum_operations, default_is_stmt, line_base and line_range (unused), opcode_base, operand counts
    head = struct.pack("BBBbBB", 1, 1, 1, -5, 14, len(_OPERANDS) + 1) + _OPERANDS
    head += b"\0" + b"".join(_bytes(file) + b"\0\0\0\0" for file in files) + b"\0"
    return struct.pack(endian + "H", _VERSION) + _with_length(head, endian) + _program(lines, files, end, endian)


def _program(lines: Sequence[CodeLine], files: dict[str, int], end: int, endian: str) -> bytes:
    address, number, file = (lines[0].address if lines else end), 1, 1
    code = bytearray(_SET_ADDRESS + struct.pack(endian + "Q", address))  # bytes would be copied for each line
    for line in lines:
        if files[line.file] != file:
            file = files[line.file]
            code += _SET_FILE + _encode_unsigned(file)
        code += _ADVANCE_PC + _encode_unsigned(line.address - address) + _ADVANCE_LINE + _encode_signed(line.line - number) + _COPY
        address, number = line.address, line.line
    return bytes(code + _ADVANCE_PC + _encode_unsigned(max(end - address, 0)) + _END_SEQUENCE)


def _with_length(data: bytes, endian: str) -> bytes:
    return struct.pack(endian + "I", len(data)) + data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encode_unsigned(value: int) -> bytes:
    """Encode an unsigned LEB128 number."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def _encode_signed(value: int) -> bytes:
    """Encode a signed LEB128 number."""
    result = bytearray()
    while not -0x40 <= value < 0x40:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value & 0x7F])
