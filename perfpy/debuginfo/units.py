"""One unit of .debug_info: its header, its root's attributes, and the values of attributes.

Layout: DWARF 5, sections 7.5 and 3.1.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.debuginfo import dwarf
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final, Literal

    from perfpy.debuginfo.sections import DebugSections


# Abbreviations: the attributes and forms of a unit's entries (DIEs), from .debug_abbrev. Entries whose forms have fixed sizes are skipped
# by one addition.

_TABLE_MOST: Final = 1 << 16  # abbreviations of one table: link-time optimized programs have some thousands
_MORE: Final = 0x80  # the continuation bit of LEB128 bytes
_ATTRIBUTES_MOST: Final = 1 << 10  # of one abbreviation

# Negative sizes: how to skip values without a fixed size.
LEB128, STRING, BLOCK1, BLOCK2, BLOCK4, BLOCK, INDIRECT = range(-1, -8, -1)
#: how to skip -> the forms without a fixed size
_FORMS_OF_KIND: Final = {
    LEB128: (
        *(dwarf.FORM_SDATA, dwarf.FORM_UDATA, dwarf.FORM_REF_UDATA, dwarf.FORM_STRX, dwarf.FORM_ADDRX),
        *(dwarf.FORM_LOCLISTX, dwarf.FORM_RNGLISTX, dwarf.FORM_GNU_ADDR_INDEX, dwarf.FORM_GNU_STR_INDEX),
    ),
    STRING: (dwarf.FORM_STRING,),
    BLOCK1: (dwarf.FORM_BLOCK1,),
    BLOCK2: (dwarf.FORM_BLOCK2,),
    BLOCK4: (dwarf.FORM_BLOCK4,),
    BLOCK: (dwarf.FORM_BLOCK, dwarf.FORM_EXPRLOC),
    INDIRECT: (dwarf.FORM_INDIRECT,),
}
_VARIABLE: Final = {form: kind for kind, forms in _FORMS_OF_KIND.items() for form in forms}
#: bytes -> the forms of that fixed size
_FORMS_OF_SIZE: Final = {
    0: (dwarf.FORM_FLAG_PRESENT, dwarf.FORM_IMPLICIT_CONST),
    1: (dwarf.FORM_DATA1, dwarf.FORM_REF1, dwarf.FORM_FLAG, dwarf.FORM_STRX1, dwarf.FORM_ADDRX1),
    2: (dwarf.FORM_DATA2, dwarf.FORM_REF2, dwarf.FORM_STRX2, dwarf.FORM_ADDRX2),
    3: (dwarf.FORM_STRX3, dwarf.FORM_ADDRX3),
    4: (dwarf.FORM_DATA4, dwarf.FORM_REF4, dwarf.FORM_REF_SUP4, dwarf.FORM_STRX4, dwarf.FORM_ADDRX4),
    8: (dwarf.FORM_DATA8, dwarf.FORM_REF8, dwarf.FORM_REF_SIG8, dwarf.FORM_REF_SUP8),
    16: (dwarf.FORM_DATA16,),
}
_FIXED: Final = {form: size for size, forms in _FORMS_OF_SIZE.items() for form in forms}
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
    tag, offset = dwarf.read_unsigned(text, 0)
    children = bool(text[offset])
    attributes, _ = _read_attributes(text, offset + 1)
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
                code, start = dwarf.read_unsigned(data, offset)
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
    offset = dwarf.skip(data, offset) + 1
    for _ in range(_ATTRIBUTES_MOST + 1):
        attribute, form = data[offset], data[offset + 1]
        if attribute >= _MORE or form >= _MORE:
            offset = dwarf.skip(data, offset)
            form, offset = dwarf.read_unsigned(data, offset)
        else:
            offset += 2
        if form == dwarf.FORM_IMPLICIT_CONST:
            offset = dwarf.skip(data, offset)
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


def _read_attributes(data: Sequence[int], offset: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    attributes: list[tuple[int, int, int]] = []
    while True:
        constant = 0
        attribute, form = data[offset], data[offset + 1]
        if attribute < 0x80 and form < 0x80:  # nearly always
            offset += 2
        else:
            attribute, offset = dwarf.read_unsigned(data, offset)
            form, offset = dwarf.read_unsigned(data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            constant, offset = dwarf.read_signed(data, offset)
        if not attribute and not form:
            return tuple(attributes), offset
        attributes.append((attribute, form, constant))


_LENGTH_BYTES = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}


class FormReader:
    """A reader for the values of one unit's bytes."""

    __slots__ = ("_order", "_sizes", "data")

    def __init__(self, data: bytes, shape: Shape, order: Literal["little", "big"]) -> None:
        self.data = data
        self._order = order
        self._sizes = sizes(shape)

    def value(self, form: int, constant: int, offset: int) -> tuple[int | bytes, int]:
        """Return the value at an offset and the offset after it. Strings and blocks are bytes, other values numbers."""
        size = self._sizes[form]
        if size > 0:
            return self.number(offset, size), offset + size
        if form == dwarf.FORM_SDATA:
            return dwarf.read_signed(self.data, offset)
        if size == LEB128:
            return dwarf.read_unsigned(self.data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            return constant, offset
        if form == dwarf.FORM_INDIRECT:
            return self._indirect(offset)
        if size == 0:  # DW_FORM_flag_present
            return 1, offset
        if size == STRING:
            end = self.data.index(0, offset)
            return self.data[offset:end], end + 1
        if size == BLOCK:
            length, offset = dwarf.read_unsigned(self.data, offset)
        else:
            length, offset = self.number(offset, _LENGTH_BYTES[size]), offset + _LENGTH_BYTES[size]
        return self.data[offset : offset + length], offset + length

    def number(self, offset: int, size: int) -> int:
        """Return an unsigned number of fixed size."""
        if offset + size > len(self.data):
            raise ValueError(f"a value at {offset:#x} runs over the end of its unit")
        return int.from_bytes(self.data[offset : offset + size], self._order)

    def skip(self, abbreviation: Abbreviation, offset: int) -> int:
        """Return the offset after all values of a DIE."""
        if abbreviation.size >= 0:
            return offset + abbreviation.size
        data = self.data
        for skip in abbreviation.skips:
            if skip > 0:
                offset += skip
            elif skip == LEB128:
                while data[offset] >= 0x80:
                    offset += 1
                offset += 1
            elif skip == STRING:
                offset = data.index(0, offset) + 1
            elif skip == BLOCK:
                size, offset = dwarf.read_unsigned(data, offset)
                offset += size
            else:
                offset = self._skip_rare(skip, offset)
        return offset

    def _skip_rare(self, skip: int, offset: int) -> int:
        if skip == INDIRECT:
            return self._indirect(offset)[1]
        size = _LENGTH_BYTES[skip]
        return offset + size + self.number(offset, size)

    def _indirect(self, offset: int) -> tuple[int | bytes, int]:
        """Read a value that is preceded by its form."""
        form, offset = dwarf.read_unsigned(self.data, offset)
        if form in (dwarf.FORM_INDIRECT, dwarf.FORM_IMPLICIT_CONST) or form not in self._sizes:
            raise ValueError(f"a value at {offset:#x} of the form {form:#x}")
        return self.value(form, 0, offset)


_HEAD_BYTES: Final = 1 << 10
_LONG: Final = 0xFFFFFFFF  # marks 64-bit DWARF: an 8-byte length follows
_VERSIONS: Final = range(2, 6)
_ADDRESS_SIZES: Final = (2, 4, 8)

Value = int | bytes


class Header(NamedTuple):
    """The header of a unit.

    Attributes:
        start: offset in .debug_info.
        end: offset in .debug_info.
        shape: version and sizes.
        kind: DW_UT_*; DW_UT_compile before DWARF 5.
        table: offset of the abbreviations in .debug_abbrev.
        size: bytes of the header.
        dwo_id: 0 if the header has none.
    """

    start: int
    end: int
    shape: Shape
    kind: int
    table: int
    size: int
    dwo_id: int


class Attribute(NamedTuple):
    """An attribute's form and its undecoded value."""

    form: int
    value: Value


class UnitOwner(Protocol):
    """The lookups across units that a unit needs."""

    def table(self, offset: int, shape: Shape) -> AbbreviationTable:
        """Return the abbreviations at an offset of .debug_abbrev."""

    def unit_around(self, offset: int) -> DebugUnit | None:
        """Return the unit that contains an offset of .debug_info."""

    @property
    def alternate(self) -> UnitOwner | None:
        """The units of the supplementary file of dwz."""


class DebugUnit:
    """One unit of .debug_info.

    Args:
        sections: the debug sections of the unit's file.
        header: the unit's header.
        owner: the units of that file.
        offsets: the starts of the unit's parts of other sections, in packages of split files (dwp).
        skeleton: of a split unit, the unit in the program, which has the addresses.
    """

    def __init__(
        self,
        sections: DebugSections,
        header: Header,
        owner: UnitOwner,
        offsets: Mapping[str, int] | None = None,
        skeleton: DebugUnit | None = None,
    ) -> None:
        self.sections = sections
        self.header = header
        self.offsets = offsets or {}
        self.skeleton = skeleton
        self.owner = owner

    @cached_property
    def reader(self) -> FormReader:
        """The unit's bytes. Offsets count from the header, as in references within the unit."""
        return self._reader_of(self.header.end)

    def _reader_of(self, end: int) -> FormReader:
        data = bytes(self.sections.data("info")[self.header.start : end])
        return FormReader(data, self.header.shape, self.sections.order)

    @cached_property
    def abbreviations(self) -> AbbreviationTable:
        """The unit's abbreviations by code."""
        return self.owner.table(self.offsets.get("abbrev", 0) + self.header.table, self.header.shape)

    @cached_property
    def root(self) -> dict[int, Attribute]:
        """The attributes of the root DIE."""
        return self._root_die[1]

    @cached_property
    def _root_die(self) -> tuple[Abbreviation, dict[int, Attribute]]:
        """The root DIE. Reading the unit's first bytes is enough for most units."""
        head = self._reader_of(min(self.header.end, self.header.start + _HEAD_BYTES))
        try:
            return self._die_in(head, self.header.size)[:2]
        except DAMAGE:
            return self.die(self.header.size)[:2]

    @cached_property
    def tag(self) -> int:
        """The tag of the root DIE."""
        return self._root_die[0].tag

    def die(self, offset: int) -> tuple[Abbreviation, dict[int, Attribute], int]:
        """Return the abbreviation and attributes of the DIE at an offset from the unit's start, and the offset after the DIE."""
        if not self.header.size <= offset < self.header.end - self.header.start:
            raise ValueError(f"a reference to {self.header.start + offset:#x}, which is not in its unit")
        return self._die_in(self.reader, offset)

    def _die_in(self, reader: FormReader, offset: int) -> tuple[Abbreviation, dict[int, Attribute], int]:
        code, after = dwarf.read_unsigned(reader.data, offset)
        abbreviation = self.abbreviations.get(code)
        if abbreviation is None:
            raise ValueError(f"no abbreviation {code} for the entry at {self.header.start + offset:#x}")
        attributes, after = _attributes(reader, abbreviation, after)
        return abbreviation, attributes, after

    def attributes(self, abbreviation: Abbreviation, offset: int) -> tuple[dict[int, Attribute], int]:
        """Return the attributes whose values start at an offset, and the offset after them."""
        return _attributes(self.reader, abbreviation, offset)

    def target(self, attribute: Attribute) -> tuple[DebugUnit, int] | None:
        """Return the unit and the offset in it that a reference points to, None if that unit is missing."""
        form, value = attribute
        if isinstance(value, bytes):
            return None
        if form in dwarf.UNIT_REFERENCES:
            return self, value
        owner = self.owner.alternate if form in dwarf.ALTERNATE_REFERENCES else self.owner if form == dwarf.FORM_REF_ADDR else None
        unit = owner.unit_around(value) if owner else None
        return (unit, value - unit.header.start) if unit else None

    def release(self) -> None:
        """Free the unit's bytes. They are read again on demand."""
        self.__dict__.pop("reader", None)

    @cached_property
    def name(self) -> str:
        """DW_AT_name: the source file."""
        return self.text(dwarf.AT_NAME)

    @cached_property
    def comp_dir(self) -> str:
        """DW_AT_comp_dir: the compiler's working directory."""
        return self.text(dwarf.AT_COMP_DIR) or (self.skeleton.comp_dir if self.skeleton else "")

    @cached_property
    def dwo_name(self) -> str:
        """The file name of a skeleton's split unit, "" for complete units."""
        return self.text(dwarf.AT_DWO_NAME, dwarf.AT_GNU_DWO_NAME)

    @cached_property
    def dwo_id(self) -> int:
        """The id that a skeleton shares with its split unit, 0 for complete units."""
        return self.header.dwo_id or self.number(dwarf.AT_GNU_DWO_ID) or 0

    @cached_property
    def stmt_list(self) -> int | None:
        """The offset of the line program in .debug_line, None without one."""
        return self.number(dwarf.AT_STMT_LIST)

    @cached_property
    def low_pc(self) -> int:
        """The base address of ranges."""
        return self.skeleton.low_pc if self.skeleton else self.address(self.root.get(dwarf.AT_LOW_PC)) or 0

    @cached_property
    def addr_base(self) -> int:
        """The start of the unit's addresses in .debug_addr."""
        return self.number(dwarf.AT_ADDR_BASE, dwarf.AT_GNU_ADDR_BASE) or 0

    @cached_property
    def str_offsets_base(self) -> int:
        """The start of the unit's strings in .debug_str_offsets."""
        base = self.number(dwarf.AT_STR_OFFSETS_BASE)
        if base is not None:
            return base
        header = 0 if self.header.shape.version < 5 or not self.sections.suffix else 2 * self.header.shape.offset_size
        return self.offsets.get("str_offsets", 0) + header

    @cached_property
    def rnglists_base(self) -> int:
        """The start of the unit's offsets in .debug_rnglists."""
        base = self.number(dwarf.AT_RNGLISTS_BASE)
        if base is not None:
            return base
        size = self.header.shape.offset_size
        return self.offsets.get("rnglists", 0) + (size if size == 4 else size + 4) + 8  # length, version, sizes, count

    @cached_property
    def ranges_base(self) -> int:
        """The start of a split unit's ranges in the program's .debug_ranges (DWARF 4)."""
        return (self.skeleton.number(dwarf.AT_GNU_RANGES_BASE) or 0) if self.skeleton else 0

    def text(self, *attributes: int) -> str:
        """Return the first of these attributes of the root that it has, as a string, or "" without any."""
        attribute = next((self.root[attribute] for attribute in attributes if attribute in self.root), None)
        return "" if attribute is None else self.string(attribute).decode("utf-8", "surrogateescape")

    def number(self, *attributes: int) -> int | None:
        """Return the first of these attributes of the root that it has, as a number, or None without any."""
        values = (self.root[attribute].value for attribute in attributes if attribute in self.root)
        return next((value for value in values if isinstance(value, int)), None)

    def string(self, attribute: Attribute) -> bytes:
        """Return the bytes of a string attribute of any form."""
        form, value = attribute
        if isinstance(value, bytes):
            return value
        if form == dwarf.FORM_STRP:
            return self.sections.string("str", value)
        if form == dwarf.FORM_LINE_STRP:
            return self.sections.string("line_str", value)
        if form in dwarf.STRING_INDICES:
            size = self.header.shape.offset_size
            offset = self.sections.number("str_offsets", self.str_offsets_base + value * size, size)
            return self.sections.string("str", offset)
        if form in dwarf.ALTERNATE_STRINGS:
            return self.sections.alternate.string("str", value) if self.sections.alternate else b""
        raise ValueError(f"a string of the form {form:#x}")

    def address(self, attribute: Attribute | None) -> int | None:
        """Return an address attribute of any form, or None without one."""
        if attribute is None or isinstance(attribute.value, bytes):
            return None
        return self.indexed_address(attribute.value) if attribute.form in dwarf.ADDRESS_INDICES else attribute.value

    def indexed_address(self, index: int) -> int:
        """Return an entry of .debug_addr. A split unit's entries are in the program."""
        owner = self.skeleton or self
        size = self.header.shape.address_size
        return owner.sections.number("addr", owner.addr_base + index * size, size)


def _attributes(reader: FormReader, abbreviation: Abbreviation, offset: int) -> tuple[dict[int, Attribute], int]:
    attributes: dict[int, Attribute] = {}
    for attribute, form, constant in abbreviation.attributes:
        value, offset = reader.value(form, constant, offset)
        attributes[attribute] = Attribute._make((form, value))
    return attributes, offset


def read_header(sections: DebugSections, offset: int) -> Header:
    """Read the header at an offset of .debug_info. Raises ValueError if there is none."""
    data, order, start = sections.data("info"), sections.order, offset
    if offset + 11 > len(data):
        raise ValueError(f"no unit at {offset:#x} of .debug_info, which has {len(data)} bytes")
    offset_size, length = 4, int.from_bytes(data[offset : offset + 4], order)
    offset += 4
    if length == _LONG:
        offset_size, length = 8, int.from_bytes(data[offset : offset + 8], order)
        offset += 8
    end = min(offset + length, len(data))
    version = int.from_bytes(data[offset : offset + 2], order)
    if version not in _VERSIONS or offset + 2 > end:
        raise ValueError(f"a unit of version {version} at {start:#x} of .debug_info")
    if version < 5:
        table, after = int.from_bytes(data[offset + 2 : offset + 2 + offset_size], order), offset + 3 + offset_size
        kind, address_size = dwarf.UT_COMPILE, data[after - 1]
    else:
        kind, address_size = data[offset + 2], data[offset + 3]
        table, after = int.from_bytes(data[offset + 4 : offset + 4 + offset_size], order), offset + 4 + offset_size
    if address_size not in _ADDRESS_SIZES:
        raise ValueError(f"addresses of {address_size} bytes in the unit at {start:#x} of .debug_info")
    dwo_id = 0
    if kind in (dwarf.UT_SKELETON, dwarf.UT_SPLIT_COMPILE):
        dwo_id, after = int.from_bytes(data[after : after + 8], order), after + 8
    elif kind in (dwarf.UT_TYPE, dwarf.UT_SPLIT_TYPE):
        after += 8 + offset_size
    return Header(start, end, Shape(version, offset_size, address_size), kind, table, after - start, dwo_id)


# The address ranges of a DIE, as (start, end) pairs with an exclusive end. Layout: DWARF 4, section 2.17.3 (.debug_ranges); DWARF 5,
# section 7.25 (.debug_rnglists).

_BYTES_OF_ENTRY: Final = 3  # the minimum, to count the work
Ranges = list[tuple[int, int]]


def ranges_of(unit: DebugUnit, attributes: Mapping[int, Attribute]) -> Ranges:
    """Return the ranges of a DIE in file order; empty if it has no code."""
    listed = attributes.get(dwarf.AT_RANGES)
    if listed is not None and isinstance(listed.value, int):
        return range_list(unit, listed.form, listed.value)
    low = unit.address(attributes.get(dwarf.AT_LOW_PC))
    high = attributes.get(dwarf.AT_HIGH_PC)
    if low is None or high is None or isinstance(high.value, bytes):
        return []
    return _nonempty(low, end_of(unit, low, high))


def end_of(unit: DebugUnit, low: int, high: Attribute) -> int:
    """Return the end of code that starts at `low`. DW_AT_high_pc is an address, or a size."""
    if high.form == dwarf.FORM_ADDR or high.form in dwarf.ADDRESS_INDICES:
        return unit.address(high) or 0
    return low + high.value if isinstance(high.value, int) else low


def range_list(unit: DebugUnit, form: int, value: int) -> Ranges:
    """Return the ranges that a DW_AT_ranges value refers to."""
    if unit.header.shape.version < 5:
        return _ranges_before_5(unit, unit.ranges_base + value)
    if form == dwarf.FORM_RNGLISTX:
        size = unit.header.shape.offset_size
        value = unit.rnglists_base + unit.sections.number("rnglists", unit.rnglists_base + value * size, size)
    data, offset, begin = unit.sections.data("rnglists"), value, value
    base, ranges = unit.low_pc, list[tuple[int, int]]()
    while True:
        kind = data[offset]
        if kind == dwarf.RLE_OFFSET_PAIR:  # the kind of nearly all entries
            one, two = data[offset + 1], data[offset + 2]
            offset += 3
            if one >= _MORE or two >= _MORE:
                one, offset = dwarf.read_unsigned(data, offset - 2)
                two, offset = dwarf.read_unsigned(data, offset)
            if one < two:
                ranges.append((base + one, base + two))
        elif kind == dwarf.RLE_END_OF_LIST:
            unit.sections.spend(1 + (offset + 1 - begin) // _BYTES_OF_ENTRY)
            return ranges
        else:
            entry, base, offset = read_list_entry(unit, "rnglists", kind, offset + 1, base)
            ranges += _nonempty(*entry) if entry else ()


def _nonempty(start: int, end: int) -> Ranges:
    return [(start, end)] if start < end else []


def _ranges_before_5(unit: DebugUnit, offset: int) -> Ranges:
    owner = unit.skeleton or unit  # .debug_ranges stays in the program
    data, order, size = owner.sections.data("ranges"), owner.sections.order, unit.header.shape.address_size
    base, last = unit.low_pc, (1 << 8 * size) - 1
    ranges: Ranges = []
    for at_offset in range(offset, len(data) - 2 * size + 1, 2 * size):
        unit.sections.spend(1)
        start = int.from_bytes(data[at_offset : at_offset + size], order)
        end = int.from_bytes(data[at_offset + size : at_offset + 2 * size], order)
        if start == last:
            base = end
        elif not start and not end:
            return ranges
        else:
            ranges += _nonempty(start + base & last, end + base & last)
    raise ValueError(f"ranges without an end at {offset:#x} of .debug_ranges")


#: kind of an entry -> its operands: 0 for LEB128 numbers, 1 for addresses
_OPERANDS: Final = {
    dwarf.RLE_BASE_ADDRESSX: (0,),
    dwarf.RLE_STARTX_ENDX: (0, 0),
    dwarf.RLE_STARTX_LENGTH: (0, 0),
    dwarf.RLE_OFFSET_PAIR: (0, 0),
    dwarf.RLE_BASE_ADDRESS: (1,),
    dwarf.RLE_START_END: (1, 1),
    dwarf.RLE_START_LENGTH: (1, 0),
}


def read_list_entry(unit: DebugUnit, section: str, kind: int, offset: int, base: int) -> tuple[tuple[int, int] | None, int, int]:
    """Return an entry's range (None if it sets the base), the base for later offset pairs, and the offset after the operands.

    Args:
        unit: the unit of the list.
        section: rnglists or loclists.
        kind: of the entry, by its number in .debug_rnglists.
        offset: of its operands.
        base: of offset pairs.
    """
    data, operands = unit.sections.data(section), list[int]()
    if kind not in _OPERANDS:
        raise ValueError(f"an entry of kind {kind} in .debug_{section}")
    for is_address in _OPERANDS[kind]:
        if is_address:
            size = unit.header.shape.address_size
            operand, offset = unit.sections.number(section, offset, size), offset + size
        else:
            operand, offset = dwarf.read_unsigned(data, offset)
        operands.append(operand)
    if kind in (dwarf.RLE_BASE_ADDRESSX, dwarf.RLE_STARTX_ENDX, dwarf.RLE_STARTX_LENGTH):
        operands[0] = unit.indexed_address(operands[0])
    if len(operands) == 1:
        return None, operands[0], offset
    start, end = operands
    if kind == dwarf.RLE_OFFSET_PAIR:
        return (base + start, base + end), base, offset
    if kind == dwarf.RLE_STARTX_ENDX:
        end = unit.indexed_address(end)
    return (start, end if kind in (dwarf.RLE_STARTX_ENDX, dwarf.RLE_START_END) else start + end), base, offset
