"""Merge rows that were written to temporary files when memory was full.

A run holds the rows and chains folded until then; rows are identified by a number of their columns, chains by their
hashes. The merged result has every row once, with its totals and its first sample, and every
chain once, in the order of its first occurrence, as if all had been folded in memory.

A run is sorted by these numbers in the file; the runs are merged in ranges of
numbers, each of which fits into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import row_blocks, slices_index
from perfpy.analysis.aggregate.overflow import ScratchFile
from perfpy.analysis.samples.row_hashes import combine_columns
from perfpy.analysis.samples.sample_view import DeliveryOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.overflow import Stored
    from perfpy.analysis.samples.callchains import ChainTable

#: rows, or chains, merged at once
_AT_ONCE: Final = 1 << 19
#: frames of chains copied at once
_FRAMES_AT_ONCE: Final = 1 << 20
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT, _RUN_BITS = np.uint64(31), 32
#: the sort key of a row's first sample
_MOMENT: Final = ("key", "time", "ordinal")
_KEY, _SUM = "key ", "sum "  # prefixes of columns of rows


class StoredChains(NamedTuple):
    """The frames of all chains, and the offset of each chain."""

    frames: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def chains(self) -> StoredChains:
        """Return itself, as a ChainSource."""
        return self


class Merged(NamedTuple):
    """All merged rows, in the order of first delivery.

    Attributes:
        keys, totals: columns as of add_rows().
        chain: of each row.
        tid: of each row's first sample.
        chains: the distinct chains.
    """

    keys: list[NDArray[np.int64]]
    totals: list[NDArray[np.int64]]
    chain: NDArray[np.int64]
    tid: NDArray[np.int64]
    chains: StoredChains | None


class _Run(NamedTuple):
    """One run in the file: rows by name, sorted by "number"; chains, sorted by "hash"."""

    rows: dict[str, Stored]
    chains: dict[str, Stored]
    frames: Stored | None


class FoldedRuns:
    """The runs of one recording."""

    def __init__(self) -> None:
        self._file = ScratchFile()
        self._runs: list[_Run] = []

    def add_rows(
        self,
        keys: list[NDArray[np.int64]],
        chain: NDArray[np.int64] | None,
        chains: ChainTable | None,
        totals: list[NDArray[np.int64]],
        when: DeliveryOrder,
        tid: NDArray[np.int64],
    ) -> None:
        """Write the rows folded since the last call. Raises OutputFailedError if the disk is full.

        Args:
            keys: the columns that identify rows, without chains.
            chain: of each row, in `chains`.
            chains: the distinct chains.
            totals: columns of sums.
            when, tid: of each row's first sample.
        """
        hashes = np.zeros(len(tid), np.uint64) if chains is None else chains.hashes[chain]
        number = combine_columns([*keys, hashes])
        number = (number ^ number >> _SHIFT) * _MIX  # equalizes the ranges of numbers
        columns = {"number": number, "chain": hashes, "tid": tid, **when._asdict()}
        for kind, numbered in ((_KEY, keys), (_SUM, totals)):
            columns |= {f"{kind}{index}": values for index, values in enumerate(numbered)}
        order = np.argsort(number)
        rows = {name: self._file.write(values[order]) for name, values in columns.items()}
        self._runs.append(_Run(rows, *(({}, None) if chains is None else self._stored_chains(chains))))

    def _stored_chains(self, chains: ChainTable) -> tuple[dict[str, Stored], Stored]:
        frames, offsets = chains.chains()
        order = np.argsort(chains.hashes)
        lengths = np.diff(offsets)[order]
        columns = {"hash": chains.hashes[order], "met": order + (len(self._runs) << _RUN_BITS), "length": lengths}
        columns["start"] = np.cumsum(lengths) - lengths
        stored = {name: self._file.write(values) for name, values in columns.items()}
        blocks = row_blocks(np.concatenate([[0], np.cumsum(lengths)]), _FRAMES_AT_ONCE)
        parts = (frames[slices_index(offsets[order[begin:end]], lengths[begin:end])[0]] for begin, end in blocks)
        return stored, self._file.append(parts, np.int32)

    def merge(self) -> Merged:
        """Return all rows and chains."""
        rows = self._rows()
        order = DeliveryOrder(*(rows.pop(name) for name in _MOMENT)).order()
        rows = {name: rows.pop(name)[order] for name in list(rows)}
        hashes, chains = rows.pop("chain"), None
        chain = np.full(len(order), -1, np.int64)
        if self._runs[0].frames is not None:
            chains, sorted_hashes, of_known = self._chains()
            chain = of_known[np.searchsorted(sorted_hashes, hashes)]
        keys, totals = ([rows.pop(name) for name in self._column_names(kind)] for kind in (_KEY, _SUM))
        return Merged(keys, totals, chain, rows.pop("tid"), chains)

    def _column_names(self, kind: str) -> list[str]:
        """Return the column names of one kind, in order."""
        return [name for name in self._runs[0].rows if name.startswith(kind)]

    def _chains(self) -> tuple[StoredChains, NDArray[np.uint64], NDArray[np.int64]]:
        """Return every chain once, the hashes in ascending order, and the chain of each hash."""
        distinct_chains: list[tuple[NDArray[Any], ...]] = [(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64))]
        frames = self._file.append_joined(self._merged_chains(distinct_chains), np.int32)
        hashes, met, lengths = (np.concatenate(parts) for parts in zip(*distinct_chains, strict=True))
        starts = np.cumsum(lengths) - lengths
        order = np.argsort(met)
        of_hash = np.empty(len(order), np.int64)
        of_hash[order] = np.arange(len(order))
        offsets = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
        blocks = ((starts[order[begin:end]], lengths[order[begin:end]]) for begin, end in row_blocks(offsets, _FRAMES_AT_ONCE))
        ordered = self._file.append_joined((frames[slices_index(*block)[0]] for block in blocks), np.int32)
        return StoredChains(ordered, offsets), hashes, of_hash

    def _merged_chains(self, chain_columns: list[tuple[NDArray[Any], ...]]) -> Iterator[NDArray[np.int32]]:
        """Yield the frames of all chains, by hash; append their hashes, order of occurrence and lengths to `chain_columns`."""
        for parts in self._ranges([run.chains for run in self._runs], "hash"):
            columns = {name: np.concatenate([part[name] for part in parts]) for name in ("hash", "met", "length")}
            frames = []
            for run, part in zip(self._runs, parts, strict=True):
                assert run.frames is not None
                begin = int(part["start"][0]) if len(part["start"]) else 0
                frames.append(self._file.read(run.frames, begin, begin + int(part["length"].sum())))
            starts = np.cumsum(columns["length"]) - columns["length"]
            order = np.lexsort((columns["met"], columns["hash"]))
            first = order[_beginnings(columns["hash"][order])]
            chain_columns.append((columns["hash"][first], columns["met"][first], columns["length"][first]))
            yield np.concatenate(frames)[slices_index(starts[first], columns["length"][first])[0]]

    def _rows(self) -> dict[str, NDArray[Any]]:
        """Return every row once, by column, unsorted."""
        merged_parts, totals = [], self._column_names(_SUM)
        for parts in self._ranges([run.rows for run in self._runs], "number"):
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            numbers = columns.pop("number")
            order = np.lexsort((*(columns[name] for name in reversed(_MOMENT)), numbers))
            begins = _beginnings(numbers[order])
            merged = {name: values[order[begins]] for name, values in columns.items() if name not in totals}
            merged_parts.append(merged | {name: np.add.reduceat(columns[name][order], begins) for name in totals})
        return {name: np.concatenate([part.pop(name) for part in merged_parts]) for name in list(merged_parts[0])}

    def _ranges(self, tables: list[dict[str, Stored]], sorted_by: str) -> Iterator[list[dict[str, NDArray[Any]]]]:
        """Yield the columns of all tables for each range of numbers that is not empty."""
        numbers = [self._file.map_array(table[sorted_by]) for table in tables]
        bits = max(sum(map(len, numbers)) // _AT_ONCE, 0).bit_length()
        lows = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits if bits else 0)
        borders = [[*np.searchsorted(number, lows).tolist(), len(number)] for number in numbers]
        for index in range(len(lows)):
            bounds = [(border[index], border[index + 1]) for border in borders]
            if any(begin < end for begin, end in bounds):
                yield [
                    {name: self._file.read(stored, *limits) for name, stored in table.items()}
                    for table, limits in zip(tables, bounds, strict=True)
                ]


def _beginnings(ordered: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the first index of each number in an ascending column."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
