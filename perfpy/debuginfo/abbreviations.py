"""Abbreviations: what the entries (DIEs) of a unit look like.

What enters: .debug_abbrev, the offset of a table, and the sizes that a unit uses. What leaves: Abbreviations by their
code, each with its attributes and a way to skip it: by one addition where all of its forms have fixed sizes.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.debuginfo import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.debuginfo.sections import DebugSections

_TABLE_MOST: Final = 1 << 16  # abbreviations of one table: link-time optimised programs have some thousands
_MORE: Final = 0x80  # of a byte in LEB128: others follow
_ATTRIBUTES_MOST: Final = 1 << 10  # of one abbreviation

# how values without a fixed size are skipped; sizes are positive
LEB128, STRING, BLOCK1, BLOCK2, BLOCK4, BLOCK, INDIRECT = range(-1, -8, -1)
_VARIABLE: Final = {
    dwarf.FORM_SDATA: LEB128,
    dwarf.FORM_UDATA: LEB128,
    dwarf.FORM_REF_UDATA: LEB128,
    dwarf.FORM_STRX: LEB128,
    dwarf.FORM_ADDRX: LEB128,
    dwarf.FORM_LOCLISTX: LEB128,
    dwarf.FORM_RNGLISTX: LEB128,
    dwarf.FORM_GNU_ADDR_INDEX: LEB128,
    dwarf.FORM_GNU_STR_INDEX: LEB128,
    dwarf.FORM_STRING: STRING,
    dwarf.FORM_BLOCK1: BLOCK1,
    dwarf.FORM_BLOCK2: BLOCK2,
    dwarf.FORM_BLOCK4: BLOCK4,
    dwarf.FORM_BLOCK: BLOCK,
    dwarf.FORM_EXPRLOC: BLOCK,
    dwarf.FORM_INDIRECT: INDIRECT,
}
_FIXED: Final = {
    dwarf.FORM_DATA1: 1,
    dwarf.FORM_REF1: 1,
    dwarf.FORM_FLAG: 1,
    dwarf.FORM_STRX1: 1,
    dwarf.FORM_ADDRX1: 1,
    dwarf.FORM_DATA2: 2,
    dwarf.FORM_REF2: 2,
    dwarf.FORM_STRX2: 2,
    dwarf.FORM_ADDRX2: 2,
    dwarf.FORM_STRX3: 3,
    dwarf.FORM_ADDRX3: 3,
    dwarf.FORM_DATA4: 4,
    dwarf.FORM_REF4: 4,
    dwarf.FORM_REF_SUP4: 4,
    dwarf.FORM_STRX4: 4,
    dwarf.FORM_ADDRX4: 4,
    dwarf.FORM_DATA8: 8,
    dwarf.FORM_REF8: 8,
    dwarf.FORM_REF_SIG8: 8,
    dwarf.FORM_REF_SUP8: 8,
    dwarf.FORM_DATA16: 16,
    dwarf.FORM_FLAG_PRESENT: 0,
    dwarf.FORM_IMPLICIT_CONST: 0,
}
_OFFSETS: Final = (
    dwarf.FORM_STRP,
    dwarf.FORM_LINE_STRP,
    dwarf.FORM_SEC_OFFSET,
    dwarf.FORM_STRP_SUP,
    dwarf.FORM_GNU_REF_ALT,
    dwarf.FORM_GNU_STRP_ALT,
)


class Shape(NamedTuple):
    """What sizes of values depend on: the unit's version, and how many bytes its offsets and addresses have."""

    version: int
    offset_size: int
    address_size: int


@cache
def sizes(shape: Shape) -> dict[int, int]:
    """The size of each form; LEB128, STRING and so on for those that vary."""
    offsets = dict.fromkeys(_OFFSETS, shape.offset_size)
    reference = shape.address_size if shape.version == 2 else shape.offset_size
    return {**_FIXED, **_VARIABLE, **offsets, dwarf.FORM_ADDR: shape.address_size, dwarf.FORM_REF_ADDR: reference}


class Abbreviation:
    """One of them.

    attributes: (attribute, form, constant), the constant only of FORM_IMPLICIT_CONST. size: of all values, -1 where it
    varies; skips: the sizes and kinds of values to skip one after the other; offsets: where the values of attributes
    are that no value of varying size stands before.
    """

    __slots__ = ("attributes", "children", "offsets", "size", "skips", "tag")

    def __init__(self, tag: int, attributes: tuple[tuple[int, int, int], ...], form_sizes: dict[int, int], *, children: bool) -> None:
        self.tag = tag
        self.children = children
        self.attributes = attributes
        skips = [form_sizes[form] for _, form, _ in attributes]
        self.skips = _joined(skips)
        self.size = -1 if any(skip < 0 for skip in skips) else sum(skips)
        self.offsets: dict[int, tuple[int, int, int]] = {}
        offset = 0
        for (attribute, form, constant), skip in zip(attributes, skips, strict=True):
            self.offsets[attribute] = (offset, form, constant)
            if skip < 0:
                break
            offset += skip

    def has(self, *attributes: int) -> bool:
        """Whether it has one of these attributes."""
        return any(attribute in attributes for attribute, _, _ in self.attributes)


@lru_cache(maxsize=1 << 14)
def _abbreviation(tag: int, attributes: tuple[tuple[int, int, int], ...], shape: Shape, children: bool) -> Abbreviation:
    """The same object for what is the same: the tables of units are much alike."""
    form_sizes = sizes(shape)
    unknown = next((form for _, form, _ in attributes if form not in form_sizes), None)
    if unknown is not None:
        raise ValueError(f"unknown form {unknown:#x} in .debug_abbrev")
    return Abbreviation(tag, attributes, form_sizes, children=children)


def _joined(skips: list[int]) -> tuple[int, ...]:
    """Neighbouring fixed sizes added up."""
    joined: list[int] = []
    for skip in skips:
        if skip > 0 and joined and joined[-1] > 0:
            joined[-1] += skip
        elif skip:
            joined.append(skip)
    return tuple(joined)


class AbbreviationTable:
    """The abbreviations that start at an offset of .debug_abbrev, by code; looked through as far as was asked.

    Units have hundreds of them, and of most units only the root is looked at: those that nobody asks for are passed over.
    """

    def __init__(self, sections: DebugSections, offset: int, shape: Shape) -> None:
        self._sections = sections
        self._data = sections.data("abbrev")
        self._offset = offset
        self._shape = shape
        self._read: dict[int, Abbreviation] = {}
        self._starts: dict[int, int] = {}  # of the tags
        self._whole = False

    def get(self, code: int) -> Abbreviation | None:
        """The abbreviation of a code, None where the table has none."""
        found = self._read.get(code)
        if found is None:
            while code not in self._starts and not self._whole:
                self._next()
            if code in self._starts:
                found = self._read[code] = self._made(self._starts[code])
        return found

    def all(self) -> dict[int, Abbreviation]:
        """All of them."""
        while not self._whole:
            self._next()
        return {code: self._read.get(code) or self._read.setdefault(code, self._made(start)) for code, start in self._starts.items()}

    def _next(self) -> None:
        code, offset = leb128.unsigned(self._data, self._offset)
        if not code:
            self._whole = True
            return
        self._sections.spend(8)
        self._starts.setdefault(code, offset)
        self._offset = _end_of(self._data, offset)
        if len(self._starts) > _TABLE_MOST:
            raise ValueError(f"more than {_TABLE_MOST} abbreviations in one table")

    def _made(self, start: int) -> Abbreviation:
        """The abbreviation whose tag is at an offset."""
        tag, offset = leb128.unsigned(self._data, start)
        children = bool(self._data[offset])
        attributes, _ = _attributes(self._data, offset + 1)
        return _abbreviation(tag, attributes, self._shape, children)


def _end_of(data: Sequence[int], offset: int) -> int:
    """Where an abbreviation ends whose tag is at an offset."""
    offset = leb128.skip(data, offset) + 1
    while True:
        attribute, form = data[offset], data[offset + 1]
        if attribute >= _MORE or form >= _MORE:
            offset = leb128.skip(data, offset)
            form, offset = leb128.unsigned(data, offset)
        else:
            offset += 2
        if form == dwarf.FORM_IMPLICIT_CONST:
            offset = leb128.skip(data, offset)
        elif not attribute and not form:
            return offset


def _attributes(data: Sequence[int], offset: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    found: list[tuple[int, int, int]] = []
    while True:
        constant = 0
        attribute, form = data[offset], data[offset + 1]
        if attribute < 0x80 and form < 0x80:  # nearly always
            offset += 2
        else:
            attribute, offset = leb128.unsigned(data, offset)
            form, offset = leb128.unsigned(data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            constant, offset = leb128.signed(data, offset)
        if not attribute and not form:
            return tuple(found), offset
        found.append((attribute, form, constant))
        if len(found) > _ATTRIBUTES_MOST:
            raise ValueError(f"more than {_ATTRIBUTES_MOST} attributes before {offset:#x} of .debug_abbrev")
