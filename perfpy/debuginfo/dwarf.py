"""Constants of the DWARF format, by the standard's names without their prefix.

Layout: DWARF 5, chapter 7; the GNU extensions (split and supplementary files of DWARF 4): gcc.gnu.org/wiki/DebugFission and binutils'
dwarf2.h.
"""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

# tags
TAG_LEXICAL_BLOCK: Final = 0x0B
TAG_ARRAY_TYPE: Final = 0x01
TAG_CLASS_TYPE: Final = 0x02
TAG_ENUMERATION_TYPE: Final = 0x04
TAG_FORMAL_PARAMETER: Final = 0x05
TAG_MEMBER: Final = 0x0D
TAG_POINTER_TYPE: Final = 0x0F
TAG_REFERENCE_TYPE: Final = 0x10
TAG_STRUCTURE_TYPE: Final = 0x13
TAG_SUBROUTINE_TYPE: Final = 0x15
TAG_TYPEDEF: Final = 0x16
TAG_UNION_TYPE: Final = 0x17
TAG_INHERITANCE: Final = 0x1C
TAG_SUBRANGE_TYPE: Final = 0x21
TAG_BASE_TYPE: Final = 0x24
TAG_CONST_TYPE: Final = 0x26
TAG_VARIABLE: Final = 0x34
TAG_VOLATILE_TYPE: Final = 0x35
TAG_RESTRICT_TYPE: Final = 0x37
TAG_RVALUE_REFERENCE_TYPE: Final = 0x42
TAG_ATOMIC_TYPE: Final = 0x47
TAG_COMPILE_UNIT: Final = 0x11
TAG_INLINED_SUBROUTINE: Final = 0x1D
TAG_SUBPROGRAM: Final = 0x2E
TAG_MODULE: Final = 0x1E
TAG_CATCH_BLOCK: Final = 0x25
TAG_TRY_BLOCK: Final = 0x32
TAG_NAMESPACE: Final = 0x39
TAG_PARTIAL_UNIT: Final = 0x3C
TAG_SKELETON_UNIT: Final = 0x4A

# attributes
AT_SIBLING: Final = 0x01
AT_LOCATION: Final = 0x02
AT_NAME: Final = 0x03
AT_BYTE_SIZE: Final = 0x0B
AT_BIT_OFFSET: Final = 0x0C
AT_BIT_SIZE: Final = 0x0D
AT_STMT_LIST: Final = 0x10
AT_LOW_PC: Final = 0x11
AT_HIGH_PC: Final = 0x12
AT_LANGUAGE: Final = 0x13
AT_COMP_DIR: Final = 0x1B
AT_CONST_VALUE: Final = 0x1C
AT_UPPER_BOUND: Final = 0x2F
AT_PRODUCER: Final = 0x25
AT_ABSTRACT_ORIGIN: Final = 0x31
AT_COUNT: Final = 0x37
AT_DATA_MEMBER_LOCATION: Final = 0x38
AT_DECL_FILE: Final = 0x3A
AT_DECL_LINE: Final = 0x3B
AT_DECLARATION: Final = 0x3C
AT_ENCODING: Final = 0x3E
AT_FRAME_BASE: Final = 0x40
AT_SPECIFICATION: Final = 0x47
AT_TYPE: Final = 0x49
AT_ENTRY_PC: Final = 0x52
AT_RANGES: Final = 0x55
AT_CALL_FILE: Final = 0x58
AT_CALL_LINE: Final = 0x59
AT_DATA_BIT_OFFSET: Final = 0x6B
AT_LINKAGE_NAME: Final = 0x6E
AT_STR_OFFSETS_BASE: Final = 0x72
AT_ADDR_BASE: Final = 0x73
AT_RNGLISTS_BASE: Final = 0x74
AT_DWO_NAME: Final = 0x76
AT_LOCLISTS_BASE: Final = 0x8C
AT_MIPS_LINKAGE_NAME: Final = 0x2007
AT_GNU_DWO_NAME: Final = 0x2130
AT_GNU_DWO_ID: Final = 0x2131
AT_GNU_RANGES_BASE: Final = 0x2132
AT_GNU_ADDR_BASE: Final = 0x2133

# forms
FORM_ADDR: Final = 0x01
FORM_BLOCK2: Final = 0x03
FORM_BLOCK4: Final = 0x04
FORM_DATA2: Final = 0x05
FORM_DATA4: Final = 0x06
FORM_DATA8: Final = 0x07
FORM_STRING: Final = 0x08
FORM_BLOCK: Final = 0x09
FORM_BLOCK1: Final = 0x0A
FORM_DATA1: Final = 0x0B
FORM_FLAG: Final = 0x0C
FORM_SDATA: Final = 0x0D
FORM_STRP: Final = 0x0E
FORM_UDATA: Final = 0x0F
FORM_REF_ADDR: Final = 0x10
FORM_REF1: Final = 0x11
FORM_REF2: Final = 0x12
FORM_REF4: Final = 0x13
FORM_REF8: Final = 0x14
FORM_REF_UDATA: Final = 0x15
FORM_INDIRECT: Final = 0x16
FORM_SEC_OFFSET: Final = 0x17
FORM_EXPRLOC: Final = 0x18
FORM_FLAG_PRESENT: Final = 0x19
FORM_STRX: Final = 0x1A
FORM_ADDRX: Final = 0x1B
FORM_REF_SUP4: Final = 0x1C
FORM_STRP_SUP: Final = 0x1D
FORM_DATA16: Final = 0x1E
FORM_LINE_STRP: Final = 0x1F
FORM_REF_SIG8: Final = 0x20
FORM_IMPLICIT_CONST: Final = 0x21
FORM_LOCLISTX: Final = 0x22
FORM_RNGLISTX: Final = 0x23
FORM_REF_SUP8: Final = 0x24
FORM_STRX1: Final = 0x25
FORM_STRX2: Final = 0x26
FORM_STRX3: Final = 0x27
FORM_STRX4: Final = 0x28
FORM_ADDRX1: Final = 0x29
FORM_ADDRX2: Final = 0x2A
FORM_ADDRX3: Final = 0x2B
FORM_ADDRX4: Final = 0x2C
FORM_GNU_ADDR_INDEX: Final = 0x1F01
FORM_GNU_STR_INDEX: Final = 0x1F02
FORM_GNU_REF_ALT: Final = 0x1F20
FORM_GNU_STRP_ALT: Final = 0x1F21

STRING_INDICES: Final = frozenset({FORM_STRX, FORM_STRX1, FORM_STRX2, FORM_STRX3, FORM_STRX4, FORM_GNU_STR_INDEX})
ADDRESS_INDICES: Final = frozenset({FORM_ADDRX, FORM_ADDRX1, FORM_ADDRX2, FORM_ADDRX3, FORM_ADDRX4, FORM_GNU_ADDR_INDEX})
ALTERNATE_STRINGS: Final = frozenset({FORM_STRP_SUP, FORM_GNU_STRP_ALT})
ALTERNATE_REFERENCES: Final = frozenset({FORM_REF_SUP4, FORM_REF_SUP8, FORM_GNU_REF_ALT})
UNIT_REFERENCES: Final = frozenset({FORM_REF1, FORM_REF2, FORM_REF4, FORM_REF8, FORM_REF_UDATA})

# kinds of units
UT_COMPILE: Final = 1
UT_TYPE: Final = 2
UT_SKELETON: Final = 4
UT_SPLIT_COMPILE: Final = 5
UT_SPLIT_TYPE: Final = 6

# languages with mangled function names (Ada, C++, D, Rust), and assembler code
MANGLED_LANGUAGES: Final = frozenset({0x03, 0x0D, 0x04, 0x1A, 0x21, 0x2B, 0x13, 0x1C})
LANG_MIPS_ASSEMBLER: Final = 0x8001

# entries of .debug_rnglists
RLE_END_OF_LIST: Final = 0
RLE_BASE_ADDRESSX: Final = 1
RLE_STARTX_ENDX: Final = 2
RLE_STARTX_LENGTH: Final = 3
RLE_OFFSET_PAIR: Final = 4
RLE_BASE_ADDRESS: Final = 5
RLE_START_END: Final = 6
RLE_START_LENGTH: Final = 7

# entries of .debug_loclists
LLE_END_OF_LIST: Final = 0
LLE_STARTX_LENGTH: Final = 3
LLE_DEFAULT_LOCATION: Final = 5
LLE_GNU_VIEW_PAIR: Final = 9

# operations of location expressions
OP_ADDR: Final = 0x03
OP_DEREF: Final = 0x06
OP_CONST1U: Final = 0x08
OP_CONSTS: Final = 0x11
OP_PLUS: Final = 0x22
OP_PLUS_UCONST: Final = 0x23
OP_LIT0: Final = 0x30
OP_REG0: Final = 0x50
OP_BREG0: Final = 0x70
OP_REGX: Final = 0x90
OP_FBREG: Final = 0x91
OP_BREGX: Final = 0x92
OP_PIECE: Final = 0x93
OP_FORM_TLS_ADDRESS: Final = 0x9B
OP_CALL_FRAME_CFA: Final = 0x9C
OP_BIT_PIECE: Final = 0x9D
OP_IMPLICIT_VALUE: Final = 0x9E
OP_STACK_VALUE: Final = 0x9F
OP_ADDRX: Final = 0xA1
OP_ENTRY_VALUE: Final = 0xA3
OP_GNU_PUSH_TLS_ADDRESS: Final = 0xE0
OP_GNU_ENTRY_VALUE: Final = 0xF3
OP_GNU_ADDR_INDEX: Final = 0xFB

# encodings of base types
ATE_SIGNED: Final = 0x05
ATE_SIGNED_CHAR: Final = 0x06
ATE_UNSIGNED_CHAR: Final = 0x08

# Read integers of variable length (LEB128). Functions return the value and the offset after it, or raise IndexError at the end of the
# bytes, ValueError for too large numbers.

_LONGEST: Final = 70  # bits; 64 would do, but some writers pad numbers with zero bytes


def read_unsigned(data: Sequence[int], offset: int) -> tuple[int, int]:
    """Return the unsigned number at an offset, and the offset after it."""
    byte = data[offset]
    if byte < 0x80:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    while True:
        offset += 1
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset + 1
        shift += 7
        if shift > _LONGEST:
            raise ValueError(f"a number without an end at {offset:#x}")


def read_signed(data: Sequence[int], offset: int) -> tuple[int, int]:
    """Return the signed number at an offset, and the offset after it."""
    value, after = read_unsigned(data, offset)
    bits = 7 * (after - offset)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), after


def skip(data: Sequence[int], offset: int) -> int:
    """Return the offset after the number at an offset."""
    while data[offset] >= 0x80:
        offset += 1
    return offset + 1
