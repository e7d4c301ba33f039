"""Line programs, run: from operations to rows of address, file and line.

What enters: the bytes of a program, and its LineHeader. What leaves: LineRows, in the program's order, one sequence after
the other. Columns, statements and so on, for which nobody asks here, are passed over. Layout: DWARF 5, section 6.2.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.debuginfo import line_operations as operations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.debuginfo.line_header import LineHeader
    from perfpy.debuginfo.line_operations import Bytes, Int64, Uint64

_END_SEQUENCE, _SET_ADDRESS = 1, 2
_ADDRESS_BYTES: Final = 8


class LineRows(NamedTuple):
    """The rows of a program: from `address` on it is this line of this file; end: where a sequence ends."""

    address: Uint64
    file: Int64
    line: Int64
    end: NDArray[np.bool_]


class _Program(NamedTuple):
    """A program's operations as columns.

    code: its bytes; start: where each begins; kind: what it is (line_operations.meanings); number: its first byte;
    ends: which of them end a sequence, by index.
    """

    code: Bytes
    start: Int64
    kind: Bytes
    number: Bytes
    ends: Int64

    def of_kind(self, kind: int) -> Int64:
        """Which operations are of a kind, by index."""
        return np.flatnonzero(self.kind == kind)


class _Extended(NamedTuple):
    """The extended operations: which of all they are, of what kind, and where and how large their operand is."""

    which: Int64
    kind: Bytes
    operand: Int64
    size: Uint64


def run(data: bytes | memoryview, header: LineHeader, endian: str, first_file: int = 1) -> LineRows:
    """The rows that a program makes; as far as it goes where it is cut. first_file: the file at the start of a sequence."""
    code = np.frombuffer(bytes(data) + operations.PADDING, np.uint8)
    start = operations.starts(code, header)
    number = code[start]
    kind = operations.meanings(header)[number]
    extended = _extended(code, start, np.flatnonzero(kind == operations.EXTENDED))
    program = _Program(code, start, kind, number, extended.which[extended.kind == _END_SEQUENCE])
    end = np.zeros(len(start), np.bool_)
    end[program.ends] = True
    rows = np.flatnonzero(end | (kind == operations.SPECIAL) | (kind == operations.COPY))
    return LineRows(
        _addresses(program, header, endian, extended)[rows],
        _files(program, first_file)[rows],
        _lines(program, header)[rows],
        end[rows],
    )


def _extended(code: Bytes, start: Int64, index: Int64) -> _Extended:
    size = operations.unsigned(code, start[index] + 1)
    last = np.flatnonzero(code < 0x80)  # of each number
    kind = last[np.searchsorted(last, start[index] + 1)] + 1
    return _Extended(index, np.where(size > 0, code[kind], np.uint8(0)), kind + 1, size - np.minimum(size, np.uint64(1)))


def _addresses(program: _Program, header: LineHeader, endian: str, extended: _Extended) -> Uint64:
    """The address after each operation."""
    advances = _operation_advances(program, header)
    fixed = program.of_kind(operations.FIXED_ADVANCE_PC)
    offset = program.start[fixed]
    low, high = (1, 2) if endian == "<" else (2, 1)
    jumps = program.code[offset + low].astype(np.uint64) | program.code[offset + high].astype(np.uint64) << np.uint64(8)
    chosen = extended.kind == _SET_ADDRESS
    index = extended.which[chosen]
    given = _operands(program.code, extended.operand[chosen], extended.size[chosen], endian)
    if header.most_operations > 1:
        of_fixed, of_given = (dict(zip(one.tolist(), two.tolist(), strict=True)) for one, two in ((fixed, jumps), (index, given)))
        return _bundled(program, header, advances, of_fixed, of_given)
    advances *= np.uint64(header.min_instruction)
    advances[fixed] += jumps
    total = np.cumsum(advances, dtype=np.uint64)
    first = np.concatenate((program.ends + 1, index))
    base = np.concatenate((-total[program.ends], given - total[index]))
    address: Uint64 = total + _held(first, base, np.uint64(0), len(total))
    return address


def _held(first: Int64, value: NDArray[Any], before: Any, count: int) -> NDArray[Any]:
    """A column of `count` operations: each value from its first operation on, up to that of the next; of equals the last counts."""
    order = np.argsort(first, kind="stable")
    first = np.concatenate(([0], np.minimum(first[order], count), [count]))
    return np.repeat(np.concatenate((np.array([before], value.dtype), value[order])), np.diff(first))


def _operation_advances(program: _Program, header: LineHeader) -> Uint64:
    """By how many operations (mostly: shortest instructions) each moves on."""
    adjusted = np.arange(256) - header.opcode_base
    table = np.where(adjusted >= 0, adjusted // header.line_range, 0).astype(np.uint64)
    if header.opcode_base > operations.CONST_ADD_PC:
        table[operations.CONST_ADD_PC] = table[255]
    advances = table[program.number]
    rows = program.of_kind(operations.ADVANCE_PC)
    advances[rows] = operations.unsigned(program.code, program.start[rows] + 1)
    return advances


def _operands(code: Bytes, offset: Int64, size: Uint64, endian: str) -> Uint64:
    """Addresses of up to eight bytes."""
    used = np.minimum(size, np.uint64(_ADDRESS_BYTES)).astype(np.int64)
    byte = np.arange(_ADDRESS_BYTES)
    matrix = code[np.minimum(offset[:, None] + byte, len(code) - 1)].astype(np.uint64)
    shift = byte[None, :] if endian == "<" else used[:, None] - 1 - byte
    inside = byte < used[:, None]
    shifted = matrix << (8 * np.where(inside, shift, 0)).astype(np.uint64)
    joined: Uint64 = np.where(inside, shifted, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return joined


def _bundled(program: _Program, header: LineHeader, advances: Uint64, jumps: dict[int, int], given: dict[int, int]) -> Uint64:
    """The addresses of a machine whose instructions hold several operations each, which count on: one after the other."""
    ends = set(program.ends.tolist())
    found, address, operation = [], 0, 0
    for index, step in enumerate(advances.tolist()):
        if index in given or index in jumps:
            address, operation = given.get(index, address + jumps.get(index, 0)), 0
        else:
            bundles, operation = divmod(operation + step, header.most_operations)
            address += header.min_instruction * bundles
        found.append(address % (1 << 64))
        if index in ends:
            address, operation = 0, 0
    return np.array(found, np.uint64)


def _files(program: _Program, first_file: int) -> Int64:
    """The number of the file after each operation."""
    sets = program.of_kind(operations.SET_FILE)
    number = operations.unsigned(program.code, program.start[sets] + 1).view(np.int64)
    first = np.concatenate((program.ends + 1, sets))
    return _held(first, np.concatenate((np.full(len(program.ends), first_file), number)), first_file, len(program.start))


def _lines(program: _Program, header: LineHeader) -> Int64:
    """The line after each operation, as a number of 32 bits."""
    adjusted = np.arange(256) - header.opcode_base
    advances = np.where(adjusted >= 0, header.line_base + adjusted % header.line_range, 0)[program.number]
    rows = program.of_kind(operations.ADVANCE_LINE)
    advances[rows] = operations.signed(program.code, program.start[rows] + 1)
    total = np.cumsum(advances)
    line: Int64 = 1 + total - _held(program.ends + 1, total[program.ends], 0, len(total))
    return line & 0xFFFFFFFF
