"""Tests of who held the lock that a thread waited for."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.lock_waits import UNKNOWN_OWNER, LockWaitTimes, LockWakeups, find_owners


def owners_of(waits: list[tuple[int, int, int, int]], wakeups: list[tuple[int, int, int]]) -> list[int]:
    """Return the owners for rows (thread, lock, begin, end) and (waker, woken, order)."""
    rows = np.array(waits, np.int64).reshape(-1, 4)
    wakes = np.array(wakeups, np.int64).reshape(-1, 3)
    owners: list[int] = find_owners(LockWaitTimes(*rows.T), LockWakeups(*wakes.T)).tolist()
    return owners


@pytest.mark.parametrize(
    ("waits", "wakeups", "owners"),
    [
        ([(10, 1, 5, 9)], [(20, 10, 7)], [20]),
        ([(10, 1, 5, 9)], [(30, 10, 6), (20, 10, 8)], [20]),
        ([(10, 1, 5, 9)], [(20, 10, 3), (20, 10, 12), (20, 11, 7)], [UNKNOWN_OWNER]),
        ([(10, 1, 5, 9)], [(10, 10, 7)], [UNKNOWN_OWNER]),
        ([(10, 1, 1, 2), (11, 1, 4, 6)], [], [UNKNOWN_OWNER, 10]),
        ([(10, 1, 1, 2), (11, 2, 4, 6)], [], [UNKNOWN_OWNER, UNKNOWN_OWNER]),
        ([(10, 1, 1, 2), (10, 1, 4, 6)], [], [UNKNOWN_OWNER, UNKNOWN_OWNER]),
        ([(10, 1, 5, -1)], [(20, 10, 7)], [UNKNOWN_OWNER]),
        ([], [(20, 10, 7)], []),
        ([], [], []),
    ],
    ids=[
        "waker",
        "last waker",
        "wakeups outside",
        "woken by itself",
        "last holder",
        "another lock",
        "own lock",
        "no end",
        "no waits",
        "nothing",
    ],
)
def test_the_owner_woke_the_thread_or_got_the_lock_before(waits, wakeups, owners):
    assert owners_of(waits, wakeups) == owners
