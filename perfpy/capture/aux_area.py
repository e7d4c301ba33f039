"""AUX data of a recording, which hardware writes to memory, as AUXTRACE records with their data, and AUXTRACE_INFO.

The AUX area is mapped after the ring buffer, whose control page has its head.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from perfpy.abi import perf_records
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.perf_records import HISI_PMCU, PMCU_NAME, Auxtrace, AuxtraceInfo
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.events.pmcu import USER_EVENTS, check_session
from perfpy.kernel.ring import PAGE_SIZE, AuxArea
from perfpy.kernel.syscalls import may_count_cpus
from perfpy.kernel.sysfs import Sysfs
from perfpy.perfdata.header import AuxtraceIndexEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.counter import Counter
    from perfpy.capture.record_options import RecordOptions
    from perfpy.events.event import Event
    from perfpy.kernel.ring import Ring
    from perfpy.perfdata.writer import Slice

    class Destination(Protocol):
        """The destination of records: a RecordOutput."""

        @property
        def size(self) -> int:
            """Bytes written."""

        def write(self, *slices: Slice) -> None:
            """Append records."""


_DEFAULT_PAGES: Final = (16 << 20) // PAGE_SIZE
_ALIGNMENT: Final = 8
_RECORD_SIZE: Final = 48
_UNSIGNED: Final = (1 << 32) - 1


def with_aux_first(events: Sequence[Event], options: RecordOptions) -> list[Event]:
    """Return the events with the AUX event first, because the ring buffers of its CPU are its own. Raises UsageError."""
    check_session(events)
    aux_events = [event for event in events if event.pmu.startswith(PMCU_NAME)]
    if not aux_events:
        return list(events)
    for option, is_given in {
        "--unwind": options.sampling.unwind,
        "--off-cpu": options.off_cpu.enabled,
        "--overwrite": options.buffers.overwrite,
        "--switch-output": options.output.switch_output is not None,
        "--per-thread": options.target.per_thread,
    }.items():
        if is_given:
            raise UsageError(f"'{aux_events[0].name}' records AUX data for the whole recording; drop {option}")
    if not may_count_cpus():
        raise UsageError(f"'{aux_events[0].name}' counts all tasks; run as root")
    return aux_events + [event for event in events if event not in aux_events]


def write_user_events(event: Event, sysfs: Sysfs | None = None) -> None:
    """Write the event's list of counted events to a PMCU, if it has one. Raises KernelRefusedError."""
    pmu = (sysfs or Sysfs()).pmu(event.pmu) if event.terms.user_events else None
    if pmu is None:
        return
    path = f"{pmu.path}/{USER_EVENTS}"
    try:
        with open(path, "w") as file:
            file.write(" ".join(f"{number:#06x}" for number in event.terms.user_events or ()))
    except OSError as error:
        raise KernelRefusedError(f"write of {path}", error.errno or 0, event=event.name, remedy="run as root") from None


def info_record(kind: int) -> bytes:
    """Return the AUXTRACE_INFO record; kind is the PMU's number."""
    return perf_records.encode(AuxtraceInfo(0, HISI_PMCU, (kind,)), NATIVE_ENDIAN)


class AuxOutput:
    """Copies an AUX area to the file. kind is the PMU's number; index has the positions of its records, for the file's features."""

    def __init__(self, counter: Counter, ring: Ring, ring_index: int, pages: int) -> None:
        self._counter = counter
        self._ring_index = ring_index
        self._area = AuxArea.map(counter.fd, ring, pages or _DEFAULT_PAGES)
        self.kind = counter.attr.type
        self.index: list[AuxtraceIndexEntry] = []

    def take(self, output: Destination) -> int:
        """Write the available data; return its bytes."""
        slices = self._area.pending()
        size = sum(map(len, slices))
        if size:
            padding = bytes(-size % _ALIGNMENT)
            self.index.append(AuxtraceIndexEntry(output.size, _RECORD_SIZE + size + len(padding)))
            cpu, tid = self._counter.cpu & _UNSIGNED, self._counter.pid & _UNSIGNED
            record = Auxtrace(0, size + len(padding), self._area.position, time.monotonic_ns(), self._ring_index, tid, cpu)
            output.write(perf_records.encode(record, NATIVE_ENDIAN), *slices, padding)
            self._area.consume()
        return size

    def go_on(self) -> None:
        """Re-enable the event, which the kernel stops if its area is full."""
        self._counter.enable()

    def close(self) -> None:
        """Unmap the area."""
        self._area.close()
