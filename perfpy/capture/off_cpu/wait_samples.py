"""Write Intervals off the CPU as SAMPLE records of the event `offcpu-time`, and the time on the CPU as READ records.

Waits shorter than the threshold are added up if thread, stack, state and waker are equal. Layout: perfpy.abi.samples.decoding, with the
fields of perfpy.capture.off_cpu.sources.TIME_ATTR; the weight: perfpy.abi.waits. As in perf, a sample's address is where the
thread left user space, though its callchain includes the kernel's part: kernel addresses of waits are the same few functions
for all threads.

READ records of the same event have the time that each thread was on a CPU, in nanoseconds. With them a report can compute the time
that its samples stand for, whatever event was sampled. perf reads such records with `report -T`. Layout:
{ header; u32 pid, tid; u64 value, id, lost; } and the trailer { u32 pid, tid; u64 time; u32 cpu, res; u64 identifier; }.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, MISC_KERNEL, MISC_USER, RecordType
from perfpy.abi.waits import IS_WAIT
from perfpy.scheduling.intervals import Intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
