"""Source lines of whole files: units, symbol tables, compressed sections, and damage that stays where it is."""

from __future__ import annotations

import random
import struct
import time
import zlib

import numpy as np
import pytest

from perfpy.debuginfo import sections, source_lines
from perfpy.debuginfo.kept_answers import link_addresses
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import NOTHING, LineTable, SourceLines, SymbolFiles
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.jitdump import CodeLine, debug_sections
from tests.builders.elf import AARCH64, ABS, COMPRESSED, FILE, LOCAL, NOTYPE, Elf
from tests.builders.line_programs import (
    COPY,
    END,
    advance_line,
    advance_pc,
    line_section,
    set_address,
    set_file,
    source_file,
    special,
    unit,
)

PROGRAM = set_address(0x1000) + advance_line(9) + COPY + special(4, 1) + advance_pc(8) + END


def lines_of(file: ElfFile, *addresses: int) -> list[str]:
    """Return FILE:LINE of each address, "" if unknown."""
    lines = SourceLines(UnitIndex(DebugSections(file)))
    position = lines.find(np.array(addresses, np.uint64))
    return [
        f"{lines.paths[path]}:{line}" if path >= 0 else ""
        for path, line in zip(position.file.tolist(), position.line.tolist(), strict=True)
    ]


def test_each_address_is_looked_up_in_its_unit() -> None:
    first = line_section(PROGRAM, [("one.c", 0)])
    second = line_section(set_address(0x1800) + COPY + advance_pc(4) + END, [("two.c", 0)])
    units = unit(0, 0x1000, 0x100) + unit(len(first), 0x1800, 0x100, "/other")
    file = ElfFile("x", source_file(first + second, units).build())
    assert lines_of(file, 0x1800, 0x1000, 0x1004, 0x1900) == ["/other/two.c:1", "/build/one.c:10", "/build/one.c:11", ""]


def test_lines_in_compressed_sections() -> None:
    lines = line_section(PROGRAM)
    header = struct.pack("<IIQQ", 1, 0, len(lines), 1)
    packed = Elf().text()
    packed.section(".debug_line", header + zlib.compress(lines), flags=COMPRESSED)
    old = Elf().text().section(".zdebug_line", b"ZLIB" + struct.pack(">Q", len(lines)) + zlib.compress(lines), flags=0)
    plain = source_file(lines)
    for elf in (packed, old):
        for section in plain._sections:
            if section.name in (".debug_info", ".debug_abbrev"):
                elf.section(section.name, section.data, flags=0)
        assert lines_of(ElfFile("x", elf.build()), 0x1004) == ["/build/a.c:11"]


def test_the_symbol_table_names_the_file_of_code_without_lines() -> None:
    """As in addr2line: local functions belong to the preceding file entry, global ones to none if there are several."""
    elf = source_file(line_section(PROGRAM))
    elf.symbol("start.o", 0, type=FILE, binding=LOCAL, section=ABS).symbol("local", 0x1100, 16, binding=LOCAL)
    elf.symbol("b.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("other", 0x1200, binding=LOCAL).symbol("global", 0x1300, 16)
    file = ElfFile("x", elf.build())
    assert lines_of(file, 0x1000, 0x1020, 0x1100, 0x1180, 0x1250, 0x1300, 0x3000) == [
        "/build/a.c:10", "", "start.o:0", "start.o:0", "b.c:0", "??:0", "",
    ]  # fmt: skip


def test_of_symbols_at_one_address_the_one_that_fits_names_the_file() -> None:
    elf = Elf().text()
    elf.symbol("short.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("short", 0x1100, 4, binding=LOCAL)
    elf.symbol("long.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("long", 0x1100, 64, binding=LOCAL)
    elf.symbol("label.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("label", 0x1100, 2, type=NOTYPE, binding=LOCAL)
    files = SymbolFiles(ElfFile("x", elf.build()))
    assert [files.name(address) for address in (0x1101, 0x1108, 0x1200)] == ["short.c", "long.c", "long.c"]


def test_mapping_symbols_are_not_functions() -> None:
    elf = Elf(machine=AARCH64).text().symbol("start.o", 0, type=FILE, binding=LOCAL, section=ABS)
    elf.symbol("$x", 0x1100, type=NOTYPE, binding=LOCAL).symbol("main", 0x1000, 64)
    elf.symbol("end.o", 0, type=FILE, binding=LOCAL, section=ABS).symbol("$d", 0x1200, type=NOTYPE, binding=LOCAL)
    assert SymbolFiles(ElfFile("x", elf.build())).name(0x1204) == "start.o"


def test_a_file_without_line_programs_has_no_files_either() -> None:
    """perf does not look up lines then, so files of the symbol table do not count."""
    file = ElfFile("x", Elf().text().symbol("a.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("f", 0x1100, binding=LOCAL).build())
    assert lines_of(file, 0x1100) == [""]


def test_a_damaged_program_is_noted_and_others_stay() -> None:
    good = line_section(PROGRAM, [("good.c", 0)])
    bad = line_section(PROGRAM)[:4] + b"\xff\xff"
    units = unit(0, 0x1000, 0x100) + unit(len(good), 0x1800, 0x100) + unit(1 << 30, 0x1900, 0x100)
    file = ElfFile("x", source_file(good + bad, units).build())
    assert lines_of(file, 0x1000, 0x1800, 0x1900) == ["/build/good.c:10", "", ""]
    assert len(file.flaws) == 2
    assert "version 65535" in file.flaws[0]


def test_offsets_become_addresses_by_the_segments() -> None:
    elf = Elf().text(0x401000, 0x1000).segment(0x400000, 0, 0x2000).segment(0x700000, 0x3000, 0x100)
    offsets = np.array([0x1000, 0x1FFF, 0x3010, 0x5000], np.uint64)
    assert link_addresses(ElfFile("x", elf.build()), offsets).tolist() == [0x401000, 0x401FFF, 0x700010, 0x405000]
    unmapped = Elf().text(0x401000, 0x1000)
    assert link_addresses(ElfFile("x", unmapped.build()), offsets[:1]).tolist() == [0x401000]


def test_any_damage_causes_bounded_work_and_no_traceback() -> None:
    """Changed bytes, huge sizes and numbers lead to a quick answer and at most some flaws."""
    chance = random.Random(3)
    lines = line_section(PROGRAM, [("a.c", 0), ("b.c", 1)], ["sub"], version=5)
    image = bytearray(source_file(lines).symbol("a.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("f", 0x1100, binding=LOCAL).build())
    start = image.index(lines)
    began = time.process_time()
    for _ in range(600):
        damaged = bytearray(image)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(start, start + len(lines) + 120)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        file = ElfFile("x", bytes(damaged))
        assert len(lines_of(file, 0x1000, 0x1004, 0x1108, 0x10000)) == 4
    assert time.process_time() - began < 60


def test_the_oldest_tables_are_dropped_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "_ROWS_MOST", 3)
    first = line_section(PROGRAM, [("one.c", 0)])
    second = line_section(set_address(0x1800) + COPY + advance_pc(4) + END, [("two.c", 0)])
    units = unit(0, 0x1000, 0x100) + unit(len(first), 0x1800, 0x100)
    lines = SourceLines(UnitIndex(DebugSections(ElfFile("x", source_file(first + second, units).build()))))
    for address in (0x1000, 0x1800, 0x1000):
        assert lines.find(np.array([address], np.uint64)).line.tolist() == [10 if address == 0x1000 else 1]
        assert len(lines._tables_read) == 1


def test_units_with_overlapping_programs_cause_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program begins a little later in the section, and extends to its end."""
    monkeypatch.setattr(sections, "WORK_MOST", 1000)
    lines = b"".join(line_section(COPY * 1000) for _ in range(20))
    size = len(lines) // 20
    units = b"".join(unit(number * size, 0x1000 + number, 1) for number in range(20))
    file = ElfFile("x", source_file(lines, units).build())
    assert lines_of(file, *range(0x1000, 0x1014)).count("") > 5
    assert "in a circle" in file.flaws[0]


@pytest.mark.parametrize("endian", "<>")
def test_lines_of_a_jitdump_are_read_back(endian: str) -> None:
    code_lines = [CodeLine(0x1000, "/app/main.js", 7), CodeLine(0x1010, "/app/lib.js", 3), CodeLine(0x1020, "/app/main.js", 70_000)]
    elf = Elf(endian=endian).text()
    for name, data in debug_sections(code_lines, 0x1000, 0x40, endian).items():
        elf.section(name.decode(), data, flags=0)
    assert lines_of(ElfFile("x", elf.build()), 0x1000, 0x101F, 0x103F, 0x1040) == [
        "/app/main.js:7",
        "/app/lib.js:3",
        "/app/main.js:70000",
        "",
    ]


# Line tables: which row an address is of, and what files are called.


def table_of(elf: Elf, *, as_addr2line: bool = False) -> LineTable:
    unit = UnitIndex(DebugSections(ElfFile("x", elf.build()))).unit(0)
    assert unit is not None
    return LineTable(unit, 0, as_addr2line=as_addr2line)


def lines_of_of_line_table(program: bytes, *addresses: int) -> list[int]:
    """Return the line of each address, -1 for none."""
    file, line = table_of(source_file(line_section(program))).find(np.array(addresses, np.uint64))
    return [number if of_file != NOTHING else NOTHING for of_file, number in zip(file.tolist(), line.tolist(), strict=True)]


def sequence(start: int, size: int, line: int) -> bytes:
    return set_address(start) + advance_line(line - 1) + COPY + advance_pc(size) + END


def test_a_row_holds_up_to_the_next_one() -> None:
    program = set_address(0x1000) + advance_line(9) + COPY + special(4, 1) + special(4, 1) + advance_pc(8) + END
    assert lines_of_of_line_table(program, 0xFFF, 0x1000, 0x1003, 0x1004, 0x1008, 0x100F, 0x1010) == [-1, 10, 10, 11, 12, 12, -1]


def test_of_rows_at_one_address_the_last_counts() -> None:
    program = set_address(0x1000) + COPY + special(0, 5) + special(0, 5) + advance_pc(4) + END
    assert lines_of_of_line_table(program, 0x1000) == [11]


def test_sequences_come_in_any_order_with_gaps() -> None:
    program = sequence(0x1200, 16, 3) + sequence(0x1000, 16, 1) + sequence(0x1100, 16, 2)
    assert lines_of_of_line_table(program, 0x1000, 0x1010, 0x1100, 0x110F, 0x1200) == [1, -1, 2, 2, 3]


def test_nested_sequences_are_dropped_and_overlaps_truncated() -> None:
    program = sequence(0x1000, 0x100, 1) + sequence(0x1010, 0x10, 2) + sequence(0x10F0, 0x20, 3)
    assert lines_of_of_line_table(program, 0x1010, 0x10F0, 0x1100, 0x110F, 0x1110) == [1, 1, 3, 3, -1]


def test_code_dropped_by_the_linker_has_no_lines() -> None:
    program = sequence(0, 0x1800, 7) + sequence(0x1000, 16, 1)
    assert lines_of_of_line_table(program, 0x10, 0x1000, 0x1020) == [-1, 1, -1]


def test_rows_are_sorted_by_address() -> None:
    program = set_address(0x1008) + advance_line(1) + COPY + set_address(0x1000) + advance_line(3) + COPY + set_address(0x1010) + END
    assert lines_of_of_line_table(program, 0x1000, 0x1007, 0x1008, 0x100F, 0x1010) == [5, 5, 2, 2, -1]


def test_a_program_without_rows_or_without_an_end() -> None:
    assert lines_of_of_line_table(b"", 0x1000) == [-1]
    assert lines_of_of_line_table(set_address(0x1000) + COPY + special(4, 1), 0x1000, 0x1004) == [1, -1]


def test_paths_have_the_folder_and_the_units_folder() -> None:
    files = [("own.c", 0), ("/abs.c", 1), ("below.c", 1), ("system.h", 2), ("", 0)]
    folders = ["sub", "/usr/include"]
    elf = source_file(line_section(COPY + END, files, folders), comp_dir="/build")
    table = table_of(elf)
    assert [table.path(number) for number in range(7)] == [
        "<unknown>",
        "/build/own.c",
        "/abs.c",
        "/build/sub/below.c",
        "/usr/include/system.h",
        "<unknown>",
        "<unknown>",
    ]


@pytest.mark.parametrize(("as_addr2line", "path"), [(False, "./elf/rtld.c"), (True, "./elf/./elf/rtld.c")])
def test_files_of_version_5_count_from_0(as_addr2line: bool, path: str) -> None:
    files = [("rtld.c", 0), ("dl.h", 1)]
    elf = source_file(line_section(COPY + END, files, ["./elf", "/inc"], version=5), comp_dir="./elf")
    table = table_of(elf, as_addr2line=as_addr2line)
    assert [table.path(0), table.path(1), table.path(2)] == [path, "/inc/dl.h", "<unknown>"]


@pytest.mark.parametrize(("version", "as_addr2line", "first"), [(5, False, 1), (5, True, 0), (4, False, 1), (4, True, 1)])
def test_sequences_of_version_5_begin_in_file_1_but_not_for_addr2line(version: int, as_addr2line: bool, first: int) -> None:
    program = set_address(0x1000) + COPY + advance_pc(4) + set_file(2) + COPY + advance_pc(4) + END
    table = table_of(
        source_file(line_section(program, [("a.c", 0), ("b.c", 0), ("c.c", 0)], [""], version=version)), as_addr2line=as_addr2line
    )
    assert table.find(np.array([0x1000, 0x1004], np.uint64))[0].tolist() == [first, 2]


def names_5(forms: bytes, value: bytes) -> bytes:
    """Tables of version 5: no folder, and one file whose name has a given form."""
    return b"\0\0" + bytes((1, 1)) + forms + b"\1" + value


@pytest.mark.parametrize("endian", "<>")
def test_names_are_strings_of_all_kinds(endian: str) -> None:
    word = struct.pack(endian + "I", 4)
    for forms, value in ((b"\x1f", word), (b"\x0e", word), (b"\x1a", b"\1"), (b"\x25", b"\1"), (b"\x08", b"name.c\0")):
        section = line_section(COPY + END, version=5, endian=endian, tables=names_5(forms, value))
        elf = source_file(section, endian=endian, comp_dir="").section(".debug_line_str", b"xyz\0name.c\0", flags=0)
        elf.section(".debug_str", b"xyz\0name.c\0", flags=0).section(".debug_str_offsets", struct.pack(endian + "II", 0, 4), flags=0)
        assert table_of(elf).path(0) == "name.c"


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (b"\0\0" + bytes((1, 1, 8)) + b"\xff\xff\xff\xff\x7f", "a table of"),
        (b"\0\0" + bytes((1, 1, 0x0C)) + b"\1a\0", "values of form 0xc"),
        (b"\0\0" + b"\0" + b"\xff\xff\x03", "a table of"),
        (b"\0\0" + bytes((1, 1, 0x0F)) + b"\1\5", "should name a file"),
    ],
    ids=("count", "form", "entries without anything", "number"),
)
def test_damaged_tables_of_names_are_refused(tables: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table_of(source_file(line_section(COPY + END, version=5, tables=tables)))


def test_headers_that_make_no_sense_are_refused() -> None:
    good = line_section(COPY + END)
    for section, words in (
        (b"\x03\0\0\0\x09\0\0", "of version 9"),
        (good[:4] + b"\x01\0" + good[6:], "of version 1"),
        (b"\xf5\xff\xff\xff" + good[4:], "of length 0xfffffff5"),
        (line_section(COPY, line_range=0), "advance no line"),
        (good[:9], "has 9 bytes"),
    ):
        with pytest.raises((ValueError, IndexError), match=words):
            table_of(source_file(section))
