"""Line programs of DWARF, and the source lines of addresses."""

from __future__ import annotations

import itertools
import os
import random
import struct
import time
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.debuginfo import line_programs, sections, source_lines
from perfpy.debuginfo.kept_answers import link_addresses
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import NOTHING, GeneratedLines, LineTable, SourceLines, SymbolFiles
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.jitdump import CodeLine, debug_sections
from tests.builders.elf import AARCH64, ABS, COMPRESSED, FILE, LOCAL, NOTYPE, Elf
from tests.builders.line_programs import (
    BASIC_BLOCK,
    CONST_ADD_PC,
    COPY,
    END,
    EPILOGUE_BEGIN,
    NEGATE,
    OPERANDS,
    PROLOGUE_END,
    advance_line,
    advance_pc,
    extended,
    line_section,
    set_address,
    set_column,
    set_file,
    source_file,
    special,
    unit,
)

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.debuginfo.line_programs import LineHeader


# Line programs are run as the standard says, whatever their bytes.


Row = tuple[int, int, int, bool]
StatementRow = tuple[int, int, int, bool, bool]


def header_of(section: bytes, endian: str = "<") -> LineHeader:
    return line_programs.read(DebugSections(ElfFile("x", source_file(section, endian=endian).build())), 0)


def rows_of(program: bytes, **options: object) -> list[Row]:
    """Return the rows of a program without the statement column."""
    return [row[:4] for row in statement_rows(program, **options)]  # type: ignore[arg-type]


def statement_rows(program: bytes, *, endian: str = "<", first_file: int = 1, **options: object) -> list[StatementRow]:
    section = line_section(program, endian=endian, **options)  # type: ignore[arg-type]
    header = header_of(section, endian)
    result = line_programs.LineMachine(header, endian, first_file).run(section[header.program : header.end])
    return list(zip(*(column.tolist() for column in result), strict=True))


def one_by_one(program: bytes, header: LineHeader, endian: str = "<") -> list[StatementRow]:  # noqa: C901  one branch an operation
    """Compute the rows in a loop over operations, literally as the standard describes it."""
    results: list[StatementRow] = []
    address, operation, file, line = 0, 0, 1, 1
    offset, statement = 0, header.begins_statements

    def number(offset: int) -> tuple[int, int, int]:
        value = shift = 0
        while True:
            byte = program[offset]
            value |= (byte & 0x7F) << shift
            shift += 7
            offset += 1
            if byte < 0x80:
                return value % (1 << 64), (value - (1 << shift) if byte & 0x40 else value), offset

    def advance(count: int) -> None:
        nonlocal address, operation
        bundles, operation = divmod(operation + count, header.most_operations)
        address = (address + header.min_instruction * bundles) % (1 << 64)

    def row(*, end: bool = False) -> None:
        results.append((address, min(file, (1 << 31) - 1), line % (1 << 32), end, statement))

    with_number = {number + 1: count for number, count in enumerate(header.operands)}
    try:
        while offset < len(program):
            code = program[offset]
            offset += 1
            if code >= header.opcode_base:
                advance((code - header.opcode_base) // header.line_range)
                line += header.line_base + (code - header.opcode_base) % header.line_range
                row()
            elif code == 0:
                size, _, offset = number(offset)
                if offset + size > len(program):
                    return results
                kind = program[offset] if size else -1
                if kind == 1:
                    row(end=True)
                    address, operation, file, line = 0, 0, 1, 1
                    statement = header.begins_statements
                elif kind == 2:
                    operand = program[offset + 1 : offset + size][:8]
                    address, operation = int.from_bytes(operand, "little" if endian == "<" else "big"), 0
                offset += size
            elif code == 1:
                row()
            elif code == 2:
                count, _, offset = number(offset)
                advance(count)
            elif code == 3:
                _, count, offset = number(offset)
                line += count
            elif code == 4:
                file, _, offset = number(offset)
            elif code == 6:
                statement = not statement
            elif code in (5, 12):
                _, _, offset = number(offset)
            elif code == 8:
                advance((255 - header.opcode_base) // header.line_range)
            elif code == 9:
                if offset + 2 > len(program):
                    return results
                address = (address + int.from_bytes(program[offset : offset + 2], "little" if endian == "<" else "big")) % (1 << 64)
                operation = 0
                offset += 2
            elif code > 12:
                for _ in range(with_number[code]):
                    _, _, offset = number(offset)
    except IndexError:
        pass
    return results


@pytest.mark.parametrize(("version", "endian", "long"), [*itertools.product((2, 3, 4, 5), "<>", (False, True))])
def test_every_version_byte_order_and_size_gives_the_same_rows(version: int, endian: str, long: bool) -> None:
    program = set_address(0x1000, endian) + advance_line(9) + COPY + special(4, 2) + set_file(2) + special(0, -3) + advance_pc(300) + END
    rows = rows_of(program, endian=endian, version=version, long=long)
    assert rows == [(0x1000, 1, 10, False), (0x1004, 1, 12, False), (0x1004, 2, 9, False), (0x1130, 2, 9, True)]


def test_other_operations_change_no_rows() -> None:
    marks = set_column(700) + NEGATE + BASIC_BLOCK + PROLOGUE_END + EPILOGUE_BEGIN + b"\x0c" + b"\x85\x01"
    discriminator, file_definition, vendor = extended(4, b"\x90\x01"), extended(3, b"x.c\0\0\0\0"), extended(0x80, b"\1\2\0\0\3")
    rows = rows_of(set_address(16) + marks + COPY + discriminator + file_definition + vendor + special(1, 1) + END)
    assert rows == [(16, 1, 1, False), (17, 1, 2, False), (17, 1, 2, True)]


def test_rows_mark_the_begin_of_a_statement() -> None:
    rows = statement_rows(set_address(16) + COPY + NEGATE + special(1, 1) + NEGATE + special(1, 1) + NEGATE + END + COPY)
    assert [row[4] for row in rows] == [True, False, True, False, True]


def test_constant_and_fixed_advances() -> None:
    rows = rows_of(CONST_ADD_PC + COPY + b"\x09\x34\x12" + COPY + END, shortest=2)
    assert [row[0] for row in rows] == [2 * 17, 2 * 17 + 0x1234, 2 * 17 + 0x1234]
    assert rows_of(b"\x09\x12\x34" + COPY, endian=">")[0][0] == 0x1234


def test_a_sequence_resets_the_registers() -> None:
    rows = rows_of(set_address(16) + set_file(3) + advance_line(-7) + COPY + END + COPY)
    assert rows == [(16, 3, (1 << 32) - 6, False), (16, 3, (1 << 32) - 6, True), (0, 1, 1, False)]
    assert rows_of(COPY + set_file(3) + COPY + END + COPY, first_file=0)[3] == (0, 0, 1, False)


def test_few_standard_operations_leave_more_special_ones() -> None:
    """DWARF 2 has nine, others are special; the header has the operand counts of unknown ones."""
    assert rows_of(bytes([10 + 5]), operands=OPERANDS[:9]) == [(0, 1, 1, False)]
    assert rows_of(b"\x0d\x81\x01\x02" + COPY, operands=OPERANDS + b"\2") == [(0, 1, 1, False)]


def test_instructions_that_hold_several_operations() -> None:
    program = set_address(0x100) + advance_pc(2) + COPY + advance_pc(2) + COPY + b"\x09\x10\0" + COPY + advance_pc(4) + END
    assert [row[0] for row in rows_of(program, operations=3, shortest=16)] == [0x100, 0x110, 0x120, 0x130]


def test_set_address_has_its_own_size() -> None:
    rows = rows_of(set_address(0x1234, size=2) + COPY + set_address(0x89ABCDEF, size=4) + COPY)
    assert [row[0] for row in rows] == [0x1234, 0x89ABCDEF]


@settings(deadline=None)
@given(
    st.binary(max_size=200),
    st.integers(0, 20).map(lambda count: bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0, 3, 1, 0, 1, 0, 255))[:count]),
    st.sampled_from("<>"),
    st.sampled_from((1, 3)),
)
def test_any_bytes_give_the_rows_of_a_loop(program: bytes, operands: bytes, endian: str, operations: int) -> None:
    section = line_section(program, operands=operands, endian=endian, operations=operations)
    assert statement_rows(program, operands=operands, endian=endian, operations=operations) == one_by_one(
        program, header_of(section, endian), endian
    )


@given(
    st.lists(st.sampled_from((COPY, advance_pc(1000), set_address(1 << 40), special(3, 4), extended(0x80, bytes(90)), END)), max_size=60)
)
def test_long_programs_are_read_in_windows(parts: list[bytes]) -> None:
    program = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_programs, "_WINDOW", 32)
        assert statement_rows(program) == one_by_one(program, header_of(line_section(program)))


def test_a_truncated_program_has_the_rows_before_the_end() -> None:
    program = set_address(0x1000) + advance_line(300) + special(1, 1) + set_file(200) + special(2, 2) + advance_pc(5000) + END
    whole = rows_of(program)
    for size in range(len(program)):
        assert rows_of(program[:size]) == whole[: len(rows_of(program[:size]))]


def test_an_unterminated_number_ends_the_program() -> None:
    assert rows_of(COPY + b"\x02" + b"\x80" * 100_000 + b"\0" + COPY)[:1] == [(0, 1, 1, False)]


# Source lines of whole files: units, symbol tables, compressed sections, and damage that stays where it is.


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


def line_table_rows(program: bytes, *addresses: int) -> list[int]:
    """Return the line of each address, -1 for none."""
    file, line = table_of(source_file(line_section(program))).find(np.array(addresses, np.uint64))
    return [number if of_file != NOTHING else NOTHING for of_file, number in zip(file.tolist(), line.tolist(), strict=True)]


def sequence(start: int, size: int, line: int) -> bytes:
    return set_address(start) + advance_line(line - 1) + COPY + advance_pc(size) + END


def test_a_row_holds_up_to_the_next_one() -> None:
    program = set_address(0x1000) + advance_line(9) + COPY + special(4, 1) + special(4, 1) + advance_pc(8) + END
    assert line_table_rows(program, 0xFFF, 0x1000, 0x1003, 0x1004, 0x1008, 0x100F, 0x1010) == [-1, 10, 10, 11, 12, 12, -1]


def test_of_rows_at_one_address_the_last_counts() -> None:
    program = set_address(0x1000) + COPY + special(0, 5) + special(0, 5) + advance_pc(4) + END
    assert line_table_rows(program, 0x1000) == [11]


def test_sequences_come_in_any_order_with_gaps() -> None:
    program = sequence(0x1200, 16, 3) + sequence(0x1000, 16, 1) + sequence(0x1100, 16, 2)
    assert line_table_rows(program, 0x1000, 0x1010, 0x1100, 0x110F, 0x1200) == [1, -1, 2, 2, 3]


def test_nested_sequences_are_dropped_and_overlaps_truncated() -> None:
    program = sequence(0x1000, 0x100, 1) + sequence(0x1010, 0x10, 2) + sequence(0x10F0, 0x20, 3)
    assert line_table_rows(program, 0x1010, 0x10F0, 0x1100, 0x110F, 0x1110) == [1, 1, 3, 3, -1]


def test_code_dropped_by_the_linker_has_no_lines() -> None:
    program = sequence(0, 0x1800, 7) + sequence(0x1000, 16, 1)
    assert line_table_rows(program, 0x10, 0x1000, 0x1020) == [-1, 1, -1]


def test_rows_are_sorted_by_address() -> None:
    program = set_address(0x1008) + advance_line(1) + COPY + set_address(0x1000) + advance_line(3) + COPY + set_address(0x1010) + END
    assert line_table_rows(program, 0x1000, 0x1007, 0x1008, 0x100F, 0x1010) == [5, 5, 2, 2, -1]


def test_a_program_without_rows_or_without_an_end() -> None:
    assert line_table_rows(b"", 0x1000) == [-1]
    assert line_table_rows(set_address(0x1000) + COPY + special(4, 1), 0x1000, 0x1004) == [1, -1]


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


# Lines of C that Cython generated.


GENERATED = """/* Generated by Cython 3.1.0 */
#define X
  /* "package/shapes.pyx":7
 * def area(): # <<<
 */
static int area(void) {
    /* "package/shapes.pyx":8
 *     return 1
 */
    return 1;
}
"""


def test_lines_of_generated_c_are_those_of_its_source(tmp_path: Path) -> None:
    (tmp_path / "shapes.c").write_text(GENERATED)
    (tmp_path / "plain.c").write_text(GENERATED.partition("\n")[2])
    source, generated = str(tmp_path / "shapes.pyx"), str(tmp_path / "shapes.c")
    lines = GeneratedLines()
    found = [lines.find(generated, line) for line in (2, 3, 6, 7, 10, 1000)]
    assert found == [(generated, 2), (source, 7), (source, 7), (source, 8), (source, 8), (source, 8)]
    for path in (str(tmp_path / "plain.c"), str(tmp_path / "missing.c"), str(tmp_path), "/dev/zero.c", "shapes.py", ""):
        assert lines.find(path, 8) == (path, 8)


def test_generated_files_that_are_no_files_or_large_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "waits.c")
    with open(tmp_path / "large.c", "w") as file:
        file.write(GENERATED)
        file.truncate(1 << 40)
    for name in ("waits.c", "large.c"):
        assert GeneratedLines().find(str(tmp_path / name), 8) == (str(tmp_path / name), 8)
