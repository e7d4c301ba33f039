"""The module EventClass that perf's scripts import, for machines without perf: classes of samples by their raw data."""

from __future__ import annotations

import struct
from typing import ClassVar

EVTYPE_GENERIC = 0
EVTYPE_PEBS = 1
EVTYPE_PEBS_LL = 2
EVTYPE_IBS = 3
_REGISTERS = ("flags", "ip", "ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_LATENCY = ("status", "dla", "dse", "lat")
_PEBS, _PEBS_LATENCY = 144, 176  # sizes of raw data in bytes


class PerfEvent:
    """A sample."""

    event_num: ClassVar[int] = 0

    def __init__(self, name: str, comm: str, dso: str, symbol: str, raw_buf: bytes, ev_type: int = EVTYPE_GENERIC) -> None:
        self.name = name
        self.comm = comm
        self.dso = dso
        self.symbol = symbol
        self.raw_buf = raw_buf
        self.ev_type = ev_type
        PerfEvent.event_num += 1

    def show(self) -> None:
        """Print its names."""
        print(f"PMU event: name={self.name:>12}, symbol={self.symbol:>24}, comm={self.comm:>8}, dso={self.dso:>12}")


class PebsEvent(PerfEvent):
    """A sample of Intel's PEBS, with registers."""

    pebs_num: ClassVar[int] = 0

    def __init__(self, name: str, comm: str, dso: str, symbol: str, raw_buf: bytes, ev_type: int = EVTYPE_PEBS) -> None:
        vars(self).update(zip(_REGISTERS, struct.unpack("10Q", raw_buf[:80]), strict=True))
        super().__init__(name, comm, dso, symbol, raw_buf, ev_type)
        PebsEvent.pebs_num += 1


class PebsNHM(PebsEvent):
    """A sample of Nehalem's PEBS, with the latency of a load."""

    pebs_nhm_num: ClassVar[int] = 0

    def __init__(self, name: str, comm: str, dso: str, symbol: str, raw_buf: bytes, ev_type: int = EVTYPE_PEBS_LL) -> None:
        vars(self).update(zip(_LATENCY, struct.unpack("4Q", raw_buf[_PEBS:_PEBS_LATENCY]), strict=True))
        super().__init__(name, comm, dso, symbol, raw_buf, ev_type)
        PebsNHM.pebs_nhm_num += 1


def create_event(name: str, comm: str, dso: str, symbol: str, raw_buf: bytes) -> PerfEvent:
    """Return a sample of the class that fits its raw data."""
    event_class = {_PEBS: PebsEvent, _PEBS_LATENCY: PebsNHM}.get(len(raw_buf), PerfEvent)
    return event_class(name, comm, dso, symbol, raw_buf)
