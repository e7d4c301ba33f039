"""Waits for locks by caller, thread or lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.locks.contention import LockWaits


_HASH: Final = 0x61C8864680B583EB  # hash_long of include/linux/hash.h
_WORD: Final = (1 << 64) - 1
_BUCKET_SHIFT: Final = 52


class LockRow(NamedTuple):
    """The waits of one caller, thread or lock. Times are nanoseconds.

    Attributes:
        key: a number that identifies the row: of its caller, thread or lock.
        first: the index of its first wait.
        acquired: the waits that ended.
        contended: all waits.
        total, longest, shortest: of the waits that ended.
    """

    key: int
    first: int
    acquired: int
    contended: int
    total: int
    longest: int
    shortest: int

    @property
    def average(self) -> int:
        """The average wait, rounded down."""
        return self.total // self.acquired if self.acquired else 0


#: sort keys and fields, by perf's names
VALUES: dict[str, Callable[[LockRow], int]] = {
    "acquired": lambda row: row.acquired,
    "contended": lambda row: row.contended,
    "avg_wait": lambda row: row.average,
    "wait_total": lambda row: row.total,
    "wait_max": lambda row: row.longest,
    "wait_min": lambda row: row.shortest,
}


def make_rows(waits: LockWaits, keys: Sequence[int] | NDArray[np.uint64] | NDArray[np.int64], chosen: NDArray[np.bool_]) -> list[LockRow]:
    """Return a row for each key, by first wait.

    Args:
        waits: of a recording.
        keys: of each wait.
        chosen: mask of the waits that count.
    """
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return []
    own = np.array([key & ((1 << 64) - 1) for key in keys], np.uint64) if not isinstance(keys, np.ndarray) else keys.astype(np.uint64)
    order = rows[np.argsort(own[rows], kind="stable")]
    begins = np.flatnonzero(np.append(True, own[order][1:] != own[order][:-1]))
    duration = waits.duration[order]
    ended = duration >= 0
    counts = np.diff(np.append(begins, len(order)))
    columns = (
        np.add.reduceat(ended.astype(np.int64), begins),
        counts,
        np.add.reduceat(np.where(ended, duration, 0), begins),
        np.maximum.reduceat(np.where(ended, duration, 0), begins),
        np.minimum.reduceat(np.where(ended, duration, np.iinfo(np.int64).max), begins),
    )
    values = zip(own[order[begins]].tolist(), order[begins].tolist(), *(column.tolist() for column in columns), strict=True)
    lock_rows = [LockRow(*row) for row in values]
    lock_rows = [row._replace(shortest=row.shortest if row.acquired else 0) for row in lock_rows]
    return sorted(lock_rows, key=lambda row: row.first)


def in_order_of_locks(rows: Iterable[LockRow]) -> list[LockRow]:
    """Return rows by lock in perf's order of equal rows: that of its table of 4,096 buckets, new rows first in their bucket."""
    return sorted(sorted(rows, key=lambda row: -row.first), key=lambda row: (row.key * _HASH & _WORD) >> _BUCKET_SHIFT)


def sorted_rows(rows: Iterable[LockRow], key: str) -> list[LockRow]:
    """Return the rows, highest value first."""
    value = VALUES[key]
    return sorted(rows, key=lambda row: -value(row))
