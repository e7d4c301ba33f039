"""Keep arrays beyond the memory limit in an unnamed temporary file, mapped on use.

PERFPY_MEMORY is the limit for data that grow with the number of distinct samples; the default depends on the machine.
"""

from __future__ import annotations

import os
import re

import numpy as np

from perfpy.abi.columns import row_blocks, slices_index
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.analysis.sample_view import DeliveryOrder, combine_columns
from perfpy.errors import OutputFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.callchains import ChainTable


#: the limit of memory for distinct samples: 500M, 2G
VARIABLE: Final = "PERFPY_MEMORY"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHARE: Final = 4  # a quarter of the available memory
_LEAST: Final = 64 << 20
_MOST: Final = 512 << 20  # above it, merging from files is as fast as searching large tables
_MANY_SAMPLES: Final = 100_000
_LITTLE: Final = 32 << 20  # bytes
_UNKNOWN: Final = 4 << 30  # if the system does not report it
_CGROUP: Final = ("memory.max", "memory.current")


def memory_limit() -> int:
    """Return the limit in bytes. Raises UsageError if the variable is not a size."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(max(_LEAST, _available() // _SHARE), _MOST)
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if match is None or not int(match[1]):
        raise UsageError(f"{VARIABLE}={text}: not a size; write 500M or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]


def memory_for(samples: int) -> int | None:
    """Return the limit in bytes for folding this number of samples; None if they fit anyway."""
    return memory_limit() if samples >= _MANY_SAMPLES or VARIABLE in os.environ else None


def _available() -> int:
    """Return the available memory: of the machine, of this cgroup, of this process."""
    match = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    limits = [int(match[1]) << 10] if match else []
    cgroup = re.search(r"^0::(/.*)$", _read("/proc/self/cgroup"), re.MULTILINE)
    if cgroup:
        most, used = (_read(f"/sys/fs/cgroup{cgroup[1]}/{name}").strip() for name in _CGROUP)
        limits += [max(int(most) - int(used), 0)] if most.isdigit() and used.isdigit() else []
    try:
        import resource  # not on every system
    except ImportError:
        return min(limits, default=_UNKNOWN)
    most_addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*limits, *([most_addresses] if most_addresses != resource.RLIM_INFINITY else [])], default=_UNKNOWN)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


class Stored(NamedTuple):
    """The position of an array in the file: offset in bytes, type, number of elements."""

    offset: int
    dtype: np.dtype[Any]
    size: int


class ScratchFile:
    """A temporary file of arrays, in TMPDIR, or else in /var/tmp, which is on disk even if /tmp is in memory."""

    def __init__(self) -> None:
        import tempfile  # only when something does not fit

        self.folder = os.environ.get("TMPDIR") or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir())
        try:
            self._file: FileIO = tempfile.TemporaryFile(prefix="perfpy-", dir=self.folder, buffering=0)  # noqa: SIM115  # open as long as this object
        except OSError as error:
            raise self._failure(error) from None
        self._end = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()  # mapped arrays stay valid

    def write(self, values: NDArray[Any]) -> Stored:
        """Append an array. Raises OutputFailedError if the disk is full."""
        stored = Stored(self._end, values.dtype, len(values))
        self._write(np.ascontiguousarray(values).data.cast("B") if len(values) else b"")
        return stored

    def _write(self, data: memoryview | bytes) -> None:
        begin = self._end
        self._end += len(data) + -len(data) % np.dtype(np.int64).itemsize
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], begin + written)
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> OutputFailedError:
        remedy = f"set TMPDIR to a folder with more space, or raise {VARIABLE}"
        return OutputFailedError(self.folder, f"{error.strerror}; the distinct samples do not fit into memory", remedy=remedy)

    def read(self, stored: Stored, begin: int, end: int) -> NDArray[Any]:
        """Return a range of an array, in memory."""
        size = stored.dtype.itemsize
        return np.frombuffer(self._bytes(stored.offset + begin * size, (end - begin) * size), stored.dtype)

    def _bytes(self, offset: int, size: int) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            count = os.preadv(self._file.fileno(), [view[filled:]], offset + filled)
            if not count:
                raise OutputFailedError(self.folder, "a temporary file was truncated")
            filled += count
        return data

    def map_array(self, stored: Stored) -> NDArray[Any]:
        """Return an array as a memory mapping."""
        if not stored.size:
            return np.zeros(0, stored.dtype)
        return np.asarray(np.memmap(self._file, stored.dtype, "r", stored.offset, (stored.size,)))

    def append(self, parts: Iterable[NDArray[Any]], dtype: Any) -> Stored:
        """Append one array made of several; nothing else may be written meanwhile."""
        begin, count = self._end, 0
        for part in parts:
            self._end = begin + count * np.dtype(dtype).itemsize  # without a gap
            self._write(np.ascontiguousarray(part, dtype).data.cast("B") if len(part) else b"")
            count += len(part)
        return Stored(begin, np.dtype(dtype), count)

    def append_joined(self, parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """Append one array made of several, and return it as a memory mapping."""
        return self.map_array(self.append(parts, dtype))

    def keep(self, value: object) -> tuple[int, int]:
        """Append any object, for `kept` in this process, its parent or a forked child."""
        import pickle  # of large recordings alone

        data = pickle.dumps(value, protocol=5)
        span = self._end, len(data)
        self._write(data)
        return span

    def load(self, span: tuple[int, int]) -> Any:
        """Return an object that `keep` wrote: only this program can open the file."""
        import pickle

        return pickle.loads(self._bytes(*span))


class Overflow:
    """Storage for arrays: in memory up to the limit, then in a file."""

    def __init__(self) -> None:
        self._used_bytes, self._room = 0, -1  # bytes; -1: not yet determined
        self._file: ScratchFile | None = None

    def _fits(self, size: int) -> bool:
        """Reserve memory; return whether it was available."""
        if self._room < 0:
            if self._used_bytes + size < _LITTLE and VARIABLE not in os.environ:
                self._used_bytes += size
                return True
            self._room = memory_limit()
        fits = self._used_bytes + size <= self._room
        self._used_bytes += size * fits
        return fits

    def _scratch(self) -> ScratchFile:
        if self._file is None:
            self._file = ScratchFile()
        return self._file

    def keep(self, values: NDArray[Any]) -> NDArray[Any]:
        """Store an array."""
        if self._fits(values.nbytes):
            return values
        file = self._scratch()
        return file.map_array(file.write(values))

    def store_joined(self, parts: Iterable[NDArray[Any]], count: int, dtype: Any) -> NDArray[Any]:
        """Store one array made of several with `count` elements in all."""
        if not self._fits(count * np.dtype(dtype).itemsize):
            return self._scratch().append_joined(parts, dtype)
        result, filled = np.empty(count, dtype), 0
        for part in parts:
            result[filled : filled + len(part)] = part
            filled += len(part)
        return result


# Merge rows that were written to temporary files when memory was full.
#
# A run holds the rows and chains folded until then; rows are identified by a number of their columns, chains by their
# hashes. The merged result has every row once, with its totals and its first sample, and every
# chain once, in the order of its first occurrence, as if all had been folded in memory.
#
# A run is sorted by these numbers in the file; the runs are merged in ranges of
# numbers, each of which fits into memory.


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
