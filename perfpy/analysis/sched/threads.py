"""The threads of a recording in perf's order.

perf keeps threads in eight hash tables, by tid modulo 8, and prints summaries in the order of these tables. A table has a power of two of
buckets, at least four, and doubles before it is more than three quarters full; new entries come first in their bucket. Fork and exit
records remove a thread, so that its number may return as another one. This order is perf 6.12's, learnt from its summaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.task_columns import task_numbers
from perfpy.symbols.tasks.value_history import DeliveredValues

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.abi.task_columns import TaskNumbers
    from perfpy.perfdata.sample_source import SampleSource

_TABLES: Final = 8
_FEWEST_BITS: Final = 2
_MULTIPLIER: Final = 11400714819323198485
_WORD: Final = (1 << 64) - 1
_UNKNOWN: Final = -1
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
    """One hash table: buckets of ids, the last added first."""

    def __init__(self) -> None:
        self._bits = 0
        self._buckets: list[list[KnownThread]] = []
        self._count = 0

    def add(self, thread: KnownThread) -> None:
        if not self._bits or (self._count + 1) * 4 // 3 > 1 << self._bits:
            self._grow()
        self._buckets[self._bucket(thread.tid)].append(thread)
        self._count += 1

    def remove(self, tid: int) -> None:
        if not self._bits:
            return
        bucket = self._buckets[self._bucket(tid)]
        others = [thread for thread in bucket if thread.tid != tid]
        self._count -= len(bucket) - len(others)
        bucket[:] = others

    def find(self, tid: int) -> KnownThread | None:
        if not self._bits:
            return None
        return next((thread for thread in self._buckets[self._bucket(tid)] if thread.tid == tid), None)

    def replace(self, thread: KnownThread) -> None:
        bucket = self._buckets[self._bucket(thread.tid)]
        bucket[:] = [thread if one.tid == thread.tid else one for one in bucket]

    def threads(self) -> Iterable[KnownThread]:
        """Return the threads in perf's order."""
        return [thread for bucket in self._buckets for thread in reversed(bucket)]

    def _bucket(self, tid: int) -> int:
        return ((tid & _WORD) * _MULTIPLIER & _WORD) >> (64 - self._bits)

    def _grow(self) -> None:
        threads = self.threads()
        self._bits = max(self._bits + 1, _FEWEST_BITS)
        self._buckets = [[] for _ in range(1 << self._bits)]
        for thread in threads:
            self._buckets[self._bucket(thread.tid)].append(thread)


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
    for raw in source.side_band(_RECORDS).raw():
        while sample is not None and sample[0] < raw.key:
            _mention(tables, sample[1], sample[2], sample[3])
            sample = next(columns, None)
        numbers = task_numbers(raw.type, raw.body, source.endian)
        if numbers is not None:
            generation = _apply(tables, raw.type, numbers, generation)
    while sample is not None:
        _mention(tables, sample[1], sample[2], sample[3])
        sample = next(columns, None)
    return [thread for table in tables for thread in table.threads()]


def _apply(tables: list[_HashTable], kind: int, numbers: TaskNumbers, generation: int) -> int:
    """Apply a record; return the number of forks and exits until now."""
    pid, tid, parent_pid, parent = numbers
    table = tables[tid % _TABLES]
    if kind == RecordType.EXIT:
        table.remove(tid)
        return generation + 1
    if kind == RecordType.FORK:
        table.remove(tid)
        _mention(tables, parent, parent, parent_pid)
        table.add(KnownThread((generation + 1) << 32 | (tid & 0xFFFFFFFF), tid, pid, parent))
        return generation + 1
    _mention(tables, tid, tid, pid)
    return generation


def _mention(tables: list[_HashTable], thread: int, tid: int, pid: int) -> None:
    table = tables[tid % _TABLES]
    known = table.find(tid)
    if known is None:
        table.add(KnownThread(thread, tid, pid, _UNKNOWN))
    elif known.pid == _UNKNOWN and pid != _UNKNOWN:
        table.replace(known._replace(pid=pid))
