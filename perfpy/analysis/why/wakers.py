"""Who ends the waits of threads: the threads that wake them, and interrupts, which `perfpy why` does not follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.why.events import numbers_of
from perfpy.scheduling.segments import BLOCKED, Segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.why.events import WhyEvents
    from perfpy.analysis.why.stacks import StackMeanings

    Int64 = NDArray[np.int64]

_NONE: Final = -1
_HARD_INTERRUPT: Final = 0x08  # common_flags (Documentation/trace/events.rst)
_SOFT_INTERRUPT: Final = 0x10
_DEEPEST: Final = 12  # threads in a row that end each other's waits


def values_of(values: Int64, rows: Int64) -> Int64:
    """Return the values of rows; -1 for row -1."""
    if not len(values):
        return np.full(len(rows), _NONE, np.int64)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], _NONE)


def concerned_threads(events: WhyEvents, segments: Segments, tids: Int64) -> Int64:
    """Return the threads, the threads that ended their waits, and all further wakers."""
    waker = np.where(segments.kind == BLOCKED, values_of(events.wakeups.tid.astype(np.int64), segments.wakeup), _NONE)
    waits = np.flatnonzero(waker > 0)
    concerned, newest = tids, tids
    for _ in range(_DEEPEST):
        wakers = np.unique(waker[waits[np.isin(segments.tid[waits], newest)]])
        newest = wakers[~np.isin(wakers, concerned)]
        if not len(newest):
            break
        concerned = np.concatenate([concerned, newest])
    return concerned


def find_wakers(
    events: WhyEvents, wakeup: Int64, chain: Int64, meanings: StackMeanings, is_blocked: NDArray[np.bool_]
) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the thread that ended each blocked segment, and whether an interrupt did.

    A thread that sends data over the loopback device wakes the receiver in a soft interrupt of its own.
    """
    woken = is_blocked & (wakeup >= 0)
    flags = np.where(woken, values_of(numbers_of(events.wakeups, "common_flags"), wakeup), 0)
    tid = np.where(woken, values_of(events.wakeups.tid.astype(np.int64), wakeup), _NONE)
    sends = (chain >= 0) & (meanings.column("is_send", np.maximum(chain, 0)) > 0)
    by_interrupt = woken & (((flags & _HARD_INTERRUPT) != 0) | (((flags & _SOFT_INTERRUPT) != 0) & ~sends) | (tid == 0))
    return np.where(by_interrupt, _NONE, tid), by_interrupt


def follows_waker(segments: Segments, waker: Int64) -> NDArray[np.bool_]:
    """Return which segments are waits that a thread ended."""
    follows: NDArray[np.bool_] = (segments.kind == BLOCKED) & (waker > 0)
    return follows
