"""Line tables: which row an address is of, and what files are called."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.debuginfo.lines.line_table import NOTHING, LineTable
from perfpy.debuginfo.units.index import UnitIndex
from perfpy.debuginfo.units.sections import DebugSections
from perfpy.symbols.files.elf import ElfFile
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
)

if TYPE_CHECKING:
    from tests.builders.elf import Elf


def table_of(elf: Elf, *, as_addr2line: bool = False) -> LineTable:
    unit = UnitIndex(DebugSections(ElfFile("x", elf.build()))).unit(0)
    assert unit is not None
    return LineTable(unit, 0, as_addr2line=as_addr2line)


def lines_of(program: bytes, *addresses: int) -> list[int]:
    """Return the line of each address, -1 for none."""
    file, line = table_of(source_file(line_section(program))).find(np.array(addresses, np.uint64))
    return [number if of_file != NOTHING else NOTHING for of_file, number in zip(file.tolist(), line.tolist(), strict=True)]


def sequence(start: int, size: int, line: int) -> bytes:
    return set_address(start) + advance_line(line - 1) + COPY + advance_pc(size) + END


def test_a_row_holds_up_to_the_next_one() -> None:
    program = set_address(0x1000) + advance_line(9) + COPY + special(4, 1) + special(4, 1) + advance_pc(8) + END
    assert lines_of(program, 0xFFF, 0x1000, 0x1003, 0x1004, 0x1008, 0x100F, 0x1010) == [-1, 10, 10, 11, 12, 12, -1]


def test_of_rows_at_one_address_the_last_counts() -> None:
    program = set_address(0x1000) + COPY + special(0, 5) + special(0, 5) + advance_pc(4) + END
    assert lines_of(program, 0x1000) == [11]


def test_sequences_come_in_any_order_with_gaps() -> None:
    program = sequence(0x1200, 16, 3) + sequence(0x1000, 16, 1) + sequence(0x1100, 16, 2)
    assert lines_of(program, 0x1000, 0x1010, 0x1100, 0x110F, 0x1200) == [1, -1, 2, 2, 3]


def test_nested_sequences_are_dropped_and_overlaps_truncated() -> None:
    program = sequence(0x1000, 0x100, 1) + sequence(0x1010, 0x10, 2) + sequence(0x10F0, 0x20, 3)
    assert lines_of(program, 0x1010, 0x10F0, 0x1100, 0x110F, 0x1110) == [1, 1, 3, 3, -1]


def test_code_dropped_by_the_linker_has_no_lines() -> None:
    program = sequence(0, 0x1800, 7) + sequence(0x1000, 16, 1)
    assert lines_of(program, 0x10, 0x1000, 0x1020) == [-1, 1, -1]


def test_rows_are_sorted_by_address() -> None:
    program = set_address(0x1008) + advance_line(1) + COPY + set_address(0x1000) + advance_line(3) + COPY + set_address(0x1010) + END
    assert lines_of(program, 0x1000, 0x1007, 0x1008, 0x100F, 0x1010) == [5, 5, 2, 2, -1]


def test_a_program_without_rows_or_without_an_end() -> None:
    assert lines_of(b"", 0x1000) == [-1]
    assert lines_of(set_address(0x1000) + COPY + special(4, 1), 0x1000, 0x1004) == [1, -1]


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
