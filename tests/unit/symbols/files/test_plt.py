"""Names for stubs of the procedure linkage table."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import numpy as np
import pytest

from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.files.elf_reduction import reduce_elf
from tests.builders import elf as b
from tests.builders.elf import Elf
from tests.builders.plt_entries import FORMS, Form, ppc64_near_stub, ppc64_relative_stub, ppc64_stub

JUMP_SLOT, GLOB_DAT, RELATIVE, IRELATIVE = 7, 6, 8, 37
PLT, SLOTS, GOT, RESOLVER = 0x1020, (0x4010, 0x4000, 0x4008), 0x3F00, 0x1500
LAZY = FORMS["x86-64 lazy"]


def names(built: Elf | ElfFile, *addresses: int) -> list[str]:
    file = ElfFile("test", built.build()) if isinstance(built, Elf) else built
    table = elf_symbols.load(file, file, demangle)
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.array(addresses, np.uint64)).tolist()]


def program(**options: object) -> Elf:
    file = Elf(**options).segment(0x1000, 0x1000, 0x2000).text(0x1400, size=0x400)  # type: ignore[arg-type]
    file.symbol("puts", 0, 0, section=b.UNDEF, table=".dynsym").symbol("_Z3addii", 0, 0, section=b.UNDEF, table=".dynsym")
    return file.symbol("main", 0x1400, 16).section(".got.plt", flags=b.ALLOC, addr=GOT, offset=0x2800, size=16)


def relocate(file: Elf, rows: list[tuple[int, int, int, int]], suffix: str = ".plt") -> Elf:
    """Relocations as the machine has them: with addends (which x32 has, too), or without."""
    if file.machine not in (b.I386, b.ARM):
        return file.relocations(".rela" + suffix, rows)
    data = b"".join(struct.pack("<II", slot, symbol << 8 | kind) for slot, symbol, kind, _ in rows)
    return file.section(".rel" + suffix, data, type=b.REL, link=".dynsym", entsize=8)


def with_plt(form: Form, code: bytes | None = None) -> tuple[Elf, list[int]]:
    """A program with a table of three entries, whose order is not that of the slots or the relocations; the addresses of the entries."""
    file = program(bits=form.bits, endian=form.endian, machine=form.machine)
    first = PLT + len(form.header)
    starts, encoded = [], b""
    for slot in SLOTS:
        starts.append(first + len(encoded))
        encoded += form.encode(starts[-1], slot, GOT)
    if form.table != ".plt":
        file.section(".plt", b"\xcc" * 16, addr=0x1200, offset=0x1200)
    file.section(form.table, form.header + encoded if code is None else code, addr=PLT, offset=PLT)
    return relocate(file, [(SLOTS[2], 1, JUMP_SLOT, 0), (SLOTS[1], 2, JUMP_SLOT, 0), (SLOTS[0], 0, form.irelative, RESOLVER)]), starts


EXPECTED = ["offset_{:#x}@plt", "add(int, int)@plt", "puts@plt"]


def expected(starts: list[int]) -> list[str]:
    return [name.format(start) for name, start in zip(EXPECTED, starts, strict=True)]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_entry_is_named_by_the_slot_it_jumps_through(form: Form):
    file, starts = with_plt(form)
    assert names(file, *starts) == expected(starts)
    assert names(file, *(start + 7 for start in starts)) == expected(starts)
    assert names(file, *(end - 1 for end in starts[1:])) == expected(starts)[:2]
    header = [".plt"] if form.header else []
    assert names(file, *[PLT][: len(header)]) == header


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_reduced_file_has_the_same_names(form: Form):
    file, starts = with_plt(form)
    whole = ElfFile("test", relocate(file.section(".data", bytes(1 << 16)), [(0x9000, 0, RELATIVE, 5)] * 500, ".dyn").build())
    reduced = ElfFile("test", reduce_elf(whole))
    addresses = [PLT, *starts, *(start + 7 for start in starts), 0x1200]
    assert names(reduced, *addresses) == names(whole, *addresses)
    assert len(reduced.content) < 1 << 13


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_truncated_table_has_the_names_of_its_whole_entries(form: Form):
    _, starts = with_plt(form)
    code = form.header + form.entries(PLT + len(form.header), list(SLOTS), GOT)
    for size in range(len(code)):
        file, _ = with_plt(form, code[:size])
        ends = [*starts[1:], PLT + len(code)]
        for end, name, found in zip(ends, expected(starts), names(file, *starts), strict=True):
            assert found in ([name] if end <= PLT + size else [name, "-", ".plt"])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_changed_byte_does_not_move_the_names_of_other_entries(form: Form):
    _, starts = with_plt(form)
    code = form.header + form.entries(PLT + len(form.header), list(SLOTS), GOT)
    bounds = [*starts, PLT + len(code)]
    dice = random.Random(7)
    for _ in range(60):
        damaged, entry = bytearray(code), dice.randrange(3)
        damaged[dice.randrange(bounds[entry] - PLT, bounds[entry + 1] - PLT)] ^= 1 << dice.randrange(8)
        file, _ = with_plt(form, bytes(damaged))
        found, usual = names(file, *starts), expected(starts)
        assert found[:entry] + found[entry + 1 :] == usual[:entry] + usual[entry + 1 :]


def test_random_code_has_no_names():
    dice = random.Random(3)
    for form in FORMS.values():
        file, _ = with_plt(form, dice.randbytes(256))
        assert set(names(file, *range(PLT, PLT + 256, 4))) <= {"-", ".plt"}


def test_names_do_not_depend_on_the_order_of_relocations():
    file = program().section(".plt", LAZY.header + LAZY.entries(0x1030, [0x4000, 0x4008], GOT), addr=PLT, offset=PLT)
    file.relocations(".rela.plt", [(0x4008, 2, JUMP_SLOT, 0), (0x4000, 1, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030, 0x104F, 0x1050) == [".plt", "puts@plt", "add(int, int)@plt", "-"]


def test_a_table_without_a_header_begins_with_an_entry():
    file = program().section(".plt", LAZY.entries(PLT, [0x4000, 0x4008], GOT), addr=PLT, offset=PLT)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030) == ["puts@plt", "add(int, int)@plt"]


def test_with_plt_sec_the_names_are_there_and_plt_is_one_symbol():
    lazy = bytes.fromhex("f30f1efa 6800000000 e900000000 6690")
    file = program().section(".plt", LAZY.header + lazy * 2, addr=PLT, offset=PLT)
    file.section(".plt.sec", FORMS["x86-64 ibt"].entries(0x1060, [0x4000, 0x4008], GOT), addr=0x1060, offset=0x1060)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x104F, 0x1060, 0x1070) == [".plt", ".plt", "puts@plt", "add(int, int)@plt"]


@pytest.mark.parametrize(("machine", "bits", "pad", "unit"), [(b.X86_64, 64, "fa", 1), (b.I386, 32, "fb", 8)])
def test_entries_that_only_bind_are_named_by_the_relocation_they_push(machine: int, bits: int, pad: str, unit: int):
    """gold has them in .plt, before those that are called."""
    code = LAZY.header
    for index in (1, 0):
        code += bytes.fromhex(f"f30f1e{pad} 68") + struct.pack("<I", index * unit) + bytes.fromhex("e900000000 6690")
    file = program(machine=machine, bits=bits).section(".plt", code, addr=PLT, offset=PLT)
    relocate(file, [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030, 0x1040) == [".plt", "add(int, int)@plt", "puts@plt"]


def test_entries_of_plt_got_are_named_by_the_dynamic_relocations():
    code = FORMS["x86-64 got"].entries(0x1060, [0x4010, 0x5000], GOT)
    file = program().section(".plt.got", code, addr=0x1060, offset=0x1060, entsize=8)
    file.relocations(".rela.dyn", [(0x4008, 2, GLOB_DAT, 0), (0x4010, 1, GLOB_DAT, 0)])
    assert names(file, 0x1060, 0x1068) == ["puts@plt", "offset_0x1068@plt"]


@pytest.mark.parametrize("name", ["x86-64 lazy", "x86-64 x32", "arm64", "riscv64", "s390x", "i386 absolute", "arm"])
def test_an_ifunc_of_a_static_program_is_named_by_its_resolver(name: str):
    form = FORMS[name]
    file = Elf(bits=form.bits, endian=form.endian, machine=form.machine, type=b.ET_EXEC)
    file.segment(0x401000, 0x1000, 0x1000).text(0x401400, 0x1400, 0x400)
    file.symbol("strlen", 0x401500, 16, b.IFUNC)
    file.section(".iplt", form.entries(0x401020, [0x404000, 0x404008], 0), addr=0x401020, offset=0x1020)
    rows = [(0x404000, 0, form.irelative, 0x401500), (0x404008, 0, form.irelative, 0x401600)]
    if form.machine in (b.I386, b.ARM):
        file.section(".got", struct.pack("<4I", 0x401500, 0, 0x401600, 0), addr=0x404000, offset=0x2000)
        data = b"".join(struct.pack("<II", slot, kind) for slot, _, kind, _ in rows)
        file.section(".rel.dyn", data, type=b.REL, link=".symtab", entsize=8)
    else:
        file.relocations(".rela.plt", rows, table=".symtab")
    second = 0x1020 + len(form.encode(0, 0, 0))
    assert names(file, 0x1020, second) == ["strlen@plt", f"offset_{second:#x}@plt"]


def test_an_entry_outside_of_plt_keeps_the_symbol_that_the_linker_wrote():
    file = program().section(".plt.got", FORMS["x86-64 got"].entries(0x1060, [0x4010, 0x4000], GOT), addr=0x1060, offset=0x1060)
    file.relocations(".rela.dyn", [(0x4010, 1, GLOB_DAT, 0), (0x4000, 2, GLOB_DAT, 0)]).symbol("puts$pltgot", 0x1060, 8, section=".plt.got")
    assert names(file, 0x1060, 0x1068) == ["puts$pltgot", "add(int, int)@plt"]


def test_a_symbol_that_was_stretched_over_the_table_ends_where_it_begins():
    file = program().section(".init", addr=0x1000, offset=0x1000, size=16)
    file.symbol("_init", 0x1000, 0, section=".init")
    file.section(".plt", LAZY.header + LAZY.entries(0x1030, [0x4000], GOT), addr=PLT, offset=PLT, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0)])
    assert names(file, 0x101F, 0x1020, 0x1030) == ["_init", ".plt", "puts@plt"]


def test_a_program_without_symbols_of_its_own_has_names_for_its_calls():
    file = Elf().segment(0x1000, 0x1000, 0x2000).symbol("puts", 0, 0, section=b.UNDEF, table=".dynsym")
    file.section(".plt", LAZY.header + LAZY.entries(0x1030, [0x4000], GOT), addr=PLT, offset=PLT)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030, 0x1400) == [".plt", "puts@plt", "-"]


def test_code_that_is_not_understood_has_no_names():
    file = program().section(".plt", b"\x90" * 0x30, addr=PLT, offset=PLT, entsize=16)
    file.relocations(".rela.plt", [(0x4000, 1, JUMP_SLOT, 0), (0x4008, 2, JUMP_SLOT, 0)])
    assert names(file, 0x1020, 0x1030, 0x1040) == [".plt", "-", "-"]


def test_entries_are_counted_where_their_code_is_unknown():
    sparc, header, entry = 43, 128, 32
    file = program(machine=sparc, endian=">").section(".plt", addr=PLT, offset=PLT, size=header + 2 * entry)
    file.relocations(".rela.plt", [(0x4000, 1, 21, 0), (0x4008, 2, 21, 0)])
    assert names(file, PLT, PLT + header, PLT + header + entry) == [".plt", "puts@plt", "add(int, int)@plt"]


def test_without_relocations_only_the_header_has_a_name():
    file = program().section(".plt", LAZY.header + LAZY.entries(0x1030, [0x4000], GOT), addr=PLT, offset=PLT, entsize=16)
    assert names(file, 0x1020, 0x1030) == [".plt", "-"]


def test_stubs_for_power_are_between_functions():
    toc = GOT + 0x8000
    file = Elf(machine=b.PPC64).segment(0x1000, 0x1000, 0x2000)
    file.symbol("puts", 0, 0, section=b.UNDEF, table=".dynsym").symbol("_Z3addii", 0, 0, section=b.UNDEF, table=".dynsym")
    stubs = [ppc64_stub(0x14010, toc), ppc64_near_stub(0x4008, toc), ppc64_relative_stub(0x1024, 0x4000), ppc64_stub(0x5000, toc)]
    branches = struct.pack("<2I", 0x4BFFFFFC, 0x4BFFFFF8)
    code = struct.pack("<20I", *[0x60000000] * 20)
    starts = [0x1000, *(0x1000 + sum(map(len, stubs[:count])) for count in range(1, 5))]
    file.section(".text", b"".join(stubs) + branches + code, flags=b.ALLOC | b.EXEC, addr=0x1000, offset=0x1000)
    file.section(".got", addr=GOT, offset=0x2F00, size=16).symbol("main", starts[-1] + 8, 80)
    file.section(".dynamic", struct.pack("<4Q", 0x70000000, starts[-1] - 32, 0, 0))
    file.relocations(".rela.plt", [(0x4008, 1, 21, 0), (0x14010, 2, 21, 0), (0x4000, 0, 248, 0x1500)])
    found = ["add(int, int)@plt", "puts@plt", "offset_0x1024@plt", "-", "puts@plt"]
    assert [begin == end for begin, end in pairwise(starts)] == [False] * 4
    assert names(file, *starts) == found
    assert names(file, starts[-1] + 4, starts[-1] + 8) == ["add(int, int)@plt", "main"]
