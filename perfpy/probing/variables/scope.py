"""The variables in scope at an address, innermost first, and global ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.dies import Die
from perfpy.debuginfo.units.location_lists import locations_of
from perfpy.debuginfo.units.ranges import ranges_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.functions import CodeDie
    from perfpy.debuginfo.units.location_lists import LocatedRange
    from perfpy.debuginfo.units.ranges import Ranges
    from perfpy.debuginfo.units.unit import DebugUnit

_VARIABLES: Final = (dwarf.TAG_FORMAL_PARAMETER, dwarf.TAG_VARIABLE)
_SCOPES: Final = (dwarf.TAG_LEXICAL_BLOCK, dwarf.TAG_TRY_BLOCK, dwarf.TAG_CATCH_BLOCK, dwarf.TAG_INLINED_SUBROUTINE)
#: attributes of global variables: an address here, a constant, or a definition in another unit
_LOCATIONS: Final = (dwarf.AT_LOCATION, dwarf.AT_CONST_VALUE, dwarf.AT_DECLARATION)
_NAMESPACES: Final = (dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE)
_DEPTH_MOST: Final = 256


class ScopedVariable:
    """A variable or parameter.

    Attributes:
        die: its DIE.
        name: its name.
        is_parameter: whether it is a parameter.
        scope: the code in which it is known; empty for global ones.
    """

    __slots__ = ("die", "is_parameter", "name", "scope")

    def __init__(self, die: Die, scope: Ranges | None = None) -> None:
        self.die = die
        self.scope = scope or []
        self.name = die.name
        self.is_parameter = die.tag == dwarf.TAG_FORMAL_PARAMETER

    @property
    def constant(self) -> int | None:
        """Return the value of a variable that the compiler replaced by a constant, None for others."""
        found = self.die.attribute(dwarf.AT_CONST_VALUE)
        if found is None:
            return None
        unit, (form, value) = found
        if isinstance(value, bytes):
            return int.from_bytes(value, unit.sections.order) if 0 < len(value) <= 8 else None
        sizes = {dwarf.FORM_DATA1: 8, dwarf.FORM_DATA2: 16, dwarf.FORM_DATA4: 32, dwarf.FORM_DATA8: 64}
        bits = sizes.get(form, 0)
        return value - (1 << bits) if bits and value >> (bits - 1) & 1 else value

    @property
    def is_declared_only(self) -> bool:
        """Whether the variable is defined in another unit or file."""
        return dwarf.AT_DECLARATION in self.die.attributes and dwarf.AT_LOCATION not in self.die.attributes

    def locations(self) -> list[LocatedRange]:
        """Return where the variable is, by ranges of addresses; empty if it is optimized out."""
        location = self.die.attribute(dwarf.AT_LOCATION)
        return locations_of(*location) if location else []

    def expression_at(self, address: int) -> bytes:
        """Return the location expression at an address, empty if the variable is not available there."""
        return next((one.expression for one in self.locations() if one.holds(address)), b"")

    def is_available(self, address: int) -> bool:
        """Whether the variable has a value at an address."""
        return bool(self.expression_at(address)) or self.constant is not None


def scope_chain(function: CodeDie, address: int) -> list[Die]:
    """Return the function and the blocks and inlined calls in it that contain an address, outermost first."""
    chain = [function.die]
    for _ in range(_DEPTH_MOST):
        inner = next((child for child in _scopes_of(chain[-1]) if _holds(child, address)), None)
        if inner is None:
            break
        chain.append(inner)
    return chain


def _scopes_of(die: Die) -> Iterator[Die]:
    return (child for child in die.children() if child.tag in _SCOPES)


def _holds(die: Die, address: int) -> bool:
    ranges = ranges_of(die.unit, die.attributes)
    return any(low <= address < high for low, high in ranges)


def variables_in(scope: Die) -> Iterator[ScopedVariable]:
    """Yield a scope's own variables, in the order of the file."""
    ranges = ranges_of(scope.unit, scope.attributes)
    for child in scope.children():
        if child.tag in _VARIABLES:
            variable = ScopedVariable(child, ranges)
            if variable.name:
                yield variable


def local_variables(function: CodeDie, address: int) -> Iterator[ScopedVariable]:
    """Yield the variables in scope at an address, those of inner scopes first."""
    for scope in reversed(scope_chain(function, address)):
        yield from variables_in(scope)


def find_local(function: CodeDie, address: int, name: str) -> ScopedVariable | None:
    """Return the innermost variable of a name, one with a value at the address if there is one."""
    candidates = [variable for variable in local_variables(function, address) if variable.name == name]
    return next((variable for variable in candidates if variable.is_available(address)), candidates[0] if candidates else None)


def global_variables(unit: DebugUnit) -> Iterator[ScopedVariable]:
    """Yield the variables of a unit outside of functions, in the order of the file: those with a location, and those of other units."""
    yield from _globals_in(Die(unit, unit.header.size), 0)


def _globals_in(scope: Die, depth: int) -> Iterator[ScopedVariable]:
    for child in scope.children():
        if child.tag == dwarf.TAG_VARIABLE and any(name in child.attributes for name in _LOCATIONS):
            variable = ScopedVariable(child)
            if variable.name:
                yield variable
        elif child.tag in _NAMESPACES and depth < _DEPTH_MOST:
            yield from _globals_in(child, depth + 1)
