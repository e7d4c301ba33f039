"""The events of a recording as `perf evlist` lists them, perf 6.12's text byte for byte."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER8, NATIVE_ENDIAN, PerfType
from perfpy.abi.framing import HEADER
from perfpy.perfdata.container.event_names import default_name
from perfpy.views.metadata.attr import FileNames, attr_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.views.metadata.attr import EventNames
    from perfpy.views.recorded import Recorded


def evlist_lines(
    recording: Recorded,
    *,
    verbose: bool = False,
    frequency: bool = False,
    groups: bool = False,
    trace_fields: bool = False,
    names: EventNames | None = None,
) -> Iterator[str]:
    """Yield a line for each event (or, with `groups`, group), then perf's tips.

    Args:
        verbose: add all fields of the attr (-v).
        frequency: add the sampling frequency or period (-F).
        groups: one line for each group.
        trace_fields: add the fields of tracepoints.
        names: of the numbers in attrs.
    """
    data = recording.data
    names = names or FileNames(data)
    events = _as_perf_has_them(data)
    for event in events:
        if groups:
            if event.leader == event.index:
                yield _group(event, events)
            continue
        parts = []
        if verbose:
            parts += [f"{label}: {value}" for label, value in attr_fields(event.attr, names)]
        elif frequency:
            parts.append(f"{'sample_freq' if event.attr.freq else 'sample_period'}={event.attr.sample_freq}")
        if trace_fields:
            parts += _trace_fields(event, data)
        yield event.name + _after_colon(parts)
    if any(event.attr.type == PerfType.TRACEPOINT for event in events) and not trace_fields:
        yield "# Tip: use 'perf evlist --trace-fields' to show fields for tracepoint events"
    if any(event.leader != event.index for event in events) and not groups:
        yield "# Tip: use 'perf evlist -g' to show group information"


def _as_perf_has_them(data: PerfData) -> list[FileEvent]:
    """Return the events; those of a pipe without the names and groups after the attrs: perf stops reading before them."""
    if not data.is_pipe:
        return data.events
    events = []
    for event, record in zip(map(copy, data.events), data.attr_records, strict=True):
        event.attr = _attr_in_memory(event.attr, record, data.endian)
        event.name = default_name(event.attr)
        event.leader = event.index
        events.append(event)
    return events


def _attr_in_memory(attr: EventAttr, record: bytes, endian: str) -> EventAttr:
    """Return an attr of a pipe as perf has it: bytes after a short attr in its record show as its missing fields."""
    if attr.size >= ATTR_SIZE_VER8:
        return attr
    from perfpy.views.records.swapped import swap_record

    record = record.ljust(8 + ATTR_SIZE_VER8, b"\0")
    if endian != NATIVE_ENDIAN:
        kind, misc, _ = HEADER[endian].unpack_from(record)
        record = swap_record(kind, misc, record)
    padded = EventAttr.unpack(record[8 : 8 + ATTR_SIZE_VER8], NATIVE_ENDIAN)
    padded.size = attr.size
    return padded


def _group(leader: FileEvent, events: list[FileEvent]) -> str:
    members = [event.name for event in events if event.leader == leader.index]
    listed = ",".join(members)
    return f"{leader.group_name}{{{listed}}}" if len(members) > 1 else listed


def _trace_fields(event: FileEvent, data: PerfData) -> list[str]:
    if event.attr.type != PerfType.TRACEPOINT:
        return ["(not a tracepoint)"]
    try:
        fields = data.tracing.formats[event.attr.config].fields if data.tracing else ()
    except (KeyError, ValueError):
        fields = ()
    if not fields:
        return ["(no trace field)"]
    return ["trace_fields: " + ",".join(field.name for field in fields)]


def _after_colon(parts: list[str]) -> str:
    return ": " + ", ".join(parts) if parts else ""
