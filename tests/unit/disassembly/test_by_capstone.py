"""32-bit ARM code has instructions of two kinds, and data among them."""

from __future__ import annotations

import struct

import pytest

from perfpy.disassembly.by_capstone import instructions, pieces
from perfpy.disassembly.function_code import FunctionCode
from perfpy.disassembly.objdump import CodeStyle
from perfpy.symbols.files.elf import ElfFile
from tests.builders.elf import ALLOC, EXEC, LOCAL, NOTYPE, Elf

#: push {r7, lr}; adds r0, #1; ldr r3, [pc, #0]; bx lr; then a word
THUMB = bytes.fromhex("80b5 0130 004b 7047") + struct.pack("<I", 123456789)
#: add r0, r0, #1; bx lr
ARM = bytes.fromhex("010080e2 1eff2fe1")


def file_of(code: bytes, marks: dict[int, str], *, thumb: bool) -> ElfFile:
    """f is at 0x1000."""
    elf = Elf(machine=40, bits=32).section(".text", code, flags=ALLOC | EXEC, addr=0x1000, offset=0x1000, size=len(code))
    elf = elf.segment(0x1000, 0x1000, len(code)).symbol("f", 0x1000 | thumb, len(code))
    for address, name in marks.items():
        elf = elf.symbol(name, address, type=NOTYPE, binding=LOCAL)
    return ElfFile("/f", elf.build())


def words(file: ElfFile, code: bytes) -> list[str]:
    lines = instructions(FunctionCode("f", file, 0x1000, 0x1000 + len(code)), CodeStyle())
    return [line.text.split()[0] for line in lines if line.is_code]


def test_mapping_symbols_separate_instructions_and_data() -> None:
    file = file_of(THUMB, {0x1000: "$t", 0x1008: "$d"}, thumb=True)
    assert pieces(file, 0x1000, 0x100C) == [(0x1000, 0x1008, "t"), (0x1008, 0x100C, "d")]
    assert words(file, THUMB) == ["push", "adds", "ldr", "bx", ".word"]


def test_a_mark_before_the_function_holds() -> None:
    file = file_of(ARM, {0xFF0: "$t.1", 0xFF8: "$a.2"}, thumb=False)
    assert pieces(file, 0x1000, 0x1008) == [(0x1000, 0x1008, "a")]


@pytest.mark.parametrize(("code", "thumb", "said"), [(THUMB[:8], True, ["push", "adds", "ldr", "bx"]), (ARM, False, ["add", "bx"])])
def test_without_marks_the_functions_address_selects_thumb(code: bytes, thumb: bool, said: list[str]) -> None:
    assert words(file_of(code, {}, thumb=thumb), code) == said


def test_trailing_data_of_a_function_is_shown() -> None:
    file = file_of(THUMB[:10], {0x1000: "$t", 0x1008: "$d"}, thumb=True)
    assert words(file, THUMB[:10])[-1] == ".short"
