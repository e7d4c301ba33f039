"""Run line programs: operations to rows of address, file and line.

LineRows are in the program's order, one sequence after the other. Columns are skipped. Layout: DWARF 5, section 6.2.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.debuginfo import dwarf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.debuginfo.sections import DebugSections
    from perfpy.debuginfo.units import DebugUnit


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
        self._meanings = meanings(header)
        adjusted = np.arange(256) - header.opcode_base
        special = adjusted >= 0
        self._advances = np.where(special, adjusted // header.line_range, 0).astype(np.uint64)
        if header.opcode_base > CONST_ADD_PC:
            self._advances[CONST_ADD_PC] = self._advances[255]
        self._lines = np.where(special, header.line_base + adjusted % header.line_range, 0)

    def run(self, data: bytes | memoryview) -> LineRows:
        """Return the rows of a program, up to its end if it is truncated."""
        code = np.frombuffer(bytes(data) + PADDING, np.uint8)
        flags = np.zeros(0, np.bool_)
        parts = [LineRows(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.uint32), flags, flags)]
        registers = self._first
        for start in windows(code, self._header):
            if len(start):
                rows, registers = self._part(self._operations(code, start), registers)
                parts.append(rows)
        return LineRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _operations(self, code: Bytes, start: Int64) -> _Operations:
        number = code[start]
        kind = self._meanings[number]
        extended = np.flatnonzero(kind == EXTENDED)
        size, after = unsigned_with_end(code, start[extended] + 1)
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
        total = np.cumsum(part.kind == NEGATE_STATEMENT)
        base = _fill_forward(part.ends + 1, self._first.statement - total[part.ends], before.statement, len(total))
        statement: NDArray[np.bool_] = (total + base) % 2 == 1
        end = np.zeros(len(part.start), np.bool_)
        end[part.ends] = True
        rows = np.flatnonzero(end | (part.kind == SPECIAL) | (part.kind == COPY))
        after = self._first
        if not end[-1]:
            after = _Registers(int(file[-1]), int(address[-1]), operation, int(line[-1]), bool(statement[-1]))
        files = np.minimum(file[rows].view(np.uint64), np.uint64(_FILE_MOST)).astype(np.int32)
        return LineRows(address[rows], files, line[rows].astype(np.uint32), end[rows], statement[rows]), after

    def _address_column(self, part: _Operations, before: _Registers) -> tuple[Uint64, int]:
        """Return the address after each operation, and the operation index after the last one."""
        advances = self._advances[part.number]
        rows = part.of_kind(ADVANCE_PC)
        advances[rows] = unsigned_numbers(part.code, part.start[rows] + 1)
        fixed = part.of_kind(FIXED_ADVANCE_PC)
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
        rows = part.of_kind(SET_FILE)
        number = unsigned_numbers(part.code, part.start[rows] + 1).view(np.int64)
        value = np.concatenate((np.full(len(part.ends), self._first.file), number))
        return _fill_forward(np.concatenate((part.ends + 1, rows)), value, before.file, len(part.start))

    def _line_column(self, part: _Operations, before: _Registers) -> Int64:
        """Return the line after each operation, modulo 2^32."""
        advances = self._lines[part.number]
        rows = part.of_kind(ADVANCE_LINE)
        advances[rows] = signed_numbers(part.code, part.start[rows] + 1)
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


# Read headers of line programs: their parameters, files and directories. Versions 2 to 5, 32-bit and 64-bit DWARF. Layout: section 6.2.4
# of each version. Tables are bounded by the available bytes.

_VERSIONS: Final = range(2, 6)
#: names outside of these sections: in the supplementary file of dwz, and by index in .debug_str_offsets
ALTERNATE, NUMBERED = "alternate", "numbered"
_LONG: Final = 0xFFFFFFFF  # marks 64-bit DWARF: an 8-byte length follows
_RESERVED: Final = 0xFFFFFFF0
_LNCT_PATH: Final = 1
_LNCT_DIRECTORY_INDEX: Final = 2
_FIXED: Final = {
    dwarf.FORM_DATA1: 1,
    dwarf.FORM_DATA2: 2,
    dwarf.FORM_DATA4: 4,
    dwarf.FORM_DATA8: 8,
    dwarf.FORM_DATA16: 16,
    dwarf.FORM_STRX1: 1,
    dwarf.FORM_STRX2: 2,
    dwarf.FORM_STRX3: 3,
    dwarf.FORM_STRX4: 4,
}
_OFFSET_FORMS: Final = {
    dwarf.FORM_LINE_STRP: "line_str",
    dwarf.FORM_STRP: "str",
    dwarf.FORM_STRP_SUP: ALTERNATE,
    dwarf.FORM_GNU_STRP_ALT: ALTERNATE,
}

#: the text itself, or (section without .debug_, ALTERNATE or NUMBERED; offset or index)
Name: TypeAlias = "bytes | tuple[str, int]"


class FileEntry(NamedTuple):
    """A file or directory, and the number of the directory that contains it."""

    name: Name
    directory: int = 0


class LineHeader(NamedTuple):
    """The parameters and tables of a line program. `file` and `directory` translate the program's numbers to list indices.

    `begins_statements`: whether rows begin statements until the program says otherwise.
    """

    version: int
    offset_size: int
    min_instruction: int
    most_operations: int
    line_base: int
    line_range: int
    opcode_base: int
    operands: bytes
    program: int
    end: int
    directories: list[FileEntry]
    files: list[FileEntry]
    begins_statements: bool = True

    def file(self, number: int) -> FileEntry | None:
        """Return the file with a number. Versions before 5 count from 1."""
        index = number if self.version >= 5 else number - 1
        return self.files[index] if 0 <= index < len(self.files) else None

    def directory(self, number: int, *, own: bool = False) -> FileEntry | None:
        """Return the directory with a number. Number 0 is the unit's directory: returned only with `own`, and absent before version 5."""
        index = number if self.version >= 5 else number - 1
        return self.directories[index] if 0 <= index < len(self.directories) and (number or own) else None


class _Cursor:
    """A cursor over .debug_line. Reading beyond the end raises IndexError or ValueError."""

    def __init__(self, sections: DebugSections, offset: int) -> None:
        self._sections = sections
        self.data = sections.data("line")
        self.offset = offset

    def number(self, size: int) -> int:
        value = self._sections.number("line", self.offset, size)
        self.offset += size
        return value

    def read_unsigned(self) -> int:
        value, self.offset = dwarf.read_unsigned(self.data, self.offset)
        return value

    def string(self) -> bytes:
        text = self._sections.string("line", self.offset)
        self.offset += len(text) + 1
        return text


def read(sections: DebugSections, offset: int) -> LineHeader:
    """Read the header at an offset of .debug_line. Raises ValueError or IndexError if it is damaged."""
    cursor = _Cursor(sections, offset)
    length, offset_size = cursor.number(4), 4
    if length == _LONG:
        length, offset_size = cursor.number(8), 8
    elif length >= _RESERVED:
        raise ValueError(f"a line program of length {length:#x} at {offset:#x}")
    end = min(cursor.offset + length, len(cursor.data))
    version = cursor.number(2)
    if version not in _VERSIONS:
        raise ValueError(f"a line program of version {version} at {offset:#x}")
    if version >= 5:
        cursor.offset += 2  # address_size and segment_selector_size; set_address operations have their own size
    header_length = cursor.number(offset_size)
    program = min(cursor.offset + header_length, end)
    min_instruction = cursor.number(1)
    most_operations = cursor.number(1) if version >= 4 else 1
    begins_statements = bool(cursor.number(1))  # default_is_stmt
    line_base, line_range, opcode_base = cursor.number(1), cursor.number(1), cursor.number(1)
    if not line_range:
        raise ValueError(f"a line program at {offset:#x} whose special operations advance no line")
    operands = bytes(cursor.data[cursor.offset : cursor.offset + max(opcode_base - 1, 0)])
    cursor.offset += len(operands)
    directories, files = (_table_5(cursor, offset_size), _table_5(cursor, offset_size)) if version >= 5 else _tables(cursor)
    return LineHeader(
        version,
        offset_size,
        min_instruction,
        most_operations or 1,
        line_base - 256 if line_base >= 128 else line_base,
        line_range,
        opcode_base,
        operands,
        program,
        end,
        directories,
        files,
        begins_statements,
    )


def _tables(cursor: _Cursor) -> tuple[list[FileEntry], list[FileEntry]]:
    """Read the directories and files of versions 2 to 4: lists of strings that end with an empty one."""
    directories: list[FileEntry] = []
    while name := cursor.string():
        directories.append(FileEntry(name))
    files: list[FileEntry] = []
    while name := cursor.string():
        files.append(FileEntry(name, cursor.read_unsigned()))
        cursor.read_unsigned()  # modification time
        cursor.read_unsigned()  # file size
    return directories, files


def _table_5(cursor: _Cursor, offset_size: int) -> list[FileEntry]:
    formats = [(cursor.read_unsigned(), cursor.read_unsigned()) for _ in range(cursor.number(1))]
    count = cursor.read_unsigned()
    if count > len(cursor.data) - cursor.offset or (count and not formats):
        raise ValueError(f"a table of {count} names before {cursor.offset:#x} of .debug_line")
    return [_entry(cursor, formats, offset_size) for _ in range(count)]


def _entry(cursor: _Cursor, formats: list[tuple[int, int]], offset_size: int) -> FileEntry:
    name: Name = b""
    directory = 0
    for content, form in formats:
        value = _value(cursor, form, offset_size)
        if content == _LNCT_PATH:
            if isinstance(value, int):
                if form not in dwarf.STRING_INDICES:
                    raise ValueError("a number where .debug_line should name a file")
                value = NUMBERED, value
            name = value
        elif content == _LNCT_DIRECTORY_INDEX and isinstance(value, int):
            directory = value
    return FileEntry(name, directory)


def _value(cursor: _Cursor, form: int, offset_size: int) -> Name | int:
    if form in _OFFSET_FORMS:
        return _OFFSET_FORMS[form], cursor.number(offset_size)
    if form in (dwarf.FORM_UDATA, dwarf.FORM_STRX):
        return cursor.read_unsigned()
    if form in _FIXED:
        return cursor.number(_FIXED[form])
    if form == dwarf.FORM_STRING:
        return cursor.string()
    if form == dwarf.FORM_BLOCK:
        cursor.offset += cursor.read_unsigned()
        return 0
    raise ValueError(f"a table of names with values of form {form:#x} before {cursor.offset:#x} of .debug_line")


# The paths of the files of a line program.

_UNNAMED: Final = "<unknown>"


class LineFiles:
    """The files of a unit's line program, by number.

    Args:
        unit: the unit.
        header: the header of its line program.
        own_folder_twice: a relative folder of the unit appears twice in the paths of its files, as binutils 2.40 prints them.
    """

    def __init__(self, unit: DebugUnit, header: LineHeader, *, own_folder_twice: bool = False) -> None:
        self._unit = unit
        self._header = header
        self._own_folder_twice = own_folder_twice

    @property
    def numbers(self) -> range:
        """The numbers of all files."""
        return range(0 if self._header.version >= 5 else 1, len(self._header.files) + (self._header.version < 5))

    def path(self, number: int) -> str:
        """Return the path of a file by its number; relative if the compiler got a relative path."""
        entry = self._header.file(number)
        name = self._text(entry.name) if entry else ""
        if entry is None or not name:
            return _UNNAMED
        if name.startswith("/"):
            return name
        directory = self._header.directory(entry.directory, own=self._own_folder_twice)
        folder = self._text(directory.name) if directory else ""
        start = "" if folder.startswith("/") else self._unit.comp_dir
        return "/".join(part for part in (start, folder, name) if part)

    def _text(self, name: Name) -> str:
        if not isinstance(name, bytes):
            name = self._section_text(*name)
        return name.decode("utf-8", "surrogateescape")

    def _section_text(self, kind: str, number: int) -> bytes:
        unit, sections, size = self._unit, self._unit.sections, self._header.offset_size
        if kind == NUMBERED:
            offset = sections.number("str_offsets", unit.str_offsets_base + number * size, size)
            return sections.string("str", offset)
        if kind == ALTERNATE:
            return sections.alternate.string("str", number) if sections.alternate else b""
        return sections.string(kind, number)


# Find where the operations of a line program begin, and read their numbers, for a whole program at once. Operations vary in length, so
# that each start depends on the one before. All candidates are computed together: for every byte, the start of the next operation if one
# begins there; from that the second next, fourth next, up to the 64th. A loop visits every 64th actual start, and the tables give the
# others. That takes a fraction of the time of a loop over all operations.

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE = range(5)
NEGATE_STATEMENT = 6
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
SPECIAL, UNKNOWN = 13, 14
_LEB128_OPERANDS: Final = bytes((0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1))  # operand counts of operations 0 to 12
_FIXED_ADVANCE_BYTES: Final = 2

_WINDOW: Final = 1 << 16  # bytes that are processed together
_MARGIN: Final = 1 << 8  # how far an operation may reach beyond the window
_MORE: Final = 0x80  # the continuation bit of LEB128 bytes
_DOUBLINGS: Final = 6
_FAR: Final = 1 << 40  # beyond every program
PADDING: Final = bytes(16)  # zeros after a program, so that the operands of a truncated one can be read

Bytes: TypeAlias = "NDArray[np.uint8]"
Int64: TypeAlias = "NDArray[np.int64]"
Uint64: TypeAlias = "NDArray[np.uint64]"


def meanings(header: LineHeader) -> Bytes:
    """Return the kind of each first byte: the number of a standard operation, SPECIAL or UNKNOWN."""
    table = np.full(256, UNKNOWN, np.uint8)
    table[:SPECIAL] = np.arange(SPECIAL)
    table[header.opcode_base :] = SPECIAL
    return table


def windows(code: Bytes, header: LineHeader) -> Iterator[Int64]:
    """Yield the offsets of complete operations, window by window. The code must end with PADDING."""
    operands = np.zeros(256, np.int64)
    operands[1 : 1 + len(header.operands)] = np.frombuffer(header.operands, np.uint8)
    operands[:SPECIAL] = np.frombuffer(_LEB128_OPERANDS, np.uint8)
    operands[header.opcode_base :] = 0
    kinds = meanings(header)
    begin, end = 0, len(code) - len(PADDING)
    while begin < end:
        following = _following(code[begin : min(begin + _WINDOW + _MARGIN, end)], operands, kinds)
        reached = _find_reached(following[:_WINDOW])
        offsets = reached + begin
        begin += int(following[reached[-1]])
        yield offsets if begin <= end else offsets[:-1]


def _following(code: Bytes, operands: Int64, kinds: Bytes) -> Int64:
    """Return for every byte the offset of the next operation, as if one began at this byte."""
    last = code < _MORE  # the last bytes of LEB128 numbers
    stops = np.append(np.flatnonzero(last), _FAR)
    passed = np.cumsum(last)  # how many numbers end up to each byte
    count = operands[code]
    following = np.arange(1, len(code) + 1)
    with_operands = np.flatnonzero(count)
    following[with_operands] = stops[np.minimum(passed[with_operands] + count[with_operands], len(stops)) - 1] + 1
    kind = kinds[code]
    following[kind == FIXED_ADVANCE_PC] += _FIXED_ADVANCE_BYTES
    extended = np.flatnonzero(kind == EXTENDED)
    after = stops[np.minimum(passed[extended], len(stops) - 1)] + 1
    padded = np.concatenate((code, np.frombuffer(PADDING, np.uint8)))
    following[extended] = after + np.minimum(unsigned_numbers(padded, extended + 1), np.uint64(_FAR)).astype(np.int64)
    return following


def _find_reached(following: Int64) -> Int64:
    """Return the offsets that are reached from 0, ascending."""
    end = len(following)
    jumps = [np.append(np.minimum(following, end), end)]
    for _ in range(_DOUBLINGS):
        jumps.append(jumps[-1].take(jumps[-1]))
    reached, offset, far = [], 0, jumps.pop()
    while offset < end:
        reached.append(offset)
        offset = int(far[offset])
    offsets = np.array(reached, np.int64)
    for jump in reversed(jumps):  # insert between each two offsets the one half as many operations on
        offsets = np.stack((offsets, jump.take(offsets)), axis=1).ravel()
    return offsets[offsets < end]


def unsigned_numbers(code: Bytes, offset: Int64) -> Uint64:
    """Return the unsigned LEB128 numbers at offsets, modulo 2^64."""
    return _numbers(code, offset)[0]


def unsigned_with_end(code: Bytes, offset: Int64) -> tuple[Uint64, Int64]:
    """Return the unsigned numbers and the offset after each one (its start if the number is too long)."""
    value, bits, byte = _numbers(code, offset)
    return value, offset + np.where(byte < _MORE, bits // np.uint64(7), np.uint64(0)).astype(np.int64)


def signed_numbers(code: Bytes, offset: Int64) -> Int64:
    """Return the signed LEB128 numbers at offsets."""
    value, bits, byte = _numbers(code, offset)
    negative = (byte & 0x40).astype(bool) & (bits < np.uint64(64))
    value[negative] |= ~np.uint64(0) << bits[negative]
    return value.view(np.int64)


def _numbers(code: Bytes, offset: Int64) -> tuple[Uint64, Uint64, Bytes]:
    """Return the values, the bits of each, and its last byte."""
    byte = code[offset]
    value = (byte & 0x7F).astype(np.uint64)
    bits = np.full(len(offset), 7, np.uint64)
    unfinished = np.flatnonzero(byte >= _MORE)
    offset = offset[unfinished]
    while len(unfinished) and bits[unfinished[0]] < 70:
        offset = np.minimum(offset + 1, len(code) - 1)
        next_byte = code[offset]
        shift = bits[unfinished]
        value[unfinished] |= np.where(shift < 64, (next_byte & 0x7F).astype(np.uint64) << np.minimum(shift, np.uint64(63)), np.uint64(0))
        bits[unfinished] = shift + np.uint64(7)
        byte[unfinished] = next_byte
        is_continued = next_byte >= _MORE
        unfinished, offset = unfinished[is_continued], offset[is_continued]
    return value, bits, byte
