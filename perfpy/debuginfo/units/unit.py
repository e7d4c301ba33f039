"""One unit of .debug_info: its header, its root's attributes, and the values of attributes.

Layout: DWARF 5, sections 7.5 and 3.1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from perfpy.debuginfo.units import abbreviations, dwarf, leb128
from perfpy.debuginfo.units.abbreviations import BLOCK, BLOCK1, BLOCK2, BLOCK4, INDIRECT, LEB128, STRING, Shape
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.debuginfo.units.abbreviations import Abbreviation, AbbreviationTable
    from perfpy.debuginfo.units.sections import DebugSections

_LENGTH_BYTES = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}


class FormReader:
    """A reader for the values of one unit's bytes."""

    __slots__ = ("_order", "_sizes", "data")

    def __init__(self, data: bytes, shape: Shape, order: Literal["little", "big"]) -> None:
        self.data = data
        self._order = order
        self._sizes = abbreviations.sizes(shape)

    def value(self, form: int, constant: int, offset: int) -> tuple[int | bytes, int]:
        """Return the value at an offset and the offset after it. Strings and blocks are bytes, other values numbers."""
        size = self._sizes[form]
        if size > 0:
            return self.number(offset, size), offset + size
        if form == dwarf.FORM_SDATA:
            return leb128.read_signed(self.data, offset)
        if size == LEB128:
            return leb128.read_unsigned(self.data, offset)
        if form == dwarf.FORM_IMPLICIT_CONST:
            return constant, offset
        if form == dwarf.FORM_INDIRECT:
            return self._indirect(offset)
        if size == 0:  # DW_FORM_flag_present
            return 1, offset
        return self._bytes(size, offset)

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
                size, offset = leb128.read_unsigned(data, offset)
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
        form, offset = leb128.read_unsigned(self.data, offset)
        if form in (dwarf.FORM_INDIRECT, dwarf.FORM_IMPLICIT_CONST) or form not in self._sizes:
            raise ValueError(f"a value at {offset:#x} of the form {form:#x}")
        return self.value(form, 0, offset)

    def _bytes(self, size: int, offset: int) -> tuple[bytes, int]:
        if size == STRING:
            end = self.data.index(0, offset)
            return self.data[offset:end], end + 1
        if size == BLOCK:
            length, offset = leb128.read_unsigned(self.data, offset)
        else:
            length, offset = self.number(offset, _LENGTH_BYTES[size]), offset + _LENGTH_BYTES[size]
        return self.data[offset : offset + length], offset + length


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
        code, after = leb128.read_unsigned(reader.data, offset)
        abbreviation = self.abbreviations.get(code)
        if abbreviation is None:
            raise ValueError(f"no abbreviation {code} for the entry at {self.header.start + offset:#x}")
        attributes, after = _attributes(reader, abbreviation, after)
        return abbreviation, attributes, after

    def attributes(self, abbreviation: Abbreviation, offset: int) -> tuple[dict[int, Attribute], int]:
        """Return the attributes whose values start at an offset, and the offset after them."""
        return _attributes(self.reader, abbreviation, offset)

    @property
    def is_compilation(self) -> bool:
        """Whether the unit describes a source file, not a type."""
        return self.header.kind in (dwarf.UT_COMPILE, dwarf.UT_SPLIT_COMPILE) and self.tag == dwarf.TAG_COMPILE_UNIT

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
        """Return the first of these attributes of the root that it has, as a string; "" without any."""
        attribute = next((self.root[attribute] for attribute in attributes if attribute in self.root), None)
        return "" if attribute is None else self.string(attribute).decode("utf-8", "surrogateescape")

    def number(self, *attributes: int) -> int | None:
        """Return the first of these attributes of the root that it has, as a number; None without any."""
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
        """Return an address attribute of any form; None without one."""
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
        attributes[attribute] = Attribute(form, value)
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
