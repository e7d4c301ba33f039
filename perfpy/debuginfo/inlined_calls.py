"""The functions at addresses of a file: inlined calls, innermost first, and the function that contains them.

Only units with requested addresses are read. Names come from the DIEs or from those that they refer to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.inline_search import Activation, InlineSearch
from perfpy.debuginfo.kept_answers import AddressRows, KeptAnswers
from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.sections import damage_of
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.debuginfo.inline_search import Activation
    from perfpy.debuginfo.units.index import UnitIndex
    from perfpy.debuginfo.units.unit import DebugUnit

_LINKS_MOST: Final = 16  # a call refers to its function, which refers to its declaration; damaged files may have cycles
_LINKAGE: Final = (dwarf.AT_LINKAGE_NAME, dwarf.AT_MIPS_LINKAGE_NAME)


class FunctionNames:
    """A numbering of function names, which appends to `names`. A function without a name has b""."""

    def __init__(self, names: list[bytes]) -> None:
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._numbers_by_die: dict[tuple[DebugUnit, int], tuple[int, bool]] = {}

    def number(self, activation: Activation) -> int:
        """Return the number of a function's name."""
        return self._find(activation)[0]

    def lacks_linkage_name(self, activation: Activation) -> bool:
        """Whether the function has no linkage name although its language mangles names."""
        return self._find(activation)[1]

    def _find(self, activation: Activation) -> tuple[int, bool]:
        target: tuple[DebugUnit, int] | None = (activation.unit, activation.offset)
        if activation.caller is not None:
            target = activation.unit.target(activation.origin) if activation.origin else None
        if target is None:
            return self._intern(b""), False
        entry = self._numbers_by_die.get(target)
        if entry is None:
            name, is_linkage = _name(*target)
            entry = self._numbers_by_die[target] = self._intern(name), not is_linkage and _mangles(target[0])
        return entry

    def _intern(self, name: bytes) -> int:
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def _mangles(unit: DebugUnit) -> bool:
    return unit.number(dwarf.AT_LANGUAGE) in dwarf.MANGLED_LANGUAGES


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
            call = unit, _bound(activation.file), _bound(activation.line)
            yield self._functions.number(activation), *call, *self._find_unnamed(activation)
            activation = activation.caller

    def _find_unnamed(self, activation: Activation) -> tuple[int, int]:
        """Return the DIE and the start of a function without a linkage name, otherwise (-1, -1)."""
        if not self._functions.lacks_linkage_name(activation):
            return -1, -1
        return activation.unit.header.start + activation.offset, activation.low if activation.low < 1 << 63 else -1


def _bound(number: int) -> int:
    """Return a line or file number, 0 if it is out of range."""
    return number if 0 <= number < 1 << 32 else 0
