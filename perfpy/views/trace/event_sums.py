"""Page faults (-F) and run times (--sched) of threads, for the tables of -s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import PerfType
from perfpy.tracing.events import RawWords, int_column, slices_of
from perfpy.views.trace.other_events import fault_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.tracing.totals import Totals

RUN_TIME: Final = "sched:sched_stat_runtime"
_PID, _RUN_TIME = "pid", "runtime"


class EventSums:
    """Adds samples of faults and run times to the sums.

    Args:
        events: of the source.
        tracing: the formats of its tracepoints.
        totals: the sums.
    """

    def __init__(self, events: Sequence[FileEvent], tracing: Tracing | None, totals: Totals) -> None:
        self._totals = totals
        self._endian = tracing.endian if tracing is not None else "<"
        self._faults = {event.index: name for event in events if (name := fault_name(event))}
        self._times: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
        for event in events if tracing is not None else ():
            if event.name == RUN_TIME and event.attr.type == PerfType.TRACEPOINT:
                form = tracing.formats[event.attr.config]  # type: ignore[union-attr]
                pid, took = form.field(_PID), form.field(_RUN_TIME)
                if pid is not None and took is not None:
                    self._times[event.index] = (pid.offset, pid.size), (took.offset, took.size)

    def add(self, batch: Batch) -> None:
        """Add the samples of a batch."""
        for index, name in self._faults.items():
            rows = rows_where(batch.event == index)
            self._totals.add_faults(name, int_column(batch.columns, "tid")[rows])
        for index, (pid, took) in self._times.items():
            rows = rows_where(batch.event == index)
            if len(rows) and "raw" in batch.columns:
                words = RawWords(slices_of(batch.columns["raw"]).take(rows), self._endian)
                self._totals.add_run_times(words.numbers(*pid), words.numbers(*took))
