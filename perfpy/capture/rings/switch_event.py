"""--switch-output-event: a file ends, and the next one begins, whenever an event happens.

What enters: the events' texts. What leaves: their counters on every CPU, as something to poll; what they tell is
of no other interest, and in no file.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from perfpy.capture.rings.sample_counters import SampleCounters
from perfpy.capture.targets import ANY, online_cpus
from perfpy.events import parse_events
from perfpy.events.event import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

_PAGES = 1


class SwitchEvent:
    """Counts the events in the whole machine. ask: called when one of them has happened."""

    def __init__(self, text: str, kernel: Kernel, ask: Callable[[], None], tell: Callable[[str], None]) -> None:
        self._ask = ask
        self._counters = SampleCounters(kernel, _woken_by(parse_events([text])), online_cpus(), (ANY,), tell=tell)
        self._counters.open()
        self._poller = select.epoll()
        try:
            self._counters.map(_PAGES)
            for fd in self._counters.ring_fds():
                self._poller.register(fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when one of the events has happened."""
        return self._poller.fileno()

    def take(self) -> bool:
        """Make room for the next ones, and ask for another file."""
        for ring in self._counters.rings:
            if ring.pending():
                ring.consume()
                self._ask()
        return True

    def enable(self) -> None:
        """The measurement starts."""
        self._counters.enable()

    def close(self) -> None:
        """Close the counters."""
        self._poller.close()
        self._counters.close()


def _woken_by(events: Sequence[Event]) -> list[Event]:
    """The events, each of which wakes who waits for it."""
    kinds = SampleType.IP | SampleType.TID | SampleType.TIME
    attrs = {event: event.attr.copy(sample_period=1, freq=0, sample_type=int(kinds), disabled=1, wakeup_events=1) for event in events}
    return changed(events, lambda event: {"attr": attrs[event]})
