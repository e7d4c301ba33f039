"""The lines of -v and -vv: the machine, each call that opens a counter, each counter's reading, in perf's layout for bug reports."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from perfpy.errors import KernelRefusedError
from perfpy.kernel import this_kernel
from perfpy.views.metadata.attr import attr_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.counting.counters import Readings
    from perfpy.events.event import Event

_RULE = "-" * 60


def machine_lines(*, controlled: bool) -> Iterator[str]:
    """Yield the CPU's identification, and whether --control is active."""
    from perfpy.capture.environment import Environment

    yield from mounted_lines()
    cpu = Environment().cpu_id(os.uname().machine)
    if cpu:
        yield f"Using CPUID {cpu.replace(',', '-')}"
    if not controlled:
        yield "Control descriptor is not initialized"


def mounted_lines() -> Iterator[str]:
    """Yield a line for each tracefs that was mounted to find tracepoints."""
    from perfpy.kernel.tracefs import mounted_here

    for path in mounted_here:
        yield f"mounted tracefs on {path}"


class _EventNames:
    """Names of this machine's PMUs, and of the counted tracepoints."""

    def __init__(self, events: Iterable[Event]) -> None:
        events = list(events)
        self._pmus = {event.attr.type: event.pmu for event in events if event.pmu}
        self._pmus.update({1: "software", 2: "tracepoint", 5: "breakpoint"})  # as sysfs lists them
        self._tracepoints = {event.attr.config: event.name for event in events}

    def pmu(self, type_number: int) -> str:
        """Return the PMU whose events have this type."""
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        """Return the tracepoint with this id."""
        return self._tracepoints.get(number, "")


class LoggedKernel:
    """The kernel interface, with lines on stderr about each counter it opens."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._kernel = this_kernel()
        self._names = _EventNames(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 8, *, event: str = "") -> int:
        """Open one counter; see perfpy.kernel.syscalls."""
        call = f"sys_perf_event_open: pid {pid}  cpu {cpu}  group_fd {group_fd}  flags {flags:#x}"
        print(*self._attr_lines(attr), call, sep="\n", end="", file=sys.stderr)
        try:
            fd = self._kernel.perf_event_open(attr, pid, cpu, group_fd, flags, event=event)
        except KernelRefusedError as refusal:
            print(f"\nsys_perf_event_open failed, error -{refusal.errno}", file=sys.stderr)
            raise
        print(f" = {fd}", file=sys.stderr)
        return fd

    def _attr_lines(self, attr: EventAttr) -> Iterator[str]:
        yield _RULE
        yield "perf_event_attr:"
        for label, value in attr_fields(attr, self._names):
            yield f"  {label:<32} {value}"
        yield _RULE


def reading_lines(readings: Readings, *, each: bool = False) -> Iterator[str]:
    """Yield every event's value and times, summed over its counters. each: also those of every counter before the sums."""
    if each:
        for event, cells in readings.items():
            for cell in cells if not event.tool else ():
                yield f"{event.name}: {cell.cpu}: {cell.value} {cell.enabled} {cell.running}"
    for event, cells in readings.items():
        if cells:
            totals = (sum(cell.value for cell in cells), sum(cell.enabled for cell in cells), sum(cell.running for cell in cells))
            yield f"{event.name}: {totals[0]} {totals[1]} {totals[2]}"
        else:
            yield f"failed to read counter {event.name}"
