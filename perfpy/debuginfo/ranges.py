"""The address ranges of a DIE, as (start, end) pairs with an exclusive end.

Layout: DWARF 4, section 2.17.3 (.debug_ranges); DWARF 5, section 7.25 (.debug_rnglists).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo import dwarf, leb128

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.debuginfo.unit import Attribute, DebugUnit

_BYTES_OF_ENTRY: Final = 3  # at least, to count the work
_MORE: Final = 0x80  # of a byte in LEB128: others follow
Ranges = list[tuple[int, int]]


def ranges_of(unit: DebugUnit, attributes: Mapping[int, Attribute]) -> Ranges:
    """The ranges of a DIE, in the order in which they stand; none where it has no code."""
    listed = attributes.get(dwarf.AT_RANGES)
    if listed is not None and isinstance(listed.value, int):
        return range_list(unit, listed.form, listed.value)
    low = unit.address(attributes.get(dwarf.AT_LOW_PC))
    high = attributes.get(dwarf.AT_HIGH_PC)
    if low is None or high is None or isinstance(high.value, bytes):
        return []
    return _some(low, end_of(unit, low, high))


def end_of(unit: DebugUnit, low: int, high: Attribute) -> int:
    """Where code that starts at `low` ends: DW_AT_high_pc is an address, or its distance from there."""
    if high.form == dwarf.FORM_ADDR or high.form in dwarf.ADDRESS_INDICES:
        return unit.address(high) or 0
    return low + high.value if isinstance(high.value, int) else low


def range_list(unit: DebugUnit, form: int, value: int) -> Ranges:
    """The ranges that DW_AT_ranges refers to."""
    if unit.header.shape.version < 5:
        return _before_5(unit, unit.ranges_base + value)
    if form == dwarf.FORM_RNGLISTX:
        size = unit.header.shape.offset_size
        value = unit.rnglists_base + unit.sections.number("rnglists", unit.rnglists_base + value * size, size)
    return _of_5(unit, value)


def _some(start: int, end: int) -> Ranges:
    return [(start, end)] if start < end else []


def _before_5(unit: DebugUnit, offset: int) -> Ranges:
    owner = unit.skeleton or unit  # .debug_ranges stays in the program
    data, order, size = owner.sections.data("ranges"), owner.sections.order, unit.header.shape.address_size
    base, last = unit.low_pc, (1 << 8 * size) - 1
    found: Ranges = []
    for at_offset in range(offset, len(data) - 2 * size + 1, 2 * size):
        unit.sections.spend(1)
        start = int.from_bytes(data[at_offset : at_offset + size], order)
        end = int.from_bytes(data[at_offset + size : at_offset + 2 * size], order)
        if start == last:
            base = end
        elif not start and not end:
            return found
        else:
            found += _some(start + base & last, end + base & last)
    raise ValueError(f"ranges without an end at {offset:#x} of .debug_ranges")


def _of_5(unit: DebugUnit, offset: int) -> Ranges:
    data, begin = unit.sections.data("rnglists"), offset
    base, found = unit.low_pc, list[tuple[int, int]]()
    while True:
        kind = data[offset]
        if kind == dwarf.RLE_OFFSET_PAIR:  # nearly all of them
            one, two = data[offset + 1], data[offset + 2]
            offset += 3
            if one >= _MORE or two >= _MORE:
                one, offset = leb128.unsigned(data, offset - 2)
                two, offset = leb128.unsigned(data, offset)
            if one < two:
                found.append((base + one, base + two))
        elif kind == dwarf.RLE_END_OF_LIST:
            unit.sections.spend(1 + (offset + 1 - begin) // _BYTES_OF_ENTRY)
            return found
        else:
            base, offset = _rarely(unit, kind, offset + 1, base, found)


def _rarely(unit: DebugUnit, kind: int, offset: int, base: int, found: Ranges) -> tuple[int, int]:
    """Read an entry that is no pair of offsets; returns what such pairs count from after it, and where it ends."""
    one, offset = _operand(unit, offset, fixed=kind >= dwarf.RLE_BASE_ADDRESS)
    if kind == dwarf.RLE_BASE_ADDRESS:
        return one, offset
    if kind == dwarf.RLE_BASE_ADDRESSX:
        return unit.indexed(one), offset
    two, offset = _operand(unit, offset, fixed=kind == dwarf.RLE_START_END)
    found += _some(*_bounds(unit, kind, one, two))
    return base, offset


def _bounds(unit: DebugUnit, kind: int, one: int, two: int) -> tuple[int, int]:
    """What the two operands of an entry mean."""
    match kind:
        case dwarf.RLE_STARTX_ENDX:
            return unit.indexed(one), unit.indexed(two)
        case dwarf.RLE_STARTX_LENGTH:
            start = unit.indexed(one)
            return start, start + two
        case dwarf.RLE_START_END:
            return one, two
        case dwarf.RLE_START_LENGTH:
            return one, one + two
    raise ValueError(f"an entry of kind {kind} in .debug_rnglists")


def _operand(unit: DebugUnit, offset: int, *, fixed: bool) -> tuple[int, int]:
    if not fixed:
        return leb128.unsigned(unit.sections.data("rnglists"), offset)
    size = unit.header.shape.address_size
    return unit.sections.number("rnglists", offset, size), offset + size
