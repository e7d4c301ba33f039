"""Pair entries and returns of system calls by thread, batch after batch.

An entry is *interrupted* if the next entry of any thread, or a sample of another event, comes before its return: perf trace then prints
it at once, and the rest of the line at its return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import are_among, distinct, rows_where
from perfpy.tracing.events import ENTER, EXIT, OTHER, CallEvents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

NO_ROW = -1


class PairedEvents(NamedTuple):
    """Events of a batch, after the entries of earlier batches that had not returned.

    Attributes:
        events: the entries of earlier batches (row -1), then the batch's events.
        carried: the number of entries of earlier batches.
        entry: int64[n]; of a return the row of its entry, -1 without.
        interrupter: int64[n]; of an interrupted entry the row before which it is printed, -1 without.
        was_interrupted: bool[n]; of an entry whether it was printed before or in this batch because of an interruption.
        open_rows: the rows of entries that have not returned.
    """

    events: CallEvents
    carried: int
    entry: NDArray[np.int64]
    interrupter: NDArray[np.int64]
    was_interrupted: NDArray[np.bool_]
    open_rows: frozenset[int]


class OpenCalls(NamedTuple):
    """The entries that had not returned at the end of a part of a stream of events.

    Attributes:
        events: the entries.
        was_interrupted: bool[n], whether they were printed already.
        current: the index of the last entry of all; -1 if it has returned, or the part has none.
        tids: int32[m], the threads with entries or returns in the part.
        has_entries: whether the part has entries.
    """

    events: CallEvents
    was_interrupted: NDArray[np.bool_]
    current: int
    tids: NDArray[np.int32]
    has_entries: bool


class Pairing:
    """The pairing of one stream of events.

    Args:
        ending: numbers of calls that do not return (exit, exit_group), which are not paired.
        wants_interruptions: find the interrupted entries.
    """

    def __init__(self, ending: NDArray[np.int64], *, wants_interruptions: bool = True) -> None:
        self._ending = ending.tolist()
        self._wants_interruptions = wants_interruptions
        self._open: CallEvents | None = None
        self._open_interrupted = np.zeros(0, np.bool_)
        self._current = NO_ROW  # the row in _open of the last entry of all

    def pair(self, batch: CallEvents) -> PairedEvents:
        """Return the events of a batch with their partners; keep the entries that have not returned."""
        events, carried = batch, 0
        if self._open is not None:
            carried = self._open.size
            events = CallEvents.concat([self._open, batch])
        entry, returned_by = self._partners(events)
        if self._wants_interruptions:
            interrupter = self._interrupters(events, carried, returned_by)
        else:
            interrupter = np.full(events.size, NO_ROW, np.int64)
        was_interrupted = interrupter != NO_ROW
        was_interrupted[:carried] |= self._open_interrupted
        open_rows = self._keep(events, returned_by, was_interrupted, carried)
        return PairedEvents(events, carried, entry, interrupter, was_interrupted, open_rows)

    def open_calls(self, batch: CallEvents) -> OpenCalls:
        """Return the entries that had not returned after a stream of a single batch."""
        assert self._open is not None
        is_entry = batch.kind == ENTER
        tids = distinct(batch.tid[is_entry | (batch.kind == EXIT)])
        return OpenCalls(self._open, self._open_interrupted, self._current, tids, bool(is_entry.any()))

    def follow(self, part: OpenCalls) -> None:
        """Continue after a part of the stream that another object has paired."""
        if self._open is None:
            self._open, self._open_interrupted, self._current = part.events, part.was_interrupted, part.current
            return
        kept = rows_where(~are_among(self._open.tid, part.tids))
        current = part.current
        if current != NO_ROW:
            current += len(kept)
        elif not part.has_entries:
            same = rows_where(kept == self._current)
            current = int(same[0]) if len(same) else NO_ROW
        self._open = CallEvents.concat([self._open.take(kept), part.events])
        self._open_interrupted = np.concatenate([self._open_interrupted[kept], part.was_interrupted])
        self._current = current

    def forget(self, tids: Iterable[int]) -> None:
        """Drop the entries of threads that ended."""
        if self._open is None:
            return
        kept = rows_where(~np.isin(self._open.tid, list(tids)))
        if len(kept) < self._open.size:
            last = rows_where(kept == self._current)
            self._open, self._open_interrupted = self._open.take(kept), self._open_interrupted[kept]
            self._current = int(last[0]) if len(last) else NO_ROW

    def _end(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which calls do not return."""
        chosen = np.zeros(len(numbers), np.bool_)
        for number in self._ending:
            chosen |= numbers == number
        return chosen

    def _partners(self, events: CallEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return of each return its entry, and of each entry the row of its thread's next entry or return; -1 without."""
        count = events.size
        entry, ended_by = np.full(count, NO_ROW, np.int64), np.full(count, NO_ROW, np.int64)
        rows = rows_where((events.kind == ENTER) | (events.kind == EXIT))
        order = rows[np.argsort(events.tid[rows], kind="stable")]
        tids, kinds = events.tid[order], events.kind[order]
        is_entry = (kinds[:-1] == ENTER) & (tids[:-1] == tids[1:])
        first = rows_where(is_entry)
        before, after = order[first], order[first + 1]
        ended_by[before] = after
        is_pair = kinds[first + 1] == EXIT
        entry[after[is_pair]] = before[is_pair]
        return entry, ended_by

    def _interrupters(self, events: CallEvents, carried: int, ended_by: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of each interrupted entry the row that interrupts it: the next entry or other event."""
        count = events.size
        interrupter = np.full(count, NO_ROW, np.int64)
        rows = rows_where((events.kind[carried:] == ENTER) | (events.kind[carried:] == OTHER)) + carried
        current = self._current if self._current != NO_ROW and not self._open_interrupted[self._current] else NO_ROW
        entries = rows if current == NO_ROW else np.concatenate([[current], rows])
        before, after = entries[:-1], entries[1:]
        end = ended_by[before]
        is_interrupted = (events.kind[before] == ENTER) & ((end == NO_ROW) | (end >= after)) & ~self._end(events.number[before])
        interrupter[before[is_interrupted]] = after[is_interrupted]
        return interrupter

    def _keep(self, events: CallEvents, ended_by: NDArray[np.int64], was_interrupted: NDArray[np.bool_], carried: int) -> frozenset[int]:
        """Keep the entries without a return for the next batch; return their rows."""
        is_open = (events.kind == ENTER) & (ended_by == NO_ROW) & ~self._end(events.number)
        rows = rows_where(is_open)
        entries = rows_where(events.kind[carried:] == ENTER) + carried
        last = int(entries[-1]) if len(entries) else NO_ROW
        if last == NO_ROW and self._current != NO_ROW:
            last = self._current
        self._open = events.take(rows)._replace(row=np.full(len(rows), NO_ROW, np.int64))
        self._open_interrupted = was_interrupted[rows]
        position = np.searchsorted(rows, last) if len(rows) else 0
        is_kept = last != NO_ROW and position < len(rows) and rows[position] == last
        self._current = int(position) if is_kept else NO_ROW
        return frozenset(rows.tolist())
