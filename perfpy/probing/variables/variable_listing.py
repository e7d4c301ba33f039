"""The variables at a site as text, for `probe --vars`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.sections import damage_of
from perfpy.probing.problems import UnreadableRegisterError, UnsupportedLocationError
from perfpy.probing.variables.fetch_types import type_text
from perfpy.probing.variables.locations import LocationReader
from perfpy.probing.variables.scope import global_variables, local_variables
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.debuginfo.functions import CodeDie
    from perfpy.debuginfo.units.unit import DebugUnit
    from perfpy.probing.sites.program import Program
    from perfpy.probing.sites.site_search import Site
    from perfpy.probing.variables.scope import ScopedVariable

_VALID, _INVALID, _GLOBAL = "[VAL]", "[INV]", "[EXT]"
_THREAD_OPERATIONS: Final = (dwarf.OP_FORM_TLS_ADDRESS, dwarf.OP_GNU_PUSH_TLS_ADDRESS)


class VariableListing(NamedTuple):
    """The variables of one site.

    Attributes:
        point: FUNCTION+OFFSET.
        lines: TYPE, tab, NAME; with ranges, a mark before and the ranges after.
    """

    point: str
    lines: list[str]


def list_variables(program: Program, site: Site, *, externs: bool, ranges: bool, test: Callable[[str], bool]) -> VariableListing:
    """Return the variables of a site whose names pass a test, sorted as perf sorts them."""
    code, unit = site.code, site.unit
    if code is None or unit is None:
        return VariableListing(f"{site.address:#x}", [])
    lines, name = set(), site.name
    try:
        functions = program.functions(unit)
        name = functions.name_of(code.function).name if functions else name
        reader = LocationReader(program, unit, code.function, site.address)
        for variable in local_variables(code, site.address):
            line = _line(variable, reader, site.address, code.function, name, ranges=ranges)
            if line and test(variable.name):
                lines.add(line)
        for variable in _globals(unit, site.address) if externs else ():
            if test(variable.name):
                lines.add(f"{_GLOBAL}\t{_text(variable)}" if ranges else _text(variable))
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
    return VariableListing(f"{name}+{site.address - code.function.entry}", sorted(lines))


def _globals(unit: DebugUnit, address: int) -> Iterator[ScopedVariable]:
    return (one for one in global_variables(unit) if one.is_declared_only or _is_plain(one.expression_at(address)))


def _text(variable: ScopedVariable) -> str:
    return f"{type_text(variable.die.type)}\t{variable.name}"


def _is_plain(expression: bytes) -> bool:
    """Whether a global variable has one location for all threads."""
    return bool(expression) and expression[-1] not in _THREAD_OPERATIONS


def _line(variable: ScopedVariable, reader: LocationReader, address: int, function: CodeDie, name: str, *, ranges: bool) -> str:
    """Return a variable's line, "" if it has no value here or, with ranges, anywhere that a probe can read."""
    is_available = variable.is_available(address)
    if not _is_readable(variable, reader, address) or not (is_available or ranges):
        return ""
    if not ranges:
        return _text(variable)
    extents = _ranges(variable, function)
    mark = _VALID if is_available else _INVALID
    return f"{mark}\t{_text(variable)}\t@<{name}+[{','.join(extents)}]>" if extents else ""


def _is_readable(variable: ScopedVariable, reader: LocationReader, address: int) -> bool:
    """Whether a probe can read a variable: at an address, or at its first place if it has none there.

    Variables in any register count, as in perf.
    """
    expression = variable.expression_at(address) or next((one.expression for one in variable.locations()), b"")
    location = variable.die.attribute(dwarf.AT_LOCATION)
    if not expression or location is None:
        return variable.constant is not None
    try:
        reader.read(expression, location[0])
    except UnsupportedLocationError as error:
        return isinstance(error, UnreadableRegisterError)
    return True


def _ranges(variable: ScopedVariable, function: CodeDie) -> list[str]:
    """Return the ranges where a variable has a value, relative to its function."""
    extents = []
    for one in variable.locations():
        if not one.expression or one.start == one.end:
            continue
        ranges = [(one.start, one.end)] if one.end is not None else _scope(variable, function)
        extents += [f"{start - function.entry}-{end - function.entry}" for start, end in ranges]
    return extents


def _scope(variable: ScopedVariable, function: CodeDie) -> list[tuple[int, int]]:
    """Return the code in which a variable with one location is in scope."""
    return variable.scope or function.ranges
