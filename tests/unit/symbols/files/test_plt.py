"""Names for stubs of the procedure linkage table."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from tests.builders import elf as b
from tests.builders.elf import Elf

JUMP_SLOT, IRELATIVE = 7, 37


def names(built: Elf, *addresses: int) -> list[str]:
    file = ElfFile("test", built.build())
    table = elf_symbols.load(file, file, demangle)
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.array(addresses, np.uint64)).tolist()]


def program(**options: int) -> Elf:
    file = Elf(**options).segment(0x1000, 0x1000, 0x2000).text(0x1400, size=0x400)  # type: ignore[arg-type]
    file.symbol("puts", 0, 0, section=b.UNDEF, table=".dynsym").symbol("_Z3addii", 0, 0, section=b.UNDEF, table=".dynsym")
    return file.symbol("main", 0x1400, 16)


def test_a_lazy_table_has_a_header_and_an_entry_a_relocation():
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x30, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030, 0x104F, 0x1050) == [".plt", "puts@plt", "add(int, int)@plt", "-"]


def test_a_table_with_as_many_entries_as_relocations_has_no_header():
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x20, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030) == ["puts@plt", "add(int, int)@plt"]


def test_with_plt_sec_the_names_are_there_and_plt_is_one_symbol():
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x30, entsize=16)
    file.section(".plt.sec", addr=0x1060, offset=0x1060, size=0x20, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x104F, 0x1060, 0x1070) == [".plt", ".plt", "puts@plt", "add(int, int)@plt"]


def test_files_of_32_bits_have_smaller_relocations():
    file = program(bits=32, machine=b.I386).section(".plt", addr=0x1020, offset=0x1020, size=0x30, entsize=16)
    word = struct.Struct("<II")
    slots = word.pack(0x4000, 1 << 8 | JUMP_SLOT) + word.pack(0x4004, 2 << 8 | JUMP_SLOT)
    file.section(".rel.plt", slots, type=b.REL, link=".dynsym", entsize=8)
    assert names(file, 0x1020, 0x1030, 0x1040) == [".plt", "puts@plt", "add(int, int)@plt"]


def test_relocations_are_taken_in_the_order_of_their_slots_on_x86():
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x30, entsize=16)
    file.relocations(".rela.plt", [(0x4008, 2, JUMP_SLOT, 0), (0x4000, 1, JUMP_SLOT, 0)])
    assert names(file, 0x1030, 0x1040) == ["puts@plt", "add(int, int)@plt"]


def test_entries_of_plt_got_are_named_by_the_slot_they_jump_through():
    jump = b"\xf3\x0f\x1e\xfa\xff\x25" + (0x4010 - 0x1060 - 10).to_bytes(4, "little") + bytes(6)
    other = b"\xff\x25" + (0x5000).to_bytes(4, "little") + bytes(10)
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x20, entsize=16)
    file.section(".plt.got", jump + other, addr=0x1060, offset=0x1060, entsize=16)
    file.relocations(".rela.dyn", [(0x4010, 1, 6, 0)])
    assert names(file, 0x1060, 0x1070) == ["puts@plt", "offset_0x1070@plt"]


@pytest.mark.parametrize("bits", [64, 32])  # 32: x32
def test_an_ifunc_of_a_static_program_is_named_by_its_resolver(bits: int):
    file = Elf(bits=bits, type=b.ET_EXEC).segment(0x401000, 0x1000, 0x1000).text(0x401400, 0x1400, 0x400)
    file.symbol("strlen", 0x401500, 16, b.IFUNC)
    file.section(".plt", addr=0x401020, offset=0x1020, size=0x20, entsize=16)
    file.relocations(".rela.plt", [(0x404000, 0, IRELATIVE, 0x401500), (0x404008, 0, IRELATIVE, 0x401600)], table=".symtab")
    assert names(file, 0x1020, 0x1030) == ["strlen@plt", "offset_0x1030@plt"]


def test_a_symbol_that_was_stretched_over_the_table_ends_where_it_begins():
    file = program().section(".init", addr=0x1000, offset=0x1000, size=16)
    file.symbol("_init", 0x1000, 0, section=".init").section(".plt", addr=0x1020, offset=0x1020, size=0x20, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0)])
    assert names(file, 0x101F, 0x1020, 0x1030) == ["_init", ".plt", "puts@plt"]


def test_sizes_of_entries_depend_on_the_machine():
    file = program(machine=b.AARCH64).section(".plt", addr=0x1020, offset=0x1020, size=0x40, entsize=0)
    file.relocations(".rela.plt", [(0x4000, 1, 1026, 0), (0x4008, 2, 1026, 0)])
    assert names(file, 0x103F, 0x1040, 0x1050) == [".plt", "puts@plt", "add(int, int)@plt"]


def test_without_relocations_only_the_header_has_a_name():
    file = program().section(".plt", addr=0x1020, offset=0x1020, size=0x30, entsize=16)
    assert names(file, 0x1020, 0x1030) == [".plt", "-"]
