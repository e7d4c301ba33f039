"""The variables at a site as text, for `probe --vars`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.sections import damage_of
from perfpy.probing.variables.fetch_types import type_text
from perfpy.probing.variables.scope import global_variables, local_variables
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.debuginfo.functions import CodeDie
    from perfpy.probing.sites.program import Program
    from perfpy.probing.sites.site_search import Site
    from perfpy.probing.variables.scope import ScopedVariable

_VALID, _INVALID = "[VAL]", "[INV]"
_ENTRY_VALUES: Final = (bytes((dwarf.OP_ENTRY_VALUE,)), bytes((dwarf.OP_GNU_ENTRY_VALUE,)))
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
        for variable in _variables(site, externs=externs):
            line = _line(variable, site.address, code.function, name, ranges=ranges)
            if line and test(variable.name):
                lines.add(line)
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
    return VariableListing(f"{name}+{site.address - code.function.entry}", sorted(lines))


def _variables(site: Site, *, externs: bool) -> Iterator[ScopedVariable]:
    assert site.code is not None
    assert site.unit is not None
    yield from local_variables(site.code, site.address)
    if externs:
        yield from (variable for variable in global_variables(site.unit) if _is_plain(variable.expression_at(site.address)))


def _is_plain(expression: bytes) -> bool:
    """Whether a global variable has one location for all threads."""
    return bool(expression) and expression[-1] not in _THREAD_OPERATIONS


def _line(variable: ScopedVariable, address: int, function: CodeDie, name: str, *, ranges: bool) -> str:
    """Return a variable's line, "" if it has no value here or, with ranges, anywhere."""
    text = f"{type_text(variable.die.type)}\t{variable.name}"
    is_available = variable.is_available(address) and not _is_of_entry(variable.expression_at(address), address, function)
    if not ranges:
        return text if is_available else ""
    extents = _ranges(variable, function)
    if not extents:
        return ""
    return f"{_VALID if is_available else _INVALID}\t{text}\t@<{name}+[{','.join(extents)}]>"


def _is_of_entry(expression: bytes, address: int, function: CodeDie) -> bool:
    """Whether a value is known only as one that a register had at the function's entry."""
    return expression[:1] in _ENTRY_VALUES and address != function.entry


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
