"""Run time and idle time of threads: the summary of `sched timehist`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.sched.narrowing import rows_of
from perfpy.analysis.sched.threads import Mention, known_threads
from perfpy.analysis.sched.timehist import IDLE
from perfpy.scheduling.run_queue import thread_order
from perfpy.symbols.interning import first_rows, number_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import History, Switches, TaskColumn
    from perfpy.perfdata.sample_source import SampleSource


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


class ThreadSummary(NamedTuple):
    """The row of one thread.

    Attributes:
        tid, pid, parent: numbers; -1: unknown.
        comm: index of its name.
        times: of its runs.
        migrations: their number.
    """

    tid: int
    pid: int
    parent: int
    comm: int
    times: ThreadRunTimes
    migrations: int


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


def run_times(group: NDArray[np.int64], values: NDArray[np.int64]) -> dict[int, ThreadRunTimes]:
    """Return the statistics of each group's values."""
    if not len(group):
        return {}
    groups, numbers = number_values(group)
    order = thread_order(numbers, np.arange(len(numbers)))
    numbers, values = numbers[order], values[order]
    first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    counts = np.diff(np.append(first, len(numbers)))
    totals = np.add.reduceat(values, first)
    means = totals / counts
    squares = np.add.reduceat((values - np.repeat(means, counts)) ** 2, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(np.where(counts > 1, squares / (counts - 1) / counts, 0.0))
        deviations = np.where(means > 0, 100 * errors / means, 0.0)
    columns = (counts, totals, np.minimum.reduceat(values, first), np.maximum.reduceat(values, first), deviations)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {key: ThreadRunTimes(*row) for key, row in zip(groups.tolist(), rows, strict=True)}


def make_summary(
    history: History,
    shown: NDArray[np.bool_],
    source: SampleSource,
    *,
    cpus: int,
    with_migrations: bool,
    idle_only: bool = False,
) -> Summary:
    """Return the summary of switches.

    Args:
        history: of the recording.
        shown: mask of the switches that count.
        source: of the recording.
        cpus: the number of CPUs.
        with_migrations: whether to count migrations.
        idle_only: count the idle time after each thread instead of its run time (-I).
    """
    switches = history.switches
    is_idle = switches.task.tid == IDLE
    task = switches.task
    before = switches.times.last_on_cpu
    if idle_only:
        after = np.flatnonzero(shown & is_idle & (before >= 0))
        times = run_times(task.thread[before[after]], switches.times.ran[after])
    else:
        times = run_times(task.thread[shown & ~is_idle], switches.times.ran[shown & ~is_idle])
    idle = run_times(switches.cpu[shown & is_idle], switches.times.ran[shown & is_idle])
    moves = _migrations(history) if with_migrations else {}
    comm_of = _last_comms(task)
    rows = [
        ThreadSummary(one.tid, one.pid, one.parent, comm_of[one.thread], times[one.thread], moves.get(one.thread, 0))
        for one in known_threads(source, _mentions(history))
        if one.thread in times
    ]
    span = int(switches.time[-1] - switches.time[0]) if len(switches.time) else 0
    return Summary(rows, idle, span, cpus)


def idle_chains(switches: Switches, shown: NDArray[np.bool_], texts_of: Callable[[Switches], list[bytes]]) -> dict[int, list[IdleChain]]:
    """Return the callchains after which each CPU was idle, longest time first.

    Args:
        switches: of the recording.
        shown: mask of the switches that count.
        texts_of: returns the callchains of switches as text; empty ones are left out.
    """
    ends = np.flatnonzero(shown & (switches.task.tid == IDLE) & (switches.times.last_on_cpu >= 0))
    before = rows_of(switches, switches.times.last_on_cpu[ends])
    chains_of: dict[int, dict[bytes, IdleChain]] = {}
    for cpu, time, text in zip(switches.cpu[ends].tolist(), switches.times.ran[ends].tolist(), texts_of(before), strict=True):
        if text := text.strip():
            chains = chains_of.setdefault(cpu, {})
            known = chains.get(text, IdleChain(text, 0, 0))
            chains[text] = IdleChain(text, known.time + time, known.times + 1)
    # Of equal times perf prints the chain first that came last.
    latest_first = {cpu: list(chains.values())[::-1] for cpu, chains in chains_of.items()}
    return {cpu: sorted(chains, key=lambda chain: -chain.time) for cpu, chains in latest_first.items()}


def _last_comms(task: TaskColumn) -> dict[int, int]:
    """Return the last name of each thread, as an index."""
    threads, numbers = number_values(task.thread)
    comms = np.zeros(len(threads), np.int64)
    comms[numbers] = task.comm  # the last write counts
    return dict(zip(threads.tolist(), comms.tolist(), strict=True))


def _migrations(history: History) -> Mapping[int, int]:
    """Return the number of migrations of each thread."""
    moved, numbers = number_values(history.migrations.task.thread)
    return dict(zip(moved.tolist(), np.bincount(numbers, minlength=len(moved)).tolist(), strict=True))


def _mentions(history: History) -> Mention:
    """Return the first mention of each thread."""
    switches, wakeups = history.switches, history.wakeups
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
