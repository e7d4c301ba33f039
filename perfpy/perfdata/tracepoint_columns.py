"""All samples of one tracepoint: their usual columns, and one for each field of the tracepoint.

What enters: a PerfData, the tracepoint's name, batches of its samples. What
leaves: two mappings from names to numpy columns, or a UsageError where the
recording does not say what the fields are.
"""

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
    """(the samples' columns without the raw one, the tracepoint's fields as columns). Raises UsageError."""
    event = next((event for event in data.events if event.name == name and event.attr.type == PerfType.TRACEPOINT), None)
    if event is None or data.tracing is None or event.attr.config not in data.tracing.formats:
        known = ", ".join(event.name for event in data.events if event.tracepoint) or "none"
        raise UsageError(f"no tracepoint {name!r} with known fields in {data.path}; it has: {known}")
    parts = [batch.columns.take(np.flatnonzero(batch.event == event.index)) for batch in batches]
    samples = Columns.concat(parts if any("raw" in part for part in parts) else [*parts, data.records.no_samples()])
    raw = samples.pop("raw", None)
    if raw is None:
        raise UsageError(f"the samples of {name!r} in {data.path} have no raw data, and so no fields")
    return samples, trace_columns(data.tracing.formats[event.attr.config], raw, data.tracing.endian)
