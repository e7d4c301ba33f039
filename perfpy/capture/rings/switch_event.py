"""--switch-output-event: start a new file whenever an event happens.

The events are counted on every CPU; their records are discarded.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from perfpy.capture.rings.sample_counters import SampleCounters
from perfpy.capture.targets import ANY, online_cpus
from perfpy.events import parse_events
from perfpy.events.event import change_events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

_PAGES = 1


class SwitchEvent:
    """Counts the events on the whole machine. ask is called after each hit."""

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
        """Return the descriptor that becomes readable after a hit."""
        return self._poller.fileno()

    def take(self) -> bool:
        """Discard the records, and request another file."""
        for ring in self._counters.rings:
            if ring.pending():
                ring.consume()
                self._ask()
        return True

    def enable(self) -> None:
        """Enable the counters when the measurement starts."""
        self._counters.enable()

    def close(self) -> None:
        """Close the counters."""
        self._poller.close()
        self._counters.close()


def _woken_by(events: Sequence[Event]) -> list[Event]:
    """Return the events with attrs that wake a poll at each hit."""
    kinds = SampleType.IP | SampleType.TID | SampleType.TIME
    attrs = {event: event.attr.copy(sample_period=1, freq=0, sample_type=int(kinds), disabled=1, wakeup_events=1) for event in events}
    return change_events(events, lambda event: {"attr": attrs[event]})
