"""Tell whether an event can be opened here, and why not.

`known_reason` decides without the kernel. `Checker` opens the event, disabled, on the calling process or on its CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.errors import PerfError
from perfpy.events.resolve import parse_events

if TYPE_CHECKING:
    from perfpy.events.event import Event
    from perfpy.events.listing.inventory import EventInfo
    from perfpy.events.machine import Machine
    from perfpy.kernel import Kernel

_NEEDS_PMU: Final = ("Hardware event", "Hardware cache event")
_PATTERNS: Final = ("Raw event descriptor", "Hardware breakpoint", "Tool event", "SDT event")
_TRACEPOINT: Final = "Tracepoint event"


def known_reason(info: EventInfo, machine: Machine) -> str:
    """Return the reason why an event cannot work here, as far as sysfs has it; "" if it can."""
    if info.kind in _NEEDS_PMU and not machine.sysfs.core_pmus:
        return "no PMU here, as in most virtual machines"
    if info.kind in _NEEDS_PMU and info.event and not machine.can_open(*info.event):
        return "the CPU does not count it"
    if info.kind == "SDT event":
        return "needs a probe first: perf probe"
    return ""


class Checker:
    """Opens events to test whether they are available.

    All tracepoints need the same permission, and the kernel takes tens of milliseconds to close one, so the first result holds for all.
    """

    def __init__(self, machine: Machine, kernel: Kernel) -> None:
        self._machine = machine
        self._kernel = kernel
        self._tracepoints: str | None = None

    def check(self, info: EventInfo) -> str:
        """Return the reason why the kernel refuses the event; "" if it does not."""
        if info.kind in _PATTERNS:
            return ""
        if info.kind == _TRACEPOINT:
            if self._tracepoints is None:
                self._tracepoints = self._open(info)
            return self._tracepoints
        return known_reason(info, self._machine) or self._open(info)

    def _open(self, info: EventInfo) -> str:
        try:
            events = parse_events(info.alias if "/" in info.alias else info.name, machine=self._machine)
            for event in events:
                self._open_one(event)
        except PerfError as error:
            return getattr(error, "cause", "") or str(error)
        return ""

    def _open_one(self, event: Event) -> None:
        pid, cpu = (0, -1) if event.cpus is None else (-1, event.cpus[0])
        attr = event.attr.copy(disabled=1)
        try:
            fd = self._kernel.perf_event_open(attr, pid, cpu, event=event.name)
        except PerfError:
            attr.exclude_guest = 0  # many PMUs cannot exclude guests
            fd = self._kernel.perf_event_open(attr, pid, cpu, event=event.name)
        self._kernel.close(fd)
