"""The summary of `sched timehist`: sums over the runs and waits of each thread, window by window, and the threads in perf's order."""

from __future__ import annotations

from collections import Counter

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.symbols.interning import first_rows, number_values
from perfpy.tools.sched.switches import IDLE, STATE_BITS, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.tools.sched.switches import History, Switches


_UNINTERRUPTIBLE: Final = 2  # TASK_UNINTERRUPTIBLE
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

    perf keeps threads in eight hash tables, by tid modulo 8, and prints summaries in the order of these tables. A table has a power of two
    of buckets, at least four, and doubles before it is more than three quarters full; new entries come first in their bucket. Fork and
    exit records remove a thread, so that its number may return as another one. This order is perf 6.12's, learnt from its summaries.

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
    for kind, key, _, pid, tid, parent_pid, parent in zip(*(column.tolist() for column in records), strict=True):
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


class ThreadRunTimes(NamedTuple):
    """Statistics of the times that a thread ran, in nanoseconds.

    Attributes:
        runs: the number of times.
        total, shortest, longest: of all times.
        deviation: the relative standard error of their mean, in percent.
    """

    runs: int
    total: int
    shortest: int
    longest: int
    deviation: float

    @property
    def average(self) -> float:
        """The mean."""
        return self.total / self.runs if self.runs else 0.0


class ThreadWaits(NamedTuple):
    """The times that a thread was off the CPU before its runs, in nanoseconds.

    Attributes:
        sleep, blocked, preempted: by its state: asleep, in uninterruptible sleep ("iowait"), ready to run.
        delay: from readiness until the CPU.
    """

    sleep: int = 0
    blocked: int = 0
    preempted: int = 0
    delay: int = 0


class ThreadSummary(NamedTuple):
    """The row of one thread.

    Attributes:
        tid, pid, parent: numbers; -1: unknown.
        comm: index of its name.
        times: of its runs.
        migrations: their number.
        waits: between its runs.
    """

    tid: int
    pid: int
    parent: int
    comm: int
    times: ThreadRunTimes
    migrations: int
    waits: ThreadWaits


class IdleChain(NamedTuple):
    """The idle time of a CPU after one callchain of the thread that left.

    Attributes:
        text: of the callchain.
        time: nanoseconds.
        times: how often.
    """

    text: bytes
    time: int
    times: int


class Summary(NamedTuple):
    """The summary of a recording.

    Attributes:
        threads: in perf's order.
        idle: the idle times of each CPU that was idle.
        span: from the first switch to the last one, nanoseconds.
        cpus: the number of CPUs.
        idle_chains: for each CPU the callchains after which it was idle; None if they are not shown.
    """

    threads: list[ThreadSummary]
    idle: dict[int, ThreadRunTimes]
    span: int
    cpus: int
    idle_chains: Mapping[int, Sequence[IdleChain]] | None = None


class _RunTimeSums(NamedTuple):
    """Sums over the values of groups in one window: arrays of one length.

    Attributes:
        group: distinct.
        runs, total, shortest, longest: of the values.
        squares: the sum of the squared deviations from the mean.
    """

    group: NDArray[np.int64]
    runs: NDArray[np.int64]
    total: NDArray[np.int64]
    shortest: NDArray[np.int64]
    longest: NDArray[np.int64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, groups: NDArray[np.int64], numbers: NDArray[np.integer[Any]], values: NDArray[np.int64]) -> _RunTimeSums:
        """Return the sums of each group's values. numbers: the index of each value's group."""
        total, longest = np.zeros((2, len(groups)), np.int64)
        shortest = np.full(len(groups), np.iinfo(np.int64).max)
        runs = np.bincount(numbers, minlength=len(groups))
        np.add.at(total, numbers, values)
        np.minimum.at(shortest, numbers, values)
        np.maximum.at(longest, numbers, values)
        apart = values - (total / runs).take(numbers)
        squares: NDArray[Any] = np.bincount(numbers, apart * apart, len(groups))
        return cls(groups, runs, total, shortest, longest, squares)

    @classmethod
    def statistics(cls, parts: list[_RunTimeSums]) -> dict[int, ThreadRunTimes]:
        """Return the statistics of each group over all windows."""
        group, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(group, kind="stable")
        group, (runs, total, shortest, longest, squares) = group[order], (column[order] for column in columns)
        first = _begins(group)
        if not len(first):
            return {}
        counts, totals = np.add.reduceat(runs, first), np.add.reduceat(total, first)
        means = totals / counts
        apart = total / runs - np.repeat(means, np.diff(first, append=len(group)))
        squares = np.add.reduceat(squares + runs * apart**2, first)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.sqrt(np.where(counts > 1, squares / (counts - 1) / counts, 0.0))
            deviations = np.where(means > 0, 100 * errors / means, 0.0)
        statistics = (counts, totals, np.minimum.reduceat(shortest, first), np.maximum.reduceat(longest, first), deviations)
        rows = zip(*(column.tolist() for column in statistics), strict=True)
        return {key: ThreadRunTimes(*row) for key, row in zip(group[first].tolist(), rows, strict=True)}


def _begins(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the first row of each group of equal values that follow each other."""
    begins = np.ones(len(groups), bool)
    begins[1:] = groups[1:] != groups[:-1]
    return rows_where(begins)


class SummarySums:
    """The summary of a recording, added up window by window.

    Args:
        with_migrations: whether to count migrations.
        idle_only: count the idle time after each thread instead of its run time (-I).
    """

    def __init__(self, *, with_migrations: bool, idle_only: bool = False) -> None:
        self._with_migrations, self._idle_only = with_migrations, idle_only
        none = np.zeros(0, np.int64)
        self._times, self._idle = [_RunTimeSums.of(none, none, none)], [_RunTimeSums.of(none, none, none)]
        self._waits: dict[int, list[int]] = {}  # by thread: the fields of ThreadWaits
        self._moves: Counter[int] = Counter()
        self._comms: dict[int, int] = {}  # the name of each thread at its last switch
        self._mentions: list[Mention] = []
        self._first_time: int | None = None
        self._last_time = 0
        self._chains: dict[int, dict[bytes, IdleChain]] = {}

    def add(self, history: History, shown: NDArray[np.bool_]) -> None:
        """Add a window. shown: mask of the switches that count."""
        switches = history.switches
        if history.kept == len(switches.time) and not len(history.wakeups.time):
            return
        is_idle = switches.task.tid == IDLE
        task, before, ran = switches.task, switches.times.last_on_cpu, switches.times.ran
        ends = rows_where(shown & is_idle)
        if self._idle_only:
            after = ends[before[ends] >= 0]
            self._times.append(_RunTimeSums.of(*number_values(task.thread[before[after]]), ran[after]))
        else:
            rows = rows_where(shown & ~is_idle)
            threads, numbers = number_values(task.thread[rows])
            self._times.append(_RunTimeSums.of(threads, numbers, ran[rows]))
            self._add_waits(switches, rows, threads, numbers)
        self._idle.append(_RunTimeSums.of(*number_values(switches.cpu[ends]), ran[ends]))
        if self._with_migrations:
            self._moves.update(_counts(history.migrations.task.thread))
        threads, numbers = number_values(task.thread[history.kept :])
        comms = np.zeros(len(threads), np.int64)
        comms[numbers] = task.comm[history.kept :]  # the last write counts
        self._comms.update(zip(threads.tolist(), comms.tolist(), strict=True))
        self._mentions.append(_mentions(history))
        if history.kept < len(switches.time):
            self._first_time = int(switches.time[history.kept]) if self._first_time is None else self._first_time
            self._last_time = int(switches.time[-1])

    def add_idle_chains(self, switches: Switches, shown: NDArray[np.bool_], texts_of: Callable[[Switches], list[bytes]]) -> None:
        """Add the callchains after which each CPU was idle.

        Args:
            switches: of a window.
            shown: mask of the switches that count.
            texts_of: returns the callchains of switches as text; empty ones are left out.
        """
        ends = rows_where(shown & (switches.task.tid == IDLE) & (switches.times.last_on_cpu >= 0))
        before = rows_of(switches, switches.times.last_on_cpu[ends])
        for cpu, time, text in zip(switches.cpu[ends].tolist(), switches.times.ran[ends].tolist(), texts_of(before), strict=True):
            if text := text.strip():
                chains = self._chains.setdefault(cpu, {})
                known = chains.get(text, IdleChain(text, 0, 0))
                chains[text] = IdleChain(text, known.time + time, known.times + 1)

    def idle_chains(self) -> dict[int, list[IdleChain]]:
        """Return the callchains after which each CPU was idle, longest time first."""
        # Of equal times perf prints the chain first that came last.
        latest_first = {cpu: list(chains.values())[::-1] for cpu, chains in self._chains.items()}
        return {cpu: sorted(chains, key=lambda chain: -chain.time) for cpu, chains in latest_first.items()}

    def summary(self, source: SampleSource, last_comms: Callable[[NDArray[np.int64]], NDArray[np.int64]], *, cpus: int) -> Summary:
        """Return the summary.

        Args:
            source: of the recording.
            last_comms: returns the names that threads have in the end, -1 for threads that no record names.
            cpus: the number of CPUs.
        """
        times, idle = _RunTimeSums.statistics(self._times), _RunTimeSums.statistics(self._idle)
        threads = []
        known = [one for one in known_threads(source, _first_mentions(self._mentions)) if one.thread in times]
        comms = last_comms(np.array([one.tid for one in known], np.int64)).tolist()
        for one, comm in zip(known, comms, strict=True):
            waits = ThreadWaits(*self._waits.get(one.thread, ()))
            name = comm if comm >= 0 else self._comms[one.thread]
            threads.append(ThreadSummary(one.tid, one.pid, one.parent, name, times[one.thread], self._moves[one.thread], waits))
        return Summary(threads, idle, self._last_time - (self._first_time or 0), cpus)

    def _add_waits(self, switches: Switches, rows: NDArray[np.intp], threads: NDArray[np.int64], numbers: NDArray[np.integer[Any]]) -> None:
        """Add the waits before some runs.

        Args:
            rows: the switches that end the runs.
            threads: the threads that ran.
            numbers: the index of each run's thread.
        """
        before = switches.times.last_of_thread[rows]
        state = np.where(before >= 0, switches.state[before], 0) & STATE_BITS
        column = np.where(state == 0, 2, (state & -state) == _UNINTERRUPTIBLE)  # the fields of ThreadWaits
        totals = np.zeros((len(threads), len(ThreadWaits._fields)), np.int64)
        first_fields = len(ThreadWaits._fields) * numbers.astype(np.int64)
        np.add.at(totals.reshape(-1), first_fields + column, switches.times.waited[rows])
        np.add.at(totals.reshape(-1), first_fields + 3, switches.times.delay[rows])
        for thread, row in zip(threads.tolist(), totals.tolist(), strict=True):
            known = self._waits.get(thread)
            self._waits[thread] = row if known is None else [a + b for a, b in zip(known, row, strict=True)]


def _counts(values: NDArray[np.int64]) -> dict[int, int]:
    """Return how often each value occurs."""
    distinct_values, numbers = number_values(values)
    counts = np.bincount(numbers, minlength=len(distinct_values))
    return dict(zip(distinct_values.tolist(), counts.tolist(), strict=True))


def _mentions(history: History) -> Mention:
    """Return the first mention of each thread in a window."""
    switches, wakeups = rows_of(history.switches, slice(history.kept, None)), history.wakeups
    in_switches = first_rows(switches.task.thread)
    in_switches = in_switches[switches.task.tid[in_switches] != IDLE]
    in_wakeups = first_rows(wakeups.task.thread)
    tasks = switches.task.take(in_switches), wakeups.task.take(in_wakeups)
    thread, tid, pid = (np.concatenate([column[i] for column in tasks]) for i in range(3))
    key = np.concatenate([switches.key[in_switches], wakeups.key[in_wakeups]])
    order = np.concatenate([switches.order[in_switches], wakeups.order[in_wakeups]])
    by_order = np.argsort(order, kind="stable")
    first = by_order[first_rows(thread[by_order])]
    return Mention(thread[first], tid[first], pid[first], key[first], order[first])


def _first_mentions(windows: list[Mention]) -> Mention:
    """Return the first mention of each thread."""
    if not windows:
        none = np.zeros(0, np.int64)
        return Mention(none, none, none, none.view(np.uint64), none)
    thread, tid, pid, key, _ = (np.concatenate(column) for column in zip(*windows, strict=True))
    first = first_rows(thread)
    return Mention(thread[first], tid[first], pid[first], key[first], np.arange(len(first)))
