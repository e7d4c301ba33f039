"""The load of a recording as a list of events for each task: what `sched replay` repeats.

A task runs, sleeps and wakes other tasks. Each switch ends a run of the thread that leaves and begins a sleep; a sleep lasts until the
first wakeup of the task, or not at all if nothing woke the task. Every task begins asleep. The rules and counts are perf 6.12's, learnt
from its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.framing import text
from perfpy.abi.task_columns import task_numbers
from perfpy.scheduling.run_queue import thread_order
from perfpy.scheduling.switch_times import previous_of
from perfpy.symbols.interning import first_rows, number_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.sched.events import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource

_IDLE_COMM: Final = b"swapper"
_UNKNOWN: Final = b"<unknown>"  # of a task that first appears as a waker
_COMM_OFFSET: Final = 8  # of the name in a COMM record
_MOST_RECORDS: Final = 1 << 40  # makes their numbers negative: lower than those of samples
# kinds of events
RUN: Final = 0  #: the task runs for `value` nanoseconds
SLEEP: Final = 1  #: the task waits for the wakeup number `value`; -1: it does not wait
WAKE: Final = 2  #: the task ends the sleep that waits for the wakeup number `value`; -1: it ends none


class ReplayTask(NamedTuple):
    """A task of the recording.

    Attributes:
        tid: its number.
        comm: the name at its first mention.
        kinds: uint8[n], of its events.
        values: int64[n], see the kinds.
    """

    tid: int
    comm: bytes
    kinds: NDArray[np.uint8]
    values: NDArray[np.int64]


class ReplayPlan(NamedTuple):
    """The tasks by first mention, and the numbers of their events.

    Attributes:
        tasks: all tasks of the recording.
        runs, sleeps: the numbers of events.
        wakeups: of sleeping tasks.
        targetless: wakeups of tasks that did not sleep.
        repeated: wakeups of tasks that were woken before.
        wakeup_count: the number of sleeps that wait.
    """

    tasks: list[ReplayTask]
    runs: int
    sleeps: int
    wakeups: int
    targetless: int
    repeated: int
    wakeup_count: int


class _Mention(NamedTuple):
    """The first mention of a task: by a sample, or by a fork."""

    key: int
    order: int
    tid: int
    comm: bytes


def make_replay_plan(events: SchedEvents, source: SampleSource) -> ReplayPlan:
    """Return the load of a recording. events: with the names in switches and wakeups."""
    switches, wakeups = events.switches, events.wakeups
    mentions = _mentions(events, source)
    rank = {mention.tid: number for number, mention in enumerate(mentions)}
    prev, waker = (_ranks(tid, rank) for tid in (switches.fields["prev_pid"], wakeups.tid))
    wakee = _ranks(wakeups.fields["pid"], rank)
    before = previous_of(switches.cpu)
    ran = np.where(before >= 0, np.maximum(switches.time - switches.time[before], 0), 0)
    count, woken = len(prev), len(waker)
    task = np.concatenate([np.arange(len(mentions)), prev, prev, waker])
    kind = np.repeat(np.array([SLEEP, RUN, SLEEP, WAKE], np.uint8), [len(mentions), count, count, woken])
    value = np.full(len(task), -1, np.int64)
    value[len(mentions) : len(mentions) + count] = ran
    order = np.concatenate([np.arange(-len(mentions), 0), 2 * switches.order, 2 * switches.order + 1, 2 * wakeups.order])
    rows = thread_order(task, order + len(mentions))
    links = _link(task[rows], kind[rows], order[rows], wakee, 2 * wakeups.order)
    linked = value[rows]
    linked[links.sleep] = np.arange(len(links.sleep))
    value[rows] = linked
    value[len(task) - woken :][links.wakeup] = np.arange(len(links.wakeup))
    return ReplayPlan(
        tasks=_tasks(mentions, task[rows], kind[rows], value[rows]),
        runs=count,
        sleeps=count + len(mentions),
        wakeups=woken - links.targetless - links.repeated,
        targetless=links.targetless,
        repeated=links.repeated,
        wakeup_count=len(links.sleep),
    )


class _Links(NamedTuple):
    """Sleeps, as rows of the sorted events, and the wakeups that end them, as rows of the wakeups."""

    sleep: NDArray[np.int64]
    wakeup: NDArray[np.int64]
    targetless: int
    repeated: int


def _link(
    task: NDArray[np.int64], kind: NDArray[np.uint8], order: NDArray[np.int64], wakee: NDArray[np.int64], woken_at: NDArray[np.int64]
) -> _Links:
    """Return which sleep each wakeup ends: the last event of its target, if that is a sleep that nothing ended yet.

    Args:
        task, kind, order: of the sorted events.
        wakee, woken_at: the targets and the order of the wakeups.
    """
    lowest = int(order.min(initial=0))
    top = max(int(order.max(initial=0)), int(woken_at.max(initial=0))) - lowest + 2
    last = np.searchsorted(task * top + order - lowest, wakee * top + woken_at - lowest) - 1
    has_target = kind[last] == SLEEP if len(last) else np.zeros(0, bool)
    wakeups = np.flatnonzero(has_target)
    first = wakeups[first_rows(last[wakeups])]
    return _Links(last[first], first, len(last) - len(wakeups), len(wakeups) - len(first))


def _tasks(mentions: list[_Mention], task: NDArray[np.int64], kind: NDArray[np.uint8], value: NDArray[np.int64]) -> list[ReplayTask]:
    borders = np.searchsorted(task, np.arange(len(mentions) + 1)).tolist()
    slices = zip(mentions, borders[:-1], borders[1:], strict=True)
    return [ReplayTask(one.tid, one.comm, kind[begin:end], value[begin:end]) for one, begin, end in slices]


def _ranks(tid: NDArray[Any], rank: dict[int, int]) -> NDArray[np.int64]:
    """Return the numbers of tasks by tid."""
    tids, numbers = number_values(tid)
    return np.array([rank[one] for one in tids.tolist()], np.int64)[numbers]


def _mentions(events: SchedEvents, source: SampleSource) -> list[_Mention]:
    """Return the first mention of each task, in order."""
    first: dict[int, _Mention] = {}
    for mention in sorted([*_sample_mentions(events), *_forks(source)]):
        first.setdefault(mention.tid, mention)
    return list(first.values())


def _sample_mentions(events: SchedEvents) -> Iterator[_Mention]:
    """Yield the first mention of each task in each role: it leaves, comes, wakes, is woken."""
    switches, wakeups = events.switches, events.wakeups
    for rows, tid, comm, later in (
        (switches, switches.fields["prev_pid"], switches.fields.get("prev_comm"), 0),
        (switches, switches.fields["next_pid"], switches.fields.get("next_comm"), 1),
        (wakeups, wakeups.tid, None, 0),
        (wakeups, wakeups.fields["pid"], wakeups.fields.get("comm"), 1),
    ):
        for row in first_rows(tid).tolist():
            name = _UNKNOWN if comm is None else bytes(comm[row])
            yield _Mention(int(rows.key[row]), 2 * int(rows.order[row]) + later, int(tid[row]), name)


def _forks(source: SampleSource) -> Iterator[_Mention]:
    """Yield the parent and the child of each fork; the child has the parent's name at that moment."""
    comms: dict[int, bytes] = {0: _IDLE_COMM}
    for number, raw in enumerate(source.side_band({RecordType.FORK, RecordType.COMM}).raw(), -_MOST_RECORDS):
        numbers = task_numbers(raw.type, raw.body, source.endian)
        if numbers is None:
            continue
        if raw.type == RecordType.COMM:
            comms[numbers.tid] = text(raw.body[_COMM_OFFSET:]).encode("utf-8", "surrogateescape")
            continue
        comms.pop(numbers.tid, None)  # the number of an earlier thread
        if numbers.ptid in comms:
            comms[numbers.tid] = comms[numbers.ptid]
        for later, tid in enumerate((numbers.ptid, numbers.tid)):
            yield _Mention(raw.key, 2 * number + later, tid, comms.get(tid, b":%d" % tid))  # records precede samples of the same key
