"""Find the split units (-gsplit-dwarf) of skeletons: in the package PROGRAM.dwp, or in .dwo files.

Layout: DWARF 5, section 7.3.5; gcc.gnu.org/wiki/DebugFissionDWP.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from perfpy.debuginfo.units.sections import DebugSections, open_elf, paths_below
from perfpy.debuginfo.units.unit import DebugUnit, UnitOwner, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.debuginfo.units.unit import Header

_DWO: Final = ".dwo"
_HEADER: Final = 16
_COLUMNS_MOST: Final = 32
# Section numbers in packages, the same in DWARF 5 and in GNU's earlier version except 5 (.debug_loc) and 8 (.debug_macro).
_SECTIONS: Final = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 8: "rnglists"}


class SplitIndex(UnitOwner, Protocol):
    """The units of a split file or package."""

    @property
    def sections(self) -> DebugSections:
        """The file's debug sections."""

    def headers(self) -> list[Header]:
        """Return the headers of all units."""

    def unit(self, offset: int) -> DebugUnit | None:
        """Return the unit whose header is at an offset, None if it is damaged."""


class SplitFiles:
    """The split units of one program's skeletons.

    Args:
        sections: the program's debug sections.
        index_of: creates the unit index of a file from its sections.
    """

    def __init__(self, sections: DebugSections, index_of: Callable[[DebugSections], SplitIndex]) -> None:
        self._sections = sections
        self._index_of = index_of
        self._units: dict[int, DebugUnit | None] = {}

    def unit(self, skeleton: DebugUnit) -> DebugUnit | None:
        """Return the split unit of a skeleton. Raises ValueError and other errors of DAMAGE if its file is damaged."""
        key = skeleton.header.start
        if key not in self._units:
            self._units[key] = None
            self._units[key] = self._in_package(skeleton) or self._in_file(skeleton)
            if self._units[key] is None:
                self._sections.file.flaw(f"its debug information is partly in {skeleton.dwo_name!r}, which is not here")
        return self._units[key]

    def _in_file(self, skeleton: DebugUnit) -> DebugUnit | None:
        for path in self._paths(skeleton.comp_dir, skeleton.dwo_name):
            file = open_elf(path)
            if file is None:
                continue
            index = self._index_of(DebugSections(file, self._sections.root, _DWO))
            for header in index.headers():
                unit = index.unit(header.start)
                if unit and unit.dwo_id == skeleton.dwo_id and unit.is_compilation:
                    return DebugUnit(index.sections, header, index, skeleton=skeleton)
        return None

    def _paths(self, folder: str, name: str) -> Iterator[str]:
        """Yield the path that the compiler wrote, and the path next to the program."""
        yield from paths_below(self._sections.root, os.path.normpath(name if name.startswith("/") else f"{folder}/{name}"))
        yield from paths_below(os.path.dirname(os.path.abspath(self._sections.file.path)), os.path.basename(name))

    @cached_property
    def _package(self) -> SplitIndex | None:
        stem, suffix = os.path.splitext(self._sections.file.path)
        for path in (f"{self._sections.file.path}.dwp", *([f"{stem}.dwp"] if suffix == ".debug" else [])):
            file = open_elf(path)
            if file is not None:
                return self._index_of(DebugSections(file, self._sections.root, _DWO))
        return None

    def _in_package(self, skeleton: DebugUnit) -> DebugUnit | None:
        index = self._package
        if index is None:
            return None
        offsets = package_offsets(index.sections, skeleton.dwo_id)
        if offsets is None:
            return None
        return DebugUnit(index.sections, read_header(index.sections, offsets["info"]), index, offsets, skeleton)


def package_offsets(sections: DebugSections, dwo_id: int) -> dict[str, int] | None:
    """Return the start of a unit's part of each section of a package, by section name; None if the package lacks the unit."""
    section = sections.file.section(".debug_cu_index")
    if section is None:
        return None
    data, order = sections.file.data(section), sections.order

    def number(offset: int, size: int = 4) -> int:
        if offset + size > len(data):
            raise ValueError(f"the index of units ends at {len(data):#x}")
        return int.from_bytes(data[offset : offset + size], order)

    version = number(0, 2)  # GNU's version has two bytes, followed by two zero bytes
    columns, units, slots = number(4), number(8), number(12)
    if version not in (2, 5) or columns > _COLUMNS_MOST or not slots or slots & (slots - 1):
        raise ValueError(f"an index of units of version {version} with {columns} columns and {slots} slots")
    rows = _HEADER + 8 * slots
    table = rows + 4 * slots
    slot, step = dwo_id & (slots - 1), (dwo_id >> 32 & (slots - 1)) | 1
    for _ in range(min(slots, units + 1)):
        row = number(rows + 4 * slot)
        if not row:
            return None
        if number(_HEADER + 8 * slot, 8) == dwo_id:
            kinds = [number(table + 4 * column) for column in range(columns)]
            offsets = [number(table + 4 * (row * columns + column)) for column in range(columns)]
            offsets_of = {_SECTIONS[kind]: offset for kind, offset in zip(kinds, offsets, strict=True) if kind in _SECTIONS}
            return offsets_of if "info" in offsets_of else None
        slot = (slot + step) & (slots - 1)
    return None
