"""Source lines of whole files: units, symbol tables, compressed sections, and damage that stays where it is."""

from __future__ import annotations

import random
import struct
import time
import zlib

import numpy as np
import pytest

from perfpy.debuginfo.addresses import link_addresses
from perfpy.debuginfo.lines import source_lines
from perfpy.debuginfo.lines.source_lines import SourceLines
from perfpy.debuginfo.symbol_files import SymbolFiles
from perfpy.debuginfo.units import sections
from perfpy.debuginfo.units.index import UnitIndex
from perfpy.debuginfo.units.sections import DebugSections
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.providers.jit_lines import CodeLine, debug_sections
from tests.builders.elf import AARCH64, ABS, COMPRESSED, FILE, LOCAL, NOTYPE, Elf
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, source_file, special, unit

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
