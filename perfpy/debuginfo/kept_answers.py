"""A cache between runs: the answers of one file's debug information, by address.

Reports of a program ask the same questions, and some compilers' debug information takes half of a report's time. Answers of damaged files,
and those that depend on other files, are not cached.
"""

from __future__ import annotations

import weakref
from itertools import pairwise

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.symbols.files.debug_files import ColumnFiles, folder, key_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.debuginfo.unit_index import UnitIndex
    from perfpy.symbols.files.elf import ElfFile


_VERSION: Final = "1"  # of the interpretation of debug information, and of the columns
_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 12  # DIEs and other entries read for new answers: some milliseconds of work


class AddressRows(NamedTuple):
    """Rows by address.

    Attributes:
        counts: int64[n], the number of rows of each address.
        rows: int64[sum(counts), width]. The first column is the index of a text, or negative.
    """

    counts: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of(self, indices: NDArray[np.int64]) -> AddressRows:
        """Select the rows of addresses by index."""
        counts = self.counts[indices]
        starts = (np.cumsum(self.counts) - self.counts)[indices]
        return AddressRows(counts, self.rows[slices_index(starts, counts)[0]])


class KeptAnswers:
    """The cached answers of one kind for one file, from this run and earlier ones.

    Args:
        kind: the name of the kind, for the cache's key.
        width: columns per row.
        units: the units of the file.
        between_runs: False: do not read or write the cache on disk.

    Attributes:
        texts: the texts that the first column refers to. Callers append new ones.
    """

    def __init__(self, kind: str, width: int, units: UnitIndex, *, between_runs: bool = True) -> None:
        self._table = _AnswerTable(f"{kind}{_VERSION}", width, units, between_runs=between_runs)
        self.texts = self._table.texts
        if self._table.key:
            weakref.finalize(self, self._table.store)

    def find(self, addresses: NDArray[np.uint64], compute: Callable[[NDArray[np.uint64]], AddressRows]) -> AddressRows:
        """Return the answers at addresses. `compute` returns those of uncached addresses (distinct, ascending)."""
        return self._table.find(addresses, compute)

    def distrust(self) -> None:
        """Do not store answers of this file: they depend on the other addresses of this run."""
        self._table.is_storable = False


class _AnswerTable:
    """The table of a KeptAnswers: a separate object, because it is stored when the KeptAnswers is finalized."""

    def __init__(self, kind: str, width: int, units: UnitIndex, *, between_runs: bool) -> None:
        self._units = units
        self._width = width
        self.is_storable = True
        self._cost = 0
        self.texts: list[bytes] = []
        self._addresses = np.zeros(0, np.uint64)  # ascending
        self._answers = AddressRows(np.zeros(0, np.int64), np.zeros((0, width), np.int64))
        file = units.sections.file
        is_at_path = not isinstance(file.content, bytes)  # files embedded in a recording have no path and are not cached
        self.key = key_of(kind, file) if between_runs and is_at_path else ""
        if self.key:
            self._files = ColumnFiles(folder("debuginfo"), ".answers", _LIMIT)
            try:
                self._load(self._files.columns(self.key) or {})
            except (KeyError, ValueError, IndexError, TypeError, OverflowError):
                return

    def find(self, addresses: NDArray[np.uint64], compute: Callable[[NDArray[np.uint64]], AddressRows]) -> AddressRows:
        """Return the answers at addresses; see KeptAnswers.find."""
        fresh = distinct(addresses[~self._is_cached(addresses)])
        if len(fresh):
            work_before = self._units.sections.work
            answers = compute(fresh)
            self._cost += self._units.sections.work - work_before
            merged = np.concatenate([self._addresses, fresh])
            order = np.argsort(merged, kind="stable")
            both = AddressRows(*(np.concatenate(columns) for columns in zip(self._answers, answers, strict=True)))
            self._addresses, self._answers = merged[order], both.of(order)
        return self._answers.of(np.searchsorted(self._addresses, addresses))

    def _is_cached(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        if not len(self._addresses):
            return np.zeros(len(addresses), bool)
        row = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        is_known: NDArray[np.bool_] = self._addresses[row] == addresses
        return is_known

    def _load(self, columns: dict[str, NDArray[Any]]) -> None:
        """Load stored columns. Raises ValueError and other errors of DAMAGE for columns that `store` did not write."""
        if not columns:
            return
        addresses, counts, ends = columns["address"], columns["count"].astype(np.int64), columns["end"]
        rows = columns["row"].reshape(-1, self._width)
        bounds = np.concatenate([np.zeros(1, np.int64), ends])
        is_sound = (
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
        if not is_sound:
            raise ValueError("answers of another version")
        text = columns["text"].tobytes()
        self.texts += [text[start:end] for start, end in pairwise(bounds.tolist())]
        self._addresses, self._answers = addresses, AddressRows(counts, rows)

    def store(self) -> None:
        """Store all answers if they took enough work and the file is undamaged and independent of other files."""
        units = self._units
        is_whole = self.is_storable and units.stands_alone and not units.sections.file.flaws
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


# Convert file offsets, which identify frames, to the addresses in symbols and debug information. They are equal in most libraries, but
# not in programs at fixed addresses, or with some linkers.
def link_addresses(runtime: ElfFile, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the addresses of file offsets, by the segments of the file that was mapped (`runtime`)."""
    text = runtime.section(".text")
    addresses = offsets + np.uint64((text.addr - text.offset) % (1 << 64) if text else 0)  # of files without segments
    is_mapped = np.zeros(len(offsets), np.bool_)
    for segment in runtime.segments:
        start, size = np.uint64(segment["offset"]), np.uint64(segment["filesz"])
        inside = (offsets >= start) & (offsets - start < size) & ~is_mapped
        addresses[inside] = offsets[inside] - start + np.uint64(segment["vaddr"])
        is_mapped |= inside
    return addresses
