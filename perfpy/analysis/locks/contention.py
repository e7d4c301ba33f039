"""The waits for locks of a recording, from the tracepoints lock:contention_begin and lock:contention_end (Linux 5.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.contention import LockEvents, pair_contentions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.perfdata.sample_source import SampleSource

BEGIN: Final = "lock:contention_begin"
END: Final = "lock:contention_end"
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
    """

    tid: NDArray[np.int64]
    pid: NDArray[np.int64]
    lock: NDArray[np.uint64]
    flags: NDArray[np.int64]
    duration: NDArray[np.int64]
    chains: Ragged | None
    key: NDArray[np.uint64]
    tids: NDArray[np.int64]


def read_waits(source: SampleSource, *, chains: bool = False) -> LockWaits:
    """Read the waits of a recording. Raises UsageError if it has no contention events.

    Args:
        source: the samples.
        chains: whether to keep callchains.
    """
    if BEGIN not in tracepoints_of(source):
        raise UsageError(_NO_EVENTS.format(path=source.path))
    wanted = {BEGIN: ("lock_addr", "flags"), END: ("lock_addr",)}
    rows = read_tracepoints(source, wanted, with_chains=(BEGIN,) if chains else ())
    rows = {name: table.with_numbers(wanted[name]) for name, table in rows.items()}
    begins = rows[BEGIN]
    none = np.zeros(0, np.int64)
    ends = rows.get(END)
    begin_events = LockEvents(begins.tid.astype(np.int64), begins.fields["lock_addr"].astype(np.uint64), begins.order)
    end_events = (
        LockEvents(none, none.astype(np.uint64), none)
        if ends is None
        else LockEvents(ends.tid.astype(np.int64), ends.fields["lock_addr"].astype(np.uint64), ends.order)
    )
    pairs = pair_contentions(begin_events, end_events)
    begin = pairs.begin
    end_time = none if ends is None else ends.time
    ended = pairs.end >= 0
    duration = np.full(len(begin), -1, np.int64)
    duration[ended] = np.maximum(end_time[pairs.end[ended]] - begins.time[begin[ended]], 0)
    return LockWaits(
        tid=begin_events.tid[begin],
        pid=begins.pid[begin].astype(np.int64),
        lock=begin_events.lock[begin],
        flags=begins.fields["flags"][begin].astype(np.int64),
        duration=duration,
        chains=None if begins.chains is None else begins.chains.take(begin),
        key=begins.key[begin],
        tids=np.unique(begin_events.tid),
    )


def type_of(flags: int) -> str:
    """Return the type of a lock by the flags of contention_begin.

    >>> type_of(4), type_of(1)
    ('rwsem:W', 'spinlock')
    """
    return TYPES.get(flags, UNKNOWN_TYPE)
