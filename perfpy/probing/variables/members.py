"""Members of structures and elements of arrays: offsets and bitfields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf, leb128
from perfpy.probing.problems import UnsupportedLocationError
from perfpy.probing.variables.fetch_types import COMPOUNDS, plain_type, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.units.dies import Die

_NESTED_MOST: Final = 16  # anonymous members


class SubArray:
    """The inner dimensions of an array, as a type of their own."""

    def __init__(self, array: Die, counts: list[int]) -> None:
        self.tag = dwarf.TAG_ARRAY_TYPE
        self.type = array.type
        self.unit = array.unit
        self.name = ""
        self._counts = counts

    def number(self, name: int) -> int | None:
        """Return no attribute."""
        return None

    def children(self) -> Iterator[_Dimension]:
        """Yield the dimensions."""
        return (_Dimension(count) for count in self._counts)


class _Dimension:
    """One dimension of an array."""

    tag = dwarf.TAG_SUBRANGE_TYPE

    def __init__(self, count: int) -> None:
        self._count = count

    def number(self, name: int) -> int | None:
        """Return the number of elements."""
        return self._count if name == dwarf.AT_COUNT else None


def _members_of(compound: Die) -> Iterator[Die]:
    return (child for child in compound.children() if child.tag in (dwarf.TAG_MEMBER, dwarf.TAG_INHERITANCE))


def find_member(compound: Die, name: str, depth: int = 0) -> tuple[int, Die] | None:
    """Return the offset of the compound that declares a member, and the member; also in anonymous members and base classes."""
    if depth > _NESTED_MOST:
        return None
    for child in _members_of(compound):
        if child.tag == dwarf.TAG_MEMBER and child.name == name:
            return _offset_of(child), child
        if child.tag == dwarf.TAG_INHERITANCE or not child.name:
            inner = plain_type(child.type)
            nested = find_member(inner, name, depth + 1) if inner is not None and inner.tag in COMPOUNDS else None
            if nested:
                return _offset_of(child) + nested[0], nested[1]
    return None


def similar_members(compound: Die, name: str) -> str:
    """Return a suggestion with members that resemble a name, "" without any."""
    from perfpy.probing.neighbours import nearest

    similar = nearest(name, [child.name for child in _members_of(compound) if child.name])
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""


def _offset_of(member: Die) -> int:
    """Return a member's offset in bytes; 0 for a bit-field without a byte offset."""
    offset = member.attributes.get(dwarf.AT_DATA_MEMBER_LOCATION)
    if offset is None:
        return 0
    if isinstance(offset.value, bytes):
        if offset.value[:1] == bytes((dwarf.OP_PLUS_UCONST,)):  # DWARF 2
            return leb128.read_unsigned(offset.value, 1)[0]
        raise UnsupportedLocationError(f"the member '{member.name}' is at an offset that its object computes")
    return offset.value


def bitfield(member: Die) -> tuple[tuple[int, int, int] | None, int]:
    """Return (width, offset from the lowest bit, bits of the container) of a bitfield and the container's offset; None for others."""
    width = member.number(dwarf.AT_BIT_SIZE)
    if not width:
        return None, 0
    container = 8 * (member.number(dwarf.AT_BYTE_SIZE) or size_of(member.type) or 4)
    big = member.unit.sections.order == "big"
    total = member.number(dwarf.AT_DATA_BIT_OFFSET)
    if total is not None:
        byte = total // container * container // 8
        offset = total - 8 * byte
        return (width, container - width - offset if big else offset, container), byte
    from_top = member.number(dwarf.AT_BIT_OFFSET) or 0  # DWARF 2 and 3 count from the highest bit
    return (width, container - from_top - width, container), 0
