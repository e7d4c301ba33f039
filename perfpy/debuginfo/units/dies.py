"""DIEs as a tree: attributes, children and references, for the few that a caller visits.

InlineSearch walks whole units quickly; this module follows single paths through them. Layout: DWARF 5, chapters 2 and 7.5.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.units.abbreviations import Abbreviation
    from perfpy.debuginfo.units.unit import Attribute, DebugUnit

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
        """The DIE of the type; None for void."""
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
        code, offset = leb128.read_unsigned(data, offset)
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
