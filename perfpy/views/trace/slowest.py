"""The slowest calls of a stream, printed at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.tracing.events import EXIT, UNNUMBERED
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error
from perfpy.views.script.pieces import Flat
from perfpy.views.trace.lines import NO_LINES

if TYPE_CHECKING:
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.views.trace.lines import LineOptions, TraceLines


class SlowestCalls:
    """Keeps the lines of the calls that took longest.

    Args:
        lines: makes the lines.
        options: which calls count, and how many are kept.
    """

    def __init__(self, lines: TraceLines, options: LineOptions) -> None:
        self._lines = lines
        self._options = options
        self._kept: list[tuple[int, int, bytes]] = []  # minus the duration, order, line
        self._count = 0

    def lines(self, paired: PairedEvents) -> Flat:
        """Take the calls of a batch; return no lines."""
        events, most = paired.events, self._options.slowest
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        if self._options.failures_only:
            rows = rows[is_error(events.result[rows])]
        took = events.time[rows] - events.time[paired.entry[rows]]
        least = -self._kept[-1][0] if len(self._kept) == most else -1
        if len(rows) > most:
            least = max(least, int(np.partition(took, -most)[-most]) - 1)
        chosen = took > least
        rows, took = rows[chosen], took[chosen]
        kind = np.full(events.size, UNNUMBERED, np.uint8)
        kind[rows] = EXIT
        lines = self._lines.lines(paired._replace(events=events._replace(kind=kind))).lines()
        for duration, line in zip(took.tolist(), lines, strict=True):
            self._count += 1
            self._kept.append((-duration, self._count, line))
        self._kept = sorted(self._kept)[:most]
        return NO_LINES

    def rest(self) -> Flat:
        """Return the lines of the slowest calls, the slowest first."""
        return Flat([line for _, _, line in self._kept], 1)
