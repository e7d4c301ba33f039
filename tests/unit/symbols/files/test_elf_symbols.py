"""Which entries of symbol tables count, at which file offsets, and which of several wins."""

from __future__ import annotations

import lzma
import struct
import sys
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.compressed_files import read_mini_debug_info
from perfpy.symbols.files.elf import BadElfError, ElfFile
from tests.builders import elf as b
from tests.builders.elf import Elf

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
