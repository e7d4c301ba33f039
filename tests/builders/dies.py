"""DIEs: .debug_info and .debug_abbrev made in memory, of versions 2 to 5, with all that functions and inlined calls need.

    inner = function("inner")
    main = function("main", (0x1000, 0x1100), inlined(inner, (0x1010, 0x1020), file=1, line=7))
    file = Dies(unit(inner, main), version=5).elf()

A DIE refers to another one by being given it as a value. Layout: DWARF 5, chapter 7.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfpy.debuginfo import dwarf
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.line_programs import signed, unsigned

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXED = {dwarf.FORM_DATA1: "B", dwarf.FORM_DATA2: "H", dwarf.FORM_DATA4: "I", dwarf.FORM_DATA8: "Q", dwarf.FORM_FLAG: "B"}
FIXED |= {dwarf.FORM_STRX1: "B", dwarf.FORM_ADDRX1: "B", dwarf.FORM_REF1: "B", dwarf.FORM_REF2: "H", dwarf.FORM_REF8: "Q"}
OFFSETS = {dwarf.FORM_SEC_OFFSET, dwarf.FORM_STRP, dwarf.FORM_LINE_STRP, dwarf.FORM_GNU_REF_ALT, dwarf.FORM_GNU_STRP_ALT}
LEB = {dwarf.FORM_UDATA, dwarf.FORM_ADDRX, dwarf.FORM_STRX, dwarf.FORM_RNGLISTX, dwarf.FORM_REF_UDATA, dwarf.FORM_GNU_ADDR_INDEX}


@dataclass(eq=False)
class Die:
    """One entry: its tag, (attribute, form, value) each, and children. sibling: whether it says where the next one is."""

    tag: int
    attributes: list[tuple[int, int, Any]] = field(default_factory=list)
    children: list[Die] = field(default_factory=list)
    sibling: bool = False
    offset: int = 0  # in .debug_info
    unit: int = 0
    next_one: int = 0

    def add(self, attribute: int, form: int, value: Any) -> Die:
        """One attribute more."""
        self.attributes.append((attribute, form, value))
        return self

    def walk(self) -> Iterator[Die]:
        """It and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def unit(*children: Die, name: str = "a.c", language: int = 0x0C, low_pc: int | None = 0) -> Die:
    """A DW_TAG_compile_unit."""
    root = Die(dwarf.TAG_COMPILE_UNIT, children=list(children)).add(dwarf.AT_NAME, dwarf.FORM_STRING, name)
    root.add(dwarf.AT_LANGUAGE, dwarf.FORM_DATA2, language)
    return root if low_pc is None else root.add(dwarf.AT_LOW_PC, dwarf.FORM_ADDR, low_pc)


def code(die: Die, bounds: tuple[int, int] | None, *, absolute: bool = False) -> Die:
    """Give a DIE low_pc and high_pc; absolute: the latter as an address, as DWARF 2 has it."""
    if bounds is None:
        return die
    die.add(dwarf.AT_LOW_PC, dwarf.FORM_ADDR, bounds[0])
    form, high = (dwarf.FORM_ADDR, bounds[1]) if absolute else (dwarf.FORM_DATA8, bounds[1] - bounds[0])
    return die.add(dwarf.AT_HIGH_PC, form, high)


def function(
    name: str, bounds: tuple[int, int] | None = None, *children: Die, linkage: str = "", sibling: bool = False, absolute: bool = False
) -> Die:
    """A DW_TAG_subprogram; without bounds what others are instances of."""
    die = Die(dwarf.TAG_SUBPROGRAM, children=list(children), sibling=sibling)
    if name:
        die.add(dwarf.AT_NAME, dwarf.FORM_STRING, name)
    if linkage:
        die.add(dwarf.AT_LINKAGE_NAME, dwarf.FORM_STRING, linkage)
    return code(die, bounds, absolute=absolute)


def inlined(
    origin: Die, bounds: tuple[int, int], *children: Die, file: int = 1, line: int = 0, form: int = dwarf.FORM_REF4, sibling: bool = False
) -> Die:
    """A DW_TAG_inlined_subroutine."""
    die = Die(dwarf.TAG_INLINED_SUBROUTINE, children=list(children), sibling=sibling)
    die.add(dwarf.AT_ABSTRACT_ORIGIN, form, origin)
    code(die, bounds)
    return die.add(dwarf.AT_CALL_FILE, dwarf.FORM_DATA1, file).add(dwarf.AT_CALL_LINE, dwarf.FORM_UDATA, line)


def block(bounds: tuple[int, int] | None, *children: Die) -> Die:
    """A DW_TAG_lexical_block."""
    return code(Die(dwarf.TAG_LEXICAL_BLOCK, children=list(children)), bounds)


class Dies:
    """Units one after the other. sections: further ones by name without .debug_; suffix: .dwo for the parts of split files."""

    def __init__(
        self,
        *units: Die,
        version: int = 4,
        endian: str = "<",
        bits: int = 64,
        long: bool = False,
        suffix: str = "",
        dwo_id: int = 0,
        **sections: bytes,
    ) -> None:
        self.version, self.endian, self.bits, self.suffix = version, endian, bits, suffix
        self.long = long
        self.dwo_id = dwo_id
        self.sections = sections
        self._codes: dict[tuple[int, bool, tuple[tuple[int, int, int], ...]], int] = {}
        self.units = units
        for _ in range(2):  # the second time every offset is known
            self.info = b"".join(self._parts())
        self.abbrev = b"".join(self._abbreviation(*key, number) for key, number in self._codes.items()) + b"\0"

    def elf(self, start: int = 0x1000, size: int = 0x1000) -> Elf:
        """A file with these sections, and code."""
        elf = Elf(bits=self.bits, endian=self.endian)
        elf.section(".text", flags=ALLOC | EXEC, addr=start, offset=0x1000, size=size).segment(start, 0x1000, size)
        for name, data in {"info": self.info, "abbrev": self.abbrev, **self.sections}.items():
            elf.section(f".debug_{name}{self.suffix}", data, flags=0)
        return elf

    def _parts(self) -> Iterator[bytes]:
        start = 0
        for root in self.units:
            data = self._unit(root, start)
            start += len(data)
            yield data

    @property
    def _word(self) -> str:
        return "Q" if self.long else "I"

    def _unit(self, root: Die, start: int) -> bytes:
        head = struct.pack(self.endian + "H", self.version)
        table, size = struct.pack(self.endian + self._word, 0), bytes([self.bits // 8])
        if self.version >= 5:
            kind = (root.tag == 0x4A and 4) or (5 if self.suffix else 1)
            head += bytes([kind]) + size + table + (struct.pack(self.endian + "Q", self.dwo_id) if kind > 3 else b"")
        else:
            head += table + size
        before = 12 if self.long else 4
        body = head + self._die(root, start + before + len(head), start)
        return (b"\xff\xff\xff\xff" if self.long else b"") + struct.pack(self.endian + self._word, len(body)) + body

    def _die(self, die: Die, offset: int, start: int) -> bytes:
        die.offset, die.unit = offset, start
        attributes = [*die.attributes]
        if die.sibling:
            attributes.append((dwarf.AT_SIBLING, dwarf.FORM_REF4, die.next_one - start))
        forms = tuple((attribute, form, value if form == dwarf.FORM_IMPLICIT_CONST else 0) for attribute, form, value in attributes)
        number = self._codes.setdefault((die.tag, bool(die.children), forms), len(self._codes) + 1)
        data = unsigned(number) + b"".join(self._value(form, value, start) for _, form, value in attributes)
        for child in die.children:
            data += self._die(child, offset + len(data), start)
        data += b"\0" if die.children else b""
        die.next_one = offset + len(data)
        return data

    def _value(self, form: int, value: Any, start: int) -> bytes:
        if isinstance(value, Die):
            value = value.offset if form in (dwarf.FORM_REF_ADDR, dwarf.FORM_GNU_REF_ALT) else value.offset - start
            value = max(value, 0)
        if form == dwarf.FORM_ADDR:
            return struct.pack(self.endian + ("Q" if self.bits == 64 else "I"), value)
        if form == dwarf.FORM_REF4:
            return struct.pack(self.endian + "I", value)
        if form in FIXED:
            return struct.pack(self.endian + FIXED[form], value)
        if form in OFFSETS or form == dwarf.FORM_REF_ADDR:
            return struct.pack(self.endian + self._word, value)
        return self._varying(form, value)

    @staticmethod
    def _varying(form: int, value: Any) -> bytes:
        if form in LEB:
            return unsigned(value)
        if form == dwarf.FORM_SDATA:
            return signed(value)
        if form == dwarf.FORM_STRING:
            return bytes(value, "utf-8") + b"\0"
        if form in (dwarf.FORM_FLAG_PRESENT, dwarf.FORM_IMPLICIT_CONST):
            return b""
        if form == dwarf.FORM_EXPRLOC:
            return unsigned(len(value)) + bytes(value)
        if form == dwarf.FORM_BLOCK1:
            return bytes([len(value)]) + bytes(value)
        if form == dwarf.FORM_INDIRECT:
            return unsigned(dwarf.FORM_UDATA) + unsigned(value)
        raise ValueError(f"no way to write the form {form:#x}")

    @staticmethod
    def _abbreviation(tag: int, children: bool, forms: tuple[tuple[int, int, int], ...], number: int) -> bytes:
        data = unsigned(number) + unsigned(tag) + bytes([children])
        for attribute, form, value in forms:
            data += unsigned(attribute) + unsigned(form) + (signed(value) if form == dwarf.FORM_IMPLICIT_CONST else b"")
        return data + b"\0\0"
