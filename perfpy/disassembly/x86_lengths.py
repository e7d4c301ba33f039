"""The length of an x86 instruction, whether execution never continues after it, and what kind of branch it is.

The tables have, for each opcode, whether a ModRM byte follows and the bytes of immediate operands (opcode maps in Intel's and AMD's
manuals).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

LONGEST: Final = 15
_PREFIXES: Final = frozenset(b"\x66\x67\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65")
_OPERAND: Final = 0x66
_ADDRESS: Final = 0x67
_REPEAT_NOT: Final = 0xF2
_NEAR: Final = 4  # bytes of a jump's displacement


def _ranges(text: str) -> frozenset[int]:
    """Return the numbers of a list like "00-03,62" (hexadecimal)."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first, 16), int(last or first, 16) + 1))
    return frozenset(numbers)


_ALU: Final = frozenset(row * 8 + column for row in range(8) for column in range(4))
_MODRM: Final = _ALU | _ranges("62,63,69,6b,80-8f,c0,c1,c4-c7,d0-d3,d8-df,f6,f7,fe,ff")
_NO_MODRM_OF_0F: Final = _ranges("04-09,0b,0c,0e,30-37,77,80-8f,a0-a2,a8-aa,c8-cf")
_BYTE: Final = frozenset(row * 8 + 4 for row in range(8)) | _ranges("6a,6b,70-7f,80,82,83,a8,b0-b7,c0,c1,c6,cd,d4,d5,e0-e7,eb")
_WORD: Final = frozenset(row * 8 + 5 for row in range(8)) | _ranges("68,69,81,a9,c7")  # 4 bytes, or 2 with the prefix 66
_BYTE_OF_0F: Final = _ranges("0f,70-73,a4,ac,ba,c2,c4-c6")
_FAR: Final = frozenset((0x9A, 0xEA))
_ALWAYS_ELSEWHERE: Final = _ranges("c2,c3,ca-cd,cf,e8,e9,eb,f1")
_ALWAYS_ELSEWHERE_OF_0F: Final = _ranges("05,07,34,35")


class _Start(NamedTuple):
    """The bytes before ModRM. `size`: their number; `table`: 0 one-byte opcodes, 1 0F, 2 0F38, 3 0F3A, 8-10 AMD's XOP."""

    size: int
    table: int
    opcode: int
    prefixes: frozenset[int]
    wide: bool
    encoded: bool  # VEX, EVEX or XOP


def length(code: bytes, *, bits: int = 64) -> int:
    """Return the length of the first instruction in bytes, 0 if it is truncated."""
    try:
        start = _decode_start(code, bits)
        size = start.size
        if _has_modrm(start, bits):
            size += _modrm(code, size, bits, start.prefixes)
        size += _immediate(start, code, bits)
    except IndexError:
        return 0
    return size if size <= min(len(code), LONGEST) else 0


def always_elsewhere(code: bytes, *, bits: int = 64) -> bool:
    """Whether execution never continues after the first instruction: calls, returns, unconditional jumps."""
    try:
        start = _decode_start(code, bits)
        if start.table == 0 and start.opcode == 0xFF:
            return 2 <= code[start.size] >> 3 & 7 <= 5
    except IndexError:
        return False
    if start.table == 1:
        return start.opcode in _ALWAYS_ELSEWHERE_OF_0F and not start.encoded
    return start.table == 0 and start.opcode in _ALWAYS_ELSEWHERE | _FAR


class BranchKind(IntEnum):
    """What an instruction does to the flow of control; the numbers of perf's kinds (intel-pt-insn-decoder.h) are not used."""

    NONE = 0
    CONDITIONAL = 1
    JUMP = 2
    CALL = 3
    INDIRECT_JUMP = 4
    INDIRECT_CALL = 5
    RETURN = 6
    INTERRUPT = 7
    INTERRUPT_RETURN = 8
    SYSTEM_CALL = 9
    SYSTEM_RETURN = 10
    VM_ENTRY = 11


_KINDS: Final = {
    **dict.fromkeys(_ranges("70-7f,e0-e3"), BranchKind.CONDITIONAL),
    **dict.fromkeys(_ranges("e9,eb"), BranchKind.JUMP),
    **dict.fromkeys(_ranges("c2,c3,ca,cb"), BranchKind.RETURN),
    **dict.fromkeys(_ranges("cc-ce"), BranchKind.INTERRUPT),
    0xE8: BranchKind.CALL,
    0x9A: BranchKind.INDIRECT_CALL,
    0xEA: BranchKind.INDIRECT_JUMP,
    0xCF: BranchKind.INTERRUPT_RETURN,
}
_KINDS_OF_0F: Final = {
    **dict.fromkeys(_ranges("80-8f"), BranchKind.CONDITIONAL),
    **dict.fromkeys(_ranges("05,34"), BranchKind.SYSTEM_CALL),
    **dict.fromkeys(_ranges("07,35"), BranchKind.SYSTEM_RETURN),
}
_KINDS_OF_FF: Final = {
    2: BranchKind.INDIRECT_CALL,
    3: BranchKind.INDIRECT_CALL,
    4: BranchKind.INDIRECT_JUMP,
    5: BranchKind.INDIRECT_JUMP,
}
_VM_ENTRIES: Final = frozenset((0xC2, 0xC3))  # ModRM of VMLAUNCH and VMRESUME, after 0F 01
_DIRECT: Final = frozenset((BranchKind.CONDITIONAL, BranchKind.JUMP, BranchKind.CALL))


def branch_of(code: bytes, *, bits: int = 64) -> tuple[int, BranchKind, int]:
    """Return the length of the first instruction (0 if it is truncated), its kind, and the displacement of a direct branch."""
    size = length(code, bits=bits)
    if not size:
        return 0, BranchKind.NONE, 0
    start = _decode_start(code, bits)
    kind = BranchKind.NONE
    if start.encoded:
        return size, kind, 0
    if start.table == 0:
        kind = _KINDS_OF_FF.get(code[start.size] >> 3 & 7, kind) if start.opcode == 0xFF else _KINDS.get(start.opcode, kind)
    elif start.table == 1:
        is_vm_entry = start.opcode == 1 and code[start.size] in _VM_ENTRIES
        kind = BranchKind.VM_ENTRY if is_vm_entry else _KINDS_OF_0F.get(start.opcode, kind)
    displacement = int.from_bytes(code[start.size : size], "little", signed=True) if kind in _DIRECT else 0
    return size, kind, displacement


def _decode_start(code: bytes, bits: int) -> _Start:
    offset = 0
    while code[offset] in _PREFIXES:
        offset += 1
    prefixes = frozenset(code[:offset])
    wide = False
    if bits == 64 and code[offset] >> 4 == 4:  # REX
        wide = bool(code[offset] & 8)
        offset += 1
    first = code[offset]
    if first in (0xC4, 0xC5, 0x62) and (bits == 64 or code[offset + 1] >> 6 == 3):
        if code[offset] == 0xC5:
            return _Start(offset + 3, 1, code[offset + 2], prefixes, False, True)
        if code[offset] == 0xC4:
            return _Start(offset + 4, code[offset + 1] & 0x1F, code[offset + 3], prefixes, False, True)
        return _Start(offset + 5, code[offset + 1] & 7, code[offset + 4], prefixes, False, True)
    if first == 0x8F and code[offset + 1] & 0x1F >= 8:
        return _Start(offset + 4, code[offset + 1] & 0x1F, code[offset + 3], prefixes, False, True)
    if first != 0x0F:
        return _Start(offset + 1, 0, first, prefixes, wide, False)
    if code[offset + 1] in (0x38, 0x3A):
        return _Start(offset + 3, 2 if code[offset + 1] == 0x38 else 3, code[offset + 2], prefixes, wide, False)
    return _Start(offset + 2, 1, code[offset + 1], prefixes, wide, False)


def _has_modrm(start: _Start, bits: int) -> bool:
    if start.table == 0:
        return start.opcode in _MODRM and (bits == 32 or start.opcode != 0x82)
    if start.table == 1:
        return start.opcode not in _NO_MODRM_OF_0F or (start.encoded and start.opcode != 0x77)
    return True


def _modrm(code: bytes, offset: int, bits: int, prefixes: frozenset[int]) -> int:
    """Return the offset after ModRM, SIB and displacement."""
    mod, memory = code[offset] >> 6, code[offset] & 7
    if mod == 3:
        return 1
    if bits == 32 and _ADDRESS in prefixes:
        return 1 + (2 if mod == 2 or (mod == 0 and memory == 6) else mod)
    displacement = (0, 1, 4)[mod]
    if memory != 4:
        return 1 + (4 if mod == 0 and memory == 5 else displacement)
    return 2 + (4 if mod == 0 and code[offset + 1] & 7 == 5 else displacement)


def _immediate(start: _Start, code: bytes, bits: int) -> int:
    if start.table == 0:
        opcode, word = start.opcode, 2 if _OPERAND in start.prefixes and not start.wide else 4
        if opcode in _BYTE:
            return 1
        if opcode in _WORD:
            return word
        if opcode in (0xE8, 0xE9):
            return _jump(start, bits)
        if opcode in (0xF6, 0xF7):
            return (1 if opcode == 0xF6 else word) if code[start.size] >> 3 & 7 < 2 else 0
        if 0xB8 <= opcode <= 0xBF:
            return 8 if start.wide else word
        if 0xA0 <= opcode <= 0xA3:
            short = _ADDRESS in start.prefixes
            return (4 if short else 8) if bits == 64 else (2 if short else 4)
        return {0xC2: 2, 0xCA: 2, 0xC8: 3, 0x9A: 2 + word, 0xEA: 2 + word}.get(opcode, 0)
    if start.table == 1:
        if 0x80 <= start.opcode <= 0x8F and not start.encoded:
            return _jump(start, bits)
        if start.opcode == 0x78 and not start.encoded and start.prefixes & {_OPERAND, _REPEAT_NOT}:
            return 2  # EXTRQ, INSERTQ
        return int(start.opcode in _BYTE_OF_0F)
    return {3: 1, 8: 1, 10: 4}.get(start.table, 0)


def _jump(start: _Start, bits: int) -> int:
    return 2 if bits == 32 and _OPERAND in start.prefixes else _NEAR
