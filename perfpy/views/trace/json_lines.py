"""System calls as JSON, one object for each return, and one for each call of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls.errors import error_name
from perfpy.tracing.events import EXIT
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error
from perfpy.views.script.pieces import Flat
from perfpy.views.trace.call_tables import call_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.tracing.totals import Totals
    from perfpy.views.trace.call_text import CallTexts
    from perfpy.views.trace.lines import LineOptions

_MILLISECOND = 1_000_000


class JsonCalls:
    """The objects of a stream of events, batch after batch. They have the times in nanoseconds, and numbers as the kernel has them.

    Args:
        options: which calls.
        calls: the texts of calls.
        names: the comms of threads.
    """

    def __init__(self, options: LineOptions, calls: CallTexts, names: ThreadNames) -> None:
        self._options = options
        self._calls = calls
        self._names = names

    def lines(self, paired: PairedEvents) -> Flat:
        """Return an object for each return of a batch."""
        events = paired.events
        rows = rows_where(events.kind == EXIT)
        entry = paired.entry[rows]
        failed = is_error(events.result[rows])
        took = np.where(entry == NO_ROW, -1, events.time[rows] - events.time[entry])
        chosen = np.ones(len(rows), np.bool_)
        if self._options.failures_only:
            chosen &= failed
        if self._options.longer_than:
            chosen &= took > self._options.longer_than * _MILLISECOND
        rows, entry, failed, took = rows[chosen], entry[chosen], failed[chosen], took[chosen]
        comms = self._names.comm_ids(events.tid[rows], events.key[rows]).tolist()
        known = rows_where(entry != NO_ROW)
        texts: list[str | None] = [None] * len(rows)
        for index, text in zip(known.tolist(), self._calls.texts(events, entry[known], self._names), strict=True):
            texts[index] = text
        columns = (events.time, events.pid, events.tid, events.cpu, events.number, events.result)
        lines = []
        for index, (time, pid, tid, cpu, number, result) in enumerate(zip(*(column[rows].tolist() for column in columns), strict=True)):
            has_entry = texts[index] is not None
            value: dict[str, Any] = {
                "time": time - took[index].item() if has_entry else None,
                "duration": took[index].item() if has_entry else None,
                "pid": pid,
                "tid": tid,
                "comm": self._names.comms[comms[index]],
                "cpu": cpu,
                "call": self._calls.name(number),
                "arguments": self._arguments(paired, int(entry[index])) if has_entry else None,
                "text": texts[index],
                "result": result,
                "error": error_name(-result).name if failed[index] else None,
            }
            lines.append(json.dumps(value).encode() + b"\n")
        return Flat(lines, 1)

    def rest(self) -> Flat:
        """Return the objects that were kept for the end: none."""
        return Flat([], 1)

    def _arguments(self, paired: PairedEvents, row: int) -> dict[str, Any]:
        """Return name -> number of each argument, or its string."""
        strings = self._calls.strings.get(row, {})
        values = paired.events.arguments[row].tolist()
        names = self._calls.argument_names(int(paired.events.number[row]))
        return {name: strings.get(index, values[index]) for index, name in enumerate(names)}


def json_summary(totals: Totals, name_of: Callable[[int], str], comm_of: Callable[[int], str], *, of_all: bool) -> Iterator[str]:
    """Yield an object for each call of each thread, or of all."""
    wall = max(totals.last_time - totals.first_time, 1)
    if of_all:
        for call in totals.of_all():
            yield json.dumps({"call": name_of(call.number), **call_values(call, wall)})
        return
    for tid, calls in totals.by_thread().items():
        for call in calls:
            yield json.dumps({"tid": tid, "comm": comm_of(tid), "call": name_of(call.number), **call_values(call, wall)})
