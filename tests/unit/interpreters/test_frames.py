"""Lines of instructions, by the tables of all versions."""

from __future__ import annotations

import dis
import sys

import pytest

from perfpy.interpreters.frames import decode_lines


def lines_of(code) -> list[tuple[int, int]]:
    """What this interpreter says of its own code: where each run of a line begins."""
    results: list[tuple[int, int]] = []
    for begin, _, line in code.co_lines():
        if not results or results[-1][1] != (line or 0):
            results.append((begin, line or 0))
    return results


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def test_tables_of_this_interpreter_agree_with_its_own_decoder():
    with open(dis.__file__, encoding="utf-8") as file:
        module = compile(file.read(), dis.__file__, "exec")
    compared = 0
    for code in codes(module):
        assert decode_lines(code.co_linetable, code.co_firstlineno, sys.version_info[:2]) == lines_of(code)
        compared += 1
    assert compared > 30


@pytest.mark.parametrize("version", [(3, 8), (3, 9)])
def test_increments_of_old_versions(version):
    # 6 bytes on line 10, 4 on line 12, then back to line 11
    assert decode_lines(bytes((6, 2, 4, 255)), 10, version) == [(0, 10), (6, 12), (10, 11)]


def test_increments_of_more_than_a_byte():
    assert decode_lines(bytes((255, 0, 45, 127, 0, 73)), 1, (3, 8)) == [(0, 1), (300, 201)]


def test_ranges_of_3_10():
    # 8 bytes on line 10, 2 without a line, 4 on line 13; a step without bytes
    assert decode_lines(bytes((8, 0, 2, 128, 0, 1, 4, 2)), 10, (3, 10)) == [(0, 10), (8, 0), (10, 13)]


def test_no_columns_and_long_forms_and_none():
    table = bytes((0x80 | 13 << 3 | 1, 2 << 1)) + bytes((0x80 | 15 << 3 | 0,)) + bytes((0x80 | 14 << 3, 1 << 1 | 1, 0, 0, 0))
    assert decode_lines(table, 5, (3, 12)) == [(0, 7), (4, 0), (6, 6)]


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 11), (3, 13)])
def test_damaged_tables_end(version):
    for length in range(1, 40):
        for byte in (0, 0x7F, 0x80, 0xF0, 0xFF):
            lines = decode_lines(bytes([byte]) * length, 1 << 30, version)
            assert all(0 <= line < 1 << 31 for _, line in lines)
            assert [offset for offset, _ in lines] == sorted({offset for offset, _ in lines})
