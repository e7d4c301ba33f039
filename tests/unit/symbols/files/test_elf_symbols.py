"""Which entries of symbol tables count, at which file offsets, and which of several wins."""

from __future__ import annotations

import lzma
import random
import struct
import sys
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.cli.self_contained import reduce_elf
from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import BadElfError, ElfFile, read_mini_debug_info
from tests.builders import elf as b
from tests.builders.elf import Elf
from tests.builders.plt_entries import FORMS, Form, ppc64_near_stub, ppc64_relative_stub, ppc64_stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.symbols.symbol_table import SymbolTable


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def load(built: Elf, runtime: Elf | None = None) -> SymbolTable:
    file = ElfFile("test", built.build())
    return elf_symbols.load(file, ElfFile("runtime", runtime.build()) if runtime else file, demangle)


def at(built: Elf, *addresses: int, runtime: Elf | None = None) -> list[str]:
    table = load(built, runtime)
    rows = table.find(np.array(addresses, np.uint64)).tolist()
    return [table.name(row) if row >= 0 else "-" for row in rows]


def plain(**options: int) -> Elf:
    return Elf(**options).text().segment(0x1000, 0x1000, 0x1000)  # type: ignore[arg-type]


def test_a_symbol_holds_its_own_bytes_and_no_more():
    file = plain().symbol("f", 0x1010, 0x10).symbol("g", 0x1040, 8)
    assert at(file, 0x100F, 0x1010, 0x101F, 0x1020, 0x1047, 0x1048) == ["-", "f", "f", "-", "g", "-"]


def test_a_symbol_without_a_size_reaches_to_the_next():
    assert at(plain().symbol("f", 0x1010).symbol("g", 0x1040, 8), 0x1010, 0x103F, 0x1040) == ["f", "f", "g"]


def test_the_last_symbol_without_a_size_reaches_one_page_behind_its_page():
    assert at(plain().symbol("f", 0x1010), 0x1010, 0x2FFF, 0x3000) == ["f", "f", "-"]


def test_a_symbol_with_a_size_wins_over_one_without():
    file = plain().symbol("label", 0x1010, 0, b.NOTYPE).symbol("f", 0x1010, 8, binding=b.LOCAL).symbol("next", 0x1020, 8)
    assert at(file, 0x1010) == ["f"]


def test_of_symbols_without_sizes_the_last_in_the_file_wins():
    assert at(plain().symbol("one", 0x1010).symbol("two", 0x1010).symbol("next", 0x1020, 8), 0x1010) == ["two"]


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        pytest.param({"type": b.NOTYPE, "name": "longer_name"}, {"name": "f", "binding": b.LOCAL}, id="typed before labels"),
        pytest.param({"name": "longer_name", "binding": b.WEAK}, {"name": "f", "binding": b.LOCAL}, id="anything before weak"),
        pytest.param({"name": "longer_name", "binding": b.LOCAL}, {"name": "f"}, id="global before local"),
        pytest.param({"name": "__longer_name"}, {"name": "_f"}, id="fewer underscores"),
        pytest.param({"name": "short"}, {"name": "longer"}, id="longer name"),
        pytest.param({"name": "SyS_read"}, {"name": "sys_read"}, id="no SyS alias"),
    ],
)
def test_aliases_of_equal_size_are_chosen_by(worse: dict[str, object], better: dict[str, object]):
    for pair in ((worse, better), (better, worse)):
        file = plain()
        for symbol in pair:
            file.symbol(value=0x1010, size=16, **symbol)  # type: ignore[arg-type]
        assert at(file, 0x1014) == [better["name"]]


def test_equal_aliases_go_to_the_first_in_the_file():
    assert at(plain().symbol("aa", 0x1010, 8).symbol("bb", 0x1010, 8), 0x1010) == ["aa"]


def test_aliases_are_compared_by_their_demangled_names():
    # as it stands in the file the first begins with an underscore
    file = plain().symbol("_ZN1aC2Ev", 0x1010, 8).symbol("abcde", 0x1010, 8)
    assert at(file, 0x1010) == ["a::a()"]
    assert at(plain().symbol("_Z1av", 0x1010, 8).symbol("abcdef", 0x1010, 8), 0x1010) == ["abcdef"]


def test_an_enclosing_symbol_is_found_behind_an_inner_one():
    assert at(plain().symbol("outer", 0x1000, 0x100).symbol("inner", 0x1010, 8), 0x1014, 0x1050) == ["inner", "outer"]


def test_entries_that_name_no_memory_do_not_count():
    file = plain().section(".debug_x", flags=0, addr=0x1000, size=0x100)
    file.symbol("file.c", 0x1000, 8, b.FILE).symbol("sec", 0x1000, 8, b.SECTION).symbol("thread", 0x1000, 8, b.TLS)
    file.symbol("undefined", 0x1000, 8, section=b.UNDEF).symbol("absolute", 0x1000, 8, section=b.ABS)
    file.symbol("", 0x1000, 8).symbol("warning", 0x1000, 8, section=".debug_x")
    assert at(file, 0x1000) == ["-"]


def test_labels_count_in_text_and_data_unless_hidden():
    file = plain().section(".rodata1", addr=0x3000, offset=0x3000, size=0x100).section(".init", addr=0x4000, offset=0x4000, size=16)
    file.symbol("label", 0x1000, 8, b.NOTYPE).symbol("table", 0x3000, 8, b.NOTYPE, section=".rodata1")
    file.symbol("start", 0x4000, 8, b.NOTYPE, section=".init").symbol("hidden", 0x1010, 8, b.NOTYPE, other=b.HIDDEN)
    assert at(file, 0x1000, 0x3000, 0x4000, 0x1010) == ["label", "table", "-", "-"]


def test_objects_and_ifuncs_count():
    file = plain().symbol("pick", 0x1000, 8, b.IFUNC).symbol("data", 0x1010, 8, b.OBJECT)
    assert at(file, 0x1000, 0x1010) == ["pick", "data"]


def test_addresses_are_file_offsets_by_segment_for_programs_that_are_not_relocatable():
    file = Elf(type=b.ET_EXEC).text(0x401000, 0x1000).segment(0x400000, 0, 0x3000).symbol("main", 0x401010, 16)
    assert at(file, 0x1010, 0x401010) == ["main", "-"]


def test_addresses_are_file_offsets_by_section_where_no_segment_holds_them():
    # as jitdump images: no program headers
    assert at(Elf().text(0x80, 0x40, 0x100).symbol("jitted", 0x80, 16), 0x40) == ["jitted"]


def test_a_debug_file_takes_places_from_the_file_that_runs():
    runtime = Elf().text(0x2000, 0x1000).segment(0x2000, 0x1000, 0x1000).symbol("exported", 0x2000, 8, table=".dynsym")
    debug = Elf().section(".text", type=b.NOBITS, flags=b.ALLOC | b.EXEC, addr=0x2000, offset=0x40, size=0x1000)
    debug.segment(0x2000, 0x40, 0).symbol("local_one", 0x2010, 8, binding=b.LOCAL)
    assert at(debug, 0x1010, 0x1000, runtime=runtime) == ["local_one", "-"]


def test_dynsym_is_added_to_symtab_and_wins_nothing_that_is_equal():
    file = plain().symbol("aa", 0x1000, 8).symbol("bb", 0x1000, 8, table=".dynsym").symbol("only", 0x1020, 8, table=".dynsym")
    assert at(file, 0x1000, 0x1020) == ["aa", "only"]


@pytest.mark.parametrize("machine", [b.ARM, b.AARCH64])
def test_mapping_symbols_of_arm_are_not_symbols(machine: int):
    file = plain(machine=machine).symbol("$x", 0x1000, 0, b.NOTYPE).symbol("$d.realdata", 0x1010, 0, b.NOTYPE)
    file.symbol("$normal", 0x1020, 4).symbol("$xy", 0x1030, 4)
    assert at(file, 0x1000, 0x1010, 0x1020, 0x1030) == ["-", "-", "$normal", "$xy"]


def test_a_dollar_is_part_of_names_elsewhere():
    assert at(plain().symbol("$x", 0x1000, 8), 0x1000) == ["$x"]


def test_thumb_functions_start_at_the_even_address():
    file = Elf(bits=32, machine=b.ARM).text().segment(0x1000, 0x1000, 0x1000).symbol("thumb", 0x1011, 4)
    assert at(file, 0x100F, 0x1010, 0x1013) == ["-", "thumb", "thumb"]


def test_big_endian_and_32_bit_files_read_alike():
    for bits in (32, 64):
        for endian in "<>":
            file = plain(bits=bits, endian=endian, machine=b.S390X).symbol("f", 0x1010, 8).build_id("ab" * 20)  # type: ignore[arg-type]
            assert at(file, 0x1010) == ["f"]
            assert ElfFile("x", file.build()).build_id == "ab" * 20


def test_power_function_descriptors_lead_to_the_code():
    file = plain(endian=">", machine=b.PPC64)  # type: ignore[arg-type]
    file.section(".opd", (0x1100).to_bytes(8, "big") + bytes(16), addr=0x3000, offset=0x3000).symbol("f", 0x3000, 16, section=".opd")
    assert at(file, 0x1104) == ["f"]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize(("kind", "compress"), [(1, zlib.compress), (2, zstd.compress)])
def test_compressed_symbol_tables_are_read(bits: int, endian: str, kind: int, compress: Callable[[bytes], bytes]):
    plain_file = plain(bits=bits, endian=endian).symbol("f", 0x1010, 8)  # type: ignore[arg-type]
    data, strings = plain_file._symbol_table(".symtab", {".text": 1})
    header = struct.pack(endian + ("IIQQ" if bits == 64 else "III"), kind, *([0] * (bits == 64)), len(data), 8)
    flags = b.ALLOC | b.COMPRESSED
    file = plain(bits=bits, endian=endian)  # type: ignore[arg-type]
    file.section(".symtab", header + compress(data), type=b.SYMTAB, flags=flags, link=".strtab")
    file.section(".strtab", strings, type=b.STRTAB, flags=0)
    assert at(file, 0x1010) == ["f"]


@pytest.mark.parametrize("kind", [1, 2, 99])
def test_a_section_that_cannot_be_decompressed_is_reported(kind: int):
    header = struct.pack("<IIQQ", kind, 0, 24, 8)
    file = plain().section(".symtab", header + b"nonsense", type=b.SYMTAB, flags=b.ALLOC | b.COMPRESSED)
    with pytest.raises(BadElfError, match=r"cannot decompress section '\.symtab'"):
        at(file, 0x1010)


def test_the_names_of_other_debug_files_are_in_their_sections():
    file = plain().section(".gnu_debuglink", b"prog.debug\0\0crc!", flags=0)
    file.section(".gnu_debugaltlink", b"common.dwz\0" + bytes(20), flags=0)
    read = ElfFile("x", file.build())
    assert (read.debuglink(), read.debuglink(".gnu_debugaltlink")) == ("prog.debug", "common.dwz")
    assert ElfFile("x", plain().build()).debuglink() == ""


@pytest.mark.parametrize("first", [0, 0x400000])
def test_a_library_that_prelink_moved_has_the_symbols_of_its_debug_file(first: int):
    base = first + 0x3000000000
    runtime = Elf().text(base + 0x1000, 0x1000).segment(base, 0, 0x2000).symbol("exported", base + 0x1000, 8, table=".dynsym")
    debug = Elf().section(".text", type=b.NOBITS, flags=b.ALLOC | b.EXEC, addr=first + 0x1000, offset=0x40, size=0x1000)
    debug.segment(first, 0, 0x2000).symbol("local_one", first + 0x1010, 8, binding=b.LOCAL)
    assert at(debug, 0x1010, 0x1000, runtime=runtime) == ["local_one", "-"]


def test_x32_programs_are_32_bit_files_of_64_bit_processors():
    assert at(plain(bits=32, machine=b.X86_64).symbol("f", 0x1010, 8), 0x1010) == ["f"]


def test_mini_debug_info_is_an_elf_file_inside():
    inside = plain().symbol("hidden_function", 0x1010, 8).build()
    outer = ElfFile("x", plain().section(".gnu_debugdata", lzma.compress(inside)).build())
    mini = read_mini_debug_info(outer)
    assert mini is not None
    assert elf_symbols.load(mini, outer).raw_name(0) == b"hidden_function"


def test_a_file_that_is_not_elf_is_reported():
    for data in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x07\x01" + bytes(60)):
        with pytest.raises(BadElfError, match="not an ELF file"):
            ElfFile("script", data)


def test_a_cut_file_is_reported():
    built = plain().symbol("f", 0x1010, 8).build()
    with pytest.raises(BadElfError, match="damaged"):
        ElfFile("cut", built[:0x100])


def test_every_cut_of_a_file_is_refused_or_read():
    built = plain().symbol("f", 0x1010, 8).symbol("g", 0x1020, 8, table=".dynsym").build_id("12" * 20).build()
    for size in range(0, len(built), 97):
        try:
            file = ElfFile("cut", built[:size])
            elf_symbols.load(file, file)
        except (BadElfError, ValueError):
            continue


# Names for stubs of the procedure linkage table.


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
