"""The location of a variable at an address: a location expression, from the attribute itself or from a location list.

Layout: DWARF 5, sections 2.6.2 and 7.29 (.debug_loclists); DWARF 4, section 2.6.2 (.debug_loc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.units import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.units.unit import Attribute, DebugUnit

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
        index, offset = leb128.read_unsigned(data, offset + 1)
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
        operands, offset = _operands(unit, kind, offset)
        if kind in (dwarf.LLE_BASE_ADDRESS, dwarf.LLE_BASE_ADDRESSX):
            base = operands[0] if kind == dwarf.LLE_BASE_ADDRESS else unit.indexed_address(operands[0])
        elif kind != dwarf.LLE_GNU_VIEW_PAIR:
            length, offset = leb128.read_unsigned(data, offset)
            yield LocatedRange(*_bounds(unit, kind, operands, base), bytes(data[offset : offset + length]))
            offset += length


#: kind -> the sizes of its operands: 0 for a LEB128 number, 1 for an address
_OPERANDS: Final = {
    dwarf.LLE_BASE_ADDRESSX: (0,),
    dwarf.LLE_STARTX_ENDX: (0, 0),
    dwarf.LLE_STARTX_LENGTH: (0, 0),
    dwarf.LLE_OFFSET_PAIR: (0, 0),
    dwarf.LLE_DEFAULT_LOCATION: (),
    dwarf.LLE_BASE_ADDRESS: (1,),
    dwarf.LLE_START_END: (1, 1),
    dwarf.LLE_START_LENGTH: (1, 0),
    dwarf.LLE_GNU_VIEW_PAIR: (0, 0),
}


def _operands(unit: DebugUnit, kind: int, offset: int) -> tuple[list[int], int]:
    """Read an entry's operands; return them and the offset after them."""
    if kind not in _OPERANDS:
        raise ValueError(f"an entry of kind {kind} in .debug_loclists")
    data, operands = unit.sections.data("loclists"), list[int]()
    for is_address in _OPERANDS[kind]:
        if is_address:
            size = unit.header.shape.address_size
            operands.append(unit.sections.number("loclists", offset, size))
            offset += size
        else:
            operand, offset = leb128.read_unsigned(data, offset)
            operands.append(operand)
    return operands, offset


def _bounds(unit: DebugUnit, kind: int, operands: list[int], base: int) -> tuple[int, int | None]:
    match kind:
        case dwarf.LLE_DEFAULT_LOCATION:
            return 0, None
        case dwarf.LLE_OFFSET_PAIR:
            return base + operands[0], base + operands[1]
        case dwarf.LLE_STARTX_ENDX:
            return unit.indexed_address(operands[0]), unit.indexed_address(operands[1])
        case dwarf.LLE_STARTX_LENGTH:
            start = unit.indexed_address(operands[0])
            return start, start + operands[1]
        case dwarf.LLE_START_END:
            return operands[0], operands[1]
    return operands[0], operands[0] + operands[1]
