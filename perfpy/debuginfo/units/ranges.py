"""The address ranges of a DIE, as (start, end) pairs with an exclusive end.

Layout: DWARF 4, section 2.17.3 (.debug_ranges); DWARF 5, section 7.25 (.debug_rnglists).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.debuginfo.units.unit import Attribute, DebugUnit

_BYTES_OF_ENTRY: Final = 3  # the minimum, to count the work
_MORE: Final = 0x80  # the continuation bit of LEB128 bytes
Ranges = list[tuple[int, int]]


def ranges_of(unit: DebugUnit, attributes: Mapping[int, Attribute]) -> Ranges:
    """Return the ranges of a DIE in file order; empty if it has no code."""
    listed = attributes.get(dwarf.AT_RANGES)
    if listed is not None and isinstance(listed.value, int):
        return range_list(unit, listed.form, listed.value)
    low = unit.address(attributes.get(dwarf.AT_LOW_PC))
    high = attributes.get(dwarf.AT_HIGH_PC)
    if low is None or high is None or isinstance(high.value, bytes):
        return []
    return _nonempty(low, end_of(unit, low, high))


def end_of(unit: DebugUnit, low: int, high: Attribute) -> int:
    """Return the end of code that starts at `low`. DW_AT_high_pc is an address, or a size."""
    if high.form == dwarf.FORM_ADDR or high.form in dwarf.ADDRESS_INDICES:
        return unit.address(high) or 0
    return low + high.value if isinstance(high.value, int) else low


def range_list(unit: DebugUnit, form: int, value: int) -> Ranges:
    """Return the ranges that a DW_AT_ranges value refers to."""
    if unit.header.shape.version < 5:
        return _ranges_before_5(unit, unit.ranges_base + value)
    if form == dwarf.FORM_RNGLISTX:
        size = unit.header.shape.offset_size
        value = unit.rnglists_base + unit.sections.number("rnglists", unit.rnglists_base + value * size, size)
    return _ranges_of_5(unit, value)


def _nonempty(start: int, end: int) -> Ranges:
    return [(start, end)] if start < end else []


def _ranges_before_5(unit: DebugUnit, offset: int) -> Ranges:
    owner = unit.skeleton or unit  # .debug_ranges stays in the program
    data, order, size = owner.sections.data("ranges"), owner.sections.order, unit.header.shape.address_size
    base, last = unit.low_pc, (1 << 8 * size) - 1
    ranges: Ranges = []
    for at_offset in range(offset, len(data) - 2 * size + 1, 2 * size):
        unit.sections.spend(1)
        start = int.from_bytes(data[at_offset : at_offset + size], order)
        end = int.from_bytes(data[at_offset + size : at_offset + 2 * size], order)
        if start == last:
            base = end
        elif not start and not end:
            return ranges
        else:
            ranges += _nonempty(start + base & last, end + base & last)
    raise ValueError(f"ranges without an end at {offset:#x} of .debug_ranges")


def _ranges_of_5(unit: DebugUnit, offset: int) -> Ranges:
    data, begin = unit.sections.data("rnglists"), offset
    base, ranges = unit.low_pc, list[tuple[int, int]]()
    while True:
        kind = data[offset]
        if kind == dwarf.RLE_OFFSET_PAIR:  # the kind of nearly all entries
            one, two = data[offset + 1], data[offset + 2]
            offset += 3
            if one >= _MORE or two >= _MORE:
                one, offset = leb128.read_unsigned(data, offset - 2)
                two, offset = leb128.read_unsigned(data, offset)
            if one < two:
                ranges.append((base + one, base + two))
        elif kind == dwarf.RLE_END_OF_LIST:
            unit.sections.spend(1 + (offset + 1 - begin) // _BYTES_OF_ENTRY)
            return ranges
        else:
            base, offset = _read_other_entry(unit, kind, offset + 1, base, ranges)


def _read_other_entry(unit: DebugUnit, kind: int, offset: int, base: int, ranges: Ranges) -> tuple[int, int]:
    """Read an entry of any kind but offset_pair into `ranges`; return the base for later offset pairs, and the offset after the entry."""
    one, offset = _operand(unit, offset, fixed=kind >= dwarf.RLE_BASE_ADDRESS)
    if kind == dwarf.RLE_BASE_ADDRESS:
        return one, offset
    if kind == dwarf.RLE_BASE_ADDRESSX:
        return unit.indexed_address(one), offset
    two, offset = _operand(unit, offset, fixed=kind == dwarf.RLE_START_END)
    ranges += _nonempty(*_bounds(unit, kind, one, two))
    return base, offset


def _bounds(unit: DebugUnit, kind: int, one: int, two: int) -> tuple[int, int]:
    """Return the range that an entry's two operands stand for."""
    match kind:
        case dwarf.RLE_STARTX_ENDX:
            return unit.indexed_address(one), unit.indexed_address(two)
        case dwarf.RLE_STARTX_LENGTH:
            start = unit.indexed_address(one)
            return start, start + two
        case dwarf.RLE_START_END:
            return one, two
        case dwarf.RLE_START_LENGTH:
            return one, one + two
    raise ValueError(f"an entry of kind {kind} in .debug_rnglists")


def _operand(unit: DebugUnit, offset: int, *, fixed: bool) -> tuple[int, int]:
    if not fixed:
        return leb128.read_unsigned(unit.sections.data("rnglists"), offset)
    size = unit.header.shape.address_size
    return unit.sections.number("rnglists", offset, size), offset + size
