"""Find who held the lock that a thread waited for.

The release of a lock on which a thread sleeps wakes the thread: the owner is the thread that woke it last before the wait ended. Without a
wakeup, as for spinlocks, it is the thread that last got the lock after a wait, before this wait began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

UNKNOWN_OWNER: Final = -1
_ORDER_BITS: Final = 40  # of a position in a recording


class LockWaitTimes(NamedTuple):
    """Waits for locks: int64[n] each.

    Attributes:
        tid: the thread that waited.
        lock: a number that is equal for equal locks.
        begin, end: positions among all events; end is -1 if the wait did not end.
    """

    tid: Int64
    lock: Int64
    begin: Int64
    end: Int64


class LockWakeups(NamedTuple):
    """Wakeups: int64[n] each. order: positions among all events."""

    waker: Int64
    woken: Int64
    order: Int64


def find_owners(waits: LockWaitTimes, wakeups: LockWakeups) -> Int64:
    """Return the owner of the lock of each wait, or UNKNOWN_OWNER."""
    woken_by = _last(wakeups.woken, wakeups.order, waits.tid, waits.end)
    has_waker = (woken_by >= 0) & (waits.end >= 0)
    rows = np.maximum(woken_by, 0)
    if len(wakeups.waker):
        has_waker &= (wakeups.order[rows] > waits.begin) & (wakeups.waker[rows] != waits.tid)
    owner = np.where(has_waker, wakeups.waker[rows] if len(wakeups.waker) else UNKNOWN_OWNER, UNKNOWN_OWNER)
    ended = np.flatnonzero(waits.end >= 0)
    before = _last(waits.lock[ended], waits.end[ended], waits.lock, waits.begin)
    holder = waits.tid[ended[before]] if len(ended) else np.full(len(waits.tid), UNKNOWN_OWNER)
    is_holder = (before >= 0) & (holder != waits.tid)
    return np.where(has_waker, owner, np.where(is_holder, holder, UNKNOWN_OWNER))


def _last(keys: Int64, orders: Int64, wanted: Int64, limit: Int64) -> Int64:
    """Return the index of the last event with each wanted key before a position; -1 without one."""
    distinct, which = np.unique(keys, return_inverse=True)
    number = np.searchsorted(distinct, wanted)
    is_known = number < len(distinct)
    is_known[is_known] = distinct[number[is_known]] == wanted[is_known]
    packed = which.ravel() << _ORDER_BITS | orders
    rows = np.argsort(packed, kind="stable")
    found = np.searchsorted(packed[rows], number << _ORDER_BITS | np.maximum(limit, 0)) - 1
    has = is_known & (found >= 0)
    last = rows[np.maximum(found, 0)] if len(rows) else np.zeros(len(wanted), np.int64)
    if len(rows):
        has &= which.ravel()[last] == number
    return np.where(has, last, -1)
