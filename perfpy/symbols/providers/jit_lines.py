"""Write source lines and inlined calls of JIT-compiled code as DWARF sections: .debug_line, .debug_info and .debug_abbrev of one unit.

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
_UNIT, _FUNCTION, _INLINED, _ABSTRACT = 1, 2, 3, 4  # abbreviations
_NO_CHILDREN = b"\0"  # the end of a list of children
# DW_AT_stmt_list sec_offset, low_pc addr, high_pc data8, name string
_OF_UNIT: Final = bytes((0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0))
_ABBREVIATIONS: Final = bytes((_UNIT, 0x11, 0)) + _OF_UNIT + b"\0"
_WITH_INLINED: Final = b"".join(
    (
        bytes((_UNIT, 0x11, 1)) + _OF_UNIT,
        bytes((_FUNCTION, 0x2E, 1, 0x11, 0x01, 0x12, 0x07, 0, 0)),  # DW_TAG_subprogram: low_pc, high_pc
        # DW_TAG_inlined_subroutine: abstract_origin ref4, low_pc, high_pc, call_file udata, call_line udata
        bytes((_INLINED, 0x1D, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x58, 0x0F, 0x59, 0x0F, 0, 0)),
        bytes((_ABSTRACT, 0x2E, 0, 0x03, 0x08, 0x20, 0x0B, 0, 0)),  # DW_TAG_subprogram: name string, inline data1
        b"\0",
    )
)


class CodeLine(NamedTuple):
    """A row of the line table: from `address` on, code is from this line of this file; line 0: from an unknown one."""

    address: int
    file: str
    line: int


class InlinedCall(NamedTuple):
    """A call that was inlined: the name of the callee, and the file and line of the call."""

    name: str
    file: str
    line: int


class InlinedCode(NamedTuple):
    """Code from `begin` to `end` of functions that were inlined into each other, the outermost call first."""

    begin: int
    end: int
    calls: tuple[InlinedCall, ...]


def debug_sections(
    lines: Sequence[CodeLine], start: int, size: int, endian: str = "<", inlined: Sequence[InlinedCode] = ()
) -> dict[bytes, bytes]:
    """Return the sections by name for code of `size` bytes at `start`. Addresses of lines count from the same origin as `start`."""
    lines = sorted(lines)
    name = _bytes(lines[0].file if lines else "")
    names = [*(line.file for line in lines), *(call.file for code in inlined for call in code.calls)]
    files = {file: number for number, file in enumerate(dict.fromkeys(names), 1)}
    unit = struct.pack(endian + "HIBBIQQ", _VERSION, 0, 8, _UNIT, 0, start, size) + name + b"\0"
    if inlined:
        unit += _inlined_calls(inlined, files, endian, 4 + len(unit)) + _NO_CHILDREN
    return {
        b".debug_line": _with_length(_line_table(lines, files, start + size, endian), endian),
        b".debug_info": _with_length(unit, endian),
        b".debug_abbrev": _WITH_INLINED if inlined else _ABBREVIATIONS,
    }


def _inlined_calls(inlined: Sequence[InlinedCode], files: dict[str, int], endian: str, offset: int) -> bytes:
    """Return entries for inlined functions, and for their calls. offset: of the first entry from the beginning of the unit."""
    result = bytearray()
    origins: dict[str, int] = {}
    for name in dict.fromkeys(call.name for code in inlined for call in code.calls):
        origins[name] = offset + len(result)
        result += bytes((_ABSTRACT,)) + _bytes(name) + b"\0\1"
    for code in inlined:
        bounds = struct.pack(endian + "QQ", code.begin, code.end - code.begin)
        result += bytes((_FUNCTION,)) + bounds
        for call in code.calls:
            origin = struct.pack(endian + "I", origins[call.name])
            result += bytes((_INLINED,)) + origin + bounds + _encode_unsigned(files[call.file]) + _encode_unsigned(call.line)
        result += _NO_CHILDREN * (len(code.calls) + 1)
    return bytes(result)


def _line_table(lines: Sequence[CodeLine], files: dict[str, int], end: int, endian: str) -> bytes:
    # minimum_instruction_length, maximum_operations, default_is_stmt, line_base and line_range (unused), opcode_base, operand counts
    head = struct.pack("BBBbBB", 1, 1, 1, -5, 14, len(_OPERANDS) + 1) + _OPERANDS
    head += b"\0" + b"".join(_bytes(file) + b"\0\0\0\0" for file in files) + b"\0"
    return struct.pack(endian + "H", _VERSION) + _with_length(head, endian) + _program(lines, files, end, endian)


def _program(lines: Sequence[CodeLine], files: dict[str, int], end: int, endian: str) -> bytes:
    address, number, file, is_open = end, 1, 1, False
    code = bytearray()  # bytes would be copied for each line
    for line in lines:
        if not is_open:
            address, number, file, is_open = line.address, 1, 1, True
            code += _SET_ADDRESS + struct.pack(endian + "Q", address)
        if files[line.file] != file:
            file = files[line.file]
            code += _SET_FILE + _encode_unsigned(file)
        code += _ADVANCE_PC + _encode_unsigned(line.address - address)
        address = line.address
        if line.line:
            code += _ADVANCE_LINE + _encode_signed(line.line - number) + _COPY
            number = line.line
        else:
            code, is_open = code + _END_SEQUENCE, False
    if is_open or not lines:
        code += b"" if lines else _SET_ADDRESS + struct.pack(endian + "Q", address)
        code += _ADVANCE_PC + _encode_unsigned(max(end - address, 0)) + _END_SEQUENCE
    return bytes(code)


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
