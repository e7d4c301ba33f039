"""Abbreviations: the attributes and forms of a unit's entries (DIEs), from .debug_abbrev.

Entries whose forms have fixed sizes are skipped by one addition.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.debuginfo.units import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.debuginfo.units.sections import DebugSections

_TABLE_MOST: Final = 1 << 16  # abbreviations of one table: link-time optimized programs have some thousands
_MORE: Final = 0x80  # the continuation bit of LEB128 bytes
_ATTRIBUTES_MOST: Final = 1 << 10  # of one abbreviation

# Negative sizes: how to skip values without a fixed size.
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
    """The parts of a unit's header that determine the sizes of values.

    Attributes:
        version: the DWARF version.
        offset_size: bytes of an offset.
        address_size: bytes of an address.
    """

    version: int
    offset_size: int
    address_size: int


@cache
def sizes(shape: Shape) -> dict[int, int]:
    """Return the size of each form in bytes; LEB128, STRING and so on for forms of variable size."""
    offsets = dict.fromkeys(_OFFSETS, shape.offset_size)
    reference = shape.address_size if shape.version == 2 else shape.offset_size
    return {**_FIXED, **_VARIABLE, **offsets, dwarf.FORM_ADDR: shape.address_size, dwarf.FORM_REF_ADDR: reference}


class Abbreviation:
    """The tag and attributes of DIEs with one abbreviation code.

    Attributes:
        tag: DW_TAG_*.
        attributes: (attribute, form, constant) tuples. The constant is used by FORM_IMPLICIT_CONST only.
        children: whether the DIEs have children.
        size: bytes of all values, -1 if it varies.
        skips: the sizes and kinds of values, for skipping them in order.
        offsets: (offset, form, constant) of each attribute with no value of variable size before it.
    """

    __slots__ = ("attributes", "children", "offsets", "size", "skips", "tag")

    def __init__(self, tag: int, attributes: tuple[tuple[int, int, int], ...], form_sizes: dict[int, int], *, children: bool) -> None:
        self.tag = tag
        self.children = children
        self.attributes = attributes
        skips = [form_sizes[form] for _, form, _ in attributes]
        self.skips = _join_fixed(skips)
        self.size = -1 if any(skip < 0 for skip in skips) else sum(skips)
        self.offsets: dict[int, tuple[int, int, int]] = {}
        offset = 0
        for (attribute, form, constant), skip in zip(attributes, skips, strict=True):
            self.offsets[attribute] = (offset, form, constant)
            if skip < 0:
                break
            offset += skip

    def has(self, *attributes: int) -> bool:
        """Whether the DIEs have one of these attributes."""
        return any(attribute in attributes for attribute, _, _ in self.attributes)


@lru_cache(maxsize=1 << 14)
def _abbreviation(text: bytes, shape: Shape) -> Abbreviation:
    """Parse an abbreviation's bytes from the tag on. Equal ones share an object, because the tables of units are much alike."""
    tag, offset = leb128.read_unsigned(text, 0)
    children = bool(text[offset])
    attributes, _ = _attributes(text, offset + 1)
    form_sizes = sizes(shape)
    unknown = next((form for _, form, _ in attributes if form not in form_sizes), None)
    if unknown is not None:
        raise ValueError(f"unknown form {unknown:#x} in .debug_abbrev")
    return Abbreviation(tag, attributes, form_sizes, children=children)


def _join_fixed(skips: list[int]) -> tuple[int, ...]:
    """Add up neighboring fixed sizes."""
    joined: list[int] = []
    for skip in skips:
        if skip > 0 and joined and joined[-1] > 0:
            joined[-1] += skip
        elif skip:
            joined.append(skip)
    return tuple(joined)


class AbbreviationTable:
    """The abbreviations that start at an offset of .debug_abbrev, by code, scanned as far as needed.

    A unit has hundreds of abbreviations, but most units need only the root's. The others are scanned without parsing.
    """

    def __init__(self, sections: DebugSections, offset: int, shape: Shape) -> None:
        self._sections = sections
        self._data = sections.data("abbrev")
        self._offset = offset
        self._shape = shape
        self._read: dict[int, Abbreviation] = {}
        self._texts: dict[int, bytes] = {}  # unparsed bytes from the tag on
        self._is_complete = False

    def get(self, code: int) -> Abbreviation | None:
        """Return the abbreviation of a code, None if the table has none."""
        abbreviation = self._read.get(code)
        if abbreviation is None:
            if code not in self._texts and not self._is_complete:
                self._scan_to(code)
            if code in self._texts:
                abbreviation = self._read[code] = _abbreviation(self._texts[code], self._shape)
        return abbreviation

    def _scan_to(self, target_code: int) -> None:
        """Continue the scan up to the abbreviation of a code."""
        data, texts, match_usual, offset = self._data, self._texts, _usual_pattern().match, self._offset
        while target_code not in texts:
            code, start = data[offset], offset + 1
            if code >= _MORE:
                code, start = leb128.read_unsigned(data, offset)
            if not code:
                self._is_complete = True
                break
            self._sections.spend(8)
            match = match_usual(data, start)
            offset = match.end() if match else _end_of(data, start)
            texts.setdefault(code, bytes(data[start:offset]))
            if len(texts) > _TABLE_MOST:
                raise ValueError(f"more than {_TABLE_MOST} abbreviations in one table")
        self._offset = offset


def _end_of(data: bytes | memoryview, offset: int) -> int:
    """Return the end of the abbreviation whose tag is at an offset."""
    offset = leb128.skip(data, offset) + 1
    for _ in range(_ATTRIBUTES_MOST + 1):
        attribute, form = data[offset], data[offset + 1]
        if attribute >= _MORE or form >= _MORE:
            offset = leb128.skip(data, offset)
            form, offset = leb128.read_unsigned(data, offset)
        else:
            offset += 2
        if form == dwarf.FORM_IMPLICIT_CONST:
            offset = leb128.skip(data, offset)
        elif not attribute and not form:
            return offset
    raise ValueError(f"more than {_ATTRIBUTES_MOST} attributes before {offset:#x} of .debug_abbrev")


@cache
def _usual_pattern() -> re.Pattern[bytes]:
    """Return a pattern for abbreviations with forms of one byte, from the tag to the final zeros. One match skips an abbreviation."""
    number = rb"[\x80-\xff]*+[\x00-\x7f]"
    constant = rb"\x%02x" % dwarf.FORM_IMPLICIT_CONST
    pair = rb"(?!\x00\x00)%b(?:%b%b|[^%b\x80-\xff])" % (number, constant, number, constant)
    return re.compile(rb"(?s:%b.(?:%b){,%d}+\x00\x00)" % (number, pair, _ATTRIBUTES_MOST))


def _attributes(data: Sequence[int], offset: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    attributes: list[tuple[int, int, int]] = []
    while True:
        constant = 0
        attribute, form = data[offset], data[offset + 1]
        if attribute < 0x80 and form < 0x80:  # nearly always
            offset += 2
        else:
            attribute, offset = leb128.read_unsigned(data, offset)
            form, offset = leb128.read_unsigned(data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            constant, offset = leb128.read_signed(data, offset)
        if not attribute and not form:
            return tuple(attributes), offset
        attributes.append((attribute, form, constant))
