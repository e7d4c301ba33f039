"""Read headers of line programs: their parameters, files and directories.

Versions 2 to 5, 32-bit and 64-bit DWARF. Layout: section 6.2.4 of each version. Tables are bounded by the available bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perfpy.debuginfo.units import dwarf, leb128

if TYPE_CHECKING:
    from perfpy.debuginfo.units.sections import DebugSections

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
        value, self.offset = leb128.read_unsigned(self.data, self.offset)
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
    directories, files = _tables_5(cursor, offset_size) if version >= 5 else _tables(cursor)
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


def _tables_5(cursor: _Cursor, offset_size: int) -> tuple[list[FileEntry], list[FileEntry]]:
    """Read the directories and files of version 5, each preceded by its entry format."""
    return _table_5(cursor, offset_size), _table_5(cursor, offset_size)


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
            name = (NUMBERED, value) if form in dwarf.STRING_INDICES and isinstance(value, int) else _as_name(value)
        elif content == _LNCT_DIRECTORY_INDEX and isinstance(value, int):
            directory = value
    return FileEntry(name, directory)


def _as_name(value: Name | int) -> Name:
    if isinstance(value, int):
        raise ValueError("a number where .debug_line should name a file")
    return value


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
