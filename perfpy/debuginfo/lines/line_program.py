"""Run line programs: operations to rows of address, file and line.

LineRows are in the program's order, one sequence after the other. Columns are skipped. Layout: DWARF 5, section 6.2.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.lines import line_operations as operations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.debuginfo.lines.line_header import LineHeader
    from perfpy.debuginfo.lines.line_operations import Bytes, Int64, Uint64

_END_SEQUENCE, _SET_ADDRESS = 1, 2
_ADDRESS_BYTES: Final = 8
_FILE_MOST: Final = (1 << 31) - 1  # more files than any program has


class LineRows(NamedTuple):
    """The rows of a program: from `address` on, code is from `line` of `file`. `end` marks the ends of sequences.

    `statement` marks rows where a debugger or a probe may stop: the code before them has no part in the line.
    """

    address: Uint64
    file: NDArray[np.int32]
    line: NDArray[np.uint32]
    end: NDArray[np.bool_]
    statement: NDArray[np.bool_]


class _Registers(NamedTuple):
    """The registers of the line-number state machine. `operation` is the index within a VLIW instruction."""

    file: int
    address: int = 0
    operation: int = 0
    line: int = 1
    statement: bool = True


class _Operations(NamedTuple):
    """Consecutive operations of a program as columns.

    Attributes:
        code: the program's bytes.
        start: the offset of each operation.
        number: the first byte of each operation.
        kind: the kind of each operation (line_operations.meanings).
        ends: indices of operations that end a sequence.
        sets: indices of operations that set the address.
        addresses: the addresses that they set.
    """

    code: Bytes
    start: Int64
    number: Bytes
    kind: Bytes
    ends: Int64
    sets: Int64
    addresses: Uint64

    def of_kind(self, kind: int) -> Int64:
        """Return the indices of operations of a kind."""
        return np.flatnonzero(self.kind == kind)


class LineMachine:
    """The state machine for programs with one header. `first_file` is the file at the start of a sequence."""

    def __init__(self, header: LineHeader, endian: str, first_file: int = 1) -> None:
        self._header = header
        self._endian = endian
        self._first = _Registers(first_file, statement=header.begins_statements)
        self._meanings = operations.meanings(header)
        adjusted = np.arange(256) - header.opcode_base
        special = adjusted >= 0
        self._advances = np.where(special, adjusted // header.line_range, 0).astype(np.uint64)
        if header.opcode_base > operations.CONST_ADD_PC:
            self._advances[operations.CONST_ADD_PC] = self._advances[255]
        self._lines = np.where(special, header.line_base + adjusted % header.line_range, 0)

    def run(self, data: bytes | memoryview) -> LineRows:
        """Return the rows of a program, up to its end if it is truncated."""
        code = np.frombuffer(bytes(data) + operations.PADDING, np.uint8)
        flags = np.zeros(0, np.bool_)
        parts = [LineRows(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.uint32), flags, flags)]
        registers = self._first
        for start in operations.windows(code, self._header):
            if len(start):
                rows, registers = self._part(self._operations(code, start), registers)
                parts.append(rows)
        return LineRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _operations(self, code: Bytes, start: Int64) -> _Operations:
        number = code[start]
        kind = self._meanings[number]
        extended = np.flatnonzero(kind == operations.EXTENDED)
        size, after = operations.unsigned_with_end(code, start[extended] + 1)
        extended_number = np.where((size > 0) & (after > start[extended] + 1), code[after], np.uint8(0))
        sets = np.flatnonzero(extended_number == _SET_ADDRESS)
        addresses = _addresses_of(code, after[sets] + 1, size[sets] - np.uint64(1), self._endian)
        return _Operations(code, start, number, kind, extended[extended_number == _END_SEQUENCE], extended[sets], addresses)

    def _part(self, part: _Operations, before: _Registers) -> tuple[LineRows, _Registers]:
        """Return the rows of consecutive operations, and the registers after the last one."""
        (address, operation), file, line = (
            self._address_column(part, before),
            self._file_column(part, before),
            self._line_column(part, before),
        )
        statement = self._statement_column(part, before)
        end = np.zeros(len(part.start), np.bool_)
        end[part.ends] = True
        rows = np.flatnonzero(end | (part.kind == operations.SPECIAL) | (part.kind == operations.COPY))
        after = self._first
        if not end[-1]:
            after = _Registers(int(file[-1]), int(address[-1]), operation, int(line[-1]), bool(statement[-1]))
        files = np.minimum(file[rows].view(np.uint64), np.uint64(_FILE_MOST)).astype(np.int32)
        return LineRows(address[rows], files, line[rows].astype(np.uint32), end[rows], statement[rows]), after

    def _address_column(self, part: _Operations, before: _Registers) -> tuple[Uint64, int]:
        """Return the address after each operation, and the operation index after the last one."""
        advances = self._advances[part.number]
        rows = part.of_kind(operations.ADVANCE_PC)
        advances[rows] = operations.unsigned_numbers(part.code, part.start[rows] + 1)
        fixed = part.of_kind(operations.FIXED_ADVANCE_PC)
        low, high = (1, 2) if self._endian == "<" else (2, 1)
        jumps = part.code[part.start[fixed] + low].astype(np.uint64) | part.code[part.start[fixed] + high].astype(np.uint64) << np.uint64(8)
        if self._header.most_operations > 1:
            jump_by_row, address_by_row = (
                dict(zip(one.tolist(), two.tolist(), strict=True)) for one, two in ((fixed, jumps), (part.sets, part.addresses))
            )
            return self._bundled_addresses(part, before, advances.tolist(), jump_by_row, address_by_row)
        advances *= np.uint64(self._header.min_instruction)
        advances[fixed] += jumps
        total = np.cumsum(advances, dtype=np.uint64)
        first = np.concatenate((part.ends + 1, part.sets))
        base = np.concatenate((-total[part.ends], part.addresses - total[part.sets]))
        return total + _fill_forward(first, base, np.uint64(before.address), len(total)), 0

    def _bundled_addresses(
        self, part: _Operations, before: _Registers, advances: list[int], jumps: dict[int, int], set_addresses: dict[int, int]
    ) -> tuple[Uint64, int]:
        """Compute the address column for machines with several operations per instruction (VLIW), in a loop."""
        ends = set(part.ends.tolist())
        addresses, address, operation = [], before.address, before.operation
        for index, step in enumerate(advances):
            if index in set_addresses or index in jumps:
                address, operation = set_addresses.get(index, address + jumps.get(index, 0)), 0
            else:
                bundles, operation = divmod(operation + step, self._header.most_operations)
                address += self._header.min_instruction * bundles
            addresses.append(address % (1 << 64))
            if index in ends:
                address, operation = 0, 0
        return np.array(addresses, np.uint64), operation

    def _file_column(self, part: _Operations, before: _Registers) -> Int64:
        """Return the file number after each operation."""
        rows = part.of_kind(operations.SET_FILE)
        number = operations.unsigned_numbers(part.code, part.start[rows] + 1).view(np.int64)
        value = np.concatenate((np.full(len(part.ends), self._first.file), number))
        return _fill_forward(np.concatenate((part.ends + 1, rows)), value, before.file, len(part.start))

    def _statement_column(self, part: _Operations, before: _Registers) -> NDArray[np.bool_]:
        """Return after each operation whether rows begin statements."""
        total = np.cumsum(part.kind == operations.NEGATE_STATEMENT)
        base = _fill_forward(part.ends + 1, self._first.statement - total[part.ends], before.statement, len(total))
        is_statement: NDArray[np.bool_] = (total + base) % 2 == 1
        return is_statement

    def _line_column(self, part: _Operations, before: _Registers) -> Int64:
        """Return the line after each operation, modulo 2^32."""
        advances = self._lines[part.number]
        rows = part.of_kind(operations.ADVANCE_LINE)
        advances[rows] = operations.signed_numbers(part.code, part.start[rows] + 1)
        total = np.cumsum(advances)
        line: Int64 = total + _fill_forward(part.ends + 1, self._first.line - total[part.ends], before.line, len(total))
        return line & 0xFFFFFFFF


def _fill_forward(first: Int64, value: NDArray[Any], before: Any, count: int) -> NDArray[Any]:
    """Return a column of `count` rows in which each value holds from its `first` row to the next one's. Of equal rows the last counts."""
    order = np.argsort(first, kind="stable")
    first = np.concatenate(([0], np.minimum(first[order], count), [count]))
    return np.repeat(np.concatenate((np.array([before], value.dtype), value[order])), np.diff(first))


def _addresses_of(code: Bytes, offset: Int64, size: Uint64, endian: str) -> Uint64:
    """Return the addresses of up to eight bytes at offsets."""
    used = np.minimum(size, np.uint64(_ADDRESS_BYTES)).astype(np.int64)
    byte = np.arange(_ADDRESS_BYTES)
    matrix = code[np.minimum(offset[:, None] + byte, len(code) - 1)].astype(np.uint64)
    shift = byte[None, :] if endian == "<" else used[:, None] - 1 - byte
    inside = byte < used[:, None]
    shifted = matrix << (8 * np.where(inside, shift, 0)).astype(np.uint64)
    joined: Uint64 = np.where(inside, shifted, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return joined
