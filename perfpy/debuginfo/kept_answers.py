"""A cache between runs: the answers of one file's debug information, by address.

Reports of a program ask the same questions, and some compilers' debug information takes half of a report's time. Answers of damaged files,
and those that depend on other files, are not cached.
"""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.startup import NamedTuple
from perfpy.symbols.files.column_files import ColumnFiles, folder
from perfpy.symbols.files.elf_cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.debuginfo.units import UnitIndex

_VERSION: Final = "1"  # of what debug information is taken to mean, and of the columns
_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 12  # entries that were read for what is new: some milliseconds' worth


class AddressRows(NamedTuple):
    """counts: how many rows each address has; rows: one after the other; their first column numbers a text, or is negative."""

    counts: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of(self, which: NDArray[np.int64]) -> AddressRows:
        """Those of some addresses."""
        counts = self.counts[which]
        starts = (np.cumsum(self.counts) - self.counts)[which]
        return AddressRows(counts, self.rows[slices_index(starts, counts)[0]])

    def followed_by(self, others: AddressRows) -> AddressRows:
        """Both."""
        return AddressRows(np.concatenate([self.counts, others.counts]), np.concatenate([self.rows, others.rows]))


class KeptAnswers:
    """The answers of one kind that a file gave, in this run and in others.

    kind: what is answered; width: how many numbers a row has; units: those of the file; between_runs: False keeps them in this one.
    texts: what the first numbers of rows stand for; whoever finds new ones appends them.
    """

    def __init__(self, kind: str, width: int, units: UnitIndex, *, between_runs: bool = True) -> None:
        self._table = _KnownRows(f"{kind}{_VERSION}", width, units, between_runs=between_runs)
        self.texts = self._table.texts
        if self._table.key:
            weakref.finalize(self, self._table.store)

    def find(self, addresses: NDArray[np.uint64], look: Callable[[NDArray[np.uint64]], AddressRows]) -> AddressRows:
        """The answers at some addresses. look: finds out those of addresses that were not asked for before, which ascend."""
        return self._table.find(addresses, look)

    def distrust(self) -> None:
        """Keep nothing of this file: its answers depend on what else is asked."""
        self._table.holds = False


class _KnownRows:
    """What KeptAnswers knows; apart from it, as it is kept when nobody has that any more."""

    def __init__(self, kind: str, width: int, units: UnitIndex, *, between_runs: bool) -> None:
        self._units = units
        self._width = width
        self.holds = True
        self._cost = 0
        self.texts: list[bytes] = []
        self._addresses = np.zeros(0, np.uint64)  # ascending
        self._answers = AddressRows(np.zeros(0, np.int64), np.zeros((0, width), np.int64))
        file = units.sections.file
        is_at_path = not isinstance(file.content, bytes)  # what comes with a recording is not
        self.key = key_of(kind, file) if between_runs and is_at_path else ""
        if self.key:
            self._files = ColumnFiles(folder("debuginfo"), ".answers", _LIMIT)
            try:
                self._load(self._files.columns(self.key) or {})
            except (KeyError, ValueError, IndexError, TypeError, OverflowError):
                return

    def find(self, addresses: NDArray[np.uint64], look: Callable[[NDArray[np.uint64]], AddressRows]) -> AddressRows:
        """As KeptAnswers has it."""
        fresh = distinct(addresses[~self._is_known(addresses)])
        if len(fresh):
            before = self._units.sections.work
            found = look(fresh)
            self._cost += self._units.sections.work - before
            both = np.concatenate([self._addresses, fresh])
            order = np.argsort(both, kind="stable")
            self._addresses, self._answers = both[order], self._answers.followed_by(found).of(order)
        return self._answers.of(np.searchsorted(self._addresses, addresses))

    def _is_known(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        if not len(self._addresses):
            return np.zeros(len(addresses), bool)
        row = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        known: NDArray[np.bool_] = self._addresses[row] == addresses
        return known

    def _load(self, columns: dict[str, NDArray[Any]]) -> None:
        """Begin with what was kept; raises ValueError and the like for anything that is not the result of `store`."""
        if not columns:
            return
        addresses, counts, ends = columns["address"], columns["count"].astype(np.int64), columns["end"]
        rows = columns["row"].reshape(-1, self._width)
        bounds = np.concatenate([np.zeros(1, np.int64), ends])
        sound = (
            addresses.dtype == np.uint64
            and rows.dtype == np.int64
            and len(counts) == len(addresses)
            and not (addresses[1:] <= addresses[:-1]).any()
            and not (counts < 0).any()
            and int(counts.sum()) == len(rows)
            and not ((rows[:, 0] < -1) | (rows[:, 0] >= len(ends))).any()
            and not (bounds[1:] < bounds[:-1]).any()
            and int(bounds[-1]) == len(columns["text"])
        )
        if not sound:
            raise ValueError("answers that nobody kept")
        text = columns["text"].tobytes()
        self.texts += [text[start:end] for start, end in pairwise(bounds.tolist())]
        self._addresses, self._answers = addresses, AddressRows(counts, rows)

    def store(self) -> None:
        """Keep all that is known, if that is worth it, and whole."""
        units = self._units
        is_whole = self.holds and units.stands_alone and not units.sections.file.flaws
        if not is_whole or self._cost < _WORTH_KEEPING or len(self._addresses) > _MOST:
            return
        columns: dict[str, NDArray[Any]] = {
            "address": self._addresses,
            "count": self._answers.counts.astype(np.int32),
            "row": self._answers.rows.ravel(),
            "end": np.cumsum(np.array([len(text) for text in self.texts], np.int64)),
            "text": np.frombuffer(b"".join(self.texts), np.uint8),
        }
        self._files.keep(self.key, columns)
        self._cost = 0
