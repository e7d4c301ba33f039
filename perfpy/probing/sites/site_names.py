"""Addresses to points as `probe --list` prints them: FUNCTION[:LINE|+OFFSET][%return]@FILE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.debuginfo.units.sections import damage_of
from perfpy.probing.sites.site_search import SiteSearch
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from perfpy.probing.sites.program import Program


def site_text(program: Program, address: int, *, is_return: bool = False) -> str:
    """Return the point of an address, "" if no symbol contains it."""
    try:
        text = _by_debug_info(program, address, is_return=is_return) if program.has_debug_info else ""
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
        text = ""
    if text:
        return text
    symbol = program.symbol_at(address)
    if symbol is None:
        return ""
    distance = address - symbol.address
    return symbol.name + (f"+{distance}" if distance else "") + ("%return" if is_return else "")


def _by_debug_info(program: Program, address: int, *, is_return: bool) -> str:
    search = SiteSearch(program)
    unit = program.unit_at(address)
    function = search.code_at(unit, address) if unit is not None else None
    if unit is None or function is None:
        return ""
    path, base = search.declared_in(function.code, unit)
    name = function.name.linkage or function.name.name
    distance = address - function.code.entry
    if is_return:
        name += "%return"
    elif distance:
        statement = program.statements(unit).first(address)
        name += f":{statement.line - base}" if statement and base and statement.line >= base else f"+{distance}"
    return f"{name}@{path}" if path else name
