"""Read headers of line programs: their parameters, files and directories.

Versions 2 to 5, 32-bit and 64-bit DWARF. Layout: section 6.2.4 of each version. Tables are bounded by the available bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perfpy.debuginfo import dwarf, leb128

if TYPE_CHECKING:
    from perfpy.debuginfo.sections import DebugSections

_VERSIONS: Final = range(2, 6)
#: kinds of names that are no sections: in the file that dwz made, and by number in .debug_str_offsets
ALTERNATE, NUMBERED = "alternate", "numbered"
_LONG: Final = 0xFFFFFFFF  # the length that says that a length of eight bytes follows
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

#: a text, or the section without .debug_ where it is and its offset there, or ALTERNATE or NUMBERED
Name: TypeAlias = "bytes | tuple[str, int]"


class FileEntry(NamedTuple):
    """One file or directory, and the number of its directory."""

    name: Name
    directory: int = 0


class LineHeader(NamedTuple):
    """What a line program needs to be run. files, directories: as numbered by the program (see `file`)."""

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

    def file(self, number: int) -> FileEntry | None:
        """The file of that number; versions before 5 count from 1."""
        index = number if self.version >= 5 else number - 1
        return self.files[index] if 0 <= index < len(self.files) else None

    def directory(self, number: int, *, own: bool = False) -> FileEntry | None:
        """The directory of that number. 0 is the unit's own, and none unless that is wanted; versions before 5 do not name it."""
        index = number if self.version >= 5 else number - 1
        return self.directories[index] if 0 <= index < len(self.directories) and (number or own) else None


class _Cursor:
    """Reads numbers and strings one after the other. IndexError at the end."""

    def __init__(self, sections: DebugSections, offset: int) -> None:
        self._sections = sections
        self.data = sections.data("line")
        self.offset = offset

    def number(self, size: int) -> int:
        value = self._sections.number("line", self.offset, size)
        self.offset += size
        return value

    def unsigned(self) -> int:
        value, self.offset = leb128.unsigned(self.data, self.offset)
        return value

    def string(self) -> bytes:
        text = self._sections.string("line", self.offset)
        self.offset += len(text) + 1
        return text


def read(sections: DebugSections, offset: int) -> LineHeader:
    """The header at an offset of .debug_line. Raises ValueError or IndexError where it is damaged."""
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
        cursor.offset += 2  # sizes of an address and of a segment selector; addresses say their size themselves
    header_length = cursor.number(offset_size)
    program = min(cursor.offset + header_length, end)
    min_instruction = cursor.number(1)
    most_operations = cursor.number(1) if version >= 4 else 1
    cursor.offset += 1  # whether lines are statements at first
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
    )


def _tables(cursor: _Cursor) -> tuple[list[FileEntry], list[FileEntry]]:
    """Directories and files of versions 2 to 4: strings, up to an empty one."""
    directories: list[FileEntry] = []
    while name := cursor.string():
        directories.append(FileEntry(name))
    files: list[FileEntry] = []
    while name := cursor.string():
        files.append(FileEntry(name, cursor.unsigned()))
        cursor.unsigned()  # when it was last changed
        cursor.unsigned()  # its size
    return directories, files


def _tables_5(cursor: _Cursor, offset_size: int) -> tuple[list[FileEntry], list[FileEntry]]:
    """Directories and files of version 5, which say themselves of what an entry consists."""
    return _table_5(cursor, offset_size), _table_5(cursor, offset_size)


def _table_5(cursor: _Cursor, offset_size: int) -> list[FileEntry]:
    formats = [(cursor.unsigned(), cursor.unsigned()) for _ in range(cursor.number(1))]
    count = cursor.unsigned()
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
        return cursor.unsigned()
    if form in _FIXED:
        return cursor.number(_FIXED[form])
    if form == dwarf.FORM_STRING:
        return cursor.string()
    if form == dwarf.FORM_BLOCK:
        cursor.offset += cursor.unsigned()
        return 0
    raise ValueError(f"a table of names with values of form {form:#x} before {cursor.offset:#x} of .debug_line")
