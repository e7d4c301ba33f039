"""Whether a recording is fed by being written: system calls, writes and the like that the recorder itself makes.

What enters: what the rings hold. What leaves: whether most of it is the
recorder's own, and a tracepoint's filter that leaves it out.

A recorder that records its own write() makes the next sample by writing the
last one. Where a sample is large (a user stack of 64 KiB) that alone fills the
rings faster than they are emptied, nothing of others finds room, and the file
grows until the disk is full. Neither waiting nor larger buffers end it, as
every byte written makes more to write; perf has no remedy but --exclude-perf.
So the rings are looked into once in every few megabytes, and only where most
of what is found there is the recorder's own, time and again, it takes itself
out: as perf records itself elsewhere, so do we. Events other than tracepoints
have no filters, and do not need one: clocks and counters of the CPU do not run
faster because of a write.
"""

from __future__ import annotations

import struct
from _thread import get_native_id
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType, SampleType
from perfpy.events.event import changed, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.opening import OpenEvent
    from perfpy.events.event import Event

_HEADER: Final = struct.Struct("=IHH")
_TID: Final = struct.Struct("=I")
_ENOUGH: Final = 256  # records of a ring to look at: what feeds itself is everywhere
_EVERY: Final = 8 << 20  # bytes written between two looks
_SURE: Final = 3  # looks in a row


class OwnSamples:
    """Looks for samples of the calling thread, in the passes over the rings that it asks for.

    others: processes that count as its own.
    """

    def __init__(self, events: Sequence[OpenEvent], others: Sequence[int] = ()) -> None:
        kinds = [event.attr.sample_type for event in events]
        first = kinds[0]
        # of all events the id stands in front, or of none; IP and TID follow (the order of PERF_SAMPLE_* in perf_event_open(2))
        alike = all(kind & SampleType.TID and not (kind ^ first) & (SampleType.IDENTIFIER | SampleType.IP) for kind in kinds)
        self._events = [event for event in events if event.event.tracepoint] if alike else []
        self._tid_at = 8 + sum(8 for kind in (SampleType.IDENTIFIER, SampleType.IP) if first & kind) + 4  # after the pid
        self._sample = int(RecordType.SAMPLE)
        self.tid = get_native_id()
        self._tids = (self.tid, *others)
        self._own = self._all = 0  # bytes, of the pass that is looked at
        self._looked_at = 0
        self._found = 0

    def due(self, written: int) -> bool:
        """Whether to look at the next pass; what was seen in the one before is judged here. written: bytes so far."""
        if self._all:
            self._found = self._found + 1 if self._own * 2 > self._all else 0
            self._own = self._all = 0
        if not self._events or 0 <= written - self._looked_at < _EVERY:
            return False
        self._looked_at = written
        return True

    def look(self, written: int, tell: Callable[[str], None]) -> bool:
        """due(); and where our own samples prevail they are left out from here on, which is told."""
        is_due = self.due(written)
        if self.prevail:
            for event in self.leave_out():
                event.set_filter()
            tell(f"warning: most samples come from writing them down; from here on perfpy ({self.tid}) is left out (--exclude-perf)")
        return is_due

    @property
    def prevail(self) -> bool:
        """Most of what was seen is the recorder's own, and a filter can leave it out."""
        return self._found >= _SURE

    def inspect(self, slices: Sequence[memoryview]) -> None:
        """Look at the first records of a ring."""
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
        """Narrow the filters, once; returns the events whose counters need them."""
        events, self._events, self._found = self._events, [], 0
        for event in events:
            event.filter = _without(event.filter, self._tids)
        return events


def leaving_out(events: Sequence[Event], tids: Sequence[int]) -> list[Event]:
    """The events, the tracepoints among them narrowed to what others than these threads do."""
    return changed(events, lambda event: {"filter": _without(event.filter, tids)} if event.tracepoint else {})


def _without(filter_expression: str, tids: Sequence[int]) -> str:
    for tid in tids:
        filter_expression = narrowed(filter_expression, f"common_pid != {tid}")
    return filter_expression
