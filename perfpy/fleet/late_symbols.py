"""Symbols that were not to be found where recordings were read, and are here.

What enters: a PortableProfile, and where to look for files. What leaves: the same, with functions for addresses in files of which this
machine has the same build; files are known by their build-ids alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.task_columns import RawColumns, decode_tasks
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.known_frames import SymbolColumns
from perfpy.symbols.loader import SymbolLoader
from perfpy.symbols.tasks.address_space import TaskTimeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.fleet.portable import PortableProfile
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable

#: kinds of files that are the same wherever they have one build-id
_FILES = (DsoKind.FILE, DsoKind.VDSO)


def with_symbols_from_here(found: PortableProfile, options: SymbolOptions) -> PortableProfile:
    """The profile, with the symbols of this machine's files where there were none."""
    frames = found.frames
    lost = np.flatnonzero((frames["symbol"] < 0) & (frames["dso"] >= 0))
    loader = loader_of(found.dsos, options)
    symbols, origins = _Symbols(found), list(found.origins)
    symbol = frames["symbol"].copy()
    offset = frames["symbol_offset"].copy()
    for dso in distinct(frames["dso"][lost]).tolist():
        file = found.dsos[dso]
        if not file.build_id or file.kind not in _FILES:
            continue
        rows = lost[frames["dso"][lost] == dso]
        table = loader.table(dso)
        if not len(table):
            continue
        origins[dso] = loader.origin(dso)
        row = table.find(frames["address"][rows])
        hit = rows[row >= 0]
        symbol[hit] = symbols.numbers(table, dso, row[row >= 0])
        offset[hit] = frames["address"][hit] - table.symbols.start[row[row >= 0]]
    lines = found.lines and found.lines._replace(begins=found.lines.begins + [(-1, 0)] * symbols.added)
    named = {**frames, "symbol": symbol, "symbol_offset": offset}
    return found._replace(frames=named, symbols=symbols.columns(), origins=origins, lines=lines)


def loader_of(dsos: list[Dso], options: SymbolOptions) -> SymbolLoader:
    """What loads the symbols of some files; nobody asks it who mapped them."""
    none = np.zeros(0, np.int64)
    raw = RawColumns(none.astype(np.uint32), none.astype(np.uint16), none, none, none, b"")
    timeline = TaskTimeline(decode_tasks(raw, none.astype(np.uint64), "<"))
    timeline.dso_table.dsos[:] = dsos
    return SymbolLoader(timeline, options)


class _Symbols:
    """The symbols of a profile, to which others come: one of a name that its file has already is that one."""

    def __init__(self, found: PortableProfile) -> None:
        self._known, self._by_function = found.symbols, found.by_function
        self._files = [(file.short_name, file.kind) for file in found.dsos]
        self._first = {file: number for number, file in reversed(list(enumerate(self._files)))}
        rows = zip(self._known.dso.tolist(), self._known.names, self._known.inlined.tolist(), strict=True)
        self._numbers: dict[tuple[int, str], int] = {}
        for number, (dso, name, inlined) in enumerate(rows):
            if not inlined:
                self._numbers.setdefault((dso, name), number)
        self._new: list[tuple[Any, ...]] = []

    @property
    def added(self) -> int:
        """How many came."""
        return len(self._new)

    def numbers(self, table: SymbolTable, dso: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of symbols of a file."""
        dso = self._first[self._files[dso]] if self._by_function else dso
        present, which = np.unique(rows, return_inverse=True)
        found = np.array([self._number(table, dso, row) for row in present.tolist()], np.int32)
        return found[which.ravel()]

    def _number(self, table: SymbolTable, dso: int, row: int) -> int:
        name = table.name(row)
        number = self._numbers.setdefault((dso, name), len(self._known.names) + len(self._new))
        if number == len(self._known.names) + len(self._new):
            known = table.symbols
            self._new.append((name, known.start[row], known.end[row], dso, 0, False, False, known.binding[row]))
        return number

    def columns(self) -> SymbolColumns:
        """All of them."""
        if not self._new:
            return self._known
        known, (names, *new) = self._known, zip(*self._new, strict=True)
        columns = (np.concatenate([old, np.array(more, old.dtype)]) for old, more in zip(_numbers_of(known), new, strict=True))
        return SymbolColumns([*known.names, *names], *columns)


def _numbers_of(known: SymbolColumns) -> tuple[NDArray[Any], ...]:
    return known.start, known.end, known.dso, known.twin, known.is_data, known.inlined, known.binding
