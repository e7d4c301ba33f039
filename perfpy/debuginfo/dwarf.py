"""Constants of the DWARF format, by the standard's names without their prefix.

Layout: DWARF 5, chapter 7; the GNU extensions (split and supplementary files of DWARF 4): gcc.gnu.org/wiki/DebugFission and binutils'
dwarf2.h.
"""

from __future__ import annotations

from typing import Final

# tags
TAG_LEXICAL_BLOCK: Final = 0x0B
TAG_CLASS_TYPE: Final = 0x02
TAG_STRUCTURE_TYPE: Final = 0x13
TAG_UNION_TYPE: Final = 0x17
TAG_COMPILE_UNIT: Final = 0x11
TAG_IMPORTED_UNIT: Final = 0x3D
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
AT_NAME: Final = 0x03
AT_STMT_LIST: Final = 0x10
AT_LOW_PC: Final = 0x11
AT_HIGH_PC: Final = 0x12
AT_LANGUAGE: Final = 0x13
AT_IMPORT: Final = 0x18
AT_COMP_DIR: Final = 0x1B
AT_ABSTRACT_ORIGIN: Final = 0x31
AT_SPECIFICATION: Final = 0x47
AT_ENTRY_PC: Final = 0x52
AT_RANGES: Final = 0x55
AT_CALL_COLUMN: Final = 0x57
AT_CALL_FILE: Final = 0x58
AT_CALL_LINE: Final = 0x59
AT_LINKAGE_NAME: Final = 0x6E
AT_STR_OFFSETS_BASE: Final = 0x72
AT_ADDR_BASE: Final = 0x73
AT_RNGLISTS_BASE: Final = 0x74
AT_DWO_NAME: Final = 0x76
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
UT_PARTIAL: Final = 3
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
