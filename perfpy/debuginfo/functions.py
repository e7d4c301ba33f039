"""The functions of a unit by name, and the calls that the compiler inlined.

One walk over the unit's DIEs collects them. Types are skipped, except classes of languages whose classes declare functions.
Layout: DWARF 5, section 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf, leb128
from perfpy.debuginfo.units.dies import Die, skip_children
from perfpy.debuginfo.units.ranges import ranges_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.debuginfo.units.abbreviations import Abbreviation
    from perfpy.debuginfo.units.ranges import Ranges
    from perfpy.debuginfo.units.unit import Attribute, DebugUnit

_CLASSES: Final = frozenset({dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE, dwarf.TAG_ENUMERATION_TYPE})
_SCOPES: Final = frozenset({dwarf.TAG_COMPILE_UNIT, dwarf.TAG_PARTIAL_UNIT, dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE})
_BLOCKS: Final = frozenset({dwarf.TAG_LEXICAL_BLOCK, dwarf.TAG_TRY_BLOCK, dwarf.TAG_CATCH_BLOCK})
_C_LANGUAGES: Final = frozenset({0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x8001, 0x16})  # C of all years, assembler, Go
_DEPTH_MOST: Final = 1 << 12
_ORIGINS: Final = (dwarf.AT_ABSTRACT_ORIGIN, dwarf.AT_SPECIFICATION)


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
            code, offset = leb128.read_unsigned(data, offset)
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
                    offset = self._after_children(abbreviation, start, after)
                    continue
                scopes.append(inside)
                if len(scopes) > _DEPTH_MOST:
                    raise ValueError(f"entries nested more than {_DEPTH_MOST} deep at {unit.header.start + start:#x}")
            offset = after

    def _after_children(self, abbreviation: Abbreviation, start: int, after: int) -> int:
        if abbreviation.has(dwarf.AT_SIBLING):
            return Die(self.unit, start).end
        return skip_children(self.unit, after)

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
