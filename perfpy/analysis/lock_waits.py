"""The waits for locks of a recording, from the tracepoints lock:contention_begin and lock:contention_end (Linux 5.19)."""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.segments import LockEvents, pair_contentions

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]


BEGIN: Final = "lock:contention_begin"
END: Final = "lock:contention_end"
WAKEUPS: Final = ("sched:sched_waking", "sched:sched_wakeup")
_NO_EVENTS: Final = "{path}: no lock:contention_begin tracepoint with its format; record one: perfpy lock record -- COMMAND"
#: flags of contention_begin -> the type of the lock (include/trace/events/lock.h)
TYPES: Final = {
    0: "semaphore",
    1: "spinlock",
    1 | 2: "rwlock:R",
    1 | 4: "rwlock:W",
    2: "rwsem:R",
    4: "rwsem:W",
    8: "rt-mutex",
    8 | 2: "rwlock-rt:R",
    8 | 4: "rwlock-rt:W",
    16 | 2: "pcpu-sem:R",
    16 | 4: "pcpu-sem:W",
    32: "mutex",
    32 | 1: "mutex",
}
UNKNOWN_TYPE: Final = "unknown"


class LockWaits(NamedTuple):
    """Waits for locks, in order of their begin.

    Attributes:
        tid, pid: int64[n], the thread that waited.
        lock: uint64[n], addresses.
        flags: int64[n], see TYPES.
        duration: int64[n], nanoseconds; -1: the wait did not end.
        chains: callchains; None without.
        key: uint64[n], delivery keys.
        tids: all threads with events of locks.
        begin: int64[n], nanoseconds.
        owner: int64[n], the thread that held the lock, or UNKNOWN_OWNER; None unless asked for.
    """

    tid: NDArray[np.int64]
    pid: NDArray[np.int64]
    lock: NDArray[np.uint64]
    flags: NDArray[np.int64]
    duration: NDArray[np.int64]
    chains: Ragged | None
    key: NDArray[np.uint64]
    tids: NDArray[np.int64]
    begin: NDArray[np.int64]
    owner: NDArray[np.int64] | None = None


def read_waits(source: SampleSource, *, chains: bool = False, owners: bool = False) -> LockWaits:
    """Read the waits of a recording. Raises UsageError if it has no contention events.

    Args:
        source: the samples.
        chains: whether to keep callchains.
        owners: whether to find who held the locks.
    """
    if BEGIN not in tracepoints_of(source):
        raise UsageError(_NO_EVENTS.format(path=source.path))
    wanted: dict[str, tuple[str, ...]] = {BEGIN: ("lock_addr", "flags"), END: ("lock_addr",)}
    if owners:
        wanted[wakeup_of(source)] = ("pid",)
    rows = read_tracepoints(source, wanted, with_chains=(BEGIN,) if chains else ())
    rows = {name: table.with_numbers(wanted[name]) for name, table in rows.items()}
    begins = rows[BEGIN]
    ends = rows.get(END)
    begin_events, end_events = _lock_events(begins), _lock_events(ends)
    pairs = pair_contentions(begin_events, end_events)
    begin, ended = pairs.begin, pairs.end >= 0
    duration = np.full(len(begin), -1, np.int64)
    if ends is not None:
        duration[ended] = np.maximum(ends.time[pairs.end[ended]] - begins.time[begin[ended]], 0)
    waits = LockWaits(
        tid=begin_events.tid[begin],
        pid=begins.pid[begin].astype(np.int64),
        lock=begin_events.lock[begin],
        flags=begins.fields["flags"][begin].astype(np.int64),
        duration=duration,
        chains=None if begins.chains is None else begins.chains.take(begin),
        key=begins.key[begin],
        tids=distinct(begin_events.tid),
        begin=begins.time[begin],
    )
    if not owners:
        return waits
    end_order = np.full(len(begin), -1, np.int64)
    end_order[ended] = end_events.order[pairs.end[ended]]
    times = LockWaitTimes(waits.tid, waits.lock.view(np.int64), begins.order[begin], end_order)
    return waits._replace(owner=find_owners(times, _wakeups(rows.get(wakeup_of(source)))))


def _lock_events(rows: TracepointRows | None) -> LockEvents:
    none = np.zeros(0, np.int64)
    if rows is None:
        return LockEvents(none, none.astype(np.uint64), none)
    return LockEvents(rows.tid.astype(np.int64), rows.fields["lock_addr"].astype(np.uint64), rows.order)


def wakeup_of(source: SampleSource) -> str:
    """Return the tracepoint of wakeups that a recording has; the name of the usual one without any."""
    return next((name for name in WAKEUPS if name in tracepoints_of(source)), WAKEUPS[0])


def _wakeups(rows: TracepointRows | None) -> LockWakeups:
    none = np.zeros(0, np.int64)
    if rows is None:
        return LockWakeups(none, none, none)
    return LockWakeups(rows.tid.astype(np.int64), rows.fields["pid"].astype(np.int64), rows.order)


def type_of(flags: int) -> str:
    """Return the type of a lock by the flags of contention_begin.

    >>> type_of(4), type_of(1)
    ('rwsem:W', 'spinlock')
    """
    return TYPES.get(flags, UNKNOWN_TYPE)


# Find who held the lock that a thread waited for.
#
# The release of a lock on which a thread sleeps wakes the thread: the owner is the thread that woke it last before the wait ended.
# Without a
# wakeup, as for spinlocks, it is the thread that last got the lock after a wait, before this wait began.


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
