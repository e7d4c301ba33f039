"""The paths of the files of a line program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.lines import line_header

if TYPE_CHECKING:
    from perfpy.debuginfo.lines.line_header import LineHeader, Name
    from perfpy.debuginfo.units.unit import DebugUnit

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
        if kind == line_header.NUMBERED:
            offset = sections.number("str_offsets", unit.str_offsets_base + number * size, size)
            return sections.string("str", offset)
        if kind == line_header.ALTERNATE:
            return sections.alternate.string("str", number) if sections.alternate else b""
        return sections.string(kind, number)
