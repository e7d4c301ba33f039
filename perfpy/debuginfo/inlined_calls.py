"""The functions at addresses of a file: inlined calls, innermost first, and the function that contains them.

Only units with requested addresses are read. Names come from the DIEs or from those that they refer to.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.debuginfo import dwarf
from perfpy.debuginfo.kept_answers import AddressRows, KeptAnswers
from perfpy.debuginfo.sections import damage_of
from perfpy.debuginfo.units import Ranges, range_list, ranges_of
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.debuginfo.unit_index import UnitIndex
    from perfpy.debuginfo.units import Abbreviation, AbbreviationTable, Attribute, DebugUnit


_LINKS_MOST: Final = 16  # a call refers to its function, which refers to its declaration; damaged files may have cycles
_LINKAGE: Final = (dwarf.AT_LINKAGE_NAME, dwarf.AT_MIPS_LINKAGE_NAME)


class FunctionNames:
    """A numbering of function names, which appends to `names`. A function without a name has b""."""

    def __init__(self, names: list[bytes]) -> None:
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._numbers_by_die: dict[tuple[DebugUnit, int], tuple[int, bool]] = {}

    def find(self, activation: Activation) -> tuple[int, bool]:
        """Return the number of a function's name, and whether it is no linkage name although its language mangles names."""
        target: tuple[DebugUnit, int] | None = (activation.unit, activation.offset)
        if activation.caller is not None:
            target = activation.unit.target(activation.origin) if activation.origin else None
        if target is None:
            return self._intern(b""), False
        entry = self._numbers_by_die.get(target)
        if entry is None:
            name, is_linkage = _name(*target)
            entry = self._numbers_by_die[target] = (
                self._intern(name),
                not is_linkage and (target[0].number(dwarf.AT_LANGUAGE) in dwarf.MANGLED_LANGUAGES),
            )
        return entry

    def _intern(self, name: bytes) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def _name(unit: DebugUnit, offset: int) -> tuple[bytes, bool]:
    """Return the name of the function at a DIE, b"" if it has none, and whether it is the linkage name."""
    name = b""
    try:
        for _ in range(_LINKS_MOST):
            unit.sections.spend(1)
            _, attributes, _ = unit.die(offset)
            linkage = next((attributes[kind] for kind in _LINKAGE if kind in attributes), None)
            if linkage is not None:
                return unit.string(linkage), True
            if dwarf.AT_NAME in attributes and not name:
                name = unit.string(attributes[dwarf.AT_NAME])
            link = attributes.get(dwarf.AT_ABSTRACT_ORIGIN) or attributes.get(dwarf.AT_SPECIFICATION)
            target = unit.target(link) if link else None
            if target is None:
                return name, False
            unit, offset = target
    except DAMAGE as damage:
        unit.sections.file.flaw(damage_of(damage))
    return name, False


#: the columns of InlinedCalls except counts
CallRow = tuple[int, int, int, int, int, int]
_COLUMNS: Final = 6
_SEARCHES_KEPT: Final = 1 << 9  # searches of recently used units; a recording that is read in batches returns to units
_NESTED_MOST: Final = 1 << 10  # perf's limit


class InlinedCalls(NamedTuple):
    """The functions at each address.

    Attributes:
        counts: functions per address. The other columns have one row per function, innermost first.
        name: index in FunctionNames.names.
        unit: offset of the function's unit.
        file: number in the unit's line program of the file of the call; 0 for the outermost function of each address.
        line: line of the call; 0 for the outermost function of each address.
        die: a number for the DIE of a function without a linkage name in a language that has them, otherwise -1.
        low: the start of that function's code, otherwise -1.
    """

    counts: NDArray[np.int64]
    name: NDArray[np.int32]
    unit: NDArray[np.int64]
    file: NDArray[np.int64]
    line: NDArray[np.int64]
    die: NDArray[np.int64]
    low: NDArray[np.int64]

    def rows(self) -> list[CallRow]:
        """Return the functions one after the other."""
        return list(zip(*(column.tolist() for column in self[1:]), strict=True))


class InlineFinder:
    """The functions at addresses of one file.

    Args:
        units: the units of the file.
        keeps: whether to use the cache between runs.
    """

    def __init__(self, units: UnitIndex, *, keeps: bool = False) -> None:
        self._units = units
        self._answers = KeptAnswers("calls", _COLUMNS, units, between_runs=keeps)
        self._functions = FunctionNames(self._answers.texts)
        self._searches: dict[DebugUnit, InlineSearch] = {}

    @property
    def names(self) -> list[bytes]:
        """The names that InlinedCalls.name refers to."""
        return self._functions.names

    def find(self, addresses: NDArray[np.uint64]) -> InlinedCalls:
        """Return the functions at each address, in the order of the addresses."""
        counts, rows = self._answers.find(addresses, self._compute)
        name, *others = rows.T
        return InlinedCalls(counts, name.astype(np.int32), *others)

    def _compute(self, addresses: NDArray[np.uint64]) -> AddressRows:
        """Compute `find` without the cache, as rows of numbers."""
        rows: list[list[CallRow]] = [[] for _ in range(len(addresses))]
        try:
            units = self._units.find(addresses)
            for offset in distinct(units[units >= 0]).tolist():
                self._find_in(offset, np.flatnonzero(units == offset), addresses, rows)
        except DAMAGE as damage:
            self._units.sections.file.flaw(damage_of(damage))
        counts = np.array([len(row) for row in rows], np.int64)
        return AddressRows(counts, np.array([entry for row in rows for entry in row], np.int64).reshape(-1, _COLUMNS))

    def _find_in(
        self,
        offset: int,
        members: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        rows: list[list[CallRow]],
    ) -> None:
        """Search one unit for the addresses (`members`, by index) in it."""
        unit = self._units.unit(offset)
        if unit is None:
            return
        members = members[np.argsort(addresses[members], kind="stable")]
        rows_by_activation: dict[Activation, list[CallRow]] = {}
        for member, activation in zip(members.tolist(), self._search(unit, addresses[members].tolist()), strict=True):
            if activation is None:
                continue
            if activation not in rows_by_activation:
                rows_by_activation[activation] = [*self._rows_of(activation, offset)]
            rows[member] = rows_by_activation[activation]
        unit.release()

    def _search(self, unit: DebugUnit, addresses: list[int]) -> list[Activation | None]:
        search = None
        try:
            search = self._searches.get(unit)
            if search is None:
                if len(self._searches) >= _SEARCHES_KEPT:
                    self._searches.clear()
                search = self._searches[unit] = InlineSearch(self._units.whole(unit))
            search.find(addresses)
        except DAMAGE as damage:
            unit.sections.file.flaw(damage_of(damage))
        return search.activations if search else [None] * len(addresses)

    def _rows_of(self, activation: Activation | None, unit: int) -> Iterator[CallRow]:
        for _ in range(_NESTED_MOST):
            if activation is None:
                return
            number, is_unnamed = self._functions.find(activation)
            die, low = (activation.unit.header.start + activation.offset, activation.low) if is_unnamed else (-1, -1)
            yield number, unit, _bound(activation.file), _bound(activation.line), die, low if low < 1 << 63 else -1
            activation = activation.caller


def _bound(number: int) -> int:
    """Return a line or file number, 0 if it is out of range."""
    return number if 0 <= number < 1 << 32 else 0


# Find the functions and inlined calls of a unit at sorted addresses. Each address gets its innermost Activation, whose callers lead to
# the function. The tree of DIEs is walked once; subtrees without a requested address are skipped, by DW_AT_sibling if the compiler wrote
# it. Layout: DWARF 5, section 3.3.8.
#
# Each abbreviation has a DieLayout: whether its DIEs are functions, inlined calls, blocks or others, and how to skip them.

#: kinds of DIEs: no children; irrelevant children; may hold functions; often holds functions; and three kinds with code
LEAF, TREE, HOLDER, SCOPE, BLOCK, INLINED, FUNCTION = range(7)
_WITH_CODE: Final = {
    dwarf.TAG_LEXICAL_BLOCK: BLOCK,
    dwarf.TAG_TRY_BLOCK: BLOCK,
    dwarf.TAG_CATCH_BLOCK: BLOCK,
    dwarf.TAG_INLINED_SUBROUTINE: INLINED,
    dwarf.TAG_SUBPROGRAM: FUNCTION,
}
_SCOPES: Final = frozenset({dwarf.TAG_COMPILE_UNIT, dwarf.TAG_PARTIAL_UNIT, dwarf.TAG_SKELETON_UNIT, dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE})
# Lambdas and members of local classes are inside the classes and functions that declare them.
_HOLDERS: Final = frozenset({dwarf.TAG_SUBPROGRAM, dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE})
_DISTANCES: Final = {dwarf.FORM_DATA1: 1, dwarf.FORM_DATA2: 2, dwarf.FORM_DATA4: 4, dwarf.FORM_DATA8: 8}


class Bounds(NamedTuple):
    """The offsets of low_pc (an address) and high_pc (a size) in a DIE, and the bytes of high_pc."""

    low: int
    high: int
    high_size: int


class DieLayout(NamedTuple):
    """An abbreviation as the search needs it.

    Attributes:
        kind: one of LEAF to FUNCTION.
        size: bytes of the values, -1 if it varies.
        sibling: offset of a 4-byte DW_AT_sibling, -1 without one.
        children: whether the DIEs have children.
        bounds: offsets of low_pc and high_pc; None: read the attributes.
        abbreviation: the abbreviation.
        listed: offset of a DW_AT_ranges that is a section offset; -1: use `bounds`.
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
    """Return the DieLayout of an abbreviation."""
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


_BYTES_OF_DIE: Final = 8  # approximately, to count the work
_DEPTH_MOST: Final = 1 << 12  # functions inlined into each other; perf stops at 1,024


class Activation:
    """A function at an address, or an inlined call in its caller.

    Attributes:
        unit: the unit of the DIE.
        offset: the DIE of the function or call.
        origin: reference to the inlined function; None for the function itself.
        file: of the call, as a number in the unit's line program.
        line: of the call.
        caller: None for the function itself.
        low: start of the first nonempty range.
    """

    __slots__ = ("caller", "file", "line", "low", "offset", "origin", "unit")

    def __init__(self, unit: DebugUnit, offset: int, caller: Activation | None, attributes: dict[int, Attribute], low: int) -> None:
        self.unit = unit
        self.offset = offset
        self.caller = caller
        self.low = low
        self.origin = attributes.get(dwarf.AT_ABSTRACT_ORIGIN) if caller else None
        self.file = _number(attributes.get(dwarf.AT_CALL_FILE))
        self.line = _number(attributes.get(dwarf.AT_CALL_LINE))


def _number(attribute: Attribute | None) -> int:
    return attribute.value if attribute and isinstance(attribute.value, int) else 0


class _Top(NamedTuple):
    """A DIE with code that is not inside another one.

    Attributes:
        ranges: the ranges of its code.
        layout: its layout.
        start: offset of the DIE in the unit.
        offset: offset of its values.
    """

    ranges: Ranges
    layout: DieLayout
    start: int
    offset: int


class _Layouts(dict[int, DieLayout]):
    """The layouts of a unit's DIEs by code, created on demand. The functions of most units need some tens of hundreds."""

    def __init__(self, table: AbbreviationTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, code: int) -> DieLayout:
        abbreviation = self._table.get(code)
        if abbreviation is None:
            raise ValueError(f"no abbreviation {code}")
        layout = self[code] = layout_of(abbreviation)
        return layout


class InlineSearch:
    """A search for functions in one unit. Repeated searches reuse the ranges of DIEs that were already read."""

    def __init__(self, unit: DebugUnit) -> None:
        self._unit = unit
        self._data = b""
        self._order = unit.sections.order
        self._address_size = unit.header.shape.address_size
        self._layouts = _Layouts(unit.abbreviations)
        # The assembler writes a function for every alias; the last one counts.
        self._takes_last = unit.number(dwarf.AT_LANGUAGE) == dwarf.LANG_MIPS_ASSEMBLER
        self._scopes_skipped = False
        self._tops: list[_Top] = []
        self._unread_tops = self._read_tops()
        self.activations: list[Activation | None] = []
        self._addresses: Sequence[int] = ()
        self._remaining = 0

    def find(self, addresses: Sequence[int]) -> list[Activation | None]:
        """Return the innermost Activation of each address (ascending). `activations` has the partial result if this raises."""
        activations: list[Activation | None] = [None] * len(addresses)
        self.activations = activations
        self._addresses, self._remaining, self._data = addresses, len(addresses), self._unit.reader.data
        self._unit.sections.spend(len(self._data) // _BYTES_OF_DIE)
        try:
            if self._takes_last:
                self._walk(self._unit.header.size, whole=False)
            else:
                self._search_tops()
            if self._remaining and self._scopes_skipped:
                self._unit.sections.spend(len(self._data) // _BYTES_OF_DIE)
                self._walk(self._unit.header.size, whole=True)
        finally:
            self._data = b""
        return activations

    def _search_tops(self) -> None:
        """Search the top-level functions, starting with those already read."""
        for top in self._tops:
            if not self._remaining:
                return
            self._search_top(top)
        while self._remaining:
            top_or_none = next(self._unread_tops, None)
            if top_or_none is None:
                return
            self._tops.append(top_or_none)
            self._search_top(top_or_none)

    def _search_top(self, top: _Top) -> None:
        hits = self._hits(top.ranges)
        if not hits:
            self._scopes_skipped |= top.layout.kind == FUNCTION and top.layout.children
        elif top.layout.children:
            self._walk(top.start, whole=False)
        else:
            self._enter(top.layout, top.start, top.offset, None)

    def _read_tops(self) -> Iterator[_Top]:
        """Yield the outermost DIEs with code, reading on only on demand."""
        layouts, offset, end, depth = self._layouts, self._unit.header.size, len(self._data), 0
        while offset < end:
            start, code = offset, self._data[offset]  # `self._data` is released between searches
            offset += 1
            if code >= 0x80:
                code, offset = dwarf.read_unsigned(self._data, start)
            if not code:
                depth -= 1
                if depth <= 0:
                    return
                continue
            kind, size, sibling, children, _, abbreviation, _ = layout = layouts[code]
            after = offset + size if size >= 0 else self._unit.reader.skip(abbreviation, offset)
            if kind >= BLOCK:
                yield _Top(self._ranges(layout, offset), layout, start, offset)
            if not children:
                offset = after
            elif kind == SCOPE and (sibling < 0 or not depth):
                depth, offset = depth + 1, after
                if depth > _DEPTH_MOST:
                    raise ValueError(f"entries nested more than {_DEPTH_MOST} deep at {self._unit.header.start + start:#x}")
            else:
                self._scopes_skipped |= kind in (SCOPE, HOLDER)
                offset = self._skip_tree(offset, sibling, after)

    def _walk(self, offset: int, *, whole: bool) -> None:
        """Search a DIE and its descendants."""
        data, layouts, end = self._data, self._layouts, len(self._data)
        callers: list[Activation | None] = []  # the Activation around each open DIE
        current: Activation | None = None
        while offset < end:
            start, code = offset, data[offset]
            offset += 1
            if code >= 0x80:
                code, offset = dwarf.read_unsigned(data, start)
            if not code:
                current = callers.pop()
                if not callers or not (self._remaining or current or self._takes_last):
                    return
                continue
            kind, size, sibling, children, _, abbreviation, _ = layout = layouts[code]
            after = offset + size if size >= 0 else self._unit.reader.skip(abbreviation, offset)
            if kind == LEAF:
                offset = after
                continue
            inside = current
            if kind >= BLOCK:
                entered, inside = self._enter(layout, start, offset, current)
                entered = entered or (kind == FUNCTION and self._descend_into(children, whole))
            elif kind == SCOPE and (sibling < 0 or not callers or current is not None):
                entered = True
            else:
                entered = self._descend_into(kind in (SCOPE, HOLDER), whole)
            if not children:
                offset = after
            elif entered:
                callers.append(current)
                current, offset = inside, after
                if len(callers) > _DEPTH_MOST:
                    raise ValueError(f"entries nested more than {_DEPTH_MOST} deep at {self._unit.header.start + start:#x}")
            else:
                offset = self._skip_tree(offset, sibling, after)

    def _descend_into(self, may_hold: bool, whole: bool) -> bool:
        """Whether to descend into a DIE that seldom holds functions. The first walk skips these DIEs; a second one visits them."""
        self._scopes_skipped |= may_hold
        return may_hold and whole

    def _skip_tree(self, offset: int, sibling: int, after: int) -> int:
        """Return the offset after a DIE and its children."""
        if sibling >= 0:
            next_one = int.from_bytes(self._data[offset + sibling : offset + sibling + 4], self._order)
            if next_one <= after:
                raise ValueError(f"a sibling before its entry at {self._unit.header.start + offset:#x}")
            return next_one
        offset = after
        data, layouts, depth = self._data, self._layouts, 1
        while depth:
            code = data[offset]
            offset += 1
            if code >= 0x80:
                code, offset = dwarf.read_unsigned(data, offset - 1)
            if not code:
                depth -= 1
                continue
            _, size, sibling, children, _, abbreviation, _ = layouts[code]
            after = offset + size if size >= 0 else self._unit.reader.skip(abbreviation, offset)
            if not children:
                offset = after
            elif sibling >= 0:
                offset = self._skip_tree(offset, sibling, after)
            else:
                depth, offset = depth + 1, after
        return offset

    def _enter(self, layout: DieLayout, start: int, offset: int, current: Activation | None) -> tuple[bool, Activation | None]:
        """Return whether addresses are in a DIE with code, and the Activation of its children."""
        ranges = self._ranges(layout, offset)
        hits = self._hits(ranges)
        if not hits or layout.kind == BLOCK:
            return bool(hits), current
        attributes, _ = self._unit.attributes(layout.abbreviation, offset)
        caller = current if layout.kind == INLINED else None
        activation = Activation(self._unit, start, caller, attributes, next(low for low, high in ranges if low != high))
        for index in hits:
            if self.activations[index] is None:
                self._remaining -= 1
            elif layout.kind == FUNCTION and not self._takes_last:
                continue
            self.activations[index] = activation
        return True, activation

    def _ranges(self, layout: DieLayout, offset: int) -> Ranges:
        """Return the ranges of the DIE whose values are at an offset."""
        if layout.listed >= 0:
            value = self._unit.reader.number(offset + layout.listed, self._unit.header.shape.offset_size)
            return range_list(self._unit, dwarf.FORM_SEC_OFFSET, value)
        if layout.bounds is None:
            return ranges_of(self._unit, self._unit.attributes(layout.abbreviation, offset)[0])
        low_offset, high_offset, size = layout.bounds
        low = int.from_bytes(self._data[offset + low_offset : offset + low_offset + self._address_size], self._order)
        return [(low, low + int.from_bytes(self._data[offset + high_offset : offset + high_offset + size], self._order))]

    def _hits(self, ranges: Ranges) -> list[int]:
        addresses, hits = self._addresses, list[int]()
        for start, end in ranges:
            index = bisect_left(addresses, start)
            if index < len(addresses) and addresses[index] < end:
                hits += range(index, bisect_left(addresses, end, index))
        return hits
