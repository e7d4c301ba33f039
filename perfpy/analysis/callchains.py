"""Convert raw callchains to ids of distinct chains.

The raw column is ragged: u64 addresses and PERF_CONTEXT_*
markers, innermost first (perf_event.h). `ChainTable` holds each distinct chain
once, as int32 frame ids of the symbolizer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi import flags
from perfpy.abi.columns import Growing, Ragged, distinct, rows_where, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, MISC_USER, BranchSample, SampleType
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.perfdata.header import Feature, key_of
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains


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
    from perfpy.symbols.interpreters import is_c_library, is_own_library, is_runtime

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
    entries = np.full(int(offsets[-1]), CONTEXT_USER, np.uint64)
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
    met = np.flatnonzero(near & (chosen & (calls > 0))[of_row] & (whole.values < np.uint64(CONTEXT_MAX)))
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
    marks = np.flatnonzero(chains.values == np.uint64(CONTEXT_USER))
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
