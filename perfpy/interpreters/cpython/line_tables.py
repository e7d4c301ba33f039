"""Decode the line tables of code objects.

Lines are (offset in bytes, line) pairs, ascending: a line holds from its offset to the next one; line 0 means none. Tables are co_lnotab
(3.8, 3.9) or co_linetable (later). Layouts: Objects/lnotab_notes.txt, and since 3.11 Objects/locations.md (InternalDocs/code_objects.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

Lines = list[tuple[int, int]]

NO_LINE: Final = 0
_MOST_LINES: Final = 1 << 31
_UNIT: Final = 2  # bytes of an instruction
_NO_LINE_DELTA: Final = -128
_SHORT_FORMS: Final = 10  # codes below have a column byte and stay on their line
_ONE_LINE: Final = range(10, 13)
_NO_COLUMNS: Final = 13
_LONG: Final = 14
_LONGEST_VARINT: Final = 7  # groups of six bits


def decode_lines(table: bytes, first_line: int, version: tuple[int, int]) -> Lines:
    """Return the lines of a code object; of a damaged table, those before the damage."""
    if version >= (3, 11):
        pairs = _locations(table, first_line)
    elif version == (3, 10):
        pairs = _ranges(table, first_line)
    else:
        pairs = _increments(table, first_line)
    lines: Lines = []
    for offset, line in pairs:
        valid_line = line if 0 < line < _MOST_LINES else NO_LINE
        if lines and lines[-1][0] == offset:
            lines[-1] = (offset, valid_line)
        elif not lines or lines[-1][1] != valid_line:
            lines.append((offset, valid_line))
    return lines


def _increments(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Decode co_lnotab: pairs of an unsigned step in bytes and a signed step in lines."""
    offset = 0
    yield offset, line
    for index in range(0, len(table) - 1, 2):
        offset += table[index]
        line += _signed_byte(table[index + 1])
        yield offset, line


def _ranges(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Decode 3.10's co_linetable: a signed step in lines, then the length of its range in bytes."""
    offset = 0
    for index in range(0, len(table) - 1, 2):
        step = _signed_byte(table[index + 1])
        if step == _NO_LINE_DELTA:
            yield offset, NO_LINE
        else:
            line += step
            if table[index]:
                yield offset, line
        offset += table[index]


def _locations(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Decode the location table of 3.11 and later."""
    offset = position = 0
    while position < len(table):
        head = table[position]
        position += 1
        code = head >> 3 & 15
        entry_line: int | None = line
        if code < _SHORT_FORMS:
            position += 1
        elif code in _ONE_LINE:
            entry_line = line = line + code - _ONE_LINE[0]
            position += 2
        elif code in (_NO_COLUMNS, _LONG):
            step, position = _varint(table, position)
            entry_line = line = line + (-(step >> 1) if step & 1 else step >> 1)
            for _ in range(3 if code == _LONG else 0):
                _, position = _varint(table, position)
        else:
            entry_line = None
        yield offset, NO_LINE if entry_line is None else entry_line
        offset += ((head & 7) + 1) * _UNIT


def _varint(table: bytes, position: int) -> tuple[int, int]:
    value = 0
    for group in range(_LONGEST_VARINT):
        byte = table[position] if position < len(table) else 0
        position += 1
        value |= (byte & 63) << 6 * group
        if not byte & 64:
            break
    return value, position


def _signed_byte(value: int) -> int:
    return value - 256 if value > 127 else value
