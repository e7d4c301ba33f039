"""Line programs are run as the standard says, whatever their bytes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.debuginfo import line_programs
from perfpy.debuginfo.sections import DebugSections
from perfpy.symbols.files.elf import ElfFile
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
)

if TYPE_CHECKING:
    from perfpy.debuginfo.line_programs import LineHeader

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
