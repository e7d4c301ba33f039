"""The units of a file's debug information, and the unit of each address.

Units are found by .debug_aranges if the compiler wrote it, otherwise by each unit's ranges. Layout: DWARF 5, section 6.1.2.
"""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np

from perfpy.abi.columns import slices_index
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import DebugSections, damage_of, open_elf, paths_below
from perfpy.debuginfo.units import AbbreviationTable, DebugUnit, ranges_of, read_header
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.debuginfo.units import Header, Shape


_UNITS_MOST: Final = 1 << 18  # the largest browsers have some 60,000
_RANGES_MOST: Final = 1 << 21
_NESTED_MOST: Final = 16  # nested ranges, from linkers that fold identical code
_LONG: Final = 0xFFFFFFFF
_WITH_CODE: Final = (dwarf.UT_COMPILE, dwarf.UT_SKELETON)


class UnitRanges:
    """Address ranges with the unit of each, given in any order."""

    def __init__(self, start: NDArray[np.uint64], end: NDArray[np.uint64], unit: NDArray[np.int64]) -> None:
        # Of ranges with the same start, the shortest sorts last, and of equal ones the first unit's, so that the search meets it first.
        order = np.lexsort((-unit, ~end, start))
        self.start, self.end, self.unit = start[order], end[order], unit[order]

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the unit of each address, -1 for none. Of overlapping ranges, the one that starts last wins."""
        units = np.full(len(addresses), -1, np.int64)
        row = np.searchsorted(self.start, addresses, "right") - 1
        unresolved = np.flatnonzero(row >= 0)
        for _ in range(_NESTED_MOST):
            candidate = row[unresolved]
            hit = addresses[unresolved] < self.end[candidate]
            units[unresolved[hit]] = self.unit[candidate[hit]]
            row[unresolved] -= 1
            unresolved = unresolved[~hit & (candidate > 0)]
            if not len(unresolved):
                break
        return units


class UnitIndex:
    """The units of one file. Damaged units are skipped and recorded as flaws of the file."""

    def __init__(self, sections: DebugSections) -> None:
        self.sections = sections
        self._units: dict[int, DebugUnit | None] = {}
        self._tables: dict[tuple[int, Shape], AbbreviationTable] = {}
        self._headers: list[Header] | None = None
        self._starts: NDArray[np.int64] | None = None
        self._aranges: UnitRanges | None = None
        self._other_ranges: UnitRanges | None = None

    @property
    def stands_alone(self) -> bool:
        """Whether no other file has been needed so far."""
        return self.sections.stands_alone and "_split" not in self.__dict__

    @cached_property
    def alternate(self) -> UnitIndex | None:
        """The units of the supplementary file of dwz, None if there is none."""
        return UnitIndex(self.sections.alternate) if self.sections.alternate else None

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the offset in .debug_info of the unit of each address, -1 for none."""
        if self._aranges is None:
            self._aranges = self._read_aranges()
        units = self._aranges.find(addresses)
        missing = np.flatnonzero(units < 0)
        if len(missing):
            if self._other_ranges is None:
                self._other_ranges = self._read_units()
            units[missing] = self._other_ranges.find(addresses[missing])
        return units

    def unit(self, offset: int) -> DebugUnit | None:
        """Return the unit whose header is at an offset of .debug_info, None if it is damaged."""
        if offset not in self._units:
            try:
                self._units[offset] = DebugUnit(self.sections, read_header(self.sections, offset), self)
            except DAMAGE as damage:
                self.sections.file.flaw(damage_of(damage))
                self._units[offset] = None
        return self._units[offset]

    def whole(self, unit: DebugUnit) -> DebugUnit:
        """Return the unit that has the DIEs: the split unit of a skeleton, otherwise the unit itself."""
        if unit.dwo_name and unit.dwo_id:
            return self._split.unit(unit) or unit
        return unit

    @cached_property
    def _split(self) -> SplitFiles:
        return SplitFiles(self.sections)

    def unit_around(self, offset: int) -> DebugUnit | None:
        """Return the unit that contains an offset of .debug_info, for references between units."""
        if self._starts is None:
            self._starts = np.array([header.start for header in self.headers()], np.int64)
        row = int(np.searchsorted(self._starts, offset, "right")) - 1
        unit = self.unit(int(self._starts[row])) if row >= 0 else None
        return unit if unit and offset < unit.header.end else None

    def headers(self) -> list[Header]:
        """Return the headers of all units, up to the first damaged one."""
        if self._headers is None:
            self._headers = []
            try:
                offset, size = 0, len(self.sections.data("info"))
                while offset < size:
                    header = read_header(self.sections, offset)
                    self._headers.append(header)
                    offset = header.end
                    if len(self._headers) >= _UNITS_MOST:
                        raise ValueError(f"more than {_UNITS_MOST} units")
            except DAMAGE as damage:
                self.sections.file.flaw(damage_of(damage))
        return self._headers

    def table(self, offset: int, shape: Shape) -> AbbreviationTable:
        """Return the abbreviations at an offset of .debug_abbrev. Units share them."""
        table = self._tables.get((offset, shape))
        if table is None:
            table = self._tables[offset, shape] = AbbreviationTable(self.sections, offset, shape)
        return table

    def _read_aranges(self) -> UnitRanges:
        sets: list[tuple[int, int, int, int]] = []
        try:
            self._read_sets(sets)
        except DAMAGE as damage:
            self.sections.file.flaw(damage_of(damage))
        parts = [self._pairs(sets, width) for width in sorted({one[0] for one in sets})]
        start, size, unit = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else (np.zeros(0, np.uint64),) * 3
        with np.errstate(over="ignore"):
            end = start + size
        is_nonempty = end > start
        return UnitRanges(start[is_nonempty], end[is_nonempty], unit[is_nonempty].astype(np.int64))

    def _pairs(self, sets: list[tuple[int, int, int, int]], width: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        """Return columns of starts, sizes and units from the pairs of `width` bytes."""
        unit, first, count = np.array([one[1:] for one in sets if one[0] == width], np.int64).T
        offsets = slices_index(np.zeros_like(count), count)[0] * width + np.repeat(first, count)
        data = np.frombuffer(self.sections.data("aranges"), np.uint8)
        rows = data[offsets[:, None] + np.arange(width)].view(f"{self.sections.file.endian}u{width // 2}").astype(np.uint64)
        return rows[:, 0], rows[:, 1], np.repeat(unit, count)

    def _read_sets(self, sets: list[tuple[int, int, int, int]]) -> None:
        """Read the sets of .debug_aranges, a header and (start, size) pairs for each unit: (bytes per pair, unit, offset, pair count)."""
        data, order = bytes(self.sections.data("aranges")), self.sections.order
        units = len(self.sections.data("info"))
        offset = 0
        while offset + 12 <= len(data):
            start, size, length = offset, 4, int.from_bytes(data[offset : offset + 4], order)
            offset += 4
            if length == _LONG:
                size, length = 8, int.from_bytes(data[offset : offset + 8], order)
                offset += 8
            end = min(offset + length, len(data))
            unit = int.from_bytes(data[offset + 2 : offset + 2 + size], order)
            address_size = data[offset + 2 + size]
            if address_size not in (4, 8):
                raise ValueError(f"addresses of {address_size} bytes at {start:#x} of .debug_aranges")
            width = 2 * address_size
            first = start + -(-(offset + 4 + size - start) // width) * width
            count = max(end - first, 0) // width
            if count and unit < units:
                sets.append((width, unit, first, count))
            self.sections.spend(1)
            offset = end

    def _read_units(self) -> UnitRanges:
        """Read the ranges of the units that .debug_aranges lacks from the units' roots."""
        listed = set(self._aranges.unit.tolist()) if self._aranges else set()
        ranges: list[tuple[int, int, int]] = []
        for header in self.headers():
            if header.start in listed or header.kind not in _WITH_CODE:
                continue
            unit = self.unit(header.start)
            try:
                pairs = ranges_of(unit, unit.root) if unit else []
            except DAMAGE as damage:
                self.sections.file.flaw(damage_of(damage))
                continue
            ranges += ((start, end, header.start) for start, end in pairs if end >> 64 == 0)
            if len(ranges) > _RANGES_MOST:
                self.sections.file.flaw(f"debug information: more than {_RANGES_MOST} ranges")
                break
        start, end = (np.array([row[column] for row in ranges], np.uint64) for column in (0, 1))
        return UnitRanges(start, end, np.array([unit for _, _, unit in ranges], np.int64))


# Find the split units (-gsplit-dwarf) of skeletons: in the package PROGRAM.dwp, or in .dwo files. Layout: DWARF 5, section 7.3.5;
# gcc.gnu.org/wiki/DebugFissionDWP.

_DWO: Final = ".dwo"
_HEADER: Final = 16
_COLUMNS_MOST: Final = 32
# Section numbers in packages, the same in DWARF 5 and in GNU's earlier version except 5 (.debug_loc) and 8 (.debug_macro).
_SECTIONS: Final = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 8: "rnglists"}


class SplitFiles:
    """The split units of one program's skeletons.

    Args:
        sections: the program's debug sections.
    """

    def __init__(self, sections: DebugSections) -> None:
        self._sections = sections
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
            index = UnitIndex(DebugSections(file, self._sections.root, _DWO))
            for header in index.headers():
                unit = index.unit(header.start) if header.kind in (dwarf.UT_COMPILE, dwarf.UT_SPLIT_COMPILE) else None
                if unit and unit.dwo_id == skeleton.dwo_id and unit.tag == dwarf.TAG_COMPILE_UNIT:
                    return DebugUnit(index.sections, header, index, skeleton=skeleton)
        return None

    def _paths(self, folder: str, name: str) -> Iterator[str]:
        """Yield the path that the compiler wrote, and the path next to the program."""
        yield from paths_below(self._sections.root, os.path.normpath(name if name.startswith("/") else f"{folder}/{name}"))
        yield from paths_below(os.path.dirname(os.path.abspath(self._sections.file.path)), os.path.basename(name))

    @cached_property
    def _package(self) -> UnitIndex | None:
        stem, suffix = os.path.splitext(self._sections.file.path)
        for path in (f"{self._sections.file.path}.dwp", *([f"{stem}.dwp"] if suffix == ".debug" else [])):
            file = open_elf(path)
            if file is not None:
                return UnitIndex(DebugSections(file, self._sections.root, _DWO))
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
    """Return the start of a unit's part of each section of a package, by section name, or None if the package lacks the unit."""
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
