"""DIEs as a tree: attributes, children and references, for the few that a caller visits.

InlineSearch walks whole units quickly; this module follows single paths through them. Layout: DWARF 5, chapters 2 and 7.5.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.units import ranges_of, read_list_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.debuginfo.units import Abbreviation, Attribute, DebugUnit, Ranges


_LINKS_MOST: Final = 16  # references from one DIE to the next; damaged files may have cycles
_CHILDREN_MOST: Final = 1 << 20
#: references to the DIE that has a DIE's other attributes
_ORIGINS: Final = (dwarf.AT_ABSTRACT_ORIGIN, dwarf.AT_SPECIFICATION)


class Die:
    """One DIE. Raises the errors of DAMAGE if it is damaged.

    Attributes:
        unit: the unit that contains it.
        offset: bytes from the unit's start.
        attributes: its own attributes.
    """

    __slots__ = ("__dict__", "abbreviation", "after", "attributes", "offset", "unit")

    def __init__(self, unit: DebugUnit, offset: int) -> None:
        self.unit = unit
        self.offset = offset
        self.abbreviation: Abbreviation
        self.abbreviation, self.attributes, self.after = unit.die(offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Die) and other.offset == self.offset and other.unit is self.unit

    def __hash__(self) -> int:
        return hash((self.unit.header.start, self.offset))

    @property
    def tag(self) -> int:
        """Return DW_TAG_*."""
        return self.abbreviation.tag

    def children(self) -> Iterator[Die]:
        """Yield the children in file order."""
        if not self.abbreviation.children:
            return
        data, offset = self.unit.reader.data, self.after
        for _ in range(_CHILDREN_MOST):
            if offset >= len(data) or not data[offset]:
                return
            self.unit.sections.spend(1)
            child = Die(self.unit, offset)
            yield child
            offset = child.end

    @cached_property
    def end(self) -> int:
        """The offset after the DIE and its children."""
        if not self.abbreviation.children:
            return self.after
        sibling = self.attributes.get(dwarf.AT_SIBLING)
        if sibling and sibling.form in dwarf.UNIT_REFERENCES and isinstance(sibling.value, int) and sibling.value > self.after:
            return sibling.value
        return skip_children(self.unit, self.after)

    def attribute(self, name: int) -> tuple[DebugUnit, Attribute] | None:
        """Return an attribute of the DIE or of those it refers to, and the unit that it is in."""
        die: Die | None = self
        for _ in range(_LINKS_MOST):
            if die is None:
                return None
            if name in die.attributes:
                return die.unit, die.attributes[name]
            die = die.origin
        return None

    @property
    def origin(self) -> Die | None:
        """Return the DIE with the other attributes: a declaration, or the function of an inlined call."""
        return next((self.reference(name) for name in _ORIGINS if name in self.attributes), None)

    def reference(self, name: int) -> Die | None:
        """Return the DIE that one of its own attributes refers to, None without it."""
        attribute = self.attributes.get(name)
        target = self.unit.target(attribute) if attribute else None
        return Die(*target) if target else None

    @cached_property
    def type(self) -> Die | None:
        """The DIE of the type, or None for void."""
        value = self.attribute(dwarf.AT_TYPE)
        target = value[0].target(value[1]) if value else None
        return Die(*target) if target else None

    @cached_property
    def name(self) -> str:
        """DW_AT_name, "" without one."""
        return self.text(dwarf.AT_NAME)

    def text(self, name: int) -> str:
        """Return a string attribute, "" without it."""
        value = self.attribute(name)
        return value[0].string(value[1]).decode("utf-8", "surrogateescape") if value else ""

    def number(self, name: int) -> int | None:
        """Return a numeric attribute, None without it."""
        value = self.attribute(name)
        return value[1].value if value and isinstance(value[1].value, int) else None


def skip_children(unit: DebugUnit, offset: int) -> int:
    """Return the offset after the children that start at an offset."""
    reader, table = unit.reader, unit.abbreviations
    data, depth, visited = reader.data, 1, 0
    while depth:
        code, offset = dwarf.read_unsigned(data, offset)
        if not code:
            depth -= 1
            continue
        visited += 1
        abbreviation = table.get(code)
        if abbreviation is None:
            raise ValueError(f"no abbreviation {code} for the entry at {unit.header.start + offset:#x}")
        offset = reader.skip(abbreviation, offset)
        depth += abbreviation.children
    unit.sections.spend(visited >> 3)
    return offset


# The functions of a unit by name, and the calls that the compiler inlined. One walk over the unit's DIEs collects them. Types are
# skipped, except classes of languages whose classes declare functions. Layout: DWARF 5, section 3.3.

_CLASSES: Final = frozenset({dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE, dwarf.TAG_ENUMERATION_TYPE})
_SCOPES: Final = frozenset({dwarf.TAG_COMPILE_UNIT, dwarf.TAG_PARTIAL_UNIT, dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE})
_BLOCKS: Final = frozenset({dwarf.TAG_LEXICAL_BLOCK, dwarf.TAG_TRY_BLOCK, dwarf.TAG_CATCH_BLOCK})
_C_LANGUAGES: Final = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001, 0x16})  # C of all years, assembler, Go
_DEPTH_MOST: Final = 1 << 12


class CodeDie:
    """A function's own code, or the code of one of its inlined calls.

    Attributes:
        die: the DIE.
        ranges: its code, in the order of the file.
        entry: the address at which it is entered.
        origin: (start of the unit, offset) of the DIE that has its name; its own for complete functions.
        call_file: for inlined calls, the file of the call as a number of the unit.
        call_line: for inlined calls, the line of the call, otherwise 0.
        caller: for inlined calls, the code that contains the call: a function's own or that of another inlined call; otherwise None.
        function: for inlined calls, the function whose code contains the call; itself otherwise.
    """

    __slots__ = ("call_file", "call_line", "caller", "die", "entry", "function", "origin", "ranges")

    def __init__(self, die: Die, ranges: Ranges, caller: CodeDie | None) -> None:
        self.die = die
        self.ranges = ranges
        self.entry = _entry(die, ranges)
        self.caller = caller
        self.function: CodeDie = caller.function if caller else self
        self.origin = _origin(die)
        self.call_file = self.call_line = 0
        if caller:
            self.call_file, self.call_line = die.number(dwarf.AT_CALL_FILE) or 0, die.number(dwarf.AT_CALL_LINE) or 0

    @property
    def is_inlined(self) -> bool:
        """Whether this is an inlined call."""
        return self.function is not self

    @property
    def is_repeated(self) -> bool:
        """Whether this is a call of a function inlined into its own code, as compilers write a function that they inline in two parts."""
        caller = self.caller
        while caller is not None:
            if caller.origin == self.origin or (caller.caller is None and self.origin == (caller.die.unit.header.start, caller.die.offset)):
                return True
            caller = caller.caller
        return False

    def holds(self, address: int) -> bool:
        """Whether an address is part of the code."""
        return any(start <= address < end for start, end in self.ranges)

    @property
    def end(self) -> int:
        """The end of the range that has the entry."""
        return next((end for start, end in self.ranges if start <= self.entry < end), self.entry)


class FunctionName:
    """The names of one function.

    Attributes:
        name: as in the source: cost.
        qualified: with namespaces and classes: shop::Item::cost.
        linkage: the symbol's name, "" if the language does not mangle it.
        die: a DIE that has the name, and a declared line if there is one.
    """

    __slots__ = ("die", "linkage", "name", "qualified")

    def __init__(self, name: str, qualified: str, linkage: str, die: Die) -> None:
        self.name = name
        self.qualified = qualified
        self.linkage = linkage
        self.die = die


Key = tuple[int, int]


class UnitFunctions:
    """The functions of one unit. Raises the errors of DAMAGE if the unit is damaged.

    Attributes:
        names: the names of functions by (start of the unit, offset of the DIE).
        code: functions with own code and inlined calls, in the order of the file.
    """

    def __init__(self, unit: DebugUnit) -> None:
        self.unit = unit
        self.names: dict[Key, FunctionName] = {}
        self.code: list[CodeDie] = []
        self._has_methods = unit.number(dwarf.AT_LANGUAGE) not in _C_LANGUAGES
        self._walk()

    def name_of(self, code: CodeDie) -> FunctionName:
        """Return the names of a function or of an inlined call's function."""
        name = self.names.get(code.origin)
        if name is None:  # declared in another unit
            die = code.die
            name = FunctionName(die.name, die.name, _linkage(die), die)
            self.names[code.origin] = name
        return name

    def _walk(self) -> None:
        unit = self.unit
        unit.sections.spend((unit.header.end - unit.header.start) >> 3)
        table, reader = unit.abbreviations, unit.reader
        data, offset = reader.data, unit.header.size
        scopes: list[tuple[str, CodeDie | None]] = []
        while offset < len(data):
            start = offset
            code, offset = dwarf.read_unsigned(data, offset)
            if not code:
                if scopes:
                    scopes.pop()
                if not scopes:
                    return
                continue
            abbreviation = table.get(code)
            if abbreviation is None:
                raise ValueError(f"no abbreviation {code} for the entry at {unit.header.start + start:#x}")
            after = reader.skip(abbreviation, offset)
            inside = self._visit(abbreviation, start, scopes)
            if abbreviation.children:
                if inside is None:
                    has_sibling = abbreviation.has(dwarf.AT_SIBLING)
                    offset = Die(unit, start).end if has_sibling else skip_children(unit, after)
                    continue
                scopes.append(inside)
                if len(scopes) > _DEPTH_MOST:
                    raise ValueError(f"entries nested more than {_DEPTH_MOST} deep at {unit.header.start + start:#x}")
            offset = after

    def _visit(self, abbreviation: Abbreviation, start: int, scopes: list[tuple[str, CodeDie | None]]) -> tuple[str, CodeDie | None] | None:
        """Collect a DIE; return the scope of its children and the code that contains them, None to skip them."""
        scope, parent = scopes[-1] if scopes else ("", None)
        tag = abbreviation.tag
        if tag == dwarf.TAG_SUBPROGRAM:
            return self._function(Die(self.unit, start), scope)
        if tag == dwarf.TAG_INLINED_SUBROUTINE and parent:
            return scope, self._inlined(Die(self.unit, start), parent)
        if tag in _BLOCKS:
            return scope, parent
        if tag in _SCOPES or (tag in _CLASSES and self._has_methods):
            if not abbreviation.children:
                return scope, parent
            name = "" if tag in (dwarf.TAG_COMPILE_UNIT, dwarf.TAG_PARTIAL_UNIT) else Die(self.unit, start).name
            return (f"{scope}::{name}" if scope and name else name or scope), parent
        return None

    def _function(self, die: Die, scope: str) -> tuple[str, CodeDie | None]:
        ranges = ranges_of(self.unit, die.attributes)
        code = CodeDie(die, ranges, None) if ranges else None
        key = (self.unit.header.start, die.offset)
        link = _origin(die)
        if link == key:
            name = die.name
            self.names[key] = FunctionName(name, f"{scope}::{name}" if scope and name else name, _linkage(die), die)
        elif link in self.names:
            origin = self.names[link]
            linkage = origin.linkage or _linkage(die)
            self.names[key] = FunctionName(origin.name, origin.qualified, linkage, die)
            if not origin.linkage and linkage:
                origin.linkage = linkage
        if code:
            self.code.append(code)
        return scope, code

    def _inlined(self, die: Die, caller: CodeDie) -> CodeDie:
        """Collect an inlined call, also one without instructions of its own that has an address; return the code of its children."""
        ranges = ranges_of(self.unit, die.attributes)
        if not ranges and dwarf.AT_LOW_PC not in die.attributes:
            return caller
        call = CodeDie(die, ranges, caller)
        self.code.append(call)
        return call


def _origin(die: Die) -> Key:
    """Return the key of the DIE that a DIE completes, its own without one."""
    own = die.unit.header.start, die.offset
    target = next((die.unit.target(die.attributes[name]) for name in _ORIGINS if name in die.attributes), None)
    return (target[0].header.start, target[1]) if target else own


def _linkage(die: Die) -> str:
    return die.text(dwarf.AT_LINKAGE_NAME) or die.text(dwarf.AT_MIPS_LINKAGE_NAME)


def _entry(die: Die, ranges: Ranges) -> int:
    """Return the address at which code is entered."""
    attributes: Mapping[int, Attribute] = die.attributes
    entry = attributes.get(dwarf.AT_ENTRY_PC)
    low = die.unit.address(attributes.get(dwarf.AT_LOW_PC))
    if entry is not None and isinstance(entry.value, int):
        if entry.form == dwarf.FORM_ADDR or entry.form in dwarf.ADDRESS_INDICES:
            return die.unit.address(entry) or 0
        return (ranges[0][0] if low is None else low) + entry.value
    return ranges[0][0] if low is None else low


# The location of a variable at an address: a location expression, from the attribute itself or from a location list. Layout: DWARF 5,
# sections 2.6.2 and 7.29 (.debug_loclists); DWARF 4, section 2.6.2 (.debug_loc).

_ENTRIES_MOST: Final = 1 << 16  # of one list


class LocatedRange(NamedTuple):
    """The code in which a variable is at one location.

    Attributes:
        start: address.
        end: address, exclusive; None for all code.
        expression: a DWARF expression; empty if the value is lost.
    """

    start: int
    end: int | None
    expression: bytes

    def holds(self, address: int) -> bool:
        """Whether an address is in the code."""
        return self.end is None or self.start <= address < self.end


def locations_of(unit: DebugUnit, attribute: Attribute) -> list[LocatedRange]:
    """Return the locations that a DW_AT_location, or another attribute of its class, contains or refers to."""
    if isinstance(attribute.value, bytes):
        return [LocatedRange(0, None, attribute.value)]
    if unit.header.shape.version < 5:
        # Packages number .debug_loc and .debug_loclists alike (split_files).
        return list(_list_before_5(unit, unit.offsets.get("loclists", 0) + attribute.value))
    offset = attribute.value
    if attribute.form == dwarf.FORM_LOCLISTX:
        size = unit.header.shape.offset_size
        base = _lists_base(unit)
        offset = base + unit.sections.number("loclists", base + attribute.value * size, size)
    return list(_list_of_5(unit, offset))


def _lists_base(unit: DebugUnit) -> int:
    """Return the start of the unit's offsets in .debug_loclists."""
    base = unit.number(dwarf.AT_LOCLISTS_BASE)
    if base is not None:
        return base
    size = unit.header.shape.offset_size
    return unit.offsets.get("loclists", 0) + (size if size == 4 else size + 4) + 8  # length, version, sizes, count


def _list_before_5(unit: DebugUnit, offset: int) -> Iterator[LocatedRange]:
    if unit.sections.suffix:
        yield from _split_list(unit, offset)
        return
    size, sections = unit.header.shape.address_size, unit.sections
    data, base, last = sections.data("loc"), unit.low_pc, (1 << 8 * unit.header.shape.address_size) - 1
    for _ in range(_ENTRIES_MOST):
        sections.spend(1)
        start, end = sections.number("loc", offset, size), sections.number("loc", offset + size, size)
        offset += 2 * size
        if start == last:
            base = end
        elif not start and not end:
            return
        else:
            length = sections.number("loc", offset, 2)
            yield LocatedRange(start + base & last, end + base & last, bytes(data[offset + 2 : offset + 2 + length]))
            offset += 2 + length


def _split_list(unit: DebugUnit, offset: int) -> Iterator[LocatedRange]:
    """Yield the entries of a list in a split file of DWARF 4: kinds as in DWARF 5, lengths of four bytes, expressions of two."""
    sections, data = unit.sections, unit.sections.data("loc")
    for _ in range(_ENTRIES_MOST):
        sections.spend(1)
        kind = data[offset]
        if kind != dwarf.LLE_STARTX_LENGTH:
            return
        index, offset = dwarf.read_unsigned(data, offset + 1)
        start, size = unit.indexed_address(index), sections.number("loc", offset, 4)
        length = sections.number("loc", offset + 4, 2)
        yield LocatedRange(start, start + size, bytes(data[offset + 6 : offset + 6 + length]))
        offset += 6 + length


def _list_of_5(unit: DebugUnit, offset: int) -> Iterator[LocatedRange]:
    data, base = unit.sections.data("loclists"), unit.low_pc
    for _ in range(_ENTRIES_MOST):
        unit.sections.spend(1)
        kind, offset = data[offset], offset + 1
        if kind == dwarf.LLE_END_OF_LIST:
            return
        if kind == dwarf.LLE_GNU_VIEW_PAIR:
            offset = dwarf.skip(data, dwarf.skip(data, offset))
            continue
        located: tuple[int, int | None] | None = (0, None)
        if kind != dwarf.LLE_DEFAULT_LOCATION:  # later kinds have the number of a range's kind + 1
            located, base, offset = read_list_entry(unit, "loclists", kind - (kind > dwarf.LLE_DEFAULT_LOCATION), offset, base)
        if located:
            length, offset = dwarf.read_unsigned(data, offset)
            yield LocatedRange(*located, bytes(data[offset : offset + length]))
            offset += length
