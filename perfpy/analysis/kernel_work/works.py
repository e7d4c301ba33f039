"""Run times and delays of each piece of kernel work.

A run reaches from an ENTRY to the EXIT that follows it, a delay from a RAISE to the ENTRY that follows it, both of the same work on the
same CPU. Events without such a counterpart are skipped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.kernel_work.events import ENTRY, EXIT, RAISE
from perfpy.scheduling.event_pairs import pair_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.kernel_work.events import WorkEvents

    Int64 = NDArray[np.int64]


class WorkIntervals(NamedTuple):
    """Times between two phases of the same work.

    Attributes:
        begin, end: int64[n], indexes of events, by their begin.
        skipped: the events of each phase without counterpart: raise, entry, exit.
    """

    begin: Int64
    end: Int64
    skipped: tuple[int, int, int]


class WorkRow(NamedTuple):
    """The runs or delays of one piece of work on one CPU. Times are nanoseconds.

    Attributes:
        event: the index of its first event.
        kind, cpu, number: see WorkEvents.
        intervals: their number.
        total: of all durations.
        longest, begin, end: the first one of the longest duration.
    """

    event: int
    kind: int
    cpu: int
    number: int
    intervals: int
    total: int
    longest: int
    begin: int
    end: int

    @property
    def average(self) -> int:
        """The average duration, rounded down."""
        return self.total // self.intervals


#: sort keys, by perf's names
SORT_KEYS: Final[dict[str, Callable[[WorkRow], int]]] = {
    "runtime": lambda row: row.total,
    "avg": lambda row: row.average,
    "max": lambda row: row.longest,
    "count": lambda row: row.intervals,
}


class WorkTotals(NamedTuple):
    """The sums of a report: the number of runs, and nanoseconds."""

    intervals: int
    runtime: int
    span: int


def find_intervals(events: WorkEvents, work: Int64, first: int, last: int) -> WorkIntervals:
    """Return the intervals from one phase to another.

    Args:
        events: of a recording.
        work: numbers of their work, see WorkEvents.work_numbers.
        first, last: RAISE and ENTRY, or ENTRY and EXIT.
    """
    begins, ends = np.flatnonzero(events.phase == first), np.flatnonzero(events.phase == last)
    pairs = pair_events(work[begins], begins, work[ends], ends)
    order = np.argsort(begins[pairs.begin], kind="stable")
    skipped = [0, 0, 0]
    skipped[first], skipped[last] = len(begins) - len(order), len(ends) - len(order)
    return WorkIntervals(begins[pairs.begin][order], ends[pairs.end][order], (skipped[0], skipped[1], skipped[2]))


def make_rows(events: WorkEvents, work: Int64, intervals: WorkIntervals) -> list[WorkRow]:
    """Return a row for each piece of work with intervals: by kind, then the highest CPU and number first."""
    owner = work[intervals.begin]
    order = np.argsort(owner, kind="stable")
    if not len(order):
        return []
    begins = np.flatnonzero(np.append(True, np.diff(owner[order]) != 0))
    counts = np.diff(np.append(begins, len(order)))
    works, first_events = np.unique(work, return_index=True)
    events_of = first_events[np.searchsorted(works, owner)]
    rows = []
    durations = np.maximum(events.time[intervals.end] - events.time[intervals.begin], 0)
    totals = np.add.reduceat(durations[order], begins)
    for start, count, total in zip(begins.tolist(), counts.tolist(), totals.tolist(), strict=True):
        own = order[start : start + count]
        longest = own[int(durations[own].argmax())]
        begin, end = int(intervals.begin[longest]), int(intervals.end[longest])
        row = WorkRow(
            event=int(events_of[own[0]]),
            kind=int(events.kind[begin]),
            cpu=int(events.cpu[begin]),
            number=int(events.number[begin]),
            intervals=count,
            total=total,
            longest=int(durations[longest]),
            begin=int(events.time[begin]),
            end=int(events.time[end]),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.kind, -row.cpu, -row.number))


def sorted_rows(rows: Iterable[WorkRow], keys: Sequence[str]) -> list[WorkRow]:
    """Return the rows, highest values first; equal rows keep their order."""
    return sorted(rows, key=lambda row: [-SORT_KEYS[key](row) for key in keys])


def total_of(rows: Iterable[WorkRow], events: WorkEvents) -> WorkTotals:
    """Return the sums of all rows. events: of the report, from the first to the last."""
    listed = list(rows)
    span = int(events.time[-1]) - int(events.time[0]) if len(events.time) else 0
    return WorkTotals(sum(row.intervals for row in listed), sum(row.total for row in listed), max(span, 0))


class WorkHistory(NamedTuple):
    """Each run of each piece of work, by its end.

    Attributes:
        begin, end: int64[n], indexes of events.
        delay: int64[n], nanoseconds from the RAISE to the begin; -1 without one.
    """

    begin: Int64
    end: Int64
    delay: Int64


def make_history(events: WorkEvents, work: Int64) -> WorkHistory:
    """Return all runs with their delays."""
    runs = find_intervals(events, work, ENTRY, EXIT)
    waits = find_intervals(events, work, RAISE, ENTRY)
    delay_of = np.full(len(work), -1, np.int64)
    delay_of[waits.end] = np.maximum(events.time[waits.end] - events.time[waits.begin], 0)
    order = np.argsort(runs.end, kind="stable")
    begin = runs.begin[order]
    return WorkHistory(begin, runs.end[order], delay_of[begin])
