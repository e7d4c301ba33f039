"""Convert raw callchains to ids of distinct chains.

The raw column is ragged: u64 addresses and PERF_CONTEXT_*
markers, innermost first (perf_event.h). `ChainTable` holds each distinct chain
once, as int32 frame ids of the symbolizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi import flags
from perfpy.abi.columns import distinct, rows_where, slices_index
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns, Ragged
    from perfpy.symbols.symbolizer import Symbolizer

_FIRST_MARKER = np.uint64(flags.CONTEXT_MAX)
_CPUMODE_OF_MARKER = {
    flags.CONTEXT_HV: flags.MISC_HYPERVISOR,
    flags.CONTEXT_KERNEL: flags.MISC_KERNEL,
    flags.CONTEXT_USER: flags.MISC_USER,
    flags.CONTEXT_USER_DEFERRED: flags.MISC_USER,
    flags.CONTEXT_GUEST: flags.MISC_GUEST_KERNEL,
    flags.CONTEXT_GUEST_KERNEL: flags.MISC_GUEST_KERNEL,
    flags.CONTEXT_GUEST_USER: flags.MISC_GUEST_USER,
    flags.CONTEXT_LOST_CALLER: flags.MISC_USER,
}
_LOST_CALLER = np.uint64(flags.CONTEXT_LOST_CALLER)
_LAST_ADDRESS = np.uint64((1 << 64) - 1)  # the address that perf gives to an unknown caller


def frames_of(
    chains: Ragged, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the frame ids of all chains of a batch, and the number of frames of each sample; markers are removed.

    Addresses before the first marker are user addresses; a chain
    with an unknown marker is corrupt and comes back empty.
    """
    values = chains.values
    lost = values == _LOST_CALLER
    if lost.any():
        values = np.where(lost, _LAST_ADDRESS, values)
    positions, counts, modes = entries_of(chains)
    ids = symbolizer.frame_ids(pid, values.take(positions), key, modes, counts)
    return symbolizer.fold_interpreters(ids, counts)


def entries_of(chains: Ragged) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the positions of all entries that are not markers, their number in each chain, and their cpumodes; see frames_of()."""
    values, starts, lengths = chains.values, chains.offsets[:-1], chains.lengths
    is_marker = values >= _FIRST_MARKER
    modes = _cpumodes(values, starts[lengths > 0], is_marker)
    is_removed = is_marker & (values != _LOST_CALLER)
    if int(modes.max(initial=0)) == _CORRUPT:
        broken = np.zeros(len(lengths), np.bool_)
        broken[_chain_of(rows_where(modes == _CORRUPT), starts)] = True
        is_removed = is_removed | np.repeat(broken, lengths)
    counts = lengths - np.bincount(_chain_of(rows_where(is_removed), starts), minlength=len(lengths))
    positions = rows_where(~is_removed)
    return positions, counts, modes.take(positions)


def whole_chains_of(
    columns: Columns, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return frames like frames_of(), for samples whose callchains continue with "user_frames" (see unwind.callchains)."""
    chains: Ragged = columns["callchain"]
    ids, counts = frames_of(chains, pid, key, symbolizer)
    users: Ragged | None = columns.get("user_frames")
    if users is None:
        return ids, counts
    of_users, lengths = _known_frames(users, pid, key, symbolizer), users.lengths
    corrupt = _corrupt(chains)
    if len(corrupt):
        lengths[corrupt] = 0
        of_users = of_users[slices_index(users.offsets[:-1], lengths)[0]]
    if not len(ids):
        return of_users, lengths
    both = counts + lengths
    starts = np.cumsum(both) - both
    joined = np.empty(len(ids) + len(of_users), np.int32)
    joined[slices_index(starts, counts)[0]] = ids
    joined[slices_index(starts + counts, lengths)[0]] = of_users
    return joined, both


def _known_frames(users: Ragged, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer) -> NDArray[np.int32]:
    """Return the frame ids, with a frame for unknown callers."""
    frames: NDArray[np.int32] = users.values
    lost = rows_where(frames < 0)
    if len(lost):
        rows = _chain_of(lost, users.offsets[:-1])
        where, mode = np.full(len(lost), _LAST_ADDRESS), np.full(len(lost), flags.MISC_USER, np.uint8)
        frames = frames.copy()
        frames[lost] = symbolizer.frame_ids(pid[rows], where, key[rows], mode)
    return frames


def _corrupt(chains: Ragged) -> NDArray[np.int64]:
    """Return the chains with unknown markers."""
    markers = rows_where(chains.values >= _FIRST_MARKER)
    unknown = [marker for marker in distinct(chains.values[markers]).tolist() if marker not in _CPUMODE_OF_MARKER]
    return _chain_of(markers[np.isin(chains.values[markers], unknown)], chains.offsets[:-1]) if unknown else markers[:0]


def _chain_of(positions: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the chain of each position."""
    return np.searchsorted(starts, positions, side="right") - 1


_CORRUPT = 255


def _cpumodes(values: NDArray[np.uint64], starts: NDArray[np.int64], is_marker: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the cpumode of every entry: that of the last marker before it within its chain."""
    if not len(values):
        return np.zeros(0, np.uint8)
    breaks = is_marker.copy()
    breaks[starts] = True
    where = rows_where(breaks)
    # a chain without a leading marker begins in user space
    markers = IdTable()
    of_break = markers.ids(np.where(is_marker[where], values[where], np.uint64(flags.CONTEXT_USER)))
    mode_of = np.array([_CPUMODE_OF_MARKER.get(marker, _CORRUPT) for marker in markers.keys.tolist()], np.uint8)
    modes: NDArray[np.uint8] = np.repeat(mode_of[of_break], np.diff(np.append(where, len(values))))
    return modes


_POSITIONS = 1 << 40  # far from every frame id: positions get other numbers


def _odd_numbers(first: int, count: int) -> NDArray[np.uint64]:
    """Return `count` odd pseudo-random 64-bit numbers for integers from `first` on.

    The mixing is splitmix64's (Steele, Lea, Flood 2014); importing numpy.random for it would cost a small report 10 ms.
    """
    mixed = (np.arange(first + 1, first + count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


class ChainTable:
    """Distinct callchains: chain id -> int32 frame ids, innermost first."""

    def __init__(self) -> None:
        self._table = IdTable()
        self._frames: list[NDArray[np.int32]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._stored = 0  # bytes of both
        # two tables of odd, mixed numbers, by frame id and by position, extended on demand
        self._by_frame = _odd_numbers(0, 1 << 10)
        self._by_position = _odd_numbers(_POSITIONS, 1 << 7)

    def __len__(self) -> int:
        return sum(map(len, self._lengths))

    def add(self, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the chain id of each sample; `frames` holds the chains one after the other, `counts` frames each."""
        ends = np.cumsum(counts)
        starts = ends - counts
        ids, new = self._table.ids_and_new(self._hashes(frames, starts, ends, counts))
        if len(new):
            lengths = counts[new]
            self._lengths.append(lengths)
            self._frames.append(frames[slices_index(starts[new], lengths)[0]])
            self._stored += self._lengths[-1].nbytes + self._frames[-1].nbytes
        return ids

    def since(self, number: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield the chains from a number on, in order: frame ids and the number of frames of each, as add() takes them."""
        for frames, lengths in zip(self._frames, self._lengths, strict=True):
            skipped = min(number, len(lengths))
            number -= skipped
            if skipped < len(lengths):
                yield frames[int(lengths[:skipped].sum()) :], lengths[skipped:]

    def _hashes(
        self, frames: NDArray[np.int32], starts: NDArray[np.int64], ends: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Return a 64-bit hash of each chain: the sum of mixed frame ids times a number for their position."""
        if not len(frames):
            return np.zeros(len(counts), np.uint64)
        while int(frames.max()) >= len(self._by_frame):
            self._by_frame = _odd_numbers(0, 2 * len(self._by_frame))
        while int(counts.max()) >= len(self._by_position):
            self._by_position = _odd_numbers(_POSITIONS, 2 * len(self._by_position))
        positions = np.arange(len(frames)) - np.repeat(starts, counts)
        terms = self._by_frame[frames] * self._by_position[positions]
        running = np.zeros(len(terms) + 1, np.uint64)
        np.cumsum(terms, out=running[1:])  # overflow wraps around, and the differences stay correct
        return running[ends] - running[starts] + counts.astype(np.uint64)

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes, mostly by frames."""
        return self._table.nbytes + self._stored

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """A number for each chain, equal for equal frames in any table of one symbolizer."""
        return self._table.keys

    def forget(self) -> None:
        """Release the lookup table; nothing is added any more."""
        self._table = IdTable()

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return all distinct chains: frame ids, and offsets with one more entry than chains."""
        if len(self._frames) != 1:  # kept once only
            self._frames = [np.concatenate(self._frames) if self._frames else np.zeros(0, np.int32)]
            self._lengths = [np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64)]
        offsets = np.zeros(len(self._lengths[0]) + 1, np.int64)
        np.cumsum(self._lengths[0], out=offsets[1:])
        return self._frames[0], offsets
