"""Samples of other events between the system calls: NAME(FIELD: VALUE, ...) for tracepoints, NAME() for the rest.

As in perf trace, fields that are 0 are omitted, strings stand between quotes, and processes have their comm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged, distinct, rows_where
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.perfdata.tracepoints.field_columns import trace_columns
from perfpy.untrusted.text import one_line
from perfpy.views.trace.arguments.texts import ArgumentRows, Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField
    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.views.trace.stack_text import StackTexts

_FAULTS: Final = {SoftwareId.PAGE_FAULTS_MAJ: "majfault", SoftwareId.PAGE_FAULTS_MIN: "minfault"}
_PROCESS = "pid"  # the end of the names of fields that are processes


def fault_name(event: FileEvent) -> str:
    """Return how perf trace calls a page fault of this event; "" for other events."""
    return _FAULTS.get(event.attr.config, "") if event.attr.type == PerfType.SOFTWARE else ""


class OtherEvents:
    """The texts of samples that are no system calls.

    Args:
        events: of the source.
        tracing: the formats of its tracepoints.
        names: the comms of threads.
        stacks: the texts of page faults; None without.
    """

    def __init__(self, events: Sequence[FileEvent], tracing: Tracing | None, names: ThreadNames, stacks: StackTexts | None = None) -> None:
        self._stacks = stacks
        self._faults = np.array([fault_name(event) != "" for event in events], np.bool_)
        self._events = events
        self._tracing = tracing
        self._names = names
        self._batch: Batch | None = None

    def begin_batch(self, batch: Batch) -> None:
        """Take the samples of the next batch."""
        self._batch = batch

    def are_faults(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which samples are page faults."""
        assert self._batch is not None
        return self._faults[self._batch.event[samples]] if self._stacks is not None else np.zeros(len(samples), np.bool_)

    def texts(self, paired: PairedEvents, rows: NDArray[np.int64]) -> list[str]:
        """Return the text of each row. rows: of samples of other events."""
        assert self._batch is not None
        texts = [""] * len(rows)
        samples = paired.events.row[rows]
        event = self._batch.event[samples]
        for index in distinct(event).tolist():
            chosen = rows_where(event == index)
            of_event = self._of_event(self._events[index], paired, rows[chosen], samples[chosen])
            for position, text in zip(chosen.tolist(), of_event, strict=True):
                texts[position] = text
        return texts

    def _of_event(self, event: FileEvent, paired: PairedEvents, rows: NDArray[np.int64], samples: NDArray[np.int64]) -> Sequence[str]:
        name = fault_name(event)
        if name and self._stacks is not None:
            return self._stacks.faults(samples, name)
        form = self._format(event)
        if form is None or self._batch is None or "raw" not in self._batch.columns:
            return [f"{event.name}()"] * len(rows)
        raw: Ragged = self._batch.columns["raw"].take(samples).gather()
        columns = trace_columns(form, raw, self._tracing.endian if self._tracing else "<")
        parts = [self._field_texts(field, columns[field.name], paired, rows) for field in form.fields]
        if not parts:
            return [f"{event.name}()"] * len(rows)
        return [f"{event.name}({', '.join(filter(None, of_row))})" for of_row in zip(*parts, strict=True)]

    def _format(self, event: FileEvent) -> EventFormat | None:
        if self._tracing is None or event.attr.type != PerfType.TRACEPOINT:
            return None
        try:
            return self._tracing.formats[event.attr.config]
        except (KeyError, ValueError):
            return None

    def _field_texts(self, field: TraceField, column: Any, paired: PairedEvents, rows: NDArray[np.int64]) -> list[str]:
        """Return NAME: VALUE of each row; "" for fields that are 0."""
        if isinstance(column, Ragged):
            return [f"{field.name}: {bytes(value).hex()}" if len(value) else "" for value in column]
        if column.dtype == object:
            return [f'{field.name}: "{one_line(text)}"' for text in column.tolist()]
        if column.ndim > 1:
            return [f"{field.name}: {value}" for value in column.tolist()]
        if field.name.endswith(_PROCESS):
            values = Process().texts_of(column.astype(np.int32), ArgumentRows(paired.events, rows, self._names, None))
        else:
            values = list(map(hex if field.is_pointer else str, column.tolist()))
        return [f"{field.name}: {text}" if value else "" for text, value in zip(values, column.tolist(), strict=True)]
