"""Collect the calls of a stream for a picture of lanes, in place of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.tracing.events import EXIT
from perfpy.tracing.lanes import LaneCalls
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error
from perfpy.views.trace.known_lines import KnownLines, LineKeys
from perfpy.views.trace.lines import NO_LINES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.lanes import Lanes
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.views.script.pieces import Flat
    from perfpy.views.trace.call_text import CallTexts
    from perfpy.views.trace.lines import LineOptions

_MILLISECOND = 1_000_000
_UNFINISHED = b" ...\n"


class LaneLines:
    """Adds the calls of batches to lanes.

    Args:
        lanes: the lanes.
        options: which calls.
        calls: the texts of calls.
        names: the comms of threads.
    """

    def __init__(self, lanes: Lanes, options: LineOptions, calls: CallTexts, names: ThreadNames) -> None:
        self._lanes, self._options, self._calls, self._names = lanes, options, calls, names
        self._keys, self._known = LineKeys(), KnownLines()
        self._open: dict[tuple[int, int], tuple[int, int, bytes]] = {}  # (tid, time) -> lane, number, text
        self._last = 0

    def lines(self, paired: PairedEvents) -> Flat:
        """Take the calls of a batch; return no lines."""
        events = paired.events
        if not events.size:
            return NO_LINES
        self._last = max(self._last, int(events.time[-1]))
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        entry = paired.entry[rows]
        took, failed = events.time[rows] - events.time[entry], is_error(events.result[rows])
        chosen = took > self._options.longer_than * _MILLISECOND if self._options.longer_than else np.ones(len(rows), np.bool_)
        if self._options.failures_only:
            chosen &= failed
        rows, entry, took, failed = rows[chosen], entry[chosen], took[chosen], failed[chosen]
        texts = np.array([self._lanes.text(text) for text in self._texts(paired, rows, entry).tolist()], np.int64)
        lanes = self._lanes_of(events, rows)
        self._lanes.add(LaneCalls(events.time[entry], took, lanes, events.number[rows], failed, texts))
        self._follow_open(paired)
        return NO_LINES

    def rest(self) -> Flat:
        """Add the calls that have not returned, up to the last event; return no lines."""
        if self._options.longer_than or self._options.failures_only:
            return NO_LINES
        for (_, time), (lane, number, text) in sorted(self._open.items(), key=lambda item: item[0][1]):
            begin, took, lanes, numbers, texts = (
                np.array([value], np.int64) for value in (time, self._last - time, lane, number, self._lanes.text(text))
            )
            self._lanes.add(LaneCalls(begin, took, lanes, numbers, np.zeros(1, np.bool_), texts))
        self._open.clear()
        return NO_LINES

    def _texts(self, paired: PairedEvents, rows: NDArray[np.int64], entry: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return CALL(ARGUMENTS) = RESULT of returns."""
        events = paired.events

        def make(chosen: NDArray[np.intp]) -> list[str]:
            calls = self._calls.texts(events, entry[chosen], self._names)
            results = self._calls.results(paired, rows[chosen], self._names)
            return [f"{call} = {result}" for call, result in zip(calls, results, strict=True)]

        numbers, varies = self._calls.key_numbers(events, entry)
        varies |= self._calls.vary_results(events, rows, entry)
        return self._known.texts(self._keys.keys([*numbers, events.result[rows].view(np.uint64)]), varies, make)

    def _lanes_of(self, events: CallEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        tids, last = np.unique(events.tid[rows][::-1], return_index=True)
        rows_of = rows[::-1][last]
        comms = self._names.comm_ids(tids, events.key[rows_of]).tolist()
        pids = events.pid[rows_of].tolist()
        lanes = [self._lanes.lane(pid, tid, self._names.comms[comm]) for pid, tid, comm in zip(pids, tids.tolist(), comms, strict=True)]
        return np.array(lanes, np.int64)[np.searchsorted(tids, events.tid[rows])] if lanes else np.zeros(0, np.int64)

    def _follow_open(self, paired: PairedEvents) -> None:
        """Keep the calls that have not returned."""
        events = paired.events
        rows = np.array(sorted(paired.open_rows), np.int64)
        before, self._open = self._open, {}
        keys = list(zip(events.tid[rows].tolist(), events.time[rows].tolist(), strict=True))
        new = [index for index, key in enumerate(keys) if key not in before]
        new_rows = rows[new]
        texts = self._calls.texts(events, new_rows, self._names)
        lanes = self._lanes_of(events, new_rows)
        for index, lane, row, text in zip(new, lanes.tolist(), new_rows.tolist(), texts, strict=True):
            before[keys[index]] = lane, int(events.number[row]), text.encode("utf-8", "surrogateescape") + _UNFINISHED
        self._open = {key: before[key] for key in keys}
