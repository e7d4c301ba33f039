"""What -v and -vv add: each attr as the kernel got it, each counter's reading.

What enters: the open counters, their readings. What leaves: lines of text in perf's layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.views.metadata.attr import attr_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.capture.counting.counters import Counting, Readings

_RULE = "-" * 60


class _EventNames:
    """Names of this machine's PMUs, and of the tracepoints that are counted."""

    def __init__(self, counting: Counting) -> None:
        self._pmus = {event.attr.type: event.pmu for event in counting.events if event.pmu}
        self._tracepoints = {event.attr.config: event.name for event in counting.events}

    def pmu(self, type_number: int) -> str:
        """The PMU whose events have this type."""
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        """The tracepoint with this id."""
        return self._tracepoints.get(number, "")


def attr_lines(counting: Counting) -> Iterator[str]:
    """Every event's attr as it was opened, or refused."""
    names = _EventNames(counting)
    for event in counting.events:
        if not event.tool:
            yield _RULE
            yield f"perf_event_attr: {event.name}"
            for label, value in attr_fields(event.attr, names):
                yield f"  {label:<32} {value}"
            opened = len(counting.ids(event))
            yield f"{opened} counters opened" if event.state.supported else f"not opened: {event.state.why_not}"
            yield _RULE


def reading_lines(readings: Readings) -> Iterator[str]:
    """Every event's value and times, summed over its counters."""
    for event, cells in readings.items():
        if cells:
            totals = (sum(cell.value for cell in cells), sum(cell.enabled for cell in cells), sum(cell.running for cell in cells))
            yield f"{event.name}: {totals[0]} {totals[1]} {totals[2]}"
        else:
            yield f"{event.name}: nothing could be read"
