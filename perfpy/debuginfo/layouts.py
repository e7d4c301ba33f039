"""What the search for inlined calls needs to know of each kind of DIE in a unit.

What enters: the abbreviations of a unit. What leaves: a DieLayout by code: whether it is a function, an inlined call, a
block or of no concern, and how to skip it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo import dwarf

if TYPE_CHECKING:
    from perfpy.debuginfo.abbreviations import Abbreviation

#: kinds: without children; with some that are of no concern; what seldom holds functions, and what does; what has code
LEAF, TREE, HOLDER, SCOPE, BLOCK, INLINED, FUNCTION = range(7)
_WITH_CODE: Final = {
    dwarf.TAG_LEXICAL_BLOCK: BLOCK,
    dwarf.TAG_TRY_BLOCK: BLOCK,
    dwarf.TAG_CATCH_BLOCK: BLOCK,
    dwarf.TAG_INLINED_SUBROUTINE: INLINED,
    dwarf.TAG_SUBPROGRAM: FUNCTION,
}
_SCOPES: Final = frozenset({dwarf.TAG_COMPILE_UNIT, dwarf.TAG_PARTIAL_UNIT, dwarf.TAG_SKELETON_UNIT, dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE})
# lambdas and members of local classes stand where they are declared: within classes, within functions
_HOLDERS: Final = frozenset({dwarf.TAG_SUBPROGRAM, dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE})
_DISTANCES: Final = {dwarf.FORM_DATA1: 1, dwarf.FORM_DATA2: 2, dwarf.FORM_DATA4: 4, dwarf.FORM_DATA8: 8}


class Bounds(NamedTuple):
    """Where low_pc (an address) and high_pc (a distance) are in a DIE, and the size of the latter."""

    low: int
    high: int
    high_size: int


class DieLayout(NamedTuple):
    """One abbreviation, seen by the search.

    size: of its values, -1 where it varies; sibling: where a DW_AT_sibling of four bytes is, -1 without one; bounds:
    where its code is; listed: where a DW_AT_ranges that is an offset is: None and -1 where it has to be read in full.
    """

    kind: int
    size: int
    sibling: int
    children: bool
    bounds: Bounds | None
    abbreviation: Abbreviation
    listed: int


@lru_cache(maxsize=1 << 14)
def layout_of(abbreviation: Abbreviation) -> DieLayout:
    """The DieLayout of an abbreviation."""
    offset, form, _ = abbreviation.offsets.get(dwarf.AT_SIBLING, (-1, 0, 0))
    sibling = offset if form == dwarf.FORM_REF4 else -1
    listed, form, _ = abbreviation.offsets.get(dwarf.AT_RANGES, (-1, 0, 0))
    listed = listed if form == dwarf.FORM_SEC_OFFSET else -1
    return DieLayout(_kind(abbreviation), abbreviation.size, sibling, abbreviation.children, _bounds(abbreviation), abbreviation, listed)


def _kind(abbreviation: Abbreviation) -> int:
    kind = _WITH_CODE.get(abbreviation.tag)
    if kind is not None and abbreviation.has(dwarf.AT_LOW_PC, dwarf.AT_RANGES):
        return kind
    if not abbreviation.children:
        return LEAF
    if abbreviation.tag in _SCOPES or kind == BLOCK:
        return SCOPE
    return HOLDER if abbreviation.tag in _HOLDERS else TREE


def _bounds(abbreviation: Abbreviation) -> Bounds | None:
    low, low_form, _ = abbreviation.offsets.get(dwarf.AT_LOW_PC, (0, 0, 0))
    high, high_form, _ = abbreviation.offsets.get(dwarf.AT_HIGH_PC, (0, 0, 0))
    if low_form != dwarf.FORM_ADDR or high_form not in _DISTANCES or abbreviation.has(dwarf.AT_RANGES):
        return None
    return Bounds(low, high, _DISTANCES[high_form])
