"""Calls of a function from samples at its entry and its return: duration, time off the CPU, nesting.

A return belongs to the last entry of its thread whose stack pointer is not beyond the return's. Entries that are left by longjmp or an
exception have no return and are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

_NESTED_MOST: Final = 1 << 16  # calls of one thread without a return
_RETURN_SLACK: Final = 16  # the return's stack pointer is above the entry's by the return address


class FunctionCalls(NamedTuple):
    """The complete calls of a function, a row a call, by their ends.

    Attributes:
        tid: the thread.
        start: nanoseconds.
        duration: nanoseconds.
        off_cpu: nanoseconds of the duration in which the thread did not run.
        entry: row of the sample at the entry.
        exit: row of the sample at the return.
        open_count: entries without a return.
    """

    tid: Int64
    start: Int64
    duration: Int64
    off_cpu: Int64
    entry: Int64
    exit: Int64
    open_count: int


class CallSamples(NamedTuple):
    """Samples at entries, or at returns: thread, time in nanoseconds, stack pointer."""

    tid: Int64
    time: Int64
    stack_pointer: NDArray[np.uint64]


def pair_calls(entries: CallSamples, returns: CallSamples, switches: Iterable[tuple[int, int, bool]] = ()) -> FunctionCalls:
    """Return the calls of a function.

    Args:
        entries: the samples at the entry.
        returns: the samples at the return.
        switches: (thread, time, whether the thread leaves the CPU), by time.
    """
    is_return = np.concatenate((np.zeros(len(entries.tid), np.bool_), np.ones(len(returns.tid), np.bool_)))
    tid, time, pointer = (np.concatenate(columns) for columns in zip(entries, returns, strict=True))
    row = np.concatenate((np.arange(len(entries.tid)), np.arange(len(returns.tid))))
    order = np.lexsort((is_return, time))
    stacks: dict[int, list[tuple[int, int, int]]] = {}
    calls: list[tuple[int, int, int, int, int]] = []
    for thread, now, stack_pointer, ends, sample in zip(
        *(column[order].tolist() for column in (tid, time, pointer, is_return, row)), strict=True
    ):
        stack = stacks.setdefault(thread, [])
        if not ends:
            if len(stack) < _NESTED_MOST:
                stack.append((stack_pointer, now, sample))
            continue
        while len(stack) > 1 and stack[-1][0] + _RETURN_SLACK < stack_pointer and stack[-2][0] <= stack_pointer:
            stack.pop()  # left without a return
        if stack and stack[-1][0] <= stack_pointer:
            _, began, entry = stack.pop()
            calls.append((thread, began, now - began, entry, sample))
    table = np.array(calls, np.int64).reshape(-1, 5)
    off_cpu = _off_cpu(table[:, 0], table[:, 1], table[:, 1] + table[:, 2], switches)
    open_count = sum(map(len, stacks.values()))
    return FunctionCalls(table[:, 0], table[:, 1], table[:, 2], off_cpu, table[:, 3], table[:, 4], open_count)


def _off_cpu(tid: Int64, start: Int64, end: Int64, switches: Iterable[tuple[int, int, bool]]) -> Int64:
    """Return the time of each call in which its thread was off the CPU."""
    departures: dict[int, int] = {}
    intervals: dict[int, list[tuple[int, int]]] = {}
    for thread, now, leaves in switches:
        if leaves:
            departures[thread] = now
        elif thread in departures:
            intervals.setdefault(thread, []).append((departures.pop(thread), now))
    result = np.zeros(len(tid), np.int64)
    for thread, pairs in intervals.items():
        mine = np.flatnonzero(tid == thread)
        out, back = np.array(pairs, np.int64).T
        total = np.concatenate(([0], np.cumsum(back - out)))
        result[mine] = _until(end[mine], out, back, total) - _until(start[mine], out, back, total)
    return result


def _until(time: Int64, out: Int64, back: Int64, total: Int64) -> Int64:
    """Return the time off the CPU up to each moment."""
    row = np.searchsorted(out, time, "right")
    inside = np.where(row > 0, np.minimum(time, back[row - 1]) - out[row - 1], 0)
    before = total[np.maximum(row - 1, 0)]
    return np.where(row > 0, before + inside, 0)


def nearest_rank(values: Int64, share: float) -> int:
    """Return the smallest value that at least a share of the values do not exceed; 0 without values."""
    if not len(values):
        return 0
    ordered = np.sort(values)
    return int(ordered[min(max(int(np.ceil(share * len(ordered))) - 1, 0), len(ordered) - 1)])


def duration_bins(durations: Int64) -> list[tuple[int, int, int]]:
    """Return (from, to, count) of a histogram of durations; each bin is twice as wide as the one before."""
    if not len(durations):
        return []
    exponent = np.floor(np.log2(np.maximum(durations, 1))).astype(np.int64)
    first, last = int(exponent.min()), int(exponent.max())
    counts = np.bincount(exponent - first, minlength=last - first + 1).tolist()
    return [(1 << first + number, 1 << first + number + 1, count) for number, count in enumerate(counts)]
