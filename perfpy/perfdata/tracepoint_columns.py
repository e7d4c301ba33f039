"""All samples of one tracepoint: their columns, and one column per field of the tracepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.abi.flags import PerfType
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoints.field_columns import trace_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import Batch


def tracepoint_samples(data: PerfData, name: str, batches: Iterable[Batch]) -> tuple[Columns, dict[str, Any]]:
    """Return the samples' columns without the raw one, and the tracepoint's fields as columns.

    Raises UsageError if the recording has no format of the tracepoint.
    """
    event = next((event for event in data.events if event.name == name and event.attr.type == PerfType.TRACEPOINT), None)
    if event is None or data.tracing is None or event.attr.config not in data.tracing.formats:
        names = ", ".join(event.name for event in data.events if event.tracepoint) or "none"
        raise UsageError(f"no tracepoint {name!r} with known fields in {data.path}; its tracepoints: {names}")
    parts = [batch.columns.take(np.flatnonzero(batch.event == event.index)) for batch in batches]
    samples = Columns.concat(parts if any("raw" in part for part in parts) else [*parts, data.records.no_samples()])
    raw = samples.pop("raw", None)
    if raw is None:
        raise UsageError(f"the samples of {name!r} in {data.path} have no raw data, and so no fields")
    return samples, trace_columns(data.tracing.formats[event.attr.config], raw, data.tracing.endian)
