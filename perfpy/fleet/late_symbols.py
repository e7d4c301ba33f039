"""Resolve addresses of a merged profile that the machines of the recordings could not, with files of the same build-id on this machine."""

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

    from perfpy.fleet.portable.profile import PortableProfile
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable

#: kinds of files that are equal on all machines if their build-ids are
_FILES = (DsoKind.FILE, DsoKind.VDSO)


def add_local_symbols(profile: PortableProfile, options: SymbolOptions) -> PortableProfile:
    """Return the profile with symbols of this machine's files for frames without symbols."""
    frames = profile.frames
    unresolved = np.flatnonzero((frames["symbol"] < 0) & (frames["dso"] >= 0))
    loader = loader_of(profile.dsos, options)
    symbols, origins = _Symbols(profile), list(profile.origins)
    symbol = frames["symbol"].copy()
    offset = frames["symbol_offset"].copy()
    for dso in distinct(frames["dso"][unresolved]).tolist():
        file = profile.dsos[dso]
        if not file.build_id or file.kind not in _FILES:
            continue
        rows = unresolved[frames["dso"][unresolved] == dso]
        table = loader.table(dso)
        if not len(table):
            continue
        origins[dso] = loader.origin(dso)
        row = table.find(frames["address"][rows])
        hit = rows[row >= 0]
        symbol[hit] = symbols.numbers(table, dso, row[row >= 0])
        offset[hit] = frames["address"][hit] - table.symbols.start[row[row >= 0]]
    lines = profile.lines and profile.lines._replace(begins=profile.lines.begins + [(-1, 0)] * symbols.new_symbol_count)
    columns = {**frames, "symbol": symbol, "symbol_offset": offset}
    return profile._replace(frames=columns, symbols=symbols.columns(), origins=origins, lines=lines)


def loader_of(dsos: list[Dso], options: SymbolOptions) -> SymbolLoader:
    """Return a loader of symbols of these files, without mappings."""
    none = np.zeros(0, np.int64)
    raw = RawColumns(none.astype(np.uint32), none.astype(np.uint16), none, none, none, b"")
    timeline = TaskTimeline(decode_tasks(raw, none.astype(np.uint64), "<"))
    timeline.dso_table.dsos[:] = dsos
    return SymbolLoader(timeline, options)


class _Symbols:
    """The symbols of a profile, extended by new ones; a symbol with the file and name of an existing one is that one."""

    def __init__(self, profile: PortableProfile) -> None:
        self._columns, self._by_function = profile.symbols, profile.by_function
        self._files = [(file.short_name, file.kind) for file in profile.dsos]
        self._first = {file: number for number, file in reversed(list(enumerate(self._files)))}
        rows = zip(self._columns.dso.tolist(), self._columns.names, self._columns.inlined.tolist(), strict=True)
        self._numbers: dict[tuple[int, str], int] = {}
        for number, (dso, name, inlined) in enumerate(rows):
            if not inlined:
                self._numbers.setdefault((dso, name), number)
        self._new: list[tuple[Any, ...]] = []

    @property
    def new_symbol_count(self) -> int:
        """The number of new symbols."""
        return len(self._new)

    def numbers(self, table: SymbolTable, dso: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of symbols of a file."""
        dso = self._first[self._files[dso]] if self._by_function else dso
        present, inverse = np.unique(rows, return_inverse=True)
        ids = np.array([self._number(table, dso, row) for row in present.tolist()], np.int32)
        return ids[inverse.ravel()]

    def _number(self, table: SymbolTable, dso: int, row: int) -> int:
        name = table.name(row)
        number = self._numbers.setdefault((dso, name), len(self._columns.names) + len(self._new))
        if number == len(self._columns.names) + len(self._new):
            columns = table.symbols
            self._new.append((name, columns.start[row], columns.end[row], dso, 0, False, False, columns.binding[row]))
        return number

    def columns(self) -> SymbolColumns:
        """Return the columns of all symbols."""
        if not self._new:
            return self._columns
        old_columns, (names, *new) = self._columns, zip(*self._new, strict=True)
        columns = (np.concatenate([old, np.array(more, old.dtype)]) for old, more in zip(_numbers_of(old_columns), new, strict=True))
        return SymbolColumns([*old_columns.names, *names], *columns)


def _numbers_of(symbols: SymbolColumns) -> tuple[NDArray[Any], ...]:
    return symbols.start, symbols.end, symbols.dso, symbols.twin, symbols.is_data, symbols.inlined, symbols.binding
