"""The threads of a recording in perf's order.

perf keeps threads in eight hash tables, by tid modulo 8, and prints summaries in the order of these tables. A table has a power of two of
buckets, at least four, and doubles before it is more than three quarters full; new entries come first in their bucket. Fork and exit
records remove a thread, so that its number may return as another one. This order is perf 6.12's, learnt from its summaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.symbols.tasks.value_history import DeliveredValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource

_TABLES: Final = 8
_FEWEST_BITS: Final = 2
_MULTIPLIER: Final = 11400714819323198485
_WORD: Final = (1 << 64) - 1
_UNKNOWN: Final = -1
_FORK: Final = int(RecordType.FORK)
_EXIT: Final = int(RecordType.EXIT)
_RECORDS: Final = frozenset((RecordType.FORK, RecordType.EXIT, RecordType.COMM, RecordType.MMAP, RecordType.MMAP2))


class KnownThread(NamedTuple):
    """A thread from its first mention to its exit.

    Attributes:
        thread: the id (ThreadIds).
        tid, pid, parent: numbers; -1: unknown.
    """

    thread: int
    tid: int
    pid: int
    parent: int


class ThreadIds:
    """Ids that distinguish threads with the same number: generation << 32 | tid."""

    def __init__(self, source: SampleSource) -> None:
        records = source.side_band({RecordType.FORK, RecordType.EXIT}).tasks()
        tasks = records.tasks
        keys = records.keys[tasks.rank.astype(np.int64) - 1]
        self._values = DeliveredValues(tasks.tid.astype(np.int64), keys, np.arange(1, len(keys) + 1))

    def of(self, tid: NDArray[np.int64], key: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the id of each thread at each delivery key."""
        generation = self._values.find(tid, key, 0).astype(np.int64)
        return generation << np.int64(32) | (tid & np.int64(0xFFFFFFFF))


class Mention(NamedTuple):
    """Threads that samples mention: columns of the first mention of each.

    Attributes:
        thread: ids.
        tid: their numbers.
        pid: their processes; -1: unknown.
        key: delivery keys.
        order: orders mentions of equal keys.
    """

    thread: NDArray[np.int64]
    tid: NDArray[np.int64]
    pid: NDArray[np.int64]
    key: NDArray[np.uint64]
    order: NDArray[np.int64]


class _HashTable:
    """One hash table: buckets of threads, the last added first.

    Attributes:
        threads: the threads by tid.
    """

    def __init__(self) -> None:
        self.threads: dict[int, KnownThread] = {}
        self._bits = 0
        self._buckets: list[list[int]] = []

    def add(self, thread: KnownThread) -> None:
        """Add a thread whose tid is new."""
        if not self._bits or (len(self.threads) + 1) * 4 // 3 > 1 << self._bits:
            self._grow()
        self._buckets[self._bucket(thread.tid)].append(thread.tid)
        self.threads[thread.tid] = thread

    def remove(self, tid: int) -> None:
        """Remove a thread if it is there."""
        if self.threads.pop(tid, None) is not None:
            self._buckets[self._bucket(tid)].remove(tid)

    def in_order(self) -> list[KnownThread]:
        """Return the threads in perf's order."""
        return [self.threads[tid] for bucket in self._buckets for tid in reversed(bucket)]

    def _bucket(self, tid: int) -> int:
        return ((tid & _WORD) * _MULTIPLIER & _WORD) >> (64 - self._bits)

    def _grow(self) -> None:
        threads = self.in_order()
        self._bits = max(self._bits + 1, _FEWEST_BITS)
        self._buckets = [[] for _ in range(1 << self._bits)]
        for thread in threads:
            self._buckets[self._bucket(thread.tid)].append(thread.tid)


def known_threads(source: SampleSource, mentions: Mention) -> list[KnownThread]:
    """Return the threads that exist at the end of a recording, in perf's order.

    Args:
        source: of the records about tasks.
        mentions: of threads by samples.
    """
    tables = [_HashTable() for _ in range(_TABLES)]
    order = np.lexsort((mentions.order, mentions.key))
    columns = zip(*(column[order].tolist() for column in (mentions.key, mentions.thread, mentions.tid, mentions.pid)), strict=True)
    sample = next(columns, None)
    generation = 0
    records = source.side_band(_RECORDS).task_numbers()
    for kind, key, pid, tid, parent_pid, parent in zip(*(column.tolist() for column in records), strict=True):
        while sample is not None and sample[0] < key:
            _mention(tables, sample[1], sample[2], sample[3])
            sample = next(columns, None)
        if kind == _EXIT:
            tables[tid % _TABLES].remove(tid)
            generation += 1
        elif kind == _FORK:
            generation += 1
            table = tables[tid % _TABLES]
            table.remove(tid)
            _mention(tables, parent, parent, parent_pid)
            if tid in table.threads:  # its own parent, in a damaged recording
                table.remove(tid)
            table.add(KnownThread(generation << 32 | (tid & 0xFFFFFFFF), tid, pid, parent))
        else:
            _mention(tables, tid, tid, pid)
    while sample is not None:
        _mention(tables, sample[1], sample[2], sample[3])
        sample = next(columns, None)
    return [thread for table in tables for thread in table.in_order()]


def _mention(tables: list[_HashTable], thread: int, tid: int, pid: int) -> None:
    """Add a thread, or the number of its process if that was unknown."""
    table = tables[tid % _TABLES]
    known = table.threads.get(tid)
    if known is None:
        table.add(KnownThread(thread, tid, pid, _UNKNOWN))
    elif known.pid == _UNKNOWN and pid != _UNKNOWN:
        table.threads[tid] = known._replace(pid=pid)
