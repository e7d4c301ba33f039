"""Convert raw callchains to ids of distinct chains.

The raw column is ragged: u64 addresses and PERF_CONTEXT_* markers, innermost first (perf_event.h).
`ChainTable` holds each distinct chain once, as int32 frame ids of the symbolizer.
"""

from __future__ import annotations

import os

import numpy as np

from perfpy.abi import flags
from perfpy.abi.columns import Growing, Ragged, distinct, row_blocks, rows_where, slices_index, smallest_type
from perfpy.abi.flags import (
    BRANCH_TYPES,
    MISC_GUEST_USER,
    MISC_KERNEL,
    MISC_USER,
    NEW_BRANCH_TYPE,
    NEW_BRANCH_TYPES,
    BranchSample,
    SampleType,
)
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.perfdata.header import Feature, key_of
from perfpy.symbols.interning import IdTable, first_occurrences, number_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains


_FIRST_MARKER = np.uint64(flags.CONTEXT_MAX)
CPUMODE_OF_MARKER = {
    flags.CONTEXT_HV: flags.MISC_HYPERVISOR,
    flags.CONTEXT_KERNEL: flags.MISC_KERNEL,
    flags.CONTEXT_USER: flags.MISC_USER,
    flags.CONTEXT_USER_DEFERRED: flags.MISC_USER,
    flags.CONTEXT_GUEST: flags.MISC_GUEST_KERNEL,
    flags.CONTEXT_GUEST_KERNEL: flags.MISC_GUEST_KERNEL,
    flags.CONTEXT_GUEST_USER: flags.MISC_GUEST_USER,
    flags.CONTEXT_LOST_CALLER: flags.MISC_USER,
    flags.CONTEXT_RECORDED_USER: flags.MISC_RECORDED_USER,
}
_USER_MARKERS = np.array([flags.CONTEXT_USER, flags.CONTEXT_RECORDED_USER], np.uint64)
_MOST_FRAMES: Final = 127  # of a callchain, in the kernel and perf's readers
_LOST_CALLER = np.uint64(flags.CONTEXT_LOST_CALLER)
_LAST_ADDRESS = np.uint64((1 << 64) - 1)  # the address that perf gives to an unknown caller


def frames_of(
    chains: Ragged, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer, most: int = _MOST_FRAMES
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the frame ids of all chains of a batch, and the number of frames of each sample; markers are removed.

    Addresses before the first marker are user addresses; a chain with an unknown marker in its first `most` frames is corrupt and empty.
    """
    values = chains.values
    lost = values == _LOST_CALLER
    if lost.any():
        values = np.where(lost, _LAST_ADDRESS, values)
    positions, counts, modes = entries_of(chains, most)
    ids = symbolizer.frame_ids(pid, values.take(positions), key, modes, counts)
    return symbolizer.fold_interpreters(ids, counts)


def entries_of(chains: Ragged, most: int = _MOST_FRAMES) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the positions of all entries that are not markers, their number in each chain, and their cpumodes; see frames_of()."""
    values, starts, lengths = chains.values, chains.offsets[:-1], chains.lengths
    is_marker = values >= _FIRST_MARKER
    modes = _cpumodes(values, starts[lengths > 0], is_marker)
    is_removed = is_marker & (values != _LOST_CALLER)
    if int(modes.max(initial=0)) == _CORRUPT:
        positions = rows_where(modes == _CORRUPT)
        chain, entries = _chain_of(positions, starts), np.concatenate([[0], np.cumsum(~is_marker)])
        broken = np.zeros(len(lengths), np.bool_)
        broken[chain[entries[positions] - entries[starts[chain]] < most]] = True
        is_removed |= np.repeat(broken, lengths)
        is_removed[positions] = True
    counts = lengths - np.bincount(_chain_of(rows_where(is_removed), starts), minlength=len(lengths))
    positions = rows_where(~is_removed)
    return positions, counts, modes.take(positions)


def whole_chains_of(
    columns: Columns, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer, most: int = _MOST_FRAMES
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return frames like frames_of(), for samples whose callchains continue with "user_frames" (see unwind.callchains)."""
    chains: Ragged = columns["callchain"]
    ids, counts = frames_of(chains, pid, key, symbolizer, most)
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
    unknown = [marker for marker in distinct(chains.values[markers]).tolist() if marker not in CPUMODE_OF_MARKER]
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
    mode_of = np.array([CPUMODE_OF_MARKER.get(marker, _CORRUPT) for marker in markers.keys.tolist()], np.uint8)
    modes: NDArray[np.uint8] = np.repeat(mode_of[of_break], np.diff(np.append(where, len(values))))
    return modes


_PART = 1 << 18  # frames, of callchains that are visited together
_USUAL_FRAMES: Final = 40  # of a callchain
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
    """Distinct callchains: chain id -> frame ids, innermost first.

    is_narrow: whether frame ids are stored in as few bytes as they need, instead of int32.
    """

    def __init__(self, *, is_narrow: bool = False) -> None:
        self._table, self._is_narrow = IdTable(), is_narrow
        self._frames: list[NDArray[Any]] = []
        self._lengths: list[NDArray[np.int32]] = []
        self._offsets: NDArray[np.int64] | None = None
        self._stored = 0  # bytes of both
        # two tables of odd, mixed numbers, by frame id and by position, extended on demand
        self._by_frame = _odd_numbers(0, 1 << 10)
        self._by_position = _odd_numbers(_POSITIONS, 1 << 7)

    def __len__(self) -> int:
        return sum(map(len, self._lengths))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The room that each chain takes: 1 up to _USUAL_FRAMES, and more for longer ones."""
        return np.concatenate([np.zeros(0, np.int64), *(1 + lengths.astype(np.int64) // _USUAL_FRAMES for lengths in self._lengths)])

    @property
    def size(self) -> int:
        """About the sum of the sizes."""
        return len(self) + sum(map(len, self._frames)) // _USUAL_FRAMES

    def add(self, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the chain id of each sample; `frames` holds the chains one after the other, `counts` frames each."""
        ends = np.cumsum(counts)
        starts = ends - counts
        ids, new = self._table.ids_and_new(self._hashes(frames, starts, ends, counts))
        if len(new):
            lengths = counts[new]
            self._lengths.append(lengths.astype(np.int32))
            added = frames if self._is_narrow and len(new) == len(counts) else frames[slices_index(starts[new], lengths)[0]]
            self._frames.append(_narrowed(added) if self._is_narrow else added)
            self._offsets = None
            self._stored += self._lengths[-1].nbytes + self._frames[-1].nbytes
        return ids

    def parts(self) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Yield the chains in order, some at a time: frame ids and the number of frames of each, as add() takes them."""
        frames, offsets = self.chains()
        for begin, end in row_blocks(offsets, _PART):
            yield frames[offsets[begin] : offsets[end]], np.diff(offsets[begin : end + 1])

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

    def chains(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return all distinct chains: frame ids, and offsets with one more entry than chains."""
        if self._offsets is None:
            lengths = np.concatenate([np.zeros(0, np.int32), *self._lengths])
            self._offsets = np.zeros(len(lengths) + 1, np.int64)
            np.cumsum(lengths, out=self._offsets[1:])
            kind = np.result_type(np.uint8 if self._is_narrow else np.int32, *(part.dtype for part in self._frames))
            self._frames, self._lengths = [_joined(self._frames, np.empty(int(self._offsets[-1]), kind))], [lengths]
        return self._frames[0], self._offsets


# Shorten rare callchains, so that the distinct ones are not as many as the samples of a deep recursion.
#
# First of each function only the innermost call stays: who is on the stack is still exact. If that leaves too many, frames between some
# inner and some outer ones give way to a marker.


#: inner and outer frames that stay, as many as there is room for
_CAPS: Final = ((16, 16), (8, 8), (4, 6), (2, 4), (1, 2), (1, 0))


def shorten_chains(table: ChainTable, is_rare: NDArray[np.bool_], function_of: NDArray[np.int32], marker: int, most: int) -> ShortChains:
    """Return a table in which rare chains are short.

    Args:
        table: the chains.
        is_rare: whether a chain may lose frames.
        function_of: a number of each frame's function.
        marker: the frame in place of those that are left out.
        most: about the sum of the sizes (ChainTable.sizes) of short chains that there is room for.
    """
    plain, number = ChainTable(is_narrow=True), []
    function_of = number_values(function_of)[1]
    first = 0
    for frames, counts in table.parts():
        rare = is_rare[first : first + len(counts)]
        number.append(plain.add(*_without_repetitions(frames.astype(np.int32), counts, rare, function_of)))
        first += len(counts)
    table.forget()
    number_of = np.concatenate([np.zeros(0, np.int32), *number])
    may_shrink = np.ones(len(plain), np.bool_)
    may_shrink[number_of[~is_rare]] = False
    if int(plain.sizes[may_shrink].sum()) <= most:
        return ShortChains(plain, number_of, may_shrink)
    for cap in _CAPS:
        capped, number = ChainTable(is_narrow=True), []
        first = 0
        for frames, counts in plain.parts():
            rare = may_shrink[first : first + len(counts)]
            number.append(capped.add(*_capped(frames.astype(np.int32), counts, rare, cap, marker)))
            first += len(counts)
            if len(capped) > most + len(may_shrink) - int(may_shrink.sum()) and cap != _CAPS[-1]:
                break
        else:
            break
    plain.forget()
    number_of = np.concatenate([np.zeros(0, np.int32), *number])[number_of]
    is_short = np.ones(len(capped), np.bool_)
    is_short[number_of[~is_rare]] = False
    return ShortChains(capped, number_of, is_short)


class ShortChains(NamedTuple):
    """A smaller table of chains, in which rare chains may lack frames.

    Attributes:
        table: the chains.
        number_of: for each chain of the larger table its number in this one.
        is_short: of each chain: whether it may lack frames.
    """

    table: ChainTable
    number_of: NDArray[np.int32]
    is_short: NDArray[np.bool_]


def _without_repetitions(
    frames: NDArray[np.int32], counts: NDArray[np.int64], rare: NDArray[np.bool_], function_of: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the chains, rare ones with the innermost frame of each function only. function_of: as low numbers as there are functions."""
    chain = np.repeat(np.arange(len(counts)), counts)
    kept = first_occurrences((chain * (int(function_of.max()) + 1) + function_of[frames]).view(np.uint64)) | ~rare[chain]
    return frames[kept], np.bincount(chain[kept], minlength=len(counts))


def _capped(
    frames: NDArray[np.int32], counts: NDArray[np.int64], rare: NDArray[np.bool_], cap: tuple[int, int], marker: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the chains, long rare ones with some inner and outer frames and one marker."""
    inner, outer = cap
    chain = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(frames)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_long = (rare & (counts > inner + outer))[chain]
    is_marker = is_long & (position == inner)
    kept = ~is_long | is_marker | ((position < inner) | (position >= counts[chain] - outer)) & (frames != marker)
    return np.where(is_marker, np.int32(marker), frames)[kept], np.bincount(chain[kept], minlength=len(counts))


def _joined(parts: list[NDArray[Any]], into: NDArray[Any]) -> NDArray[Any]:
    """Move some parts into one array, one after the other, so that they are not in memory twice."""
    end = len(into)
    while parts:
        part = parts.pop()
        into[end - len(part) : end] = part
        end -= len(part)
    return into


def _narrowed(frames: NDArray[np.int32]) -> NDArray[Any]:
    """Return the frames in the smallest type that has room for them."""
    return frames.astype(smallest_type(int(frames.max(initial=0))) if int(frames.min(initial=0)) >= 0 else np.int32)


# Merge the frames of one function: each frame is replaced by the first one in the same function.
#
# So chains that differ only in positions within functions become one. Frames without a symbol stay separate.


class Functions:
    """The first frame of each function, for one symbolizer."""

    def __init__(self) -> None:
        self._first_of_frame, self._first_of_symbol = Growing(np.int32), Growing(np.int32)

    def first_frames(self, frames: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.int32]:
        """Return the first frame in the function of each frame."""
        frame_count = len(self._first_of_frame.values)
        if len(symbolizer.frames) > frame_count:
            self._add_frames(_mergeable_symbols(symbolizer, frame_count), len(symbolizer.symbols))
        first_frames_of: NDArray[np.int32] = self._first_of_frame.values[frames]
        return first_frames_of

    def _add_frames(self, symbol: NDArray[np.int32], symbols: int) -> None:
        """Add the symbols of the next frames; symbols: the number of symbols."""
        fresh = np.arange(len(symbol), dtype=np.int32) + np.int32(len(self._first_of_frame.values))
        self._first_of_symbol.append(np.full(symbols - len(self._first_of_symbol.values), -1, np.int32))
        first_of = self._first_of_symbol.values
        rows = rows_where(symbol >= 0)
        opening = rows[first_of[symbol[rows]] < 0][::-1]  # backwards, so that the first is written last
        first_of[symbol[opening]] = fresh[opening]
        first = fresh.copy()
        first[rows] = first_of[symbol[rows]]
        self._first_of_frame.append(first)


def _mergeable_symbols(symbolizer: Symbolizer, first: int) -> NDArray[np.int32]:
    """Return the symbol of each frame from `first` on; -1 also if frames of one function may expand to different inlined calls."""
    table, inliner = symbolizer.resolve(), symbolizer.inliner
    symbol: NDArray[np.int32] = table.symbol[first:]
    if inliner is None:
        return symbol
    dso = table.dso[first:]
    apart = np.zeros(len(symbolizer.dsos) + 1, np.bool_)
    for number in distinct(dso).tolist():
        apart[number] = number >= 0 and inliner.may_expand(number)
    return np.where(apart[dso], np.int32(-1), symbol)


# Count samples of interpreters for the functions that they run: `--fold-interpreters`.
#
# Each sample moves to the innermost function of its callchain that was
# named by a runtime; all code run by this function (the interpreter, its
# libraries, installed extension modules, the kernel) counts for it, or for a function of an extension module of the program itself.
# Callchains keep the named functions and these modules' functions, and their outer callers except those in runtimes and the C
# library: a program that embeds an interpreter. Samples whose callchains
# contain no named function are unchanged.


def with_interpreters_folded(samples: SampleView, *, by_python: bool = False) -> SampleView:
    """Return the samples with addresses and callchains replaced where a runtime named a function.

    by_python: whether all samples count for functions of Python.
    """
    chains = samples.chains().gather()
    if not len(chains.values) or not any(dso.made_code for dso in samples.symbolizer.dsos):
        return samples
    rows, counts, modes = entries_of(chains)
    values = chains.values[rows]
    frames = samples.symbolizer.frame_ids(samples.column("pid"), values, samples.key, modes, counts)
    is_named, is_own, is_outside = _kinds(samples.symbolizer, frames)
    sample = np.repeat(np.arange(len(counts)), counts)
    innermost, outermost = _first_and_last(sample, is_named, len(counts))
    folds = innermost >= 0
    if not folds.any():
        return samples
    if is_own.any() and not by_python:
        is_named |= is_own & folds[sample]
        innermost, _ = _first_and_last(sample, is_named, len(counts))
    position = np.arange(len(values))
    mask = folds[sample] & (is_named | (is_outside & (position > outermost[sample])))
    columns = {**samples.columns, "callchain": _replace_chains(chains, folds, values[mask], sample[mask])}
    columns["ip"] = np.where(folds, values[innermost], samples.column("ip").astype(np.uint64))
    columns["cpumode"] = np.where(folds, MISC_USER, samples.columns["cpumode"]).astype(samples.columns["cpumode"].dtype)
    return samples.with_columns(columns)


def _kinds(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which frames are functions named by a runtime, of extension modules of the program, and outside of runtimes and the C
    library.
    """
    from perfpy.symbols.dso import is_c_library, is_own_library, is_runtime

    dso = symbolizer.frames.dso[frames]
    # one entry more: the Dso -1
    is_runtime_code = np.array([bool(one.made_code) for one in symbolizer.dsos] + [False])
    is_own = np.array([is_own_library(one) for one in symbolizer.dsos] + [False])
    outside = np.array([not (one.made_code or is_runtime(one) or is_c_library(one)) for one in symbolizer.dsos] + [False])
    return is_runtime_code[dso], is_own[dso], outside[dso]


def _first_and_last(sample: NDArray[np.int64], chosen: NDArray[np.bool_], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of each sample's first and last chosen entry; -1 for samples without one."""
    first, last = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    positions = np.flatnonzero(chosen)
    last[sample[positions]] = positions
    first[sample[positions[::-1]]] = positions[::-1]
    return first, last


def _replace_chains(chains: Ragged, folds: NDArray[np.bool_], values: NDArray[np.uint64], sample: NDArray[np.int64]) -> Ragged:
    """Return the chains; those that fold consist of a marker and the given values; sample: the chain of each value."""
    lengths = np.where(folds, 1 + np.bincount(sample, minlength=len(folds)), chains.lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.full(int(offsets[-1]), flags.CONTEXT_USER, np.uint64)
    is_new = np.repeat(folds, lengths)
    is_marker = np.zeros(len(entries), bool)
    is_marker[offsets[:-1][folds]] = True
    entries[is_new & ~is_marker] = values
    entries[~is_new] = chains.values[np.repeat(~folds, chains.lengths)]
    return Ragged(entries, offsets)


# Build callchains whose user part is in the branch records: `--call-graph lbr`.
#
# The branch stack holds calls (PERF_SAMPLE_BRANCH_CALL_STACK). The result is a callchain
# like any other: the kernel part as sampled, after the user marker the target
# of the newest call and the addresses of the calls.


_LONGEST_CALL = np.uint64(16)  # bytes: a return address, or the byte before it, is closer to its call


def has_callstacks(attr: EventAttr) -> bool:
    """Whether branch records hold the user part of the event's callchains."""
    return bool(attr.sample_type & SampleType.BRANCH_STACK and attr.branch_sample_type & BranchSample.CALL_STACK)


def with_callstacks(chains: Ragged, branches: Ragged, chosen: NDArray[np.bool_] | None = None) -> Ragged:
    """Replace the user part of callchains by their branch records; chains without a user marker, and samples without branches, stay.

    chosen: the rows whose branches are call stacks; None for all.
    """
    starts, calls = chains.offsets[:-1], branches.lengths
    lengths = _to_user_marker(chains)
    changed = (lengths > 0) & (calls > 0)
    if chosen is not None:
        changed &= chosen
    if not changed.any():
        return chains
    lengths = np.where(changed, lengths, chains.lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths + np.where(changed, calls + 1, 0))]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], lengths)[0]] = chains.values[slices_index(starts, lengths)[0]]
    newest, calls, after = branches.offsets[:-1][changed], calls[changed], (offsets[:-1] + lengths)[changed]
    values[after] = branches.values["to"][newest]
    values[slices_index(after + 1, calls)[0]] = branches.values["from"][slices_index(newest, calls)[0]]
    return Ragged(values, offsets)


def with_callers_beyond(chains: Ragged, branches: Ragged, whole: Ragged, chosen: NDArray[np.bool_]) -> Ragged:
    """Extend the callchains of branch records, which hold some dozens of calls, by callers from stack copies.

    The callers follow if the outermost recorded call is found in `whole`.

    Args:
        chains: the callchains from branch records.
        branches: the records.
        whole: the callchains from stack copies.
        chosen: the rows that have both.
    """
    calls = branches.lengths
    rows = np.flatnonzero(chosen & (calls > 0))
    if not len(rows):
        return chains
    outermost = np.zeros(len(whole), np.uint64)
    outermost[rows] = branches.values["from"][branches.offsets[1:][rows] - 1]
    of_row = np.repeat(np.arange(len(whole)), whole.lengths)
    near = whole.values - outermost[of_row] < _LONGEST_CALL
    met = np.flatnonzero(near & (chosen & (calls > 0))[of_row] & (whole.values < _FIRST_MARKER))
    first = np.full(len(whole), -1, np.int64)
    first[of_row[met][::-1]] = met[::-1]  # backwards, so that the innermost of several is kept
    added = np.where(first >= 0, whole.offsets[1:] - first - 1, 0)
    offsets = np.concatenate([[0], np.cumsum(chains.lengths + added)]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], chains.lengths)[0]] = chains.values
    values[slices_index(offsets[:-1] + chains.lengths, added)[0]] = whole.values[slices_index(first + 1, added)[0]]
    return Ragged(values, offsets)


def callchains_of_event(attr: EventAttr, chains: Ragged, branches: Ragged) -> Ragged:
    """Return the callchains of one event's samples whose branch records are call stacks."""
    callstacks = with_callstacks(chains, branches)
    if not attr.sample_type & SampleType.STACK_USER:
        return callstacks
    return with_callers_beyond(callstacks, branches, chains, np.ones(len(chains), np.bool_))


def _to_user_marker(chains: Ragged) -> NDArray[np.int64]:
    """Return the length of each chain up to and including its first user marker; 0 without one."""
    marks = rows_where(np.isin(chains.values, _USER_MARKERS))
    rows = np.searchsorted(chains.offsets, marks, side="right") - 1
    lengths = np.zeros(len(chains), np.int64)
    lengths[rows[::-1]] = (marks - chains.offsets[rows] + 1)[::-1]  # backwards, so that the first of several is kept
    return lengths


class CallStacks:
    """A source of callchains from branch records (a MoreColumns of perfpy.analysis.aggregate.scan)."""

    #: the column that it reads
    field = "branch_stack"

    def __init__(self, attrs: Sequence[EventAttr]) -> None:
        self._has = np.array([has_callstacks(attr) for attr in attrs], np.bool_)
        self._has_both = self._has & np.array([bool(attr.sample_type & SampleType.STACK_USER) for attr in attrs], np.bool_)

    def __bool__(self) -> bool:
        return bool(self._has.any())

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with whole callchains."""
        branches, chosen = samples.ragged_column(self.field, BRANCH_DTYPE), self._has[samples.event]
        whole = samples.chains().gather()
        chains = with_callers_beyond(with_callstacks(whole, branches, chosen), branches, whole, self._has_both[samples.event])
        columns: dict[str, Any] = {**samples.columns, "callchain": chains}
        return samples.with_columns(columns)


# Put branch records before callchains: `report --branch-history`.
#
# An entry of these callchains is the target of a branch, its source, or a call. Each entry has two words: its address, and what its branch
# record says. Call trees sum up the records of each node. The output of perf 6.12 shows which calls follow the branches, and how repeated
# loops are dropped.


_CALL, _TARGET, SOURCE = range(3)  # kinds of entries
#: the bits of BranchSums.words for the end of a branch
ENDS: Final = 3
_KIND_SHIFT: Final = 8  # above the cpumode of calls
_PREDICTED, _ABORTED = 1 << 10, 1 << 11
# of sources: 16 bits of cycles, 7 of iterations, 24 of their cycles
_CYCLES_SHIFT, _TIMES_SHIFT, _TOOK_SHIFT = 10, 26, 33
# of targets: a bit for each word of the branch's kind
_WORDS_SHIFT: Final = 12
_CONDITIONAL: Final = 1
_KINDS: Final = ("COND_FWD", "COND_BWD", *BRANCH_TYPES[2:], *NEW_BRANCH_TYPES, "CROSS_4K", "CROSS_2M")
_MOST_BRANCHES: Final = 127  # perf ignores longer branch stacks
_LONGEST_CALL_BACK: Final = np.uint64(8)  # bytes: the return address of the call that the branch record has, too
_NEVER_SEEN: Final = 255
_SAMPLES_AT_ONCE: Final = 1 << 13
#: the text after the name of a node without branch records
NO_BRANCHES: Final = " (calltrace)"


class BranchSums(NamedTuple):
    """What the branch records of a node of a call tree amount to.

    Attributes:
        branches, predicted, aborted: their numbers.
        cycles: of all branches.
        times, took: iterations of loops that were dropped, and their cycles.
        words: a bit for each kind of branch in _KINDS, above two bits for the end of the last branch.
        merged: sources after the first one.
    """

    branches: int
    predicted: int
    aborted: int
    cycles: int
    times: int
    took: int
    words: int
    merged: int

    @property
    def text(self) -> str:
        """The text after the name of the node."""
        if not self.branches:
            return NO_BRANCHES
        parts = list(self._target_parts() if self.words & ENDS == _TARGET else self._source_parts())
        return f" ({' '.join(parts)})" if parts else ""

    def _target_parts(self) -> Iterator[str]:
        yield from (name for bit, name in enumerate(_KINDS, 2) if self.words >> bit & 1)
        if self.predicted < self.branches:
            yield f"predicted:{100 * self.predicted / self.branches:.1f}%"
        if self.aborted and 100 * self.aborted / self.branches >= 0.1:
            yield f"abort:{100 * self.aborted / self.branches:.1f}%"

    def _source_parts(self) -> Iterator[str]:
        if self.cycles // self.branches:
            yield f"cycles:{self.cycles // self.branches}"
        if self.times and self.merged and self.times // self.merged:
            yield f"iter:{self.times // self.merged}"
            yield f"avg_cycles:{self.took // self.times}"


class BranchHistory:
    """The entries of a report's callchains.

    Args:
        attrs: of the events.
        max_stack: limit of branches, and of calls.
        callers_first: whether trees are read from the outermost caller.
    """

    #: the column that it reads
    field = "branch_stack"

    def __init__(self, attrs: Sequence[EventAttr], max_stack: int, *, callers_first: bool) -> None:
        self._has = np.array([bool(attr.sample_type & SampleType.BRANCH_STACK) and not has_callstacks(attr) for attr in attrs], np.bool_)
        self._most = max_stack
        self._callers_first = callers_first
        self._words, self._entries = IdTable(), IdTable()
        self._first_frame = 0

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with pairs of words as callchains."""
        if len(samples) > _SAMPLES_AT_ONCE:  # tables of branches are as wide as the longest stack
            blocks = [slice(begin, begin + _SAMPLES_AT_ONCE) for begin in range(0, len(samples), _SAMPLES_AT_ONCE)]
            return type(samples).concat([self.add_to(samples.take(rows)) for rows in blocks])
        branches, chains = samples.ragged_column(self.field, BRANCH_DTYPE), samples.chains().gather()
        sizes = np.where(self._has[samples.event], branches.lengths, 0)
        is_ignored = sizes > _MOST_BRANCHES
        is_ignored[_corrupt(chains)] = True
        counts = np.where(is_ignored, 0, np.minimum(sizes, self._most))
        first = branches.offsets[:-1] if not self._callers_first else branches.offsets[1:] - 1
        column_numbers = np.arange(int(counts.max(initial=0)))
        where = np.where(column_numbers < counts[:, None], first[:, None] + (-column_numbers if self._callers_first else column_numbers), 0)
        sources = branches.values["from"][where] if len(branches.values) else np.zeros(where.shape, np.uint64)
        skipped = np.zeros(len(samples), np.int64) if self._callers_first else _calls_in_branches(chains, sources, counts)
        flags = branches.values["flags"][where] if len(branches.values) else sources
        cycles = (flags >> np.uint64(4) & np.uint64(0xFFFF)).astype(np.int64)
        kept, times, took, lengths = _without_loops(sources, cycles, counts)
        where = np.take_along_axis(where, kept, 1)
        rows, columns = np.nonzero(column_numbers < lengths[:, None])
        if self._callers_first:  # chains are turned around when trees are read
            columns = lengths[rows] - 1 - columns
        branch_words = _branch_words(branches.values[where[rows, columns]], times[rows, columns], took[rows, columns])
        calls, call_counts = self._call_words(chains, skipped, lengths, is_ignored)
        parts = (branch_words, 2 * lengths), (calls, call_counts)
        if self._callers_first:
            parts = (calls, call_counts), (_swapped(branch_words), 2 * lengths)
        return samples.with_columns({**samples.columns, "callchain": _joined_rows(*parts)})

    def _call_words(
        self, chains: Ragged, skipped: NDArray[np.int64], branches: NDArray[np.int64], is_ignored: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the words of the calls of all chains, and their number in each.

        perf drops as many entries at one end of a callchain as there are branches, and forgets the markers that it skips.
        """
        positions, counts, modes = entries_of(chains)
        row = np.repeat(np.arange(len(counts)), counts)
        begin = chains.offsets[:-1]
        index = positions - begin[row]
        if self._callers_first:  # from the outermost entry on
            chosen = index >= branches[row]
        else:
            chosen = (index >= skipped[row]) & (index < (chains.lengths - branches)[row])
            marks = rows_where(chains.values >= _FIRST_MARKER)
            mark_row = np.searchsorted(chains.offsets, marks, side="right") - 1
            first_mark = np.full(len(counts), 1 << 62, np.int64)
            later = marks - begin[mark_row] >= skipped[mark_row]
            np.minimum.at(first_mark, mark_row[later], (marks - begin[mark_row])[later])
            modes = np.where((skipped[row] > 0) & (index < first_mark[row]), np.uint8(MISC_USER), modes)
        chosen &= ~is_ignored[row]
        row, values, modes = row[chosen], chains.values[positions[chosen]], modes[chosen]
        lengths = np.bincount(row, minlength=len(counts))
        order = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        near = order < self._most if not self._callers_first else order >= (lengths - self._most)[row]
        pairs = np.stack([values[near], modes[near].astype(np.uint64)], 1).ravel()
        return pairs, np.bincount(row[near], minlength=len(counts))

    def entry_ids(self, samples: SampleView) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the entries of all samples of add_to(), and their number in each."""
        pairs = samples.chains().gather()
        address, word = pairs.values[0::2], pairs.values[1::2]
        counts, symbolizer = pairs.lengths // 2, samples.symbolizer
        is_call = word >> np.uint64(_KIND_SHIFT) & np.uint64(3) == _CALL
        modes = np.where(is_call, word & np.uint64(0xFF), np.uint64(MISC_USER)).astype(np.uint8)
        pid = samples.column("pid")
        frames = symbolizer.frame_ids(pid, address, samples.key, modes, counts)
        row = np.repeat(np.arange(len(counts)), counts)
        for mode in (MISC_KERNEL, MISC_GUEST_USER):  # the modes of branches are not recorded
            lost = rows_where(~is_call & (symbolizer.frames.dso[frames] < 0))
            of = row[lost]
            frames[lost] = symbolizer.frame_ids(pid[of], address[lost], samples.key[of], np.full(len(lost), mode, np.uint8))
        words = self._words.ids(word).astype(np.uint64)
        return self._entries.ids(frames.astype(np.uint64) << np.uint64(32) | words), counts

    def frames(self, entries: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.int32]:
        """Return a frame of its own for each entry."""
        self._first_frame = len(symbolizer.frames)
        origins = (self._entries.keys >> np.uint64(32)).astype(np.int32)
        copies: NDArray[np.int32] = symbolizer.add_inlined(origins, symbolizer.resolve().symbol[origins])
        return copies[entries] if len(copies) else entries

    def numbers(self, frames: int) -> NDArray[np.int64]:
        """Return a row for each frame: the fields of BranchSums of one branch, without `merged`; zeros for calls."""
        word = self._words.keys[(self._entries.keys & np.uint64(0xFFFFFFFF)).astype(np.int64)].astype(np.int64)
        kind = word >> _KIND_SHIFT & 3
        is_target, is_source = kind == _TARGET, kind == SOURCE
        rows = np.zeros((frames, len(BranchSums._fields) - 1), np.int64)
        of_entries = rows[self._first_frame : self._first_frame + len(word)]
        of_entries[:, 0] = kind != _CALL
        of_entries[:, 1] = is_target & (word & _PREDICTED > 0)
        of_entries[:, 2] = is_target & (word & _ABORTED > 0)
        of_entries[:, 3] = np.where(is_source, word >> _CYCLES_SHIFT & 0xFFFF, 0)
        of_entries[:, 4] = np.where(is_source, word >> _TIMES_SHIFT & 0x7F, 0)
        of_entries[:, 5] = np.where(is_source, word >> _TOOK_SHIFT, 0)
        of_entries[:, 6] = np.where(is_target, kind | word >> _WORDS_SHIFT << 2, kind)
        return rows


def _calls_in_branches(chains: Ragged, sources: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many entries at the beginning of each callchain perf skips, because branches are these calls."""
    skipped = np.zeros(len(counts), np.int64)
    if not len(chains.values):
        return skipped
    for column in range(sources.shape[1]):
        entry = chains.values[np.minimum(chains.offsets[:-1] + skipped, len(chains.values) - 1)]
        is_left = (column < counts) & (skipped < chains.lengths)
        back = entry - sources[:, column]
        skipped += is_left & ((entry >= _FIRST_MARKER) | ((back > 0) & (back <= _LONGEST_CALL_BACK)))
    return skipped


def _without_loops(
    sources: NDArray[np.uint64], cycles: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the branches that remain without repeated loops, as perf drops them.

    A branch that comes again begins a loop if all branches since it come again, too.

    Args:
        sources, cycles: of the branches of each sample, a row each.
        counts: branches of each sample.

    Returns:
        Their columns, the iterations that each stands for, the cycles of the last iteration, and the number of branches of each sample.
    """
    rows, width = sources.shape
    kept = np.tile(np.arange(width), (rows, 1))
    times, took, lengths = np.zeros((rows, width), np.int64), np.zeros((rows, width), np.int64), counts.copy()
    slots = (sources * np.uint64(0x61C8864680B583EB) >> np.uint64(57)).astype(np.int64) % 127  # perf's hash, without collisions
    seen = np.full((rows, 128), _NEVER_SEEN, np.int64)
    for column in range(width):
        active = rows_where(column < lengths)
        slot = slots[active, kept[active, column]]
        earlier = seen[active, slot]
        seen[active[earlier == _NEVER_SEEN], slot[earlier == _NEVER_SEEN]] = column
        again = active[earlier != _NEVER_SEEN]
        begin = earlier[earlier != _NEVER_SEEN]
        size = np.minimum(column - begin, lengths[again] - column)
        is_loop = sources[again, kept[again, begin]] == sources[again, kept[again, column]]
        for step in range(1, int(size.max(initial=0))):
            inside = rows_where(is_loop & (step < size))
            one = again[inside]
            is_loop[inside] = sources[one, kept[one, begin[inside] + step]] == sources[one, kept[one, column + step]]
        again, size = again[is_loop], size[is_loop]
        if len(again):
            own = np.take_along_axis(cycles[again], kept[again], 1)
            total = np.concatenate([np.zeros((len(again), 1), np.int64), np.cumsum(own, 1)], 1)
            line, after = np.arange(len(again)), column + size
            stays = after < lengths[again]
            times[again[stays], after[stays]] += 1
            took[again[stays], after[stays]] = total[line, after][stays] - total[line, column][stays]
            column_numbers = np.arange(width)
            moved = np.minimum(np.where(column_numbers >= column, column_numbers + size[:, None], column_numbers), width - 1)
            for table in (kept, times, took):
                table[again] = np.take_along_axis(table[again], moved, 1)
            lengths[again] -= size
    return kept, times, took, lengths


def _branch_words(branches: NDArray[Any], times: NDArray[np.int64], took: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return four words for each branch: its target and its source, each with what the record says."""
    flags, source, target = branches["flags"], branches["from"], branches["to"]
    one, words = np.uint64(1), np.zeros(len(branches), np.uint64)
    kind = flags >> np.uint64(20) & np.uint64(15)
    new = flags >> np.uint64(26) & np.uint64(15)
    is_conditional, is_new = kind == _CONDITIONAL, kind == NEW_BRANCH_TYPE
    is_known = (kind > 0) & (source > 0)
    bit = np.where(is_conditional, target <= source, np.where(is_new, new + kind, kind)).astype(np.uint64)
    words |= np.where(is_known & ~(is_new & (new >= len(NEW_BRANCH_TYPES))), one << bit, np.uint64(0))
    is_far, is_apart = (is_known & (source >> np.uint64(shift) != target >> np.uint64(shift)) for shift in (21, 12))  # 2 MiB, 4 KiB
    last = len(_KINDS) - 1
    words |= np.where(is_far, one << np.uint64(last), np.where(is_apart, one << np.uint64(last - 1), np.uint64(0)))
    quads = np.empty((len(branches), 4), np.uint64)
    quads[:, 0], quads[:, 2] = target, source
    quads[:, 1] = (
        np.uint64(_TARGET << _KIND_SHIFT) | words << np.uint64(_WORDS_SHIFT)
        | (flags >> one & one) * np.uint64(_PREDICTED) | (flags >> np.uint64(3) & one) * np.uint64(_ABORTED)
    )  # fmt: skip
    quads[:, 3] = (
        np.uint64(SOURCE << _KIND_SHIFT) | (flags >> np.uint64(4) & np.uint64(0xFFFF)) << np.uint64(_CYCLES_SHIFT)
        | times.astype(np.uint64) << np.uint64(_TIMES_SHIFT) | took.astype(np.uint64) << np.uint64(_TOOK_SHIFT)
    )  # fmt: skip
    return quads.ravel()


def _swapped(branch_words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of branches with sources before targets."""
    return branch_words.reshape(-1, 2, 2)[:, ::-1].ravel()


def _joined_rows(first: tuple[NDArray[np.uint64], NDArray[np.int64]], second: tuple[NDArray[np.uint64], NDArray[np.int64]]) -> Ragged:
    """Return rows of pairs of words: for each sample those of the first part, then those of the second; lengths in pairs."""
    lengths = 2 * first[1], 2 * second[1]
    offsets = np.concatenate([[0], np.cumsum(lengths[0] + lengths[1])]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], lengths[0])[0]] = first[0]
    values[slices_index(offsets[:-1] + lengths[0], lengths[1])[0]] = second[0]
    return Ragged(values, offsets)


# The unwinder for a recording's batches.


def user_callchains(
    data: SampleSource, symbolizer: Symbolizer, max_stack: int = 127, *, apart: bool = False, callers_first: bool = False
) -> UserCallchains | None:
    """Return the unwinder; None if no samples have stack copies.

    max_stack: the limit of each part of a callchain; apart, callers_first: see UserCallchains.
    """
    from perfpy.unwind.callchains import UserCallchains, has_user_stacks

    attrs = [event.attr for event in data.events]
    if not any(map(has_user_stacks, attrs)):
        return None
    machine = data.features.get(key_of(Feature.ARCH)) or os.uname().machine
    return UserCallchains(attrs, machine, symbolizer, endian=data.endian, max_stack=max_stack, apart=apart, callers_first=callers_first)
