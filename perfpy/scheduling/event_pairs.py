"""Pair the begin and the end of what the kernel does: a system call of a thread, a request of a device, a soft interrupt of a CPU."""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]


class EventPairs(NamedTuple):
    """Begins with their ends.

    Attributes:
        begin, end: int64[n], indexes of the rows.
        open_count: begins without an end.
    """

    begin: Int64
    end: Int64
    open_count: int


def pair_events(begin_key: Int64, begin_order: Int64, end_key: Int64, end_order: Int64) -> EventPairs:
    """Return the begins that an end with the same key follows, before another begin with that key.

    Args:
        begin_key, end_key: what may be under way once at a time.
        begin_order, end_order: positions among all events.
    """
    count = len(begin_key)
    key, order = np.concatenate([begin_key, end_key]), np.concatenate([begin_order, end_order])
    rows = np.lexsort((order, key))
    before, after = rows[:-1], rows[1:]
    is_pair = (before < count) & (after >= count) & (key[before] == key[after])
    pairs = before[is_pair], after[is_pair] - count
    return EventPairs(pairs[0], pairs[1], count - int(is_pair.sum()))


def numbers_of_keys(*columns: Int64) -> Int64:
    """Return a number for each row that is equal for rows with equal values in all columns."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, which = np.unique(column, return_inverse=True)
        _, which = np.unique(numbers * np.int64(len(column) + 1) + which.ravel(), return_inverse=True)
        numbers = which.ravel().astype(np.int64)
    return numbers


# Pair the begin and the end of lock contention. A thread may report the begin twice, as when a mutex is spun on before the thread sleeps;
# the first one counts. All pairs are found at once: rows are sorted by thread and lock, and a wait lasts from the first begin after the
# last end.
class LockEvents(NamedTuple):
    """Begins or ends of contention.

    Attributes:
        tid: int64[n], the thread.
        lock: uint64[n], the address.
        order: int64[n]; orders all events of a recording.
    """

    tid: NDArray[np.int64]
    lock: NDArray[np.uint64]
    order: NDArray[np.int64]


class Contentions(NamedTuple):
    """Waits for locks, by order of their begin.

    Attributes:
        begin: int64[n], indexes of begins.
        end: int64[n], indexes of their ends; -1: none.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def pair_contentions(begins: LockEvents, ends: LockEvents) -> Contentions:
    """Return the waits."""
    count = len(begins.tid)
    tid, lock = np.concatenate([begins.tid, ends.tid]), np.concatenate([begins.lock, ends.lock])
    rows = np.lexsort((np.concatenate([begins.order, ends.order]), lock, tid))
    is_begin = rows < count
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (tid[rows[1:]] != tid[rows[:-1]]) | (lock[rows[1:]] != lock[rows[:-1]]) | ~is_begin[:-1]
    starts = np.flatnonzero(is_begin & is_first)
    next_end = len(rows) - 1 - np.maximum.accumulate(np.where(~is_begin[::-1], np.arange(len(rows)), -1))[::-1]
    end = next_end[starts]  # len(rows) if there is none
    has_end = end < len(rows)
    end_row = rows[np.where(has_end, end, 0)] if len(rows) else end
    begin_row = rows[starts]
    has_end &= (tid[end_row] == tid[begin_row]) & (lock[end_row] == lock[begin_row]) if len(rows) else has_end
    order = np.argsort(begins.order[begin_row], kind="stable")
    return Contentions(begin_row[order], np.where(has_end, end_row - count, -1)[order])
