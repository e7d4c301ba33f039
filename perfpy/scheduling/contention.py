"""Pair the begin and the end of lock contention.

A thread may report the begin twice, as when a mutex is spun on before the thread sleeps; the first one counts. All pairs are found at once:
rows are sorted by thread and lock, and a wait lasts from the first begin after the last end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
