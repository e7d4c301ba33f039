"""Pair the begin and the end of what the kernel does: a system call of a thread, a request of a device, a soft interrupt of a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
