"""Convert the switches of a recording to waits, piece by piece.

Records of switches become Transitions and are dropped from the file. The piece ends with SAMPLE records of `offcpu-time` instead,
and the recording with READ records of each thread's running time. A piece gets the waits that ended before the end of the
previous piece: the ring buffers' data of that time are complete then, and the samples keep the order of rounds
(FINISHED_ROUND), because they are no older than the last round but one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, MISC_KERNEL, MISC_USER, RecordType
from perfpy.abi.perfpy_encodings import IS_WAIT, LIKE_OTHERS, READY
from perfpy.scheduling.intervals import INTERVAL, IntervalPairing, Intervals
from perfpy.scheduling.transitions import (
    Transitions,
    are_switches,
    end_transitions,
    has_user_part,
    stack_transitions,
    switch_transitions,
    woken_transitions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.capture.off_cpu_events import WaitPlan
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.stream import Chunk


_NEVER = (1 << 64) - 1
_WORTH_TELLING = 0.01  # share of the time without a stack
_KEPT_EXAMPLES = 8  # waits of one kind
_MOST_EXAMPLES = 1 << 15
_SIMILAR = 3  # binary digits: durations are similar if they have as many digits, give or take
_DURATIONS = 32  # kinds of durations and states


class WaitShares(NamedTuple):
    """Time off the CPU in ns, the part that had no stack, and the part that has none."""

    total: int = 0
    without_own_stack: int = 0
    without_stack: int = 0


class WaitSamples:
    """Writes the samples. ident is the id of the event."""

    def __init__(self, plan: WaitPlan, ident: int) -> None:
        self._plan = plan
        self._ident = ident
        self._pairing = IntervalPairing()
        self._bound = 0
        self._of_kernel = np.zeros(0, np.int32)  # threads without user space
        self._shares = WaitShares()
        self._examples = Intervals(np.zeros(0, INTERVAL), Ragged.empty(0, np.uint64))

    def of_piece(self, transitions: Transitions, newest: int, oldest: int = 0) -> bytes:
        """Return the samples to write with a piece. newest and oldest are the latest and earliest time of its records."""
        self._pairing.running.first = self._pairing.running.first or oldest
        bound, self._bound = self._bound, max(self._bound, newest)
        return self._written(self._pairing.take_ended(bound, transitions))

    def rest(self) -> bytes:
        """Return the samples of all remaining waits, after the last piece."""
        ended = self._written(self._pairing.take_ended(_NEVER, Transitions.none()))
        self._pairing.newest = max(self._pairing.newest, self._bound)
        waits = ended + self._written(self._pairing.take_unfinished())
        newest = self._pairing.newest
        return waits + read_records(self._pairing.running.totals(newest), newest, self._ident)

    def notes(self) -> list[str]:
        """Return notes for the user."""
        total, without_own, without = self._shares
        notes = []
        if self._plan.switches >= 0 and without_own - without > _WORTH_TELLING * total:
            counted = f"{(without_own - without) / total:.0%} of the time off the CPU"
            notes.append(f"note: {counted} is attributed by the stacks of similar waits of the same threads")
        if self._plan.switches >= 0 and without > _WORTH_TELLING * total:
            notes.append(f"note: {without / total:.0%} of the time off the CPU has no stack; it is counted in its thread, as [unknown]")
        return notes

    def _written(self, waits: Intervals) -> bytes:
        if self._plan.without_kernel and self._plan.switches >= 0:
            waits = self._without_kernel(waits)
        duration, had_none = waits.rows["duration"], waits.rows["stack"] < 0
        waits, self._examples = with_stacks_of_others(waits, self._examples)
        counted = (duration, duration[had_none], duration[waits.rows["stack"] < 0])
        self._shares = WaitShares(*(total + int(more.sum()) for total, more in zip(self._shares, counted, strict=True)))
        return records(sum_short_waits(waits, self._plan.threshold), self._ident)

    def _without_kernel(self, waits: Intervals) -> Intervals:
        """Drop threads that never run in user space: they wait for work most of the time."""
        tid, stack = waits.rows["tid"], waits.rows["stack"]
        in_user = np.append(has_user_part(waits.stacks), False)[stack]
        of_kernel = (stack >= 0) & ~in_user
        self._of_kernel = np.setdiff1d(np.union1d(self._of_kernel, tid[of_kernel]), tid[in_user]).astype(np.int32)
        return waits.take(~(of_kernel | ((stack < 0) & np.isin(tid, self._of_kernel))))


def with_stacks_of_others(waits: Intervals, examples: Intervals) -> tuple[Intervals, Intervals]:
    """Return the waits, those without a stack with that of a similar one; and examples for the next piece.

    At high rates the stacks of a part of the switches are recorded. Each of these stands for the others of its thread that took about as
    long, and ended as voluntarily: the time off the CPU stays what was measured, and its stacks are a sample.

    Args:
        waits: of one piece.
        examples: of the pieces before, for waits that have no similar one in this piece.
    """
    rows, kinds = waits.rows.copy(), _kinds(waits.rows)
    stacks = Ragged.concat([waits.stacks, examples.stacks])
    older = examples.rows[~np.isin(_kinds(examples.rows), kinds[rows["stack"] >= 0])]
    older["stack"] += len(waits.stacks)
    known = np.concatenate([rows[rows["stack"] >= 0], older])
    order = np.argsort(_kinds(known), kind="stable")
    known = known[order]
    known_kinds = _kinds(known)
    lacking = np.flatnonzero(rows["stack"] < 0)
    lacking = lacking[np.argsort(kinds[lacking], kind="stable")]
    first, end = (np.searchsorted(known_kinds, kinds[lacking], side) for side in ("left", "right"))
    lacking, first, end = (values[end > first] for values in (lacking, first, end))
    if len(lacking):
        begins = np.flatnonzero(np.append(True, kinds[lacking][1:] != kinds[lacking][:-1]))
        sizes = np.diff(np.append(begins, len(lacking)))
        rank, size = np.arange(len(lacking)) - np.repeat(begins, sizes), np.repeat(sizes, sizes)
        chosen = known[first + rank * (end - first) // size]  # spread over all examples
        rows["stack"][lacking], rows["state"][lacking], rows["note"][lacking] = chosen["stack"], chosen["state"], LIKE_OTHERS
    newest = np.searchsorted(known_kinds, known_kinds, "right") - np.arange(len(known)) <= _KEPT_EXAMPLES
    kept = known[newest][-_MOST_EXAMPLES:]
    new_stacks = stacks.take(kept["stack"])
    kept["stack"] = np.arange(len(kept))
    return Intervals(rows, stacks), Intervals(kept, new_stacks)


def _kinds(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Return a number that is equal for similar waits: of one thread, for about as long, and both for a CPU or not."""
    digits = np.frexp(rows["duration"].astype(np.float64))[1] // _SIMILAR
    kinds: NDArray[np.int64] = (rows["tid"].astype(np.int64) * _DURATIONS + digits) * 2 + (rows["state"] == READY)
    return kinds


_FIELDS = ("pid", "tid", "time", "cpu", "raw")


class PieceWaits:
    """Reads the pieces of one recording. events are in the plan's order; own is the pid whose waits are dropped."""

    def __init__(self, plan: WaitPlan, events: Sequence[FileEvent], layouts: Sequence[SampleLayout], own: int) -> None:
        self._plan = plan
        self._layouts = layouts
        self._own = own
        self._samples = WaitSamples(plan, events[plan.time].ids[0] if events[plan.time].ids else 0)
        self.notes = self._samples.notes
        self.rest = self._samples.rest

    def are_hidden(self, sample_events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which samples are not for the file."""
        is_hidden: NDArray[np.bool_] = np.isin(sample_events, self._plan.hidden)
        return is_hidden

    def switches_of(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which records, given with their events, are SWITCH records that were requested for waits only."""
        is_switch: NDArray[np.bool_] = are_switches(chunk.types) & (events == self._plan.time)
        return is_switch

    def losses_of(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which records tell of lost stacks: their waits are counted, with the stacks of others."""
        is_loss: NDArray[np.bool_] = (chunk.types == RecordType.LOST) & (events == self._plan.switches) & (self._plan.switches >= 0)
        return is_loss

    def of_piece(
        self,
        samples: Chunk,
        sample_events: NDArray[np.int32],
        side_band: Chunk,
        side_events: NDArray[np.int32],
        side_times: NDArray[np.uint64],
        chains: Ragged | None,
        newest: int,
        oldest: int,
    ) -> bytes:
        """Return the samples to write with a piece. chains are the callchains of its switches if they were unwound."""
        transitions = self.transitions(samples, sample_events, side_band, side_events, side_times, chains)
        return self._samples.of_piece(transitions, newest, oldest)

    def transitions(
        self,
        samples: Chunk,
        sample_events: NDArray[np.int32],
        side_band: Chunk,
        side_events: NDArray[np.int32],
        side_times: NDArray[np.uint64],
        chains: Ragged | None,
    ) -> Transitions:
        """Return the switches, wakeups and exits in a piece."""
        transitions = self._stacks(samples.rows(np.flatnonzero(sample_events == self._plan.switches)), chains)
        parts = [
            switch_transitions(*_chosen_rows(side_band, side_times, self.switches_of(side_band, side_events))),
            end_transitions(*_chosen_rows(side_band, side_times, side_band.types == RecordType.EXIT)),
        ]
        if self._plan.woken is not None:
            wakings = samples.rows(np.flatnonzero(sample_events == self._plan.wakings))
            if len(wakings):
                decoded = self._layouts[self._plan.wakings].decode(wakings.data, wakings.starts, _FIELDS)
                parts.append(woken_transitions(decoded, self._plan.woken))
        rows = np.concatenate(parts)
        return transitions.with_more(Transitions(rows[rows["pid"] != self._own], Ragged.empty(0, np.uint64)))

    def _stacks(self, switches: Chunk, chains: Ragged | None) -> Transitions:
        if not len(switches):
            return Transitions.none()
        columns = self._layouts[self._plan.switches].decode(switches.data, switches.starts, {*_FIELDS, "callchain"})
        return stack_transitions(columns, columns["callchain"] if chains is None else chains, self._plan.state)


def _chosen_rows(chunk: Chunk, times: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> tuple[Chunk, NDArray[np.uint64]]:
    rows = np.flatnonzero(chosen)
    return chunk.rows(rows), times[rows]


# Write Intervals off the CPU as SAMPLE records of the event `offcpu-time`, and the time on the CPU as READ records. Waits shorter than
# the threshold are added up if thread, stack, state and waker are equal. Layout: perfpy.abi.sample_decoding, with the fields of
# perfpy.capture.off_cpu_events.TIME_ATTR; the weight: perfpy.abi.perfpy_encodings. As in perf, a sample's address is where the thread
# left user space, though its callchain includes the kernel's part: kernel addresses of waits are the same few functions for all threads.
# READ records of the same event have the time that each thread was on a CPU, in nanoseconds. With them a report can compute the time that
# its samples stand for, whatever event was sampled. perf reads such records with `report -T`. Layout: { header; u32 pid, tid; u64 value,
# id, lost; } and the trailer { u32 pid, tid; u64 time; u32 cpu, res; u64 identifier; }.

_BEFORE_CHAIN: Final = 8  # words: header, identifier, ip, pid and tid, time, cpu, period, nr
_AFTER_CHAIN: Final = 1
_READ_WORDS: Final = 9
_MOST: Final = (0xFFF8 >> 3) - _BEFORE_CHAIN - _AFTER_CHAIN
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


def sum_short_waits(waits: Intervals, threshold: int) -> Intervals:
    """Return the waits; those shorter than the threshold (in ns) are added up with equal ones."""
    rows = waits.rows
    is_long = rows["duration"] >= np.uint64(threshold)
    short = rows[~is_long]
    _, first, group = np.unique(_likeness(short, waits.stacks), return_index=True, return_inverse=True)
    total, end = np.zeros((2, len(first)), np.uint64)
    np.add.at(total, group.ravel(), short["duration"])
    np.maximum.at(end, group.ravel(), short["end"])
    summed = short[first]
    summed["duration"], summed["end"] = total, end
    return Intervals(np.concatenate([rows[is_long], summed]), waits.stacks)


def _likeness(rows: NDArray[np.void], stacks: Ragged) -> NDArray[np.uint64]:
    """Return a number that is equal for waits to add up."""
    chain = np.append(_hashes(stacks), np.uint64(0))[rows["stack"]]
    tasks = rows["tid"].astype(np.uint64) << np.uint64(32) | rows["waker"]
    reasons = rows["state"] << np.uint64(8) | rows["note"]
    hashes: NDArray[np.uint64] = ((chain ^ tasks) * _MULTIPLIER ^ reasons) * _MULTIPLIER
    return hashes ^ hashes >> np.uint64(29)


def _hashes(chains: Ragged) -> NDArray[np.uint64]:
    values = chains.values
    depth = np.arange(len(values), dtype=np.uint64) - np.repeat(chains.offsets[:-1], chains.lengths).astype(np.uint64)
    mixed = (values ^ depth * _MULTIPLIER) * _MULTIPLIER
    mixed = (mixed ^ mixed >> np.uint64(31)) * _MULTIPLIER
    running: NDArray[np.uint64] = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    hashes: NDArray[np.uint64] = running[chains.offsets[1:]] - running[chains.offsets[:-1]]
    return hashes


def records(waits: Intervals, ident: int) -> bytes:
    """Return the waits as records, sorted by time. ident is the id of the event."""
    rows = waits.rows[np.argsort(waits.rows["end"], kind="stable")]
    chains = _chains(rows["stack"], waits.stacks)
    sizes = _BEFORE_CHAIN + chains.lengths + _AFTER_CHAIN
    begins = np.cumsum(sizes) - sizes
    ip, is_user = _left_from(chains)
    words = np.empty(int(sizes.sum()), np.uint64)
    misc = np.where(is_user, MISC_USER, MISC_KERNEL).astype(np.uint64)
    header = np.uint64(RecordType.SAMPLE) | misc << np.uint64(32) | (sizes << 3).astype(np.uint64) << np.uint64(48)
    task = rows["pid"].view(np.uint32) | rows["tid"].astype(np.uint64) << np.uint64(32)
    counted = chains.lengths.astype(np.uint64)
    for number, column in enumerate((header, np.uint64(ident), ip, task, rows["end"], rows["cpu"], rows["duration"], counted)):
        words[begins + number] = column
    words[slices_index(begins + _BEFORE_CHAIN, chains.lengths)[0]] = chains.values
    words[begins + sizes - 1] = rows["waker"] | rows["state"] << np.uint64(32) | (rows["note"] | np.uint64(IS_WAIT)) << np.uint64(48)
    return words.tobytes()


def _chains(stack: NDArray[np.int64], stacks: Ragged) -> Ragged:
    """Return the callchain of each wait, empty for none, limited to a record's size."""
    has_stack = stack >= 0
    begins, lengths = (np.append(values, 0)[stack] for values in (stacks.offsets[:-1], stacks.lengths))
    index, offsets = slices_index(begins, np.where(has_stack, np.minimum(lengths, _MOST), 0))
    return Ragged(stacks.values[index], offsets)


def _left_from(chains: Ragged) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the address from which each thread left user space, or else its first kernel address; and whether it is a user address."""
    values = np.append(chains.values, np.uint64(0))
    row = np.repeat(np.arange(len(chains)), chains.lengths)
    markers = np.flatnonzero(chains.values == np.uint64(CONTEXT_USER))
    is_user = np.zeros(len(chains), bool)
    first = np.zeros(len(chains), np.int64)
    followed = markers[markers + 1 < chains.offsets[1:][row[markers]]]
    first[row[followed]], is_user[row[followed]] = followed + 1, True
    kernel = np.where(chains.lengths > 1, chains.offsets[:-1] + 1, len(values) - 1)
    ip = np.where(is_user, values[first], values[kernel])
    return np.where(ip >= np.uint64(CONTEXT_MAX), np.uint64(0), ip), is_user


def read_records(totals: dict[int, tuple[int, int]], newest: int, ident: int) -> bytes:
    """Return a READ record of each thread.

    Args:
        totals: tid -> its process, and how long it ran in nanoseconds.
        newest: the time of the records.
        ident: the id of the event.
    """
    words = np.zeros((len(totals), _READ_WORDS), np.uint64)
    tids = np.fromiter(totals, np.uint64, len(totals))
    pids, times = np.array([*totals.values()], np.uint64).reshape(-1, 2).T
    task = pids & np.uint64(0xFFFFFFFF) | tids << np.uint64(32)
    header = RecordType.READ | (8 * _READ_WORDS) << 48
    columns: tuple[int | NDArray[np.uint64], ...] = (header, task, times, ident, 0, task, newest, 0, ident)
    for number, column in enumerate(columns):
        words[:, number] = column
    return words.tobytes()
