"""System calls as events, for tests of perfpy.tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.tools.trace.calls import ENTER, EXIT, MOST_ARGUMENTS, OTHER, CallEvents

if TYPE_CHECKING:
    from collections.abc import Sequence


class CallEventList:
    """Events in order of time, a microsecond apart."""

    def __init__(self, time: int = 1_000_000) -> None:
        self._rows: list[tuple[int, int, int, int, Sequence[int], int]] = []
        self._time = time

    def enter(self, tid: int, number: int, *arguments: int, after: int = 1000) -> CallEventList:
        """A thread enters a call, some nanoseconds after the event before."""
        return self._add(ENTER, tid, number, arguments, 0, after)

    def exit(self, tid: int, number: int, result: int = 0, after: int = 1000) -> CallEventList:
        """The call returns."""
        return self._add(EXIT, tid, number, (), result, after)

    def call(self, tid: int, number: int, *arguments: int, result: int = 0) -> CallEventList:
        """A thread enters a call, which returns after a microsecond."""
        return self.enter(tid, number, *arguments).exit(tid, number, result)

    def other(self, tid: int) -> CallEventList:
        """A sample of another event."""
        return self._add(OTHER, tid, -1, (), 0, 1000)

    def _add(self, kind: int, tid: int, number: int, arguments: Sequence[int], result: int, after: int) -> CallEventList:
        self._time += after
        self._rows.append((kind, tid, self._time, number, arguments, result))
        return self

    def events(self) -> CallEvents:
        """Return all events, and begin a new batch."""
        rows, self._rows = self._rows, []
        kinds, tids, times, numbers, arguments, results = zip(*rows, strict=True)
        table = np.zeros((len(rows), MOST_ARGUMENTS), np.uint64)
        for row, values in enumerate(arguments):
            table[row, : len(values)] = [value & (1 << 64) - 1 for value in values]
        return CallEvents(
            np.array(kinds, np.uint8),
            np.array(tids, np.int32),
            np.array(tids, np.int32),
            np.zeros(len(rows), np.int32),
            np.array(times, np.int64),
            np.array(times, np.uint64),
            np.array(numbers, np.int64),
            table,
            np.array(results, np.int64),
            np.arange(len(rows)),
        )
