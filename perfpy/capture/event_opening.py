"""Opening one event where the kernel does not take it as asked: what perf tries next, and says.

What enters: an event that was refused, and the refusal. What leaves: a line
that tells what was changed in the event's attr, so that it can be tried
again, or None when there is nothing left to try.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import HardwareId, PerfType, ReadFormat, SampleType, SoftwareId

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.errors import KernelRefused
    from perfpy.events.event import Event

_NO_PMU: Final = (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP)


class Fallbacks:
    """The ways out of a refusal for one event, tried in perf's order.

    by_cpu: counters are bound to CPUs and not to tasks, so that `cycles`
    becomes cpu-clock instead of task-clock.
    """

    def __init__(self, event: Event, *, by_cpu: bool) -> None:
        self._event = event
        self._by_cpu = by_cpu
        self._precision = event.attr.precise_ip

    def next(self, refusal: KernelRefused) -> str | None:
        """Change the event's attr for another try; what to tell the user ("" = nothing), None = give up."""
        ways: tuple[Callable[[KernelRefused], str | None], ...] = (
            self._less_precise,
            self._clock_for_cycles,
            self._user_space_only,
            self._older_fields,
        )
        for way in ways:
            text = way(refusal)
            if text is not None:
                return text
        return None

    def _less_precise(self, _refusal: KernelRefused) -> str | None:
        attr = self._event.attr
        if not self._event.precise_max or not attr.precise_ip:
            return None
        attr.precise_ip -= 1
        return ""

    def _clock_for_cycles(self, refusal: KernelRefused) -> str | None:
        attr = self._event.attr
        if refusal.errno not in _NO_PMU or (attr.type, attr.config) != (PerfType.HARDWARE, HardwareId.CPU_CYCLES):
            return None
        attr.type = PerfType.SOFTWARE
        attr.config = SoftwareId.CPU_CLOCK if self._by_cpu else SoftwareId.TASK_CLOCK
        attr.precise_ip = self._precision
        name = "cpu-clock" if self._by_cpu else "task-clock"
        self._event.name = name + _modifiers(self._event)
        self._event.precise_max = False
        return f"The cycles event is not supported, trying to fall back to {name}"

    def _user_space_only(self, refusal: KernelRefused) -> str | None:
        from perfpy.kernel.refusals import paranoid_level  # only a refusal needs it

        attr = self._event.attr
        level = paranoid_level()
        if refusal.errno != errno.EACCES or attr.exclude_kernel or attr.exclude_user or level is None or level <= 1:
            return None
        attr.exclude_kernel = attr.exclude_hv = 1
        self._event.name += "u" if ":" in self._event.name else ":u"
        return f"kernel.perf_event_paranoid={level}, trying to fall back to excluding kernel and hypervisor samples"

    def _older_fields(self, refusal: KernelRefused) -> str | None:
        """Fields that a kernel older than 6.0 or 5.12 does not know, newest first."""
        attr = self._event.attr
        if refusal.errno != errno.EINVAL:
            return None
        if attr.read_format & ReadFormat.LOST:
            attr.read_format &= ~int(ReadFormat.LOST)
            return ""
        if attr.sample_type & SampleType.WEIGHT_STRUCT:
            attr.sample_type = attr.sample_type & ~int(SampleType.WEIGHT_STRUCT) | SampleType.WEIGHT
            return ""
        return None


def _modifiers(event: Event) -> str:
    """The modifiers of a name that is made from the attr, as perf writes them."""
    attr = event.attr
    letters = ""
    if attr.exclude_kernel or attr.exclude_user or attr.exclude_hv:
        letters += "k" * (not attr.exclude_kernel) + "u" * (not attr.exclude_user) + "h" * (not attr.exclude_hv)
    letters += "p" * attr.precise_ip
    guest_left_out_anyway = bool(letters)
    if attr.exclude_host or bool(attr.exclude_guest) == guest_left_out_anyway:
        letters += "H" * (not attr.exclude_host) + "G" * (not attr.exclude_guest)
    return ":" + letters if letters else ""
