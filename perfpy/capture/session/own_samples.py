"""Detect whether a recording feeds itself: most samples come from the recorder's own system calls.

A recorder that records its own write() causes the next sample by writing the last one. If samples are large (a user stack of
64 KiB), that alone fills the ring buffers faster than they are read, other samples find no room, and the file grows until the
disk is full. Neither waiting nor larger buffers help; perf has no remedy but --exclude-perf.

The ring buffers are therefore inspected once in several megabytes. If most records are the recorder's own, several times in a
row, its samples are filtered out from then on. Otherwise the recorder is recorded, as in perf. Events other than tracepoints
have no filters, and need none: clocks and counters of the CPU do not run faster because of a write.
"""

from __future__ import annotations

import struct
from _thread import get_native_id
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType, SampleType
from perfpy.events.event import change_events, combine_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.opening import OpenEvent
    from perfpy.events.event import Event

_HEADER: Final = struct.Struct("=IHH")
_TID: Final = struct.Struct("=I")
_ENOUGH: Final = 256  # records of a ring buffer to inspect: feedback affects all
_EVERY: Final = 8 << 20  # bytes written between two inspections
_SURE: Final = 3  # inspections in a row


class OwnSamples:
    """Looks for samples of the calling thread in some passes over the ring buffers.

    others are processes that count as its own.
    """

    def __init__(self, events: Sequence[OpenEvent], others: Sequence[int] = ()) -> None:
        kinds = [event.attr.sample_type for event in events]
        first = kinds[0]
        # Either all events have the id first, or none; IP and TID follow (the order of PERF_SAMPLE_* in perf_event_open(2)).
        alike = all(kind & SampleType.TID and not (kind ^ first) & (SampleType.IDENTIFIER | SampleType.IP) for kind in kinds)
        # The kernel accepts one filter for each counter, so events with a filter (--filter) keep that one.
        self._events = [event for event in events if event.event.tracepoint and not event.filter] if alike else []
        self._tid_at = 8 + sum(8 for kind in (SampleType.IDENTIFIER, SampleType.IP) if first & kind) + 4  # after the pid
        self._sample = int(RecordType.SAMPLE)
        self.tid = get_native_id()
        self._tids = (self.tid, *others)
        self._own = self._all = 0  # bytes of the inspected pass
        self._looked_at = 0
        self._dominated_passes = 0

    def due(self, written: int) -> bool:
        """Evaluate the last inspected pass, and return whether to inspect the next one. written is the bytes so far."""
        if self._all:
            self._dominated_passes = self._dominated_passes + 1 if self._own * 2 > self._all else 0
            self._own = self._all = 0
        if not self._events or 0 <= written - self._looked_at < _EVERY:
            return False
        self._looked_at = written
        return True

    def look(self, written: int, tell: Callable[[str], None]) -> bool:
        """Like due(); if own samples dominate, filter them out from here on with a warning."""
        is_due = self.due(written)
        if self.prevail:
            for event in self.leave_out():
                event.set_filter()
            tell(f"warning: most samples come from perfpy's own writes; excluding perfpy ({self.tid}) from here on (--exclude-perf)")
        return is_due

    @property
    def prevail(self) -> bool:
        """Whether most samples are the recorder's own, and a filter can remove them."""
        return self._dominated_passes >= _SURE

    def inspect(self, slices: Sequence[memoryview]) -> None:
        """Inspect the first records of a ring buffer."""
        data = slices[0] if slices else memoryview(b"")
        offset, looked, end = 0, 0, len(data)
        while offset + self._tid_at + 4 <= end and looked < _ENOUGH:
            kind, _, size = _HEADER.unpack_from(data, offset)
            if size < 8:
                return
            self._all += size
            if kind == self._sample and _TID.unpack_from(data, offset + self._tid_at)[0] in self._tids:
                self._own += size
            offset += size
            looked += 1

    def leave_out(self) -> list[OpenEvent]:
        """Extend the filters, once; return the events whose counters need them."""
        events, self._events, self._dominated_passes = self._events, [], 0
        for event in events:
            event.filter = _without(event.filter, self._tids)
        return events


def exclude_threads(events: Sequence[Event], tids: Sequence[int]) -> list[Event]:
    """Return the events, with tracepoints filtered to exclude these threads."""
    return change_events(events, lambda event: {"filter": _without(event.filter, tids)} if event.tracepoint else {})


def _without(filter_expression: str, tids: Sequence[int]) -> str:
    for tid in tids:
        filter_expression = combine_filters(filter_expression, f"common_pid != {tid}")
    return filter_expression
